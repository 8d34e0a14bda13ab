#include "codegen/exec/debug/debugger.h"

#include <fmt/format.h>

#include <charconv>

#include "codegen/exec/debug/debugger_session.h"
#include "runtime/base/diag.h"

namespace tegula {

std::string Debugger::Session::trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text);
}

std::string Debugger::Session::next_word(std::string& text) {
  const size_t end = std::min(text.find(' '), text.size());
  std::string word = text.substr(0, end);
  text = trimmed(std::string_view(text).substr(end));
  return word;
}

std::optional<int64_t> Debugger::Session::number_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

const std::vector<Debugger::Session::Command> Debugger::Session::kCommands = {
    {"break", "b", "LINE", "stop ahead of each statement that begins in the line", &Session::do_break},
    {"delete", "d", "[LINE]", "forget the breakpoint, or all", &Session::do_delete},
    {"continue", "c", "", "go on to the next breakpoint, or to the end", &Session::do_continue},
    {"reverse", "rc", "", "go back to the breakpoint before, or to the beginning", &Session::do_reverse},
    {"step", "s", "[N]", "carry out a statement, or N", &Session::do_step},
    {"back", "u", "[N]", "go back by a statement, or by N", &Session::do_back},
    {"store", "st", "", "go on to the next statement that stores to global memory", &Session::do_store},
    {"nan", "", "", "go on to behind the statement that next gives a name a NaN or an infinity", &Session::do_nan},
    {"goto", "g", "N", "go to statement number N", &Session::do_goto},
    {"where", "w", "", "tell the place", &Session::do_where},
    {"list", "l", "[N]", "show N lines of source around the place", &Session::do_list},
    {"names", "n", "", "list what has a value here", &Session::do_names},
    {"print", "p", "NAME[INDEX]",
     "show a value: acc, acc[0:4, 8:16], acc[3]; what is stored here: @values, @pointers, @mask", &Session::do_print},
    {"owner", "o", "NAME[INDEX]", "tell which threads and registers hold an element", &Session::do_owner},
    {"thread", "t", "T NAME",
     "show what the registers of thread T hold of a value; those of a cluster count on through its blocks",
     &Session::do_thread},
    {"layout", "la", "NAME[INDEX] [FILE.svg]", "tell the layout of a tile, or draw it", &Session::do_layout},
    {"picture", "pic", "NAME[INDEX] FILE.svg", "draw the values of a tile as colours", &Session::do_picture},
    {"help", "h", "", "list the commands", &Session::do_help},
    {"quit", "q", "", "end", &Session::do_quit},
};

const Debugger::Session::Command& Debugger::Session::find(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (name == command.name || (!name.empty() && name == command.alias)) return command;
    names.emplace_back(command.name);
  }
  const auto near = nearest_name(name, names);
  throw Refusal{
      fmt::format("unknown command '{}'; {}", name,
                  near ? fmt::format("did you mean '{}'?", *near) : std::string("'help' lists the commands"))};
}

DebuggerAnswer Debugger::Session::execute(std::string_view line) {
  std::string arguments = trimmed(line);
  Answer answer;
  answer.json["command"] = arguments;
  try {
    const std::string name = next_word(arguments);
    (this->*find(name).run)(arguments, answer);
    return {answer.text, answer.json.dump(-1, ' ', false, Json::error_handler_t::replace), false};
  } catch (const Refusal& refusal) {
    answer.json["error"] = refusal.message;
    return {fmt::format("error: {}\n", refusal.message),
            answer.json.dump(-1, ' ', false, Json::error_handler_t::replace), true};
  }
}

void Debugger::Session::do_help(const std::string&, Answer& answer) {
  for (const Command& c : kCommands) {
    const std::string usage = fmt::format("{} {}", c.name, c.arguments);
    answer.text += fmt::format("{:<30} {}{}\n", usage, c.help, *c.alias ? fmt::format(" ({})", c.alias) : "");
    answer.json["commands"].push_back(
        {{"name", c.name}, {"alias", c.alias}, {"arguments", c.arguments}, {"help", c.help}});
  }
}

Debugger::Debugger(const Recording& recording) : session_(std::make_unique<Session>(recording)) {}
Debugger::~Debugger() = default;
DebuggerAnswer Debugger::execute(std::string_view command) { return session_->execute(command); }
bool Debugger::is_over() const { return session_->over; }

}  // namespace tegula
