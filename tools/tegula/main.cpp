// The `tegula` command.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/tegula.h"
#include "codegen/compile.h"
#include "runtime/base/diag.h"
#include "runtime/base/internal_error.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"
#include "tools/tegula/json.h"

using namespace tegula;

namespace {

struct Usage {
  std::string message, hint;
};

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const auto near = nearest_name(word, names);
  return near ? fmt::format("did you mean '{}'?", *near) : std::string();
}

Usage wrong_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string all = fmt::format("there are {}", fmt::join(names, ", "));
  if (word.empty()) return {"no command is given", all + "; `tegula --help` has examples"};
  const std::string near = did_you_mean(word, names);
  return {fmt::format("there is no command '{}'", word), near.empty() ? all : near};
}

// What is left over of a command's words: an option that there is not, first of all, as its value is left over too.
Usage wrong_word(const CLI::App& command, const std::string& help) {
  const std::vector<std::string> words = command.remaining();
  const auto option = std::find_if(words.begin(), words.end(), [](const auto& w) { return w.starts_with('-'); });
  if (option == words.end()) {
    const std::string word = words.empty() ? "" : words.front();
    return {fmt::format("'{}' is one word too many", word),
            word.find('=') == std::string::npos
                ? help
                : "an option takes one NAME=VALUE and may be given again: --arg x=... --arg y=..."};
  }
  const std::string name = option->substr(0, option->find('='));
  std::vector<std::string> names;
  for (const CLI::Option* known : command.get_options())
    for (const std::string& text : known->get_lnames()) names.push_back("--" + text);
  const std::string near = did_you_mean(name, names);
  return {fmt::format("'{}' has no option '{}'", command.get_name(), name), near.empty() ? help : near};
}

// What is wrong with a command line, and what helps.
Usage wrong_usage(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty() && argc == 1) return wrong_command(app, "");
  if (chosen.empty() && argv[1][0] != '-') return wrong_command(app, argv[1]);
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string help =
      fmt::format("`tegula{} --help` tells what it takes", chosen.empty() ? "" : " " + command.get_name());
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) return wrong_word(command, help);
  return {error.what(), help};
}

// Whether the command is to answer with JSON: then its mistakes are told so too, beside the text.
bool wants_json(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands())
    if (const CLI::Option* json = command->get_option_no_throw("--json")) return json->count() > 0;
  return false;
}

// Runs the command that was chosen. Exit status: 0 success, 1 the kernel or its launch is wrong, 2 the command line is,
// 3 a device or file refused, 4 a mistake of Tegula's own.
int run_chosen(const CLI::App& app, const std::vector<cli::Command>& commands) {
  auto failed = [&](const std::exception& error, const std::string& text, int status) {
    if (wants_json(app)) {
      cli::Json told = {{"errors", cli::mistakes_json(error)}};
      if (!cli::KernelPrints::lines().empty()) told["prints"] = cli::KernelPrints::lines();
      cli::print_line(told);
    }
    fmt::print(stderr, "{}", text);
    return status;
  };
  try {
    for (const cli::Command& c : commands)
      if (c.app->parsed()) return c.action();
  } catch (const CompileError& e) {
    return failed(e, e.what(), 1);
  } catch (const cli::UsageError& e) {
    return failed(e, fmt::format("error: {}\n", e.what()), 2);
  } catch (const LaunchError& e) {
    std::string text = e.what();  // each mistake of a list begins with the kernel's name
    for (size_t at = 0; (at = text.find("\nkernel '", at)) != std::string::npos; at += 8)
      text.insert(at + 1, "error: ");
    return failed(e, fmt::format("error: {}\n", text), 1);
  } catch (const InternalError& e) {
    return failed(e, fmt::format("error: {}\n", e.what()), 4);
  } catch (const std::exception& e) {
    return failed(e, fmt::format("error: {}\n", e.what()), 3);
  }
  return 2;
}

}  // namespace

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
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    const Usage wrong = wrong_usage(e, app, argc, argv);
    // What was understood of the command line is lost: the word itself asks for it.
    if (std::any_of(argv + 1, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; })) {
      cli::Json mistake = cli::message_json(wrong.message);
      mistake["hint"] = wrong.hint;
      cli::print_line({{"errors", cli::Json::array({mistake})}});
    }
    fmt::print(stderr, "error: {}\n  hint: {}\n", wrong.message, wrong.hint);
    return 2;
  }
  return run_chosen(app, commands);
}
