#include "codegen/layout/warp_boxes.h"

#include <algorithm>
#include <bit>
#include <map>

#include "codegen/layout/makers.h"
#include "codegen/layout/shared_boxes.h"

namespace tegula {

namespace {

constexpr int kLeastRowBytes = 32, kLeastOfStretch = 16, kMostRowBytes = 128;
constexpr int64_t kLeastRows = 8;  // the period of a swizzle
constexpr int kMostGroupBits = 2;  // of warps that fill a box together

using Basis = LinearLayout::Basis;

// The axis along which a basis moves alone, and by how many bits; axis -1: it moves along none or several.
struct Move {
  int axis = -1, bit = 0;
};
Move move_of(const Basis& basis) {
  Move move;
  for (size_t axis = 0; axis < basis.size(); ++axis) {
    if (!basis[axis]) continue;
    if (move.axis >= 0 || !std::has_single_bit(uint32_t(basis[axis]))) return {};
    move = {int(axis), std::countr_zero(uint32_t(basis[axis]))};
  }
  return move;
}

class BoxFinder {
 public:
  BoxFinder(const LinearLayout& tile, int fast, int bytes, int least)
      : tile_(tile), shape_(tile.tile_shape()), fast_(fast), bytes_(bytes), least_(least), held_(shape_.size(), 0) {}

  std::optional<WarpBoxes> find() {
    if (!moves_one_axis_at_a_time() || !tile_.is_invertible()) return std::nullopt;
    for (Dim dim : {Dim::Register, Dim::Lane}) hold(dim, tile_.in_bits(dim));
    join_warps();
    if (!set_extents() || !lies_within(Dim::Lane, 5) || !lies_within(Dim::Warp, group_bits_)) return std::nullopt;
    make_piece();
    return cut() ? std::optional(std::move(out_)) : std::nullopt;
  }

 private:
  bool moves_one_axis_at_a_time() const {
    for (const auto& in : tile_.ins()) {
      if (in.dim != Dim::Register && !in.repeats.empty()) return false;
      for (const Basis& basis : in.bases)
        if (move_of(basis).axis < 0) return false;
    }
    return tile_.in_bits(Dim::Lane) == 5 && tile_.in_bits(Dim::Block) == 0;  // of one program of a cluster
  }

  void hold(Dim dim, int bits) {
    for (int bit = 0; bit < bits; ++bit) {
      const Move move = move_of(tile_.basis(dim, bit));
      held_[size_t(move.axis)] |= 1u << move.bit;
    }
  }
  // Bits of the axis, from the lowest one on, that a group of warps holds.
  int run(size_t axis) const { return std::countr_one(held_[axis]); }

  // Warps whose parts lie side by side along a row make it longer together.
  void join_warps() {
    while (group_bits_ < std::min(kMostGroupBits, tile_.in_bits(Dim::Warp)) &&
           (bytes_ << run(size_t(fast_))) < kMostRowBytes) {
      const Move move = move_of(tile_.basis(Dim::Warp, group_bits_));
      if (move.axis != fast_ || move.bit != run(size_t(fast_))) break;
      hold(Dim::Warp, ++group_bits_);
    }
    out_.warps = 1 << group_bits_;
  }

  bool set_extents() {
    int64_t rows = 1;
    int other_axes = 0;
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      const int64_t most = int(axis) == fast_ ? kMostRowBytes / bytes_ : kMaxBoxExtent;
      out_.extents.push_back(std::min(int64_t(1) << run(axis), most));
      if (int(axis) == fast_) continue;
      rows *= out_.extents.back();
      other_axes += shape_[axis] > 1;
    }
    const int row_bytes = int(out_.extents[size_t(fast_)]) * bytes_;
    out_.swizzle = row_bytes >= kLeastRowBytes ? row_bytes : 0;
    return row_bytes >= least_ && rows >= kLeastRows && other_axes == 1;
  }

  bool is_in_box(const Basis& basis) const {
    const Move move = move_of(basis);
    return basis[size_t(move.axis)] < out_.extents[size_t(move.axis)];
  }
  bool lies_within(Dim dim, int bits) const {
    for (int bit = 0; bit < bits; ++bit)
      if (!is_in_box(tile_.basis(dim, bit))) return false;
    return true;
  }

  void make_piece() {
    const size_t rank = shape_.size();
    std::vector<int64_t> extents = out_.extents;
    LinearLayout::In registers{Dim::Register, {}}, lanes{Dim::Lane, {}}, warps{Dim::Warp, {}}, groups{Dim::Warp, {}};
    for (int bit = 0; bit < tile_.in_bits(Dim::Register); ++bit)
      if (is_in_box(tile_.basis(Dim::Register, bit))) registers.bases.push_back(tile_.basis(Dim::Register, bit));
    for (int bit = 0; bit < 5; ++bit) lanes.bases.push_back(tile_.basis(Dim::Lane, bit));
    for (int bit = 0; bit < tile_.in_bits(Dim::Warp); ++bit) {
      Basis basis = tile_.basis(Dim::Warp, bit);
      const bool joined = bit < group_bits_;
      groups.bases.push_back(joined ? Basis(rank, 0) : basis);
      if (!joined) {
        const size_t axis = size_t(move_of(basis).axis);
        basis[axis] = int32_t(extents[axis]);
        extents[axis] *= 2;
      }
      warps.bases.push_back(std::move(basis));
    }
    std::vector<LinearLayout::Out> outs;
    for (size_t axis = 0; axis < rank; ++axis) outs.push_back({tile_dim(int(axis)), int32_t(extents[axis])});
    out_.piece = LinearLayout({std::move(registers), std::move(lanes), std::move(warps)}, std::move(outs));
    out_.groups = LinearLayout({std::move(groups)}, tile_.outs());
    std::vector<int> order{fast_};
    for (int axis = int(rank) - 1; axis >= 0; --axis)
      if (axis != fast_) order.push_back(axis);
    out_.shared = shared_layout_of_rows(extents, order, 8 * bytes_);
  }

