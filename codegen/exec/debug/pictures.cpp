#include "codegen/exec/debug/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace tegula {

namespace {

constexpr uint32_t kLanes = 32;
constexpr int64_t kBanks = 32, kBankBytes = 4;

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

/// Cells of one size with labels of rows and columns around.
class Grid2D {
 public:
  Grid2D(const std::string& title, double cell_width, double cell_height) : width_(cell_width), height_(cell_height) {
    text(kLeft, 20, 14, "start", title);
  }
  void cell(int64_t row, int64_t column, const std::string& colour, const std::string& frame,
            const std::string& hover) {
    rows_ = std::max(rows_, row + 1), columns_ = std::max(columns_, column + 1);
    svg_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"{}><title>{}</title></rect>\n",
        x(column), y(row), width_, height_, colour, frame.empty() ? "" : fmt::format(" stroke=\"{}\"", frame),
        escaped(hover));
  }
  void label(int64_t row, int64_t column, double size, int line, const std::string& what) {
    text(x(column) + width_ / 2, y(row) + height_ / 2 + size * (line + 0.35), size, "middle", what);
  }
  void name_row(int64_t row, int64_t index) {
    text(kLeft - 4, y(row) + height_ / 2 + 3, 9, "end", std::to_string(index));
  }
  void name_column(int64_t column, int64_t index) {
    text(x(column) + width_ / 2, kTop - 4, 9, "middle", std::to_string(index));
  }
  std::string finish(const std::string& caption) {
    text(kLeft, y(rows_) + 18, 11, "start", caption);
    const double width = std::max(x(columns_) + 12, 480.0), height = y(rows_) + 32;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
               "{1:.0f}\" font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
               width, height) +
           svg_ + "</svg>\n";
  }

 private:
  static constexpr double kLeft = 40, kTop = 46;
  double x(int64_t column) const { return kLeft + double(column) * width_; }
  double y(int64_t row) const { return kTop + double(row) * height_; }
  void text(double x, double y, double size, const char* anchor, const std::string& what) {
    svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" text-anchor=\"{}\">{}</text>\n", x, y, size,
                        anchor, escaped(what));
  }

  double width_, height_;
  int64_t rows_ = 0, columns_ = 0;
  std::string svg_;
};

/// The last two axes of a slice; the others stand at their beginning.
struct Plane {
  TileSlice::Axis rows{0, 1}, columns{0, 1};
  std::vector<int64_t> at;

  explicit Plane(const TileSlice& slice) {
    for (const auto& axis : slice.axes) at.push_back(axis.begin);
    if (!at.empty()) columns = slice.axes.back();
    if (at.size() > 1) rows = slice.axes[at.size() - 2];
  }
  int64_t element(const TileView& tile, int64_t row, int64_t column) {
    if (!at.empty()) at.back() = column;
    if (at.size() > 1) at[at.size() - 2] = row;
    return tile.element_at(at);
  }
};

std::string colour_between(double part) {
  // Dark blue, green, yellow: dark to bright in print too.
  constexpr std::array<std::array<double, 3>, 4> kStops = {
      {{48, 18, 84}, {38, 103, 142}, {82, 184, 116}, {250, 231, 60}}};
  const double at = std::clamp(part, 0.0, 1.0) * (kStops.size() - 1);
  const size_t low = std::min(size_t(at), kStops.size() - 2);
  std::array<int, 3> rgb;
  for (size_t i = 0; i < 3; ++i)
    rgb[i] = int(std::lround(kStops[low][i] + (kStops[low + 1][i] - kStops[low][i]) * (at - double(low))));
  return fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]);
}

/// A store of a tile to a row-major array in shared memory, as threads would do it: each stores its neighbours along a
/// row by vectors of up to 16 bytes, and the lanes whose vectors make up 128 bytes go at a time: all of a warp by 4
/// bytes a lane, a quarter of them by 16.
class SharedStore {
 public:
  explicit SharedStore(const TileView& tile)
      : place_(tile.place()), bytes_(place_.pointer ? 8 : elem_bytes(place_.elem)) {
    while (vector_ * 2 * bytes_ <= kMostBytes && holds_vectors_of(vector_ * 2)) vector_ *= 2;
    for (uint32_t thread = 0; thread < threads(); ++thread)
      for (uint32_t reg = 0; reg < place_.registers; ++reg) {
        const int64_t first = element(thread, reg);
        if (first < 0 || first % vector_) continue;
        for (int64_t word : words_of(first)) words_[{turn_of(thread, reg), word % kBanks}].insert(word);
      }
  }

  /// How many different words the lanes that go together access in one of the banks of the element's vector, at most.
  size_t turns(TileHolder holder) const {
    const int64_t first = element(holder.thread, holder.reg) / vector_ * vector_;
    uint32_t reg = 0;
    while (element(holder.thread, reg) != first) ++reg;
    size_t most = 1;
    for (int64_t word : words_of(first))
      most = std::max(most, words_.at({turn_of(holder.thread, reg), word % kBanks}).size());
    return most;
  }

 private:
  static constexpr int64_t kMostBytes = 16, kBytesATime = 128;
  /// The warp, the part of its lanes, and the register with which the vector begins.
  using Turn = std::tuple<uint32_t, uint32_t, uint32_t>;

