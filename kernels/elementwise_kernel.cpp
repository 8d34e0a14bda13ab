#include "kernels/elementwise_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/recording.h"

namespace tegula::kernels::detail {

namespace {

/// A tile of ROWS x COLS elements along the last two extents, at one place of those before.
class ElementRecording {
 public:
  explicit ElementRecording(const SpaceRecording& r)
      : r_(r),
        tile_rows_(r.constant<int64_t>("ROWS")),
        tile_cols_(r.constant<int64_t>("COLS")),
        far_(r.constant<bool>("FAR")),
        outer_(size_t(r.rank() - 2)) {
    const int rows = r.rank() - 2, cols = rows + 1;
    Tile piece = program_id(0), band = program_id(1), rest = program_id(2);
    if (r.constant<bool>("LINEAR")) {
      Tile pieces = cdiv(r.extent(cols), tile_cols_), bands = cdiv(r.extent(rows), tile_rows_);
      rest = floordiv(floordiv(piece, pieces), bands);
      band = floordiv(piece, pieces) % bands;
      piece = piece % pieces;
    }
    first_col_ = piece * tile_cols_;
    first_row_ = band * tile_rows_;
    for (int d = rows - 1; d >= 0; --d) {
      outer_[size_t(d)] = d > 0 ? rest % r.extent(d) : rest;
      if (d > 0) rest = floordiv(rest, r.extent(d));
    }
    row_ = arange(0, tile_rows_)[{all, none}];
    col_ = arange(0, tile_cols_)[{none, all}];
    row_mask_ = inside(first_row_ + row_, r.extent(rows), r.constant<bool>("EVEN_ROWS"));
    col_mask_ = inside(first_col_ + col_, r.extent(cols), r.constant<bool>("EVEN_COLS"));
  }

  tegula::Operand shape() const { return list({tile_rows_, tile_cols_}); }
  Tile mask() const { return row_mask_ & col_mask_; }

  Tile load_input(size_t tensor) const {
    const bool by_row = !r_.same_along_rows(tensor), by_col = !r_.same_along_cols(tensor);
    const Tile at = moved(r_.pointer(tensor), tensor, by_row, by_col);
    if (!by_row && !by_col) return widened(load(at));
    return widened(load(at, by_row && by_col ? mask() : by_row ? row_mask_ : col_mask_, 0));
  }

  Tile number() const {
    Tile zero = 0;
    return broadcast_to(moved(zero.to(tl::int64), r_.tensors(), true, true), shape());
  }

  void store_output(size_t tensor, const Tile& result) const {
    const std::optional<ir::Type> type = recorded_type(result);
    if (!type || !fits(type->shape))
      return refuse_result("the function", result,
                           fmt::format("tiles of its inputs' shape: [{}, {}]", tile_rows_, tile_cols_),
                           "it maps elements; what a whole row gives, such as a sum, takes row_kernel()");
    store(moved(r_.pointer(tensor), tensor, true, true), broadcast_to(converted(result, r_.elem(tensor)), shape()),
          mask());
  }

 private:
  bool fits(const ir::Shape& shape) const {
    if (shape.empty()) return true;
    return shape.size() == 2 && (shape[0] == 1 || shape[0] == tile_rows_) && (shape[1] == 1 || shape[1] == tile_cols_);
  }

  /// `start` (an address or a number) moved to the elements of the tile, along rows and columns where they differ.
  Tile moved(Tile start, size_t tensor, bool by_row, bool by_col) const {
    const int rows = r_.rank() - 2, cols = rows + 1;
    for (int d = 0; d < rows; ++d) start = start + outer_[size_t(d)].to(tl::int64) * r_.stride(tensor, d);
    auto wide = [&](const Tile& x) { return far_ ? x.to(tl::int64) : x; };
    if (by_row) start = start + first_row_.to(tl::int64) * r_.stride(tensor, rows);
    if (by_col) start = start + first_col_.to(tl::int64) * r_.stride(tensor, cols);
    if (by_row) start = start + wide(row_) * r_.stride(tensor, rows);
    if (by_col) start = start + wide(col_) * r_.stride(tensor, cols);
    return start;
  }

  const SpaceRecording& r_;
  int64_t tile_rows_, tile_cols_;
  bool far_;
  std::vector<Tile> outer_;
  Tile first_row_, first_col_, row_, col_, row_mask_, col_mask_;
};

/// Whether a tensor's elements lie side by side along an extent, and not along the last one.
bool is_turned(const IterationSpace& space, size_t tensor, int dim) {
  return space.strides[tensor][size_t(dim)] == 1 && space.strides[tensor][size_t(space.rank) - 1] > 1;
}

class ElementwiseKernel : public SpaceKernel {
 public:
  ElementwiseKernel(const Form& form, ElementFunction function)
      : SpaceKernel(form, form.placed,
                    {"SAME", "EIGHTS", "FAR", "TURNED", "LINEAR", "ROWS", "COLS", "EVEN_ROWS", "EVEN_COLS"}),
        function_(std::move(function)) {}

 protected:
  IterationSpace arranged(std::span<const Tensor> outputs, std::span<const Tensor> inputs) const override {
    IterationSpace space = IterationSpace::broadcast(form().name, outputs, inputs, false);
    if (numbered()) space.add_numbers();
    space.sort();
    space.join(space.rank);
    space.pad(2);
    for (size_t i = 0; i < space.tensors; ++i)
      for (int d = 0; d < space.rank - 1; ++d)
        if (is_turned(space, i, d)) {
          space.move_back(d, space.rank - 2);
          return space;
        }
    return space;
  }