  // Assigns the registers to pieces; whether each box lies in one piece in shared memory.
  bool cut() {
    std::map<std::vector<int64_t>, size_t> numbers;
    for (int32_t r = 0; r < tile_.in_size(Dim::Register); ++r) {
      std::vector<int64_t> first;
      const Basis at = tile_.apply({{Dim::Register, r}});
      for (size_t axis = 0; axis < at.size(); ++axis)
        first.push_back(at[axis] / out_.extents[axis] * out_.extents[axis]);
      const auto [number, is_new] = numbers.try_emplace(first, out_.pieces.size());
      if (is_new) out_.pieces.push_back({{}, first});
      out_.pieces[number->second].registers.push_back(r);
    }
    const auto boxes = boxes_of(out_.shared, 8 * bytes_);
    if (!boxes || boxes->swizzle != out_.swizzle) return false;
    for (size_t axis = 0; axis < shape_.size(); ++axis)
      if (boxes->extents[axis] % out_.extents[axis]) return false;
    return std::all_of(out_.pieces.begin(), out_.pieces.end(), [&](const WarpBoxes::Piece& piece) {
      return int32_t(piece.registers.size()) == out_.piece.in_size(Dim::Register);
    });
  }

  const LinearLayout& tile_;
  const std::vector<int64_t> shape_;
  const int fast_, bytes_, least_;
  std::vector<uint32_t> held_;  // by a group of warps: bits of each axis
  int group_bits_ = 0;
  WarpBoxes out_{};
};

// A stretch of a tile's rows as a tile, and the registers that hold it; nullopt where these are not told apart by bits.
struct PartOfTile {
  LinearLayout layout;
  std::vector<int> registers;
};
std::optional<PartOfTile> part_of(const LinearLayout& tile, size_t fast, const Stretch& stretch) {
  std::vector<int> registers;
  std::vector<Basis> at;
  for (int32_t r = 0; r < tile.in_size(Dim::Register); ++r) {
    Basis place = tile.apply({{Dim::Register, r}});
    if (place[fast] < stretch.first || place[fast] >= stretch.first + stretch.count) continue;
    place[fast] -= int32_t(stretch.first);
    registers.push_back(r);
    at.push_back(std::move(place));
  }
  std::vector<LinearLayout::In> ins{{Dim::Register, {}}};
  for (size_t bit = 1; bit < at.size(); bit *= 2) ins[0].bases.push_back(at[bit]);
  for (const LinearLayout::In& in : tile.ins())
    if (in.dim != Dim::Register) ins.push_back(in);
  std::vector<LinearLayout::Out> outs = tile.outs();
  outs[fast].size = int32_t(stretch.count);
  std::string why;
  auto layout = LinearLayout::try_create(std::move(ins), std::move(outs), &why);
  if (!layout || layout->in_size(Dim::Register) != int32_t(at.size())) return std::nullopt;
  for (size_t r = 0; r < at.size(); ++r)
    if (layout->apply({{Dim::Register, int32_t(r)}}) != at[r]) return std::nullopt;
  return PartOfTile{std::move(*layout), std::move(registers)};
}

}  // namespace

std::vector<Stretch> stretches_of(int64_t extent) {
  std::vector<Stretch> stretches;
  for (int64_t first = 0; first < extent; first += stretches.back().count)
    stretches.push_back({first, int64_t(std::bit_floor(uint64_t(extent - first)))});
  return stretches;
}

std::optional<Stretch> stretch_with(int64_t elements, const std::vector<int64_t>& tile, int fast) {
  const int64_t extent = tile[size_t(fast)];
  int64_t rows = 1;
  for (int64_t n : tile) rows *= n;
  rows /= extent;
  if (elements == rows * extent) return Stretch();
  for (const Stretch& stretch : stretches_of(extent))
    if (elements == rows * stretch.count) return stretch;
  return std::nullopt;
}

std::optional<WarpBoxes> warp_boxes(const LinearLayout& tile, int fast, int bits, const Stretch& stretch) {
  const int bytes = bits / 8;
  if (bytes == 0 || fast >= int(tile.outs().size())) return std::nullopt;
  if (stretch.count == 0) return BoxFinder(tile, fast, bytes, kLeastRowBytes).find();
  const auto part = part_of(tile, size_t(fast), stretch);
  if (!part) return std::nullopt;
  auto boxes = BoxFinder(part->layout, fast, bytes, kLeastOfStretch).find();
  for (size_t i = 0; boxes && i < boxes->pieces.size(); ++i) {
    WarpBoxes::Piece& piece = boxes->pieces[i];
    for (int& r : piece.registers) r = part->registers[size_t(r)];
    piece.first[size_t(fast)] += stretch.first;
  }
  return boxes;
}

}  // namespace tegula
