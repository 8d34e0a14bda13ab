// The `tegula` command.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <string>
#include <vector>

#include "bindings/tegula.h"
#include "codegen/compile.h"
#include "runtime/base/diag.h"
#include "runtime/base/internal_error.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"

using namespace tegula;

namespace {

// What helps with a command line that is wrong; empty: nothing that is known here.
std::string hint_of(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
  if (app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-') {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    if (const auto near = nearest_name(argv[1], names)) return fmt::format("did you mean '{}'?", *near);
    return fmt::format("there is no command '{}'; there are {}", argv[1], fmt::join(names, ", "));
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) &&
      std::string_view(error.what()).find('=') != std::string_view::npos)
    return "an option takes one NAME=VALUE and may be given again: --arg x=... --arg y=...";
  return {};
}

}  // namespace

// Exit status: 0 success, 1 the kernel or its launch is wrong, 2 the command line is, 3 a device or file refused, 4 a
// mistake of Tegula's own.
int main(int argc, char** argv) {
  CLI::App app("Compiles and runs Triton kernels without Python.", "tegula");
  app.set_version_flag("--version", fmt::format("tegula {} (compiler {})", tegula_version(), compiler_version()));
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  tegula check softmax.py\n"
      "  tegula compile softmax.py::softmax --emit=ptx --arg out_ptr='*f32' --arg x_ptr='*f32' --constexpr BLOCK=1024\n"
      "  tegula run softmax.py::softmax --grid 64 --random x_ptr=f32[64,1000] --zeros out_ptr=f32[64,1000] ...\n"
      "  tegula cache --clear\n"
      "`tegula COMMAND --help` tells more of each.");
  std::vector<cli::Command> commands = {
      cli::add_check(app), cli::add_compile(app), cli::add_build(app), cli::add_explain(app),    cli::add_run(app),
      cli::add_debug(app), cli::add_tune(app),    cli::add_cache(app), cli::add_completion(app), cli::add_man(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    int status = app.exit(e);
    if (const std::string hint = hint_of(e, app, argc, argv); !hint.empty()) fmt::print(stderr, "  hint: {}\n", hint);
    return status == 0 ? 0 : 2;
  }
  try {
    for (const cli::Command& c : commands)
      if (c.app->parsed()) return c.action();
  } catch (const CompileError& e) {
    fmt::print(stderr, "{}", e.what());
    return 1;
  } catch (const cli::UsageError& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 2;
  } catch (const LaunchError& e) {
    std::string text = e.what();  // each mistake of a list begins with the kernel's name
    for (size_t at = 0; (at = text.find("\nkernel '", at)) != std::string::npos; at += 8)
      text.insert(at + 1, "error: ");
    fmt::print(stderr, "error: {}\n", text);
    return 1;
  } catch (const InternalError& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 4;
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 3;
  }
  return 2;
}
