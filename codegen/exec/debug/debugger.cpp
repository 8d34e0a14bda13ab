#include "codegen/exec/debug/debugger.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "codegen/exec/debug/pictures.h"
#include "codegen/exec/debug/tile_json.h"
#include "codegen/exec/debug/tile_view.h"
#include "runtime/base/diag.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace tegula {

namespace {

using Json = nlohmann::ordered_json;
using Kind = RecordedPlace::Kind;

/// What a command is refused with.
struct Refusal {
  std::string message;
};

/// A command's answer under way.
struct Answer {
  std::string text;
  Json json = Json::object();
};

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text);
}

/// The first word; the rest stays in `text`.
std::string next_word(std::string& text) {
  const size_t end = std::min(text.find(' '), text.size());
  std::string word = text.substr(0, end);
  text = trimmed(std::string_view(text).substr(end));
  return word;
}

std::optional<int64_t> number_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int64_t count_of(const std::string& text, int64_t absent) {
  if (text.empty()) return absent;
  const auto count = number_of(text);
  if (!count || *count < 1) throw Refusal{fmt::format("'{}' is no number from 1 on", text)};
  return *count;
}

const char* const kNothing =
    "nothing was recorded: that takes a launch with the option debug=2 whose grid has the program";

}  // namespace

class Debugger::Session {
 public:
  explicit Session(const Recording& recording) : recording_(recording) {
    for (size_t i = 0; i < events().size(); ++i) {
      if (recording.place_of(events()[i]).kind == Kind::Statement) stops_.push_back(i);
      all_threads_ = std::max(all_threads_, events()[i].arrived);
    }
  }

  DebuggerAnswer execute(std::string_view line);
  bool over = false;

 private:
  struct Command {
    const char *name, *alias, *arguments, *help;
    void (Session::*run)(const std::string& arguments, Answer& answer);
  };
  static const std::vector<Command> kCommands;
  static const Command& find(const std::string& name);

  const std::vector<RecordedEvent>& events() const { return recording_.events(); }
  const RecordedPlace& place(size_t event) const { return recording_.place_of(events()[event]); }
  /// The first event that a statement has not come to yet.
  size_t event_of(size_t stop) const { return stop < stops_.size() ? stops_[stop] : events().size(); }
  std::string source_line(const RecordedPlace& place);
  void tell_place(Answer& answer);
  void tell_given(size_t stop, Answer& answer);
  template <class Wanted>
  void go(int direction, Answer& answer, Wanted wanted);
  bool is_at_break(size_t stop) const;
  bool stores(size_t stop) const;

  /// "thread 37 (warp 1, lane 5)", of a cluster with the block ahead of it.
  std::string who(uint32_t thread) const;
  /// What the statement here stores, or else the last one that did: "@pointers", "@values", "@mask"; of its second
  /// store
  /// "@values2".
  size_t stored_event(const std::string& name) const;
  /// The latest event that gave the name a value; a Refusal where there is none.
  size_t value_event(const std::string& name) const;
  /// Splits "name[...]" or "name [...]"; the view is of the name's value.
  TileView tile(const std::string& arguments, std::string& name, std::string& index) const;
  static TileSlice slice_of(const TileView& tile, const std::string& index);
  void write_picture(const std::string& arguments, Answer& answer, decltype(&heat_map) draw);

  void do_break(const std::string& arguments, Answer& answer);
  void do_delete(const std::string& arguments, Answer& answer);
  void do_continue(const std::string&, Answer& answer);
  void do_reverse(const std::string&, Answer& answer);
  void do_step(const std::string& arguments, Answer& answer);
  void do_back(const std::string& arguments, Answer& answer);
  void do_store(const std::string&, Answer& answer);
  void do_nan(const std::string&, Answer& answer);
  void do_goto(const std::string& arguments, Answer& answer);
  void do_where(const std::string&, Answer& answer);
  void do_list(const std::string& arguments, Answer& answer);
  void do_names(const std::string&, Answer& answer);
  void do_print(const std::string& arguments, Answer& answer);
  void do_owner(const std::string& arguments, Answer& answer);
  void do_thread(const std::string& arguments, Answer& answer);
  void do_layout(const std::string& arguments, Answer& answer);
  void do_picture(const std::string& arguments, Answer& answer);
  void do_help(const std::string&, Answer& answer);
  void do_quit(const std::string&, Answer&) { over = true; }

