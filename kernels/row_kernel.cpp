#include "kernels/row_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/kernels.h"
#include "kernels/launch_rules.h"
#include "kernels/recording.h"

namespace tegula::kernels {

namespace detail {

using Kind = RowTile::Kind;

/// What a recording knows of the reductions of a function over rows in pieces. The function is recorded once to see
/// them, once for each of them, adding up its pieces, and once for the results, each time with all before it known.
struct RowPass {
  struct Reduction {
    Kind kind;
    Elem elem;
  };
  std::vector<Reduction> seen;  ///< in the order of the calls
  std::vector<Tile> known;      ///< their results
  Tile* total = nullptr;        ///< of the reduction after the known ones, element by element; null: not asked for
  size_t next = 0;              ///< number of the call to come

  /// The place that the function gets, for one more run of it.
  void begin(RowTile& row) {
    next = 0;
    row.pass_ = this;
  }
};

namespace {

tegula::Operand neutral(Kind kind, Elem elem) {
  if (kind == Kind::Sum) return 0;
  const bool largest = kind == Kind::Min;
  if (is_float(elem)) return largest ? inf : -inf;
  const int bits = elem_bits(elem) - (is_signed(elem) ? 1 : 0);
  if (largest) return bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  return is_signed(elem) ? -(int64_t(1) << (bits - 1)) - (int64_t(1) << (bits - 1)) : int64_t(0);
}

Tile combined(Kind kind, const Tile& a, const Tile& b) {
  return kind == Kind::Sum ? a + b : kind == Kind::Max ? maximum(a, b) : minimum(a, b);
}

Tile along_row(Kind kind, const Tile& x) {
  const Tile result = kind == Kind::Sum ? sum(x, 1) : kind == Kind::Max ? max(x, 1) : min(x, 1);
  return result[{all, none}];
}

}  // namespace

}  // namespace detail

Tile RowTile::reduced(Kind kind, const Tile& x) const {
  using namespace detail;
  const std::optional<ir::Type> type = recorded_type(x);
  if (!type) return x;  // a mistake that is reported
  const Tile whole = where(mask, x, neutral(kind, type->elem));
  if (pass_) {
    const size_t i = pass_->next++;
    if (i == pass_->seen.size() && pass_->known.empty() && !pass_->total) pass_->seen.push_back({kind, type->elem});
    if (i < pass_->known.size()) return pass_->known[i];
    if (i == pass_->known.size() && pass_->total) *pass_->total = combined(kind, *pass_->total, whole);
  }
  return along_row(kind, whole);
}

Tile RowTile::sum(const Tile& x) const { return reduced(Kind::Sum, x); }
Tile RowTile::mean(const Tile& x) const { return reduced(Kind::Sum, x) / cols; }
Tile RowTile::max(const Tile& x) const { return reduced(Kind::Max, x); }
Tile RowTile::min(const Tile& x) const { return reduced(Kind::Min, x); }

namespace detail {

namespace {

/// Tiles of some rows and BLOCK columns, the last extent of the space; the extents before it are those of rows.
class RowRecording {
 public:
  RowRecording(const SpaceRecording& r, int64_t tile_rows, int64_t block)
      : r_(r), tile_rows_(tile_rows), block_(block), far_(r.constant<bool>("FAR")) {}

  /// The tile of rows number `tile`, of columns from `start` on; `even`: these are all there.
  RowTile at(const Tile& tile, const Tile& start, bool even) {
    RowTile row;
    row.index = tile * tile_rows_ + arange(0, tile_rows_)[{all, none}];
    row.col = start + arange(0, block_)[{none, all}];
    row.cols = r_.extent(r_.rank() - 1);
    col_mask_ = inside(row.col, row.cols, even);
    row_mask_ = inside(row.index, r_.param("rows"), tile_rows_ == 1);
    row.mask = tile_rows_ == 1 ? col_mask_ : col_mask_ & row_mask_;
    split(row.index);
    return row;
  }

  Tile load_input(size_t tensor, const RowTile& row) const {
    const bool by_row = !r_.same_along_rows(tensor), by_col = !r_.same_along_cols(tensor);
    const Tile at = moved(r_.pointer(tensor), tensor, row, by_row, by_col);
    if (!by_row && !by_col) return widened(load(at));
    const std::string eviction = r_.constant<std::string>("EVICTION");
    return widened(load(at,
                        by_row && by_col ? row.mask
                        : by_row         ? row_mask_
                                         : col_mask_,
                        0, "eviction_policy"_a = eviction));
  }

