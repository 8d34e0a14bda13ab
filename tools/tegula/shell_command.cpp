// tegula completion SHELL, tegula man: what a shell and `man` have to know of the command, from its options themselves.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "tools/tegula/commands.h"

namespace tegula::cli {

namespace {

const std::vector<std::string> kShells = {"bash", "fish", "zsh"};

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::string bash_completion(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({}))
    cases += fmt::format("    {}) words='{}{}' ;;\n", command->get_name(), fmt::join(flags_of(*command), " "),
                         command->get_name() == "completion" ? fmt::format(" {}", fmt::join(kShells, " ")) : "");
  return fmt::format(R"(# bash completion of tegula: source <(tegula completion bash)
_tegula() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words=
  case ${{COMP_WORDS[1]}} in
{}    *) words='{} {}' ;;
  esac
  [ "$COMP_CWORD" -gt 1 ] || words='{} {}'
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _tegula tegula
)",
                     cases, fmt::join(commands_of(app), " "), fmt::join(flags_of(app), " "),
                     fmt::join(commands_of(app), " "), fmt::join(flags_of(app), " "));
}

std::string fish_completion(const CLI::App& app) {
  std::string text = "# fish completion of tegula: tegula completion fish | source\n";
  for (const CLI::App* command : app.get_subcommands({})) {
    text += fmt::format("complete -c tegula -n __fish_use_subcommand -a {} -d {:?}\n", command->get_name(),
                        command->get_description());
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames())
        text +=
            fmt::format("complete -c tegula -n '__fish_seen_subcommand_from {}' -l {}{} -d {:?}\n", command->get_name(),
                        name, option->get_items_expected_max() > 0 ? " -r" : "", option->get_description());
  }
  return text + fmt::format("complete -c tegula -f -n '__fish_seen_subcommand_from completion' -a '{}'\n",
                            fmt::join(kShells, " "));
}

// What stands in a word of zsh between single quotes, where brackets and colons divide its parts.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out;
}

std::string zsh_completion(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    commands += fmt::format("    '{}:{}'\n", command->get_name(), zsh_text(command->get_description()));
    cases += fmt::format("    {}) _arguments", command->get_name());
    for (const CLI::Option* option : command->get_options()) {
      const bool takes_value = option->get_items_expected_max() > 0;
      const char* again = option->get_items_expected_max() > 1 ? "*" : "";
      for (const std::string& name : option->get_lnames())
        cases += fmt::format(" \\\n      '{}--{}{}[{}]{}'", again, name, takes_value ? "=" : "",
                             zsh_text(option->get_description()), takes_value ? ":value:_files" : "");
    }
    cases += fmt::format(" \\\n      '*: :{}' ;;\n",
                         command->get_name() == "completion" ? fmt::format("({})", fmt::join(kShells, " ")) : "_files");
  }
  return fmt::format(R"(#compdef tegula
# zsh completion of tegula: source <(tegula completion zsh), or as the file _tegula in a folder of $fpath
_tegula() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    compadd -- {}
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{}  esac
}}
if [ "$funcstack[1]" = _tegula ]; then _tegula "$@"; else compdef _tegula tegula; fi
)",
                     commands, fmt::join(flags_of(app), " "), cases);
}

// A backslash begins a request of roff, so does a point or an apostrophe at the beginning of a line.
std::string roff(std::string_view text) {
  std::string out;
  bool at_begin = true;
  for (char c : text) {
    if (at_begin && (c == '.' || c == '\'')) out += "\\&";
    out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
    at_begin = c == '\n';
  }
  return out;
}

std::string roff_options(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_lnames().empty())
      text += fmt::format(".TP\n.B {}\n{}\n", roff(option->get_name(false, true)), roff(option->get_description()));
  return text;
}

std::string man_page(const CLI::App& app, const std::string& version) {
  std::string text = fmt::format(
      ".TH TEGULA 1 \"\" \"{}\"\n.SH NAME\ntegula \\- {}\n.SH SYNOPSIS\n.B tegula\n.I command\n[options]\n.SH "
      "COMMANDS\n",
      roff(version), roff(app.get_description()));
  for (const CLI::App* command : app.get_subcommands({}))
    text += fmt::format(".SS {}\n{}.\n{}.PP\n.nf\n{}\n.fi\n", roff(command->get_name()),
                        roff(command->get_description()), roff_options(*command), roff(command->get_footer()));
  return text +
         ".SH EXIT STATUS\n0 success; 1 the kernel or its launch is wrong; 2 the command line is; 3 a device or file "
         "refused; 4 a mistake of Tegula's own.\n";
}

}  // namespace

Command add_completion(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("completion", "Print the completion of this command for a shell");
  auto shell = std::make_shared<std::string>();
  app->add_option("SHELL", *shell, "bash, fish or zsh")->required()->check(CLI::IsMember(kShells));
  app->footer(
      "Examples:\n  tegula completion bash > /etc/bash_completion.d/tegula\n  source <(tegula completion bash)\n"
      "  tegula completion zsh > /usr/local/share/zsh/site-functions/_tegula");
  return {app, [&parent, shell] {
            fmt::print("{}", *shell == "bash"   ? bash_completion(parent)
                             : *shell == "fish" ? fish_completion(parent)
                                                : zsh_completion(parent));
            return 0;
          }};
}

Command add_man(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("man", "Print the manual page of this command");
  app->footer("Examples:\n  tegula man | man -l -");
  return {app, [&parent] {
            fmt::print("{}", man_page(parent, parent.version()));
            return 0;
          }};
}

}  // namespace tegula::cli