  const Recording& recording_;
  std::vector<size_t> stops_;  ///< the events that are statements
  size_t at_ = 0;              ///< of these, the one about to begin; their number: the end
  uint32_t all_threads_ = 0;   ///< that carry out statements
  std::set<int> breaks_;       ///< lines
  std::map<std::string, std::vector<std::string>> sources_;
};

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

// ---- Places

std::string Debugger::Session::source_line(const RecordedPlace& place) {
  auto [it, is_new] = sources_.try_emplace(place.file);
  if (is_new) {
    std::ifstream in(place.file);
    for (std::string line; std::getline(in, line);) it->second.push_back(line);
  }
  return place.line >= 1 && size_t(place.line) <= it->second.size() ? it->second[size_t(place.line - 1)] : "";
}

void Debugger::Session::tell_place(Answer& answer) {
  const Recording::Launch& launch = recording_.launch();
  answer.json["kernel"] = launch.kernel;
  answer.json["program"] = {launch.program.x, launch.program.y, launch.program.z};
  answer.json["statement"] = at_ + 1;
  answer.json["statements"] = stops_.size();
  if (at_ < stops_.size()) {
    const RecordedPlace& here = place(stops_[at_]);
    answer.json["file"] = here.file;
    answer.json["line"] = here.line;
    answer.json["source"] = trimmed(source_line(here));
    answer.text +=
        fmt::format("{}/{}  {}:{}:  {}\n", at_ + 1, stops_.size(), here.file, here.line, trimmed(source_line(here)));
    if (const uint32_t arrived = events()[stops_[at_]].arrived; arrived < all_threads_) {
      answer.json["threads"] = arrived;
      answer.text += fmt::format("  {} of {} threads came here\n", arrived, all_threads_);
    }
    return;
  }
  answer.json["end"] = recording_.error();
  const std::string program = fmt::format("program ({}, {}, {})", launch.program.x, launch.program.y, launch.program.z);
  if (!events().empty())
    answer.text += fmt::format("the end of {}\n", program);
  else if (recording_.error().empty())
    answer.text += kNothing + std::string("\n");
  else
    answer.text += fmt::format("{} did not begin\n", program);
  if (!recording_.error().empty()) answer.text += fmt::format("the launch ended early: {}\n", recording_.error());
  if (!recording_.strays().empty()) {
    answer.json["strays"] = recording_.strays();
    answer.text += fmt::format("threads that took another way: {}\n", fmt::join(recording_.strays(), ", "));
  }
}

/// What a statement gave to names.
void Debugger::Session::tell_given(size_t stop, Answer& answer) {
  for (size_t event = event_of(stop) + 1; event < event_of(stop + 1); ++event) {
    const RecordedPlace& given = place(event);
    if (given.kind != Kind::Assign) continue;
    const TileView tile(recording_, events()[event]);
    const std::string value = tile.place().shape.empty() ? tile.text(0) : tile.type() + " " + tile.summary();
    answer.json["given"][given.name] = value;
    answer.text += fmt::format("  {} = {}\n", given.name, value);
  }
}

/// Moves to the next stop, or the one before, that is wanted; to the end, or the beginning, if there is none.
template <class Wanted>
void Debugger::Session::go(int direction, Answer& answer, Wanted wanted) {
  const size_t last = direction > 0 ? stops_.size() : 0;
  while (at_ != last) {
    at_ += size_t(direction);
    if (at_ < stops_.size() && wanted(at_)) break;
  }
  tell_place(answer);
}

bool Debugger::Session::is_at_break(size_t stop) const { return breaks_.contains(place(stops_[stop]).line); }

bool Debugger::Session::stores(size_t stop) const {
  for (size_t event = event_of(stop) + 1; event < event_of(stop + 1); ++event)
    if (place(event).kind == Kind::Store || place(event).kind == Kind::Atomic) return true;
  return false;
}