  /// `last`: whether this is the last of a row's tiles, which stores what there is one of a row.
  void store_output(size_t tensor, const Tile& result, const RowTile& row, const Tile& last) const {
    const bool one_a_row = r_.same_along_cols(tensor);
    const std::optional<ir::Type> type = recorded_type(result);
    const int64_t width = one_a_row ? 1 : block_;
    auto fits = [&](const ir::Shape& shape) {
      return shape.empty() ||
             (shape.size() == 2 && (shape[0] == 1 || shape[0] == tile_rows_) && (shape[1] == 1 || shape[1] == width));
    };
    if (!type || !fits(type->shape))
      return refuse_result(
          fmt::format("result {} of the function", tensor), result,
          fmt::format("a tile of [{}, {}]{}", tile_rows_, width, one_a_row ? ": the output has one number a row" : ""),
          "row.sum(x), row.max(x) and their like give one number a row");
    const Tile value = broadcast_to(converted(result, r_.elem(tensor)), list({tile_rows_, width}));
    const Tile at = moved(r_.pointer(tensor), tensor, row, true, !one_a_row);
    store(at, value, one_a_row ? row_mask_ & last : row.mask);
  }

 private:
  /// Indices along the extents before the last one.
  void split(const Tile& index) {
    const int count = r_.rank() - 1;
    places_.assign(size_t(count), index);
    Tile rest = index;
    for (int d = count - 1; d > 0; --d) {
      places_[size_t(d)] = rest % r_.extent(d);
      rest = floordiv(rest, r_.extent(d));
    }
    places_[0] = rest;
  }

  Tile moved(Tile start, size_t tensor, const RowTile& row, bool by_row, bool by_col) const {
    if (by_row)
      for (size_t d = 0; d < places_.size(); ++d) start = start + places_[d].to(tl::int64) * r_.stride(tensor, int(d));
    if (by_col) start = start + (far_ ? row.col.to(tl::int64) : row.col) * r_.stride(tensor, r_.rank() - 1);
    return start;
  }

  const SpaceRecording& r_;
  int64_t tile_rows_, block_;
  bool far_;
  Tile row_mask_, col_mask_;
  std::vector<Tile> places_;
};

/// Elements of a tile's row, as extent() in tiles.py has it.
int64_t block_of(int64_t cols, int64_t size, int64_t warps, int64_t rows) {
  const int64_t shared =
      32 * std::max<int64_t>(1, warps / rows) * (cols % 16 == 0 ? std::max<int64_t>(1, 8 / size) : 1);
  const int64_t count = (cols + shared - 1) / shared;
  int64_t step = 1;
  while (count > 15 * step) step *= 2;
  return std::min((count + step - 1) / step * step * shared, int64_t(std::bit_ceil(uint64_t(cols))));
}

int64_t block_of(const LaunchArgs& args, int64_t warps, int64_t rows) {
  const std::optional<Elem> elem = args.pointer("x_ptr").elem;
  return block_of(args.integer("cols"), elem ? elem_bytes(*elem) : 4, warps, rows);
}

class RowKernel : public SpaceKernel {
 public:
  RowKernel(const Form& form, RowFunction function)
      : SpaceKernel(form, false, {"SAME", "EIGHTS", "FAR", "ROWS", "STAGES", "PIECE", "EVICTION", "BLOCK", "EVEN"}),
        function_(std::move(function)) {}

 protected:
  IterationSpace arranged(std::span<const Tensor> outputs, std::span<const Tensor> inputs) const override {
    IterationSpace space = IterationSpace::broadcast(form().name, outputs, inputs, true);
    space.pad(2);
    space.join(space.rank - 1);
    space.pad(2);
    const int64_t cols = space.extents[size_t(space.rank) - 1];
    if (const int64_t rows = cols > 0 ? space.elements() / cols : 0; rows > Tensor::kMostExtent)
      throw LaunchError(fmt::format("{}: {} rows, expected {} at most", form().name, rows, Tensor::kMostExtent));
    return space;
  }

  std::vector<ConstexprArg> flags(const IterationSpace& space) const override {
    const size_t cols = size_t(space.rank) - 1;
    int64_t same = 0;
    bool far = false;
    for (size_t i = 0; i < space.tensors; ++i) {
      const auto& strides = space.strides[i];
      far = far || strides[cols] * (space.extents[cols] + 65536) > INT32_MAX;
      const bool same_rows = std::all_of(strides.begin(), strides.begin() + cols, [](int64_t s) { return s == 0; });
      same |= int64_t(strides[cols] == 0) << (2 * i);
      if (i >= form().outputs) same |= int64_t(same_rows) << (2 * i + 1);
    }
    return {{"SAME", same}, {"EIGHTS", in_eights(space)}, {"FAR", far}};
  }

  Sizes sizes(const IterationSpace& space) const override {
    const int64_t cols = space.extents[size_t(space.rank) - 1], rows = space.elements() / cols;
    return {rows, cols, rows};
  }

