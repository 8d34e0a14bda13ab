// tegula cache: what is in the cache of compiled kernels; empties it.
#include <fmt/format.h>

#include <memory>

#include "runtime/image_cache.h"
#include "tools/tegula/commands.h"

namespace tegula::cli {

Command add_cache(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("cache", "Show or empty the cache of compiled kernels");
  auto clear = std::make_shared<bool>(false);
  app->add_flag("--clear", *clear, "Remove all entries");
  app->footer(
      "The folder is $TEGULA_CACHE_DIR, else $XDG_CACHE_HOME/tegula, else ~/.cache/tegula; $TEGULA_CACHE_SIZE bounds "
      "its\n"
      "bytes.\n\n"
      "Examples:\n"
      "  tegula cache\n"
      "  tegula cache --clear");
  return {app, [clear] {
            ImageCache cache;
            if (cache.folder().empty()) {
              fmt::print("no place for a cache is known: set TEGULA_CACHE_DIR or HOME\n");
              return 1;
            }
            ImageCache::Stats stats = cache.stats();
            fmt::print("folder   {}\nkernels  {}\nlinks    {}\nbytes    {} of at most {}\n", cache.folder().string(),
                       stats.images, stats.links, stats.bytes, cache.max_bytes());
            if (!*clear) return 0;
            cache.clear();
            ImageCache::Stats left = cache.stats();
            if (left.images + left.links > 0) {
              fmt::print(stderr, "error: {} entries could not be removed\n", left.images + left.links);
              return 1;
            }
            fmt::print("cleared\n");
            return 0;
          }};
}

}  // namespace tegula::cli