void Debugger::Session::do_break(const std::string& arguments, Answer& answer) {
  const auto line = number_of(arguments);
  if (!line) throw Refusal{fmt::format("break takes the number of a line, found '{}'", arguments)};
  std::set<int> lines;
  for (size_t stop : stops_) lines.insert(place(stop).line);
  if (!lines.contains(int(*line))) {
    const auto next = lines.lower_bound(int(*line));
    throw Refusal{fmt::format("program ({}, {}, {}) has no statement in line {}{}", recording_.launch().program.x,
                              recording_.launch().program.y, recording_.launch().program.z, *line,
                              next == lines.end() ? "" : fmt::format("; the next one is in line {}", *next))};
  }
  breaks_.insert(int(*line));
  answer.json["breakpoints"] = breaks_;
  answer.text = fmt::format("stops in line{} {}\n", breaks_.size() == 1 ? "" : "s", fmt::join(breaks_, ", "));
}

void Debugger::Session::do_delete(const std::string& arguments, Answer& answer) {
  const auto line = number_of(arguments);
  if (!arguments.empty() && (!line || !breaks_.erase(int(*line))))
    throw Refusal{fmt::format("there is no breakpoint '{}'", arguments)};
  if (arguments.empty()) breaks_.clear();
  answer.json["breakpoints"] = breaks_;
  answer.text = breaks_.empty() ? "no breakpoints\n" : fmt::format("stops in lines {}\n", fmt::join(breaks_, ", "));
}

void Debugger::Session::do_continue(const std::string&, Answer& answer) {
  go(1, answer, [&](size_t stop) { return is_at_break(stop); });
}

void Debugger::Session::do_reverse(const std::string&, Answer& answer) {
  go(-1, answer, [&](size_t stop) { return is_at_break(stop); });
}

void Debugger::Session::do_step(const std::string& arguments, Answer& answer) {
  for (int64_t i = 0, n = count_of(arguments, 1); i < n && at_ < stops_.size(); ++i) tell_given(at_++, answer);
  tell_place(answer);
}

void Debugger::Session::do_back(const std::string& arguments, Answer& answer) {
  at_ -= size_t(std::min(count_of(arguments, 1), int64_t(at_)));
  tell_place(answer);
}

void Debugger::Session::do_store(const std::string&, Answer& answer) {
  go(1, answer, [&](size_t stop) { return stores(stop); });
  if (at_ == stops_.size()) return;
  for (size_t event = event_of(at_) + 1; event < event_of(at_ + 1); ++event) {
    const RecordedPlace& stored = place(event);
    if (stored.kind != Kind::Store && stored.kind != Kind::Atomic) continue;
    const TileView tile(recording_, events()[event]);
    const std::string value = tile.place().shape.empty() ? tile.text(0) : tile.type() + " " + tile.summary();
    answer.json["stored"][stored.name] = value;
    answer.text += fmt::format("  {}: {}\n", stored.name, value);
  }
}

void Debugger::Session::do_nan(const std::string&, Answer& answer) {
  while (at_ < stops_.size()) {
    const size_t stop = at_++;
    for (size_t event = event_of(stop) + 1; event < event_of(stop + 1); ++event) {
      const RecordedPlace& given = place(event);
      if (given.kind != Kind::Assign || given.pointer || !is_float(given.elem)) continue;
      const TileView tile(recording_, events()[event]);
      for (int64_t i = 0; i < tile.size(); ++i) {
        if (!tile.has(i) || std::isfinite(tile.number(i))) continue;
        answer.json["name"] = given.name;
        answer.json["element"] = tile.coordinates(i);
        answer.json["in_line"] = given.line;
        answer.text += fmt::format("{}{} = {} by {}:{}:  {}\n", given.name, tile.coordinates(i), tile.text(i),
                                   given.file, given.line, trimmed(source_line(given)));
        return tell_place(answer);
      }
    }
  }
  answer.text += "no statement from here on gives a name a NaN or an infinity\n";
  tell_place(answer);
}

