#include "codegen/exec/debug/tile_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>

namespace tegula {

namespace {

constexpr int64_t kMostRows = 16, kMostColumns = 12, kMostMatrices = 4;
constexpr int64_t kGap = -1;

/// The indices of [begin, end) that are shown: all, or the first and last ones with a gap between.
std::vector<int64_t> shown(TileSlice::Axis axis, int64_t most, bool whole) {
  std::vector<int64_t> out;
  const int64_t n = axis.end - axis.begin;
  for (int64_t i = axis.begin; i < axis.end; ++i) {
    const int64_t at = i - axis.begin;
    if (whole || n <= most || at < most / 2 || at >= n - most / 2)
      out.push_back(i);
    else if (out.back() != kGap)
      out.push_back(kGap);
  }
  return out;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "3", "0:8", ":", "4:" of an axis.
std::optional<TileSlice::Axis> parse_axis(std::string_view text, int64_t extent) {
  const size_t colon = text.find(':');
  if (colon == text.npos) {
    auto index = parse_integer(text);
    if (index && *index < 0) *index += extent;
    if (!index || *index < 0 || *index >= extent) return std::nullopt;
    return TileSlice::Axis{*index, *index + 1};
  }
  const auto bound = [&](std::string_view part, int64_t absent) {
    return part.find_first_not_of(' ') == part.npos ? absent : parse_integer(part).value_or(-1);
  };
  const TileSlice::Axis axis{bound(text.substr(0, colon), 0), std::min(bound(text.substr(colon + 1), extent), extent)};
  if (axis.begin < 0 || axis.begin >= axis.end) return std::nullopt;
  return axis;
}

}  // namespace

TileView::TileView(const Recording& recording, const RecordedEvent& event)
    : place_(recording.place_of(event)), event_(event) {
  const int64_t size =
      std::accumulate(place_.shape.begin(), place_.shape.end(), int64_t(1), std::multiplies<int64_t>());
  first_.assign(size_t(size), -1);
  if (place_.pointer) find_arrays(recording);
  for (size_t i = 0; i < event.bits.size(); ++i) {
    const int32_t element = place_.elements[i];
    if (!event.has_bits[i / place_.registers] || element < 0 || element >= size) continue;
    if (int64_t& first = first_[size_t(element)]; first < 0) first = int64_t(i);
  }
}

/// The pointers that the kernel was called with.
void TileView::find_arrays(const Recording& recording) {
  for (const RecordedEvent& event : recording.events()) {
    const RecordedPlace& place = recording.place_of(event);
    if (place.kind == RecordedPlace::Kind::Statement) return;
    if (place.kind == RecordedPlace::Kind::Assign && place.pointer && place.shape.empty() && !event.bits.empty())
      arrays_.push_back({event.bits[0], place.name});
  }
}

std::string TileView::type() const {
  std::string text = elem_info(place_.elem).tl;
  if (place_.pointer) text = fmt::format("pointer<{}>", text);
  return place_.shape.empty() ? text : fmt::format("{}[{}]", text, fmt::join(place_.shape, ", "));
}

double TileView::number(int64_t element) const {
  if (!has(element)) return NAN;
  const uint64_t bits = event_.bits[size_t(first_[size_t(element)])];
  if (!place_.pointer && is_float(place_.elem)) return std::bit_cast<double>(bits);
  return place_.pointer || !is_signed(place_.elem) ? double(bits) : double(int64_t(bits));
}

std::string TileView::address_text(uint64_t address) const {
  auto base = std::ranges::find(arrays_, place_.array, &Array::name);
  if (base == arrays_.end()) {
    base = std::max_element(arrays_.begin(), arrays_.end(), [&](const Array& a, const Array& b) {
      const bool a_below = a.begin <= address, b_below = b.begin <= address;
      return a_below != b_below ? b_below : a.begin < b.begin;
    });
    if (base == arrays_.end() || base->begin > address) return fmt::format("{:#x}", address);
  }
  const int64_t bytes = int64_t(address - base->begin), size = elem_bytes(place_.elem);
  if (bytes % size) return fmt::format("{}{:+}B", base->name, bytes);
  return fmt::format("{}{:+}", base->name, bytes / size);
}

std::string TileView::text(int64_t element) const {
  if (!has(element)) return "?";
  const uint64_t bits = event_.bits[size_t(first_[size_t(element)])];
  if (place_.pointer) return address_text(bits);
  if (place_.elem == Elem::I1) return bits ? "True" : "False";
  if (is_float(place_.elem) && std::isnan(number(element))) return "nan";
  if (is_float(place_.elem)) return fmt::format("{:.{}g}", number(element), place_.elem == Elem::F64 ? 10 : 6);
  return is_signed(place_.elem) ? fmt::format("{}", int64_t(bits)) : fmt::format("{}", bits);
}

std::vector<TileHolder> TileView::holders(int64_t element) const {
  std::vector<TileHolder> out;
  for (size_t i = 0; i < place_.elements.size(); ++i)
    if (place_.elements[i] == element) out.push_back({uint32_t(i / place_.registers), uint32_t(i % place_.registers)});
  return out;
}

std::optional<int64_t> TileView::torn() const {
  for (size_t i = 0; i < event_.bits.size(); ++i) {
    const int32_t element = place_.elements[i];
    if (!event_.has_bits[i / place_.registers] || element < 0 || element >= size()) continue;
    if (event_.bits[i] != event_.bits[size_t(first_[size_t(element)])]) return element;
  }
  return std::nullopt;
}

std::string TileView::coordinates(int64_t element) const {
  if (place_.shape.empty()) return "";
  std::vector<int64_t> at(place_.shape.size());
  for (size_t axis = at.size(); axis-- > 0; element /= place_.shape[axis]) at[axis] = element % place_.shape[axis];
  return fmt::format("[{}]", fmt::join(at, ", "));
}

int64_t TileView::element_at(const std::vector<int64_t>& coordinates) const {
  int64_t element = 0;
  for (size_t axis = 0; axis < coordinates.size(); ++axis) element = element * place_.shape[axis] + coordinates[axis];
  return element;
}

TileSlice TileView::all() const {
  TileSlice slice;
  for (int64_t extent : place_.shape) slice.axes.push_back({0, extent});
  return slice;
}

std::optional<TileSlice> TileView::parse_slice(std::string_view text, std::string& why) const {
  TileSlice slice = all();
  if (text.empty()) return slice;
  if (!text.starts_with('[') || !text.ends_with(']')) {
    why = fmt::format("'{}' is no index; expected one like [0:8, 3]", text);
    return std::nullopt;
  }
  text = text.substr(1, text.size() - 2);
  for (size_t axis = 0;; ++axis) {
    const size_t comma = text.find(',');
    if (axis == slice.axes.size()) {
      why = fmt::format("too many indices for {}", type());
      return std::nullopt;
    }
    auto parsed = parse_axis(text.substr(0, comma), place_.shape[axis]);
    if (!parsed) {
      why = fmt::format("the index '{}' is not within axis {} of {}", text.substr(0, comma), axis, type());
      return std::nullopt;
    }
    slice.axes[axis] = *parsed;
    if (comma == text.npos) return slice;
    text.remove_prefix(comma + 1);
  }
}

std::string TileView::matrix(const TileSlice& slice, bool whole) const {
  const size_t rank = slice.axes.size();
  if (rank == 0) return text(0) + "\n";
  const auto columns = shown(slice.axes[rank - 1], rank == 1 ? 64 : kMostColumns, whole);
  const auto rows = rank == 1 ? std::vector<int64_t>{0} : shown(slice.axes[rank - 2], kMostRows, whole);
  // Of further axes one matrix for each of their indices.
  std::vector<int64_t> at;
  for (const auto& axis : slice.axes) at.push_back(axis.begin);
  std::string out;
  for (int64_t matrices = 0;; ++matrices) {
    if (matrices == kMostMatrices && !whole) return out + "...\n";
    if (rank > 2) out += fmt::format("[{}, :, :]\n", fmt::join(at.begin(), at.end() - 2, ", "));
    std::vector<std::string> cells;
    size_t width = 0;
    for (int64_t row : rows)
      for (int64_t column : columns) {
        if (rank > 1) at[rank - 2] = row;
        at[rank - 1] = column;
        cells.push_back(row == kGap || column == kGap ? "..." : text(element_at(at)));
        width = std::max(width, cells.back().size());
      }
    constexpr size_t kWidth = 110;
    const size_t in_line = rank > 1 || whole ? columns.size() : std::max<size_t>(1, kWidth / (width + 1));
    for (size_t r = 0; r < rows.size(); ++r)
      for (size_t c = 0; c < columns.size(); ++c) {
        const int64_t label = rank > 1 ? rows[r] : columns[c];
        if (c % in_line == 0) out += label == kGap ? std::string("  ...:") : fmt::format("{:>5}:", label);
        out += fmt::format(" {:>{}}", cells[r * columns.size() + c], width);
        if ((c + 1) % in_line == 0 || c + 1 == columns.size()) out += '\n';
      }
    size_t axis = rank > 2 ? rank - 2 : 0;
    while (axis-- > 0) {
      if (++at[axis] < slice.axes[axis].end) break;
      at[axis] = slice.axes[axis].begin;
    }
    if (axis == size_t(-1)) return out;
  }
}

std::string TileView::summary() const {
  double least = INFINITY, most = -INFINITY, sum = 0;
  int64_t known = 0, finite = 0, at_least = 0, at_most = 0;
  for (int64_t i = 0; i < size(); ++i) {
    if (!has(i)) continue;
    ++known;
    const double x = number(i);
    if (!std::isfinite(x)) continue;
    ++finite;
    if (x < least) least = x, at_least = i;
    if (x > most) most = x, at_most = i;
    sum += x;
  }
  std::string out;
  if (finite && place_.elem == Elem::I1 && !place_.pointer)
    out = fmt::format("True {} of {} times", int64_t(sum), finite);
  else if (finite && place_.pointer)
    out = fmt::format("from {} to {}", text(at_least), text(at_most));
  else if (finite)
    out = fmt::format("from {:.6g} to {:.6g}, mean {:.6g}", least, most, sum / double(finite));
  if (known > finite) out += fmt::format("{}{} not finite", out.empty() ? "" : ", ", known - finite);
  if (known < size()) out += fmt::format("{}{} not known", out.empty() ? "" : ", ", size() - known);
  return out;
}

}  // namespace tegula