  // Indices within a tile, times their strides, are below 2^31 unless FAR.
  std::vector<ConstexprArg> flags(const IterationSpace& space) const override {
    const size_t rows = size_t(space.rank) - 2, cols = rows + 1;
    int64_t same = 0;
    bool far = false, turned = false;
    for (size_t i = 0; i < space.tensors; ++i) {
      const auto& strides = space.strides[i];
      far = far || strides[rows] > 1 << 22 || strides[cols] > 1 << 18;
      turned = turned || is_turned(space, i, int(rows));
      if (i >= form().outputs)
        same |= int64_t(strides[cols] == 0) << (2 * i) | int64_t(strides[rows] == 0) << (2 * i + 1);
    }
    return {
        {"SAME", same}, {"EIGHTS", in_eights(space)}, {"FAR", far}, {"TURNED", turned}, {"LINEAR", is_linear(space)}};
  }

  Sizes sizes(const IterationSpace& space) const override {
    const size_t rank = size_t(space.rank);
    return {space.extents[rank - 2], space.extents[rank - 1], space.elements() / 1024};
  }

  void record(const SpaceRecording& r) const override {
    const ElementRecording tile(r);
    ElementTile place;
    if (numbered()) place = {tile.number(), tile.mask()};
    std::vector<Tile> inputs;
    for (size_t i = r.outputs(); i < r.tensors(); ++i) inputs.push_back(tile.load_input(i));
    const std::vector<Tile> results = function_(place, inputs, r.args(), first_own(r.rank()));
    for (size_t i = 0; i < results.size(); ++i) tile.store_output(i, results[i]);
  }

  // Runs of elements; tiles of several rows, for which vectors are loaded once; and tiles of which both sides are whole
  // sectors.
  Autotune tuning() const override {
    static constexpr std::array<std::pair<int64_t, int64_t>, 19> kTiles{{{1, 1024},
                                                                         {1, 2048},
                                                                         {1, 512},
                                                                         {1, 4096},
                                                                         {1, 256},
                                                                         {4, 1024},
                                                                         {2, 2048},
                                                                         {8, 512},
                                                                         {16, 64},
                                                                         {64, 64},
                                                                         {32, 64},
                                                                         {64, 32},
                                                                         {32, 32},
                                                                         {128, 32},
                                                                         {32, 128},
                                                                         {64, 128},
                                                                         {128, 64},
                                                                         {128, 128},
                                                                         {1, 64}}};
    Autotune how;
    for (const auto& [rows, cols] : kTiles)
      for (int warps : {4, 8, 2, 16}) how.configs.push_back(config({{"ROWS", rows}, {"COLS", cols}}, num_warps(warps)));
    how.key = {"rows_class", "cols_class"};
    how.prune = fitting;
    return how;
  }

  std::vector<Heuristic> heuristics() const override {
    auto even = [](const char* param, const char* extent, const char* tile) {
      return Heuristic{param, [=](const LaunchArgs& args) { return args.integer(extent) % args.integer(tile) == 0; }};
    };
    return {even("EVEN_ROWS", "rows", "ROWS"), even("EVEN_COLS", "cols", "COLS")};
  }

  Grid grid(const IterationSpace& space, const Config& config, int) const override {
    auto tiles = [](int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; };
    const size_t rows = size_t(space.rank) - 2;
    const int64_t bands = tiles(space.extents[rows], config["ROWS"]), outer = outer_places(space);
    const int64_t pieces = tiles(space.extents[rows + 1], config["COLS"]);
    if (is_linear(space)) return {unsigned(pieces * bands * outer)};
    return {unsigned(pieces), unsigned(bands), unsigned(outer)};
  }

 private:
  /// Places along the extents that tiles do not have.
  static int64_t outer_places(const IterationSpace& space) {
    int64_t places = 1;
    for (size_t d = 0; d + 2 < size_t(space.rank); ++d) places *= space.extents[d];
    return places;
  }
  /// Whether the grid's first axis alone has room for all programs, which then divide their numbers.
  static bool is_linear(const IterationSpace& space) {
    constexpr int64_t kMostPrograms = 65535;  // along the second axis and the third
    return space.extents[size_t(space.rank) - 2] > kMostPrograms || outer_places(space) > kMostPrograms;
  }
  /// Tiles that are filled to more than a half, with 4 to 32 elements a thread.
  static std::vector<Config> fitting(const std::vector<Config>& configs, const LaunchArgs& args) {
    const int64_t rows = args.integer("rows"), cols = args.integer("cols");
    const bool turned = args.integer("TURNED") != 0;
    std::vector<Config> kept;
    for (const Config& c : configs) {
      const int64_t high = c["ROWS"], wide = c["COLS"], elements = high * wide / (32 * *c.num_warps);
      const bool filled = (high == 1 || high < 2 * rows) && wide < 2 * cols;
      if (filled && elements >= 4 && elements <= 32 && (!turned || std::min(high, wide) >= 32)) kept.push_back(c);
    }
    if (kept.empty()) kept.push_back(turned ? configs[4 * 12] : configs.back());
    return kept;
  }

  ElementFunction function_;
};

}  // namespace

std::shared_ptr<const SpaceKernel> make_elementwise(const SpaceKernel::Form& form, ElementFunction function) {
  return std::make_shared<ElementwiseKernel>(form, std::move(function));
}

}  // namespace tegula::kernels::detail