void Debugger::Session::do_goto(const std::string& arguments, Answer& answer) {
  const int64_t number = count_of(arguments, 0);
  if (number < 1 || number > int64_t(stops_.size()) + 1)
    throw Refusal{fmt::format("goto takes the number of a statement, 1 to {}, or {} for the end", stops_.size(),
                              stops_.size() + 1)};
  at_ = size_t(number - 1);
  tell_place(answer);
}

void Debugger::Session::do_where(const std::string&, Answer& answer) { tell_place(answer); }

void Debugger::Session::do_list(const std::string& arguments, Answer& answer) {
  const int64_t lines = count_of(arguments, 9);
  if (at_ == stops_.size()) return tell_place(answer);
  RecordedPlace line = place(stops_[at_]);
  const int here = line.line;
  for (line.line = std::max<int>(1, here - int(lines / 2)); line.line <= here + int(lines / 2); ++line.line) {
    const std::string text = source_line(line);
    if (size_t(line.line) > sources_[line.file].size()) break;
    answer.text += fmt::format("{} {:>4}  {}\n",
                               line.line == here             ? "->"
                               : breaks_.contains(line.line) ? " *"
                                                             : "  ",
                               line.line, text);
    answer.json["lines"].push_back({{"line", line.line}, {"text", text}});
  }
}

// ---- Values

size_t Debugger::Session::stored_event(const std::string& name) const {
  size_t stop = std::min(at_ + 1, stops_.size());  // the statement here, or the last one before it
  while (stop > 0 && !stores(stop - 1)) --stop;
  if (stop == 0) throw Refusal{"no statement up to here has stored; 'store' goes on to the next one that does"};
  std::map<std::string, int> stores;
  std::vector<std::string> known;
  for (size_t event = event_of(stop - 1) + 1; event < event_of(stop); ++event) {
    const RecordedPlace& stored = place(event);
    if (stored.kind != Kind::Store && stored.kind != Kind::Atomic) continue;
    const int number = ++stores[stored.name];
    known.push_back(number == 1 ? fmt::format("@{}", stored.name) : fmt::format("@{}{}", stored.name, number));
    if (known.back() == name) return event;
  }
  throw Refusal{fmt::format("there is no '{}' in what line {} stores; there are {}", name, place(stops_[stop - 1]).line,
                            fmt::join(known, ", "))};
}

size_t Debugger::Session::value_event(const std::string& name) const {
  if (events().empty()) throw Refusal{kNothing};
  if (name.starts_with('@')) return stored_event(name);
  std::vector<std::string> known;
  for (size_t event = event_of(at_); event-- > 0;) {
    const RecordedPlace& given = place(event);
    if (given.kind != Kind::Assign && given.kind != Kind::Constant) continue;
    if (given.name == name) return event;
    known.push_back(given.name);
  }
  for (size_t event = event_of(at_); event < events().size(); ++event)
    if (place(event).name == name && place(event).kind == Kind::Assign)
      throw Refusal{fmt::format("'{}' has no value yet; it gets one in line {}", name, place(event).line)};
  const auto near = nearest_name(name, known);
  throw Refusal{
      fmt::format("no name '{}' has a value here; {}", name,
                  near ? fmt::format("did you mean '{}'?", *near) : std::string("'names' lists those that have"))};
}

TileView Debugger::Session::tile(const std::string& arguments, std::string& name, std::string& index) const {
  if (arguments.empty()) throw Refusal{"a name is missing; 'names' lists those that have a value"};
  // The names of tuples' parts end with an index themselves: the longest name that is one counts.
  name = trimmed(arguments);
  for (;;) {
    try {
      const size_t event = value_event(name);
      index = trimmed(std::string_view(arguments).substr(name.size()));
      const RecordedPlace& given = place(event);
      if (given.kind == Kind::Constant)
        throw Refusal{fmt::format("'{}' is known at compile time, and held by no thread: {}", name, given.constant)};
      const TileView view(recording_, events()[event]);
      if (events()[event].bits.empty())
        throw Refusal{
            fmt::format("the value of '{}' was not kept: the recording has all the memory that it may take "
                        "(--memory)",
                        name)};
      return view;
    } catch (const Refusal&) {
      const size_t bracket = name.rfind('[');
      if (bracket == name.npos || bracket == 0) throw;
      name = trimmed(std::string_view(name).substr(0, bracket));
    }
  }
}