  void record(const SpaceRecording& r) const override {
    if (r.constant<int64_t>("PIECE") > 0) return record_pieces(r);
    const int64_t tile_rows = r.constant<int64_t>("ROWS"), stages = r.constant<int64_t>("STAGES");
    const bool even = r.constant<bool>("EVEN");
    RowRecording tiles(r, tile_rows, r.constant<int64_t>("BLOCK"));
    // Inputs that all rows share are loaded once.
    std::vector<Tile> shared(r.tensors());
    const RowTile first = tiles.at(program_id(0), 0, even);
    for (size_t i = r.outputs(); i < r.tensors(); ++i)
      if (r.same_along_rows(i)) shared[i] = tiles.load_input(i, first);
    auto one = [&](const Tile& tile) {
      const RowTile row = tiles.at(tile, 0, even);
      std::vector<Tile> inputs;
      for (size_t i = r.outputs(); i < r.tensors(); ++i)
        inputs.push_back(r.same_along_rows(i) ? shared[i] : tiles.load_input(i, row));
      store_all(r, tiles, function_(row, inputs, r.args(), first_own(r.rank())), row, inside(row.index, 0, true));
    };
    if (stages == 0) return one(program_id(0));
    for (Tile tile :
         range(program_id(0), cdiv(r.param("rows"), tile_rows), num_programs(0), {.num_stages = int(stages)}))
      one(tile);
  }

  /// The configurations of the library's norms, as far as registers hold the inputs.
  Autotune tuning() const override {
    Autotune how = *library_program("norm.py").kernel("norm").autotuning();
    std::erase_if(how.configs, [](const Config& c) { return c["ROWS"] == 0; });  // programs know nothing of each other
    how.prune = [inputs = int64_t(form().inputs), norm = how.prune](const std::vector<Config>& all,
                                                                    const LaunchArgs& args) {
      std::vector<Config> kept;
      for (const Config& c : norm(all, args))
        if (holds(c, args, inputs)) kept.push_back(c);
      if (kept.empty()) kept.push_back(all.back());  // in pieces
      return kept;
    };
    return how;
  }

  std::vector<Heuristic> heuristics() const override {
    return {{"BLOCK",
             [](const LaunchArgs& args) {
               return block_of(args, args.integer("num_warps") * args.integer("num_ctas"), args.integer("ROWS"));
             }},
            {"EVEN", [](const LaunchArgs& args) { return args.integer("BLOCK") == args.integer("cols"); }}};
  }

  Grid grid(const IterationSpace& space, const Config& config, int num_sms) const override {
    const Sizes size = sizes(space);
    return grid_of_tiles(size.rows, size.cols, config, num_sms);
  }

 private:
  /// Whether about that many elements of each input, fp32, fit the threads' registers.
  static bool holds(const Config& config, const LaunchArgs& args, int64_t inputs) {
    if (config["PIECE"] > 0 || inputs <= 3) return true;
    const int64_t warps = *config.num_warps * config.num_ctas.value_or(1), rows = config["ROWS"];
    const int64_t limit = config.maxnreg.value_or(int(std::min<int64_t>(255, 65536 / (32 * *config.num_warps))));
    return block_of(args, warps, rows) * rows * inputs <= limit * 32 * warps;
  }

  static void store_all(const SpaceRecording& r, const RowRecording& tiles, const std::vector<Tile>& results,
                        const RowTile& row, const Tile& last) {
    for (size_t i = 0; i < results.size() && i < r.outputs(); ++i) tiles.store_output(i, results[i], row, last);
  }

  void record_pieces(const SpaceRecording& r) const {
    const int64_t piece = r.constant<int64_t>("PIECE");
    const LoopOptions ahead{.num_stages = int(r.constant<int64_t>("STAGES"))};
    RowRecording tiles(r, 1, piece);
    RowPass pass;
    auto run = [&](const Tile& start, RowTile& row) {
      row = tiles.at(program_id(0), start, false);
      pass.begin(row);
      std::vector<Tile> inputs;
      for (size_t i = r.outputs(); i < r.tensors(); ++i) inputs.push_back(tiles.load_input(i, row));
      return function_(row, inputs, r.args(), first_own(r.rank()));
    };
    const Tile cols = r.extent(r.rank() - 1);
    RowTile row;
    run(0, row);  // to see the reductions; nothing is done with the results
    for (const RowPass::Reduction& reduction : std::vector(pass.seen)) {
      Tile total = full(list({1, piece}), neutral(reduction.kind, reduction.elem), reduction.elem);
      pass.total = &total;
      for (Tile start : range(0, cols, piece, ahead)) run(start, row);
      pass.total = nullptr;
      pass.known.push_back(along_row(reduction.kind, total));
    }
    for (Tile start : range(0, cols, piece, ahead)) {
      const std::vector<Tile> results = run(start, row);
      store_all(r, tiles, results, row, start + piece >= cols);
    }
  }

  RowFunction function_;
};

}  // namespace

std::shared_ptr<const SpaceKernel> make_rows(const SpaceKernel::Form& form, RowFunction function) {
  return std::make_shared<RowKernel>(form, std::move(function));
}

}  // namespace detail
}  // namespace tegula::kernels
