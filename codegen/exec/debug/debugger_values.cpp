// What names hold at a place of a recording: values, which threads hold them, layouts, pictures.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "codegen/exec/debug/debugger_session.h"
#include "codegen/exec/debug/pictures.h"
#include "codegen/exec/debug/tile_json.h"
#include "runtime/base/diag.h"
#include "runtime/base/files.h"

namespace tegula {

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

// The function whose name it is, "function.name"; empty: the kernel's own.
std::string Debugger::Session::function_of(const std::string& name) const {
  const std::string function = name.substr(0, name.find('.'));
  return calls_.contains(function) && function != name ? function : "";
}

size_t Debugger::Session::value_event(const std::string& name) const {
  if (events().empty()) throw Refusal{kNothing};
  if (name.starts_with('@')) return stored_event(name);
  std::vector<std::string> known;
  const std::string own = function().empty() ? name : function() + "." + name;
  std::optional<size_t> of_kernel;
  std::set<std::string> earlier;  // functions: what comes up now was given in an earlier call
  for (size_t event = event_of(at_); event-- > 0;) {
    const RecordedPlace& given = place(event);
    if (given.kind == Kind::Call) earlier.insert(given.name);
    if (given.kind != Kind::Assign && given.kind != Kind::Constant) continue;
    if (earlier.contains(function_of(given.name))) continue;
    if (given.name == own) return event;
    if (given.name == name && !of_kernel) of_kernel = event;
    known.push_back(given.name);
  }
  if (of_kernel) return *of_kernel;
  for (size_t event = event_of(at_); event < events().size(); ++event)
    if ((place(event).name == own || place(event).name == name) && place(event).kind == Kind::Assign)
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
      if (!name.starts_with('@')) name = given.name;
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
  for (size_t event = 0; event < event_of(at_); ++event) {
    const RecordedPlace& given = place(event);
    if (given.kind == Kind::Assign || given.kind == Kind::Constant) latest[given.name] = event;
    if (given.kind == Kind::Call)
      std::erase_if(latest, [&](const auto& of) { return function_of(of.first) == given.name; });
  }
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
        return events().size();  // with an index after it, or wrong: told of below
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

}  // namespace tegula
