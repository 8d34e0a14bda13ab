#include "codegen/exec/debug/recording.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/check.h"
#include "runtime/base/error.h"

namespace tegula {

namespace {

using Kind = RecordedPlace::Kind;
constexpr const char* kKinds[] = {"statement", "assign", "constant", "store", "atomic", "call"};
constexpr int kFormat = 4;  ///< of files

/// Cuts the text up to the separator, or all of it, off.
std::string cut(std::string& text, char separator) {
  const size_t end = text.find(separator);
  std::string head = text.substr(0, end);
  text.erase(0, end == text.npos ? text.size() : end + 1);
  return head;
}

/// Reads what lower_Watch wrote.
RecordedPlace parse_place(std::string text) {
  RecordedPlace place;
  std::string what = cut(text, '\n');
  const std::string kind = cut(what, ' ');
  while (kind != kKinds[int(place.kind)]) place.kind = Kind(int(place.kind) + 1);
  place.name = cut(what, ' ');
  place.constant = what;
  place.file = cut(text, '\n');
  place.line = std::stoi(cut(text, '\n'));
  place.column = std::stoi(cut(text, '\n'));
  if (text.empty()) return place;
  std::string type = cut(text, '\n');
  place.pointer = type[0] == '*';
  if (place.pointer) {
    place.array = type.substr(1);
    type = cut(place.array, ' ');
  }
  place.elem = *elem_from_text(type);
  std::istringstream extents(cut(text, '\n'));
  for (int64_t extent; extents >> extent;) place.shape.push_back(extent);
  place.layout = text;
  return place;
}

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

const std::string& Recording::source(const std::string& file) const {
  static const std::string none;
  const auto found = sources_.find(file);
  return found == sources_.end() ? none : found->second;
}

void Recording::begin(Launch launch) {
  const size_t most = most_bytes_;
  *this = Recording(most);
  launch_ = std::move(launch);
  next_.resize(launch_.threads);
  stray_.resize(launch_.threads);
}

uint32_t Recording::place_at(const char* text, uint32_t count) {
  auto [known, is_new] = by_address_.try_emplace({text, count});
  if (!is_new) return known->second;
  // Code may be made more than once, with the same texts.
  auto [place, is_new_text] = by_text_.try_emplace(fmt::format("{}\n{}", text, count), uint32_t(places_.size()));
  if (is_new_text) {
    places_.push_back(parse_place(text));
    if (const auto [source, is_new_file] = sources_.try_emplace(places_.back().file); is_new_file)
      source->second = text_of(source->first);
    places_.back().registers = count;
    places_.back().elements.assign(size_t(launch_.threads) * count, RecordedPlace::kUnknown);
  }
  return known->second = place->second;
}

void Recording::add(uint32_t thread, const char* text, const uint64_t* pairs, uint32_t count) {
  if (stray_[thread]) return;
  const uint32_t place = place_at(text, count);
  if (next_[thread] == events_.size()) events_.push_back({place, 0, {}, {}});
  RecordedEvent& event = events_[next_[thread]++];
  if (event.place != place) {
    stray_[thread] = true;
    strays_.push_back(thread);
    return;
  }
  ++event.arrived;
  if (count) keep(event, thread, pairs);
}

void Recording::keep(RecordedEvent& event, uint32_t thread, const uint64_t* pairs) {
  RecordedPlace& place = places_[event.place];
  const size_t first = size_t(thread) * place.registers, all = place.elements.size();
  if (event.bits.empty()) {
    if (bytes_ + all * sizeof(uint64_t) > most_bytes_) return;
    bytes_ += all * sizeof(uint64_t);
    event.bits.resize(all);
    event.has_bits.resize(launch_.threads);
  }
  event.has_bits[thread] = true;
  for (uint32_t r = 0; r < place.registers; ++r) {
    place.elements[first + r] = int32_t(pairs[2 * r]);
    event.bits[first + r] = pairs[2 * r + 1];
  }
}

std::string Recording::save() const {
  using Json = nlohmann::json;
  const auto three = [](const Grid& g) { return Json{g.x, g.y, g.z}; };
  Json json = {{"tegula recording", kFormat},
               {"kernel", launch_.kernel},
               {"program", three(launch_.program)},
               {"grid", three(launch_.grid)},
               {"threads", launch_.threads},
               {"blocks", launch_.blocks},
               {"error", error_},
               {"strays", strays_},
               {"sources", sources_},
               {"places", Json::array()},
               {"events", Json::array()}};
  for (const RecordedPlace& p : places_)
    json["places"].push_back({int(p.kind), p.name, p.constant, p.file, p.line, p.column, int(p.elem), p.pointer,
                              p.array, p.shape, p.layout, p.registers, p.elements});
  for (const RecordedEvent& e : events_) json["events"].push_back({e.place, e.arrived, e.bits, e.has_bits});
  const std::vector<uint8_t> bytes = Json::to_cbor(json);
  return {bytes.begin(), bytes.end()};
}

Recording Recording::load(const std::string& bytes, const std::string& name) try {
  const nlohmann::json json = nlohmann::json::from_cbor(bytes);
  if (json.at("tegula recording") != kFormat)
    throw FileError(fmt::format("'{}' was recorded by another version", name));
  const auto three = [&](const char* key) { return Grid{json.at(key)[0], json.at(key)[1], json.at(key)[2]}; };
  Recording recording;
  recording.begin({json.at("kernel"), three("program"), three("grid"), json.at("threads"), json.at("blocks")});
  recording.error_ = json.at("error");
  recording.strays_ = json.at("strays").get<std::vector<uint32_t>>();
  recording.sources_ = json.at("sources").get<std::map<std::string, std::string>>();
  for (const auto& p : json.at("places")) {
    RecordedPlace place{Kind(p.at(0).get<int>()),
                        p.at(1),
                        p.at(2),
                        p.at(3),
                        p.at(4),
                        p.at(5),
                        Elem(p.at(6).get<int>()),
                        p.at(7),
                        p.at(8),
                        p.at(9),
                        p.at(10),
                        p.at(11),
                        p.at(12)};
    if (place.elements.size() != size_t(recording.launch_.threads) * place.registers)
      throw FileError(fmt::format("'{}' is a damaged recording", name));
    recording.places_.push_back(std::move(place));
  }
  for (const auto& e : json.at("events")) {
    RecordedEvent event{e.at(0), e.at(1), e.at(2).get<std::vector<uint64_t>>(), e.at(3).get<std::vector<bool>>()};
    const bool known = event.place < recording.places_.size();
    if (!known || (!event.bits.empty() && (event.bits.size() != recording.place_of(event).elements.size() ||
                                           event.has_bits.size() != recording.launch_.threads)))
      throw FileError(fmt::format("'{}' is a damaged recording", name));
    recording.events_.push_back(std::move(event));
  }
  return recording;
} catch (const nlohmann::json::exception&) {
  throw FileError(fmt::format("'{}' is no recording of tegula debug, or a damaged one", name));
}

}  // namespace tegula