TileSlice Debugger::Session::slice_of(const TileView& tile, const std::string& index) {
  std::string why;
  auto slice = tile.parse_slice(index, why);
  if (!slice) throw Refusal{why};
  return *slice;
}

std::string Debugger::Session::who(uint32_t thread) const {
  const uint32_t in_block = recording_.launch().threads / recording_.launch().blocks, own = thread % in_block;
  const std::string block = recording_.launch().blocks > 1 ? fmt::format("block {}, ", thread / in_block) : "";
  return fmt::format("{}thread {} (warp {}, lane {})", block, own, own / 32, own % 32);
}

void Debugger::Session::do_names(const std::string&, Answer& answer) {
  std::map<std::string, size_t> latest;
  for (size_t event = 0; event < event_of(at_); ++event)
    if (place(event).kind == Kind::Assign || place(event).kind == Kind::Constant) latest[place(event).name] = event;
  answer.json["names"] = Json::array();
  if (events().empty()) answer.text += kNothing + std::string("\n");
  size_t width = 0;
  for (const auto& [name, event] : latest) width = std::max(width, name.size());
  for (const auto& [name, event] : latest) {
    const RecordedPlace& given = place(event);
    const bool constant = given.kind == Kind::Constant;
    const TileView view(recording_, events()[event]);
    const std::string type = constant ? "constexpr" : view.type();
    const std::string value = constant ? given.constant : given.shape.empty() ? view.text(0) : view.summary();
    answer.json["names"].push_back({{"name", name}, {"type", type}, {"line", given.line}, {"value", value}});
    answer.text += fmt::format("{:<{}}  {}, line {}: {}\n", name, width, type, given.line, value);
  }
}

void Debugger::Session::do_print(const std::string& arguments, Answer& answer) {
  if (!arguments.empty()) {
    const size_t event = [&]() -> size_t {
      try {
        return value_event(arguments);
      } catch (const Refusal&) {
        return events().size();  // with an index behind it, or wrong: told of below
      }
    }();
    if (event < events().size() && place(event).kind == Kind::Constant) {
      answer.json["name"] = arguments;
      answer.json["dtype"] = "constexpr";
      answer.json["values"] = place(event).constant;
      answer.text = fmt::format("{} = {} (known at compile time)\n", arguments, place(event).constant);
      return;
    }
  }
  std::string name, index;
  const TileView view = tile(arguments, name, index);
  const TileSlice slice = slice_of(view, index);
  answer.json["name"] = name;
  answer.json["dtype"] = (view.place().pointer ? "*" : "") + std::string(elem_info(view.place().elem).tl);
  answer.json["shape"] = view.place().shape;
  answer.json["line"] = view.place().line;
  answer.json["values"] = tile_json(view, slice);
  if (view.place().shape.empty()) {
    answer.text = fmt::format("{} = {} ({}, line {})\n", name, view.text(0), view.type(), view.place().line);
  } else {
    answer.text = fmt::format("{}: {}, line {}, {}\n{}", name + index, view.type(), view.place().line, view.summary(),
                              view.matrix(slice, !index.empty()));
  }
  if (const auto torn = view.torn()) {
    answer.json["torn"] = view.coordinates(*torn);
    answer.text +=
        fmt::format("threads that hold copies of {}{} have different values of it\n", name, view.coordinates(*torn));
  }
}

void Debugger::Session::do_owner(const std::string& arguments, Answer& answer) {
  std::string name, index;
  const TileView view = tile(arguments, name, index);
  const TileSlice slice = slice_of(view, index);
  std::vector<int64_t> at;
  for (const auto& axis : slice.axes) {
    if (axis.end - axis.begin != 1)
      throw Refusal{fmt::format("owner takes one element of {}, found '{}'", view.type(), index)};
    at.push_back(axis.begin);
  }
  const int64_t element = view.element_at(at);
  answer.json["name"] = name;
  answer.json["element"] = at;
  answer.json["holders"] = Json::array();
  answer.text = fmt::format("{}{} = {}\n", name, view.coordinates(element), view.text(element));
  for (const TileHolder& holder : view.holders(element)) {
    answer.json["holders"].push_back(
        {{"thread", holder.thread}, {"register", holder.reg}, {"who", who(holder.thread)}});
    if (answer.json["holders"].size() <= 16)
      answer.text += fmt::format("  {}, register {}\n", who(holder.thread), holder.reg);
  }
  if (const size_t n = answer.json["holders"].size(); n > 16) answer.text += fmt::format("  and {} more\n", n - 16);
}

