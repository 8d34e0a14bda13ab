// The place in a recording, which breakpoints, steps and conditions move.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "codegen/exec/debug/debugger_session.h"

namespace tegula {

int64_t Debugger::Session::count_of(const std::string& text, int64_t absent) {
  if (text.empty()) return absent;
  const auto count = number_of(text);
  if (!count || *count < 1) throw Refusal{fmt::format("'{}' is no number from 1 on", text)};
  return *count;
}

std::string Debugger::Session::source_line(const RecordedPlace& place) {
  auto [it, is_new] = sources_.try_emplace(place.file);
  if (is_new) {
    std::istringstream in(recording_.source(place.file));
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
    if (!here.name.empty()) answer.json["function"] = here.name;
    answer.json["source"] = trimmed(source_line(here));
    answer.text += fmt::format("{}/{}  {}:{}{}:  {}\n", at_ + 1, stops_.size(), here.file, here.line,
                               here.name.empty() ? "" : " in " + here.name, trimmed(source_line(here)));
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

}  // namespace tegula
