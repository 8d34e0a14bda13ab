// tegula cache: what is in the cache of compiled kernels and what tuning has found out; empties them, and carries
// tuning results to other machines.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/store/image_cache.h"
#include "runtime/tuning/tuning_store.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"
#include "tools/tegula/json.h"

namespace tegula::cli {

namespace {

struct Options {
  bool clear = false;
  bool clear_tuning = false;
  bool tuning = false;
  bool json = false;
  std::string export_to, import_from;
  std::vector<std::string> merge;
};

Json problems_json(TuningStore& store) {
  Json problems = Json::array();
  for (const auto& [problem, rows] : store.problems()) {
    const std::optional<std::string> winner = store.winner(problem);
    problems.push_back({{"kernel", problem.kernel},
                        {"key", problem.key},
                        {"gpu", problem.gpu},
                        {"driver", problem.driver},
                        {"candidates", rows},
                        {"winner", winner ? Json(*winner) : Json()}});
  }
  return problems;
}

void list(TuningStore& store) {
  for (const auto& [problem, rows] : store.problems())
    fmt::print("{}\n  key     {}\n  on      {}, {}\n  known   {} candidate{}\n  winner  {}\n", problem.kernel,
               problem.key, problem.gpu, problem.driver, rows, rows == 1 ? "" : "s",
               store.winner(problem).value_or("none yet: tuning did not end"));
}

void export_to(TuningStore& store, const std::string& path) {
  if (path == "-") {
    store.export_text(std::cout);
    return;
  }
  std::ofstream out(path);
  int64_t rows = store.export_text(out);
  if (!out.flush()) throw FileError(fmt::format("'{}' cannot be written", path));
  fmt::print("{} tuning results written to {}\n", rows, path);
}

void import_from(TuningStore& store, const std::string& path) {
  std::istringstream in(read_file(path));
  fmt::print("{} tuning results read from {}\n", store.import_text(in, path), path);
}

// The winner that is known here stays, and of two results the later one.
void merge(ImageCache& cache, TuningStore& store, const std::string& folder) {
  const int64_t entries = cache.merge(folder);
  std::stringstream rows;
  TuningStore({std::filesystem::path(folder) / store.file().filename(), {}}).export_text(rows);
  const int64_t taken = store.import_text(rows, folder);
  fmt::print("{} entries and {} tuning results taken from {}\n", entries, taken, folder);
}

int cache_command(const Options& o) {
  if (o.json && (o.clear || o.clear_tuning || !o.export_to.empty() || !o.import_from.empty() || !o.merge.empty()))
    throw UsageError(
        "--json tells what is there, alone or with --tuning; it does not go with what changes or exports it");
  ImageCache cache;
  if (cache.folder().empty()) {
    fmt::print("no place for a cache is known: set TEGULA_CACHE_DIR or HOME\n");
    return 1;
  }
  TuningStore store;
  for (const std::string& folder : o.merge) merge(cache, store, folder);
  if (!o.import_from.empty()) import_from(store, o.import_from);
  if (!o.export_to.empty()) export_to(store, o.export_to);
  if (o.tuning && o.json) print_json(problems_json(store));
  if (o.tuning && !o.json) list(store);
  if (o.clear_tuning) {
    store.clear();
    fmt::print("tuning results cleared\n");
  }
  if (!o.clear && (o.tuning || o.clear_tuning || !o.export_to.empty() || !o.import_from.empty() || !o.merge.empty()))
    return 0;
  ImageCache::Stats stats = cache.stats();
  int64_t rows = 0;
  auto problems = store.problems();
  for (const auto& [problem, n] : problems) rows += n;
  if (o.json) {
    print_json({{"folder", cache.folder().string()},
                {"kernels", stats.images},
                {"links", stats.links},
                {"bytes", stats.bytes},
                {"max_bytes", cache.max_bytes()},
                {"tuned_problems", problems.size()},
                {"tuning_results", rows}});
    return 0;
  }
  fmt::print("folder   {}\nkernels  {}\nlinks    {}\nbytes    {} of at most {}\ntuned    {} problems, {} results\n",
             cache.folder().string(), stats.images, stats.links, stats.bytes, cache.max_bytes(), problems.size(), rows);
  if (!o.clear) return 0;
  cache.clear();
  ImageCache::Stats left = cache.stats();
  if (left.images + left.links > 0) {
    fmt::print(stderr, "error: {} entries of '{}' could not be removed: this user may not write there\n",
               left.images + left.links, cache.folder().string());
    return 1;
  }
  fmt::print("cleared\n");
  return 0;
}

}  // namespace

Command add_cache(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("cache", "Show or empty the cache of compiled kernels and the tuning results");
  auto o = std::make_shared<Options>();
  app->add_flag("--clear", o->clear, "Remove all compiled kernels");
  app->add_flag("--tuning", o->tuning, "List what was tuned: candidates and winner of each kernel and key");
  app->add_option("--export", o->export_to, "Write all tuning results to a file, one line each; - is the output");
  app->add_option("--import", o->import_from,
                  "Take in the tuning results of such a file; the later measured one stays");
  app->add_flag("--json", o->json, "Tell what is there as JSON; with --tuning what was tuned");
  app->add_option("--merge", o->merge, "Take in the compiled kernels and tuning results of other cache folders");
  app->add_flag("--clear-tuning", o->clear_tuning, "Remove all tuning results (after --export)");
  app->footer(
      "The folder is $TEGULA_CACHE_DIR, else $XDG_CACHE_HOME/tegula, else ~/.cache/tegula; $TEGULA_CACHE_SIZE bounds "
      "its\n"
      "bytes. Tuning results are beside the kernels, in tuning.sqlite.\n\n"
      "Examples:\n"
      "  tegula cache\n"
      "  tegula cache --clear\n"
      "  tegula cache --export h200.jsonl      and, on another machine with such a GPU:\n"
      "  tegula cache --import h200.jsonl --tuning\n"
      "  tegula cache --merge /mnt/node1/tegula /mnt/node2/tegula");
  return {app, [o] { return cache_command(*o); }};
}

}  // namespace tegula::cli