void Debugger::Session::do_thread(const std::string& arguments, Answer& answer) {
  std::string rest = arguments;
  const std::string first = next_word(rest);
  const auto thread = number_of(first);
  if (!thread || *thread < 0 || *thread >= int64_t(all_threads_))
    throw Refusal{fmt::format("thread takes a thread, 0 to {}, and a name", all_threads_ - 1)};
  std::string name, index;
  const TileView view = tile(rest, name, index);
  const RecordedPlace& place = view.place();
  answer.json["thread"] = *thread;
  answer.json["name"] = name;
  answer.json["registers"] = Json::array();
  answer.text = fmt::format("{} in {}: {} registers\n", name, who(uint32_t(*thread)), place.registers);
  for (uint32_t r = 0; r < place.registers; ++r) {
    const int32_t element = place.elements[size_t(*thread) * place.registers + r];
    if (element < 0) continue;
    answer.json["registers"].push_back(
        {{"register", r}, {"element", view.coordinates(element)}, {"value", view.text(element)}});
    answer.text += fmt::format("  register {}: {}{} = {}\n", r, name, view.coordinates(element), view.text(element));
  }
}

// ---- Layouts and pictures

void Debugger::Session::write_picture(const std::string& arguments, Answer& answer, decltype(&heat_map) draw) {
  const size_t space = arguments.rfind(' ');
  if (space == arguments.npos || !arguments.ends_with(".svg"))
    throw Refusal{fmt::format("a name and a file that ends in .svg are wanted, found '{}'", arguments)};
  const std::string file = arguments.substr(space + 1);
  std::string name, index;
  const TileView view = tile(trimmed(std::string_view(arguments).substr(0, space)), name, index);
  const RecordedPlace& place = view.place();
  const std::string title =
      fmt::format("{}{} at {}:{}, program ({}, {}, {})", name, index, place.file, place.line,
                  recording_.launch().program.x, recording_.launch().program.y, recording_.launch().program.z);
  replace_file(file, draw(view, title, slice_of(view, index)));
  answer.json["name"] = name;
  answer.json["file"] = file;
  answer.text = fmt::format("{} -> {}\n", name, file);
}

void Debugger::Session::do_layout(const std::string& arguments, Answer& answer) {
  if (arguments.ends_with(".svg")) return write_picture(arguments, answer, &layout_picture);
  std::string name, index;
  const TileView view = tile(arguments, name, index);
  const RecordedPlace& place = view.place();
  answer.json["name"] = name;
  answer.json["layout"] = place.layout;
  answer.json["registers"] = place.registers;
  answer.text = fmt::format("{}: {}, {} registers a thread\n", name, view.type(), place.registers);
  if (!place.layout.empty()) answer.text += fmt::format("  {}\n", place.layout);
}

void Debugger::Session::do_picture(const std::string& arguments, Answer& answer) {
  write_picture(arguments, answer, &heat_map);
}

void Debugger::Session::do_help(const std::string&, Answer& answer) {
  for (const Command& c : kCommands) {
    const std::string usage = fmt::format("{} {}", c.name, c.arguments);
    answer.text += fmt::format("{:<30} {}{}\n", usage, c.help, *c.alias ? fmt::format(" ({})", c.alias) : "");
    answer.json["commands"].push_back(
        {{"name", c.name}, {"alias", c.alias}, {"arguments", c.arguments}, {"help", c.help}});
  }
}

// ---- Debugger

Debugger::Debugger(const Recording& recording) : session_(std::make_unique<Session>(recording)) {}
Debugger::~Debugger() = default;
DebuggerAnswer Debugger::execute(std::string_view command) { return session_->execute(command); }
bool Debugger::is_over() const { return session_->over; }

}  // namespace tegula
