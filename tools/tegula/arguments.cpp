#include "tools/tegula/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dsl/launch_options.h"

namespace tegula::cli {

void add_source_options(CLI::App& app, std::vector<std::string>& globals, std::vector<std::string>& import_folders) {
  app.add_option("--global", globals, "NAME=VALUE of a module-level name, in place of what the files give it")
      ->allow_extra_args(false);
  app.add_option("--import", import_folders,
                 "Folder where packages lie that the file imports from, ahead of those of PYTHONPATH")
      ->allow_extra_args(false);
}

void add_launch_options(CLI::App& app, LaunchOptions& options) {
  for (const dsl::LaunchOption& option : dsl::launch_options()) {
    std::string flag = fmt::format("--{}", option.info.name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    app.add_option(flag, options.*option.launch, option.info.doc)->capture_default_str();
  }
  app.add_flag("--no-dependent-launch{false}", options.dependent_launch,
               "The code does not wait for earlier kernels itself: launches cannot overlap");
  app.add_flag("--cooperative-grid", options.cooperative_grid, "All programs of a launch run at once");
  app.add_flag("--no-fp-fusion{false}", options.enable_fp_fusion, "A product and a sum never become one fma");
  app.add_flag("--no-sanitize-overflow{false}", options.sanitize_overflow,
               "With --debug 1, integers that overflow are no failed asserts");
}

std::string note_of_untyped(const Kernel& kernel, const std::vector<std::string>& args, const CompileError& mistake) {
  std::vector<std::string> names;
  for (const KernelParam& p : kernel.params()) {
    const bool given =
        std::any_of(args.begin(), args.end(), [&](const auto& arg) { return arg.starts_with(p.name + "="); });
    if (!p.is_constexpr && !p.annotated && !given) names.push_back(p.name);
  }
  if (names.empty() || std::string_view(mistake.what()).find("pointer") == std::string_view::npos) return "";
  return fmt::format("  note: no --arg gives the type of {}: taken as int32; a pointer is --arg {}='*f32'\n",
                     fmt::join(names, ", "), names.front());
}

}  // namespace tegula::cli