  uint32_t threads() const { return uint32_t(place_.elements.size() / std::max(place_.registers, 1u)); }
  int64_t element(uint32_t thread, uint32_t reg) const {
    return place_.elements[size_t(thread) * place_.registers + reg];
  }
  Turn turn_of(uint32_t thread, uint32_t reg) const {
    const auto together = uint32_t(std::min<int64_t>(kLanes, kBytesATime / std::max(vector_ * bytes_, kBankBytes)));
    return {thread / kLanes, thread % kLanes / together, reg};
  }
  std::vector<int64_t> words_of(int64_t first) const {
    std::vector<int64_t> words;
    for (int64_t byte = first * bytes_ / kBankBytes * kBankBytes; byte < (first + vector_) * bytes_; byte += kBankBytes)
      words.push_back(byte / kBankBytes);
    return words;
  }
  bool holds_vectors_of(int64_t elements) const {
    for (uint32_t thread = 0; thread < threads(); ++thread) {
      std::set<int64_t> held;
      for (uint32_t reg = 0; reg < place_.registers; ++reg)
        if (element(thread, reg) >= 0) held.insert(element(thread, reg));
      for (int64_t each : held)
        if (!held.contains(each ^ (elements / 2))) return false;
    }
    return true;
  }

  const RecordedPlace& place_;
  const int64_t bytes_;
  int64_t vector_ = 1;                                           ///< elements of a vector
  std::map<std::pair<Turn, int64_t>, std::set<int64_t>> words_;  ///< by turns and banks: the words accessed
};

}  // namespace

std::string heat_map(const TileView& tile, const std::string& title, const TileSlice& slice) {
  constexpr int64_t kMost = 128;
  Plane plane(slice);
  const auto step = [](TileSlice::Axis axis) { return (axis.end - axis.begin + kMost - 1) / kMost; };
  const int64_t row_step = step(plane.rows), column_step = step(plane.columns);
  double least = INFINITY, most = -INFINITY;
  for (int64_t row = plane.rows.begin; row < plane.rows.end; ++row)
    for (int64_t column = plane.columns.begin; column < plane.columns.end; ++column)
      if (const double x = tile.number(plane.element(tile, row, column)); std::isfinite(x))
        least = std::min(least, x), most = std::max(most, x);
  constexpr double kCell = 8;
  Grid2D grid(title, kCell, kCell);
  for (int64_t row = plane.rows.begin, r = 0; row < plane.rows.end; row += row_step, ++r) {
    if (r % 8 == 0) grid.name_row(r, row);
    for (int64_t column = plane.columns.begin, c = 0; column < plane.columns.end; column += column_step, ++c) {
      if (r == 0 && c % 8 == 0) grid.name_column(c, column);
      const int64_t element = plane.element(tile, row, column);
      const double x = tile.number(element);
      const std::string colour = !tile.has(element) ? "#c8c8c8"
                                 : !std::isfinite(x)
                                     ? "#e02020"
                                     : colour_between(most > least ? (x - least) / (most - least) : 0.5);
      grid.cell(r, c, colour, "", fmt::format("{} = {}", tile.coordinates(element), tile.text(element)));
    }
  }
  std::string caption = tile.type() + ", " + tile.summary();
  if (row_step * column_step > 1)
    caption += fmt::format("; every row of {} and column of {} drawn", row_step, column_step);
  return grid.finish(caption);
}

std::string layout_picture(const TileView& tile, const std::string& title, const TileSlice& slice) {
  constexpr int64_t kMost = 32;
  constexpr std::array<const char*, 8> kColours = {"#cfe8ff", "#ffe3c2", "#d8f3d0", "#f6d5ea",
                                                   "#fff5b8", "#d9d6f5", "#c9f0ef", "#e6e0d8"};
  Plane plane(slice);
  const SharedStore store(tile);
  size_t worst = 1;
  Grid2D grid(title, 44, 26);
  for (int64_t row = plane.rows.begin, r = 0; row < std::min(plane.rows.end, plane.rows.begin + kMost); ++row, ++r) {
    grid.name_row(r, row);
    for (int64_t column = plane.columns.begin, c = 0; column < std::min(plane.columns.end, plane.columns.begin + kMost);
         ++column, ++c) {
      if (r == 0) grid.name_column(c, column);
      const int64_t element = plane.element(tile, row, column);
      const std::vector<TileHolder> holders = tile.holders(element);
      if (holders.empty()) {
        grid.cell(r, c, "#c8c8c8", "#ffffff", fmt::format("{}: no thread has come", tile.coordinates(element)));
        continue;
      }
      const TileHolder& first = holders.front();
      const size_t turns = store.turns(first);
      worst = std::max(worst, turns);
      std::string hover = tile.coordinates(element) + ":";
      for (size_t i = 0; i < std::min<size_t>(holders.size(), 8); ++i)
        hover += fmt::format(" thread {} (warp {}, lane {}) register {};", holders[i].thread,
                             holders[i].thread / kLanes, holders[i].thread % kLanes, holders[i].reg);
      if (holders.size() > 8) hover += fmt::format(" and {} more;", holders.size() - 8);
      hover += fmt::format(" {} turns of its bank", turns);
      grid.cell(r, c, kColours[first.thread / kLanes % kColours.size()], turns > 1 ? "#e02020" : "#ffffff", hover);
      grid.label(r, c, 9, 0, fmt::format("t{}{}", first.thread, holders.size() > 1 ? "+" : ""));
      grid.label(r, c, 9, 1, fmt::format("r{}{}", first.reg, turns > 1 ? fmt::format(" x{}", turns) : ""));
    }
  }
  return grid.finish(fmt::format(
      "{}: thread and register of each element (+: copies in others), a colour a warp; red: {}", tile.type(),
      worst > 1 ? fmt::format("bank conflicts of a row-major store to shared memory, up to {} turns", worst)
                : std::string("no bank conflicts of a row-major store to shared memory")));
}

}  // namespace tegula
