// The subcommands. Each adds itself to the application; what it returns runs when it was the one chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace tegula::cli {

/// Runs a subcommand after its options were read; the process's exit status. Throws Error.
using Action = std::function<int()>;

struct Command {
  CLI::App* app;
  Action action;
};

Command add_check(CLI::App& parent);
Command add_build(CLI::App& parent);
Command add_compile(CLI::App& parent);
Command add_explain(CLI::App& parent);
Command add_debug(CLI::App& parent);
Command add_run(CLI::App& parent);
Command add_tune(CLI::App& parent);
Command add_cache(CLI::App& parent);
Command add_completion(CLI::App& parent);
Command add_man(CLI::App& parent);

}  // namespace tegula::cli
