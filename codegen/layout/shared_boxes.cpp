#include "codegen/layout/shared_boxes.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

namespace tegula {

namespace {

constexpr int kGroupBytes = 16, kMaxRowBytes = 128;
constexpr int64_t kRowsOfSwizzle = 8;
constexpr int kFirstRowBit = 7;  // of a byte's address: the lowest one that a swizzle looks at

int log2_of(int64_t n) { return std::countr_zero(uint64_t(n)); }

// Reads a box off the bits of an offset, beginning with the lowest one.
class BoxReader {
 public:
  BoxReader(const LinearLayout& shared, int bytes)
      : bases_(shared.ins()[0].bases), repeats_(shared.ins()[0].repeats), outs_(shared.outs()), bytes_(bytes) {
    out_.extents.assign(outs_.size(), 1);
  }

  std::optional<SharedBoxes> read(int swizzle) {
    row();
    const int64_t row_bytes = out_.order.empty() ? 0 : out_.extents[size_t(fast())] * bytes_;
    if (row_bytes < kGroupBytes || (swizzle && swizzle != row_bytes)) return std::nullopt;
    out_.swizzle = swizzle;
    while (next_ < bases_.size() && take_row_bit()) ++next_;
    for (int axis = 0; axis < int(outs_.size()); ++axis)
      if (std::find(out_.order.begin(), out_.order.end(), axis) == out_.order.end()) out_.order.push_back(axis);
    const int64_t taken = take_repeats() ? 1 : 0;
    const bool whole =
        std::all_of(bases_.begin() + int64_t(next_), bases_.end(), [&](auto& basis) { return moves_boxes(basis); }) &&
        std::all_of(repeats_.begin() + taken, repeats_.end(), [&](auto& repeat) { return moves_boxes(repeat.image); });
    return whole && begin_with_pattern() ? std::optional(out_) : std::nullopt;
  }

 private:
  // Whether the swizzle's pattern begins anew in each box, if there are several.
  bool begin_with_pattern() const {
    int64_t rows = 1, others = 1;
    for (size_t axis = 0; axis < outs_.size(); ++axis) {
      if (int(axis) != fast()) rows *= out_.extents[axis];
      others *= outs_[axis].size / out_.extents[axis];
    }
    return out_.swizzle == 0 || others == 1 || rows % kRowsOfSwizzle == 0;
  }

  bool moves_boxes(const LinearLayout::Basis& basis) const {
    for (size_t axis = 0; axis < basis.size(); ++axis)
      if (basis[axis] % out_.extents[axis]) return false;
    return true;
  }

  int fast() const { return out_.order[0]; }

  // The axis along which the basis moves by what the box has of it so far; the fast axis only if no other one.
  int grown_axis(const LinearLayout::Basis& basis, bool first) const {
    int grown = -1;
    for (int axis = 0; axis < int(basis.size()); ++axis) {
      if (!basis[size_t(axis)] || (!first && axis == fast())) continue;
      if (grown >= 0 || basis[size_t(axis)] != out_.extents[size_t(axis)]) return -1;
      grown = axis;
    }
    return grown;
  }

  void row() {
    for (int64_t elements = 1; next_ < bases_.size() && elements * bytes_ < kMaxRowBytes; ++next_, elements *= 2) {
      const int axis = grown_axis(bases_[next_], true);
      if (axis < 0 || (!out_.order.empty() && axis != fast())) return;
      if (out_.order.empty()) out_.order.push_back(axis);
      out_.extents[size_t(axis)] *= 2;
    }
  }

  // Whether the next bit of the offset is one of a row's number within the box.
  bool take_row_bit() {
    const LinearLayout::Basis& basis = bases_[next_];
    const int axis = grown_axis(basis, false);
    if (axis < 0 || out_.extents[size_t(axis)] == kMaxBoxExtent || basis[size_t(fast())] != moved_by_swizzle())
      return false;
    if (axis != out_.order.back()) {
      if (std::find(out_.order.begin(), out_.order.end(), axis) != out_.order.end()) return false;
      out_.order.push_back(axis);
    }
    out_.extents[size_t(axis)] *= 2;
    return true;
  }

  // Where whole blocks of the tile lie one after the other along the box's last axis, all that has rows enough for the
  // swizzle's pattern is such a box that divides them. Whether it is larger than a block.
  bool take_repeats() {
    if (next_ < bases_.size() || repeats_.empty()) return false;
    size_t last = out_.order.size() - 1;
    while (out_.extents[size_t(out_.order[last])] == 1) --last;
    int64_t& extent = out_.extents[size_t(out_.order[last])];
    if (last == 0 || extent % kRowsOfSwizzle || grown_axis(repeats_[0].image, false) != out_.order[last]) return false;
    const int64_t block = extent;
    for (int64_t rows = kMaxBoxExtent; rows > extent; rows -= kRowsOfSwizzle)
      if (block * repeats_[0].count % rows == 0) extent = rows;
    return extent > block;
  }

  // How many elements further along the row the swizzle puts what this bit of the offset leads to.
  int64_t moved_by_swizzle() const {
    const int bit = log2_of(bytes_) + int(next_) - kFirstRowBit;
    const int moved = out_.swizzle ? log2_of(out_.swizzle / kGroupBytes) : 0;
    return 0 <= bit && bit < moved ? (int64_t(kGroupBytes) << bit) / bytes_ : 0;
  }

  const std::vector<LinearLayout::Basis>& bases_;
  const std::vector<LinearLayout::Repeat>& repeats_;
  const std::vector<LinearLayout::Out>& outs_;
  const int bytes_;
  size_t next_ = 0;
  SharedBoxes out_{};
};

}  // namespace

std::optional<SharedBoxes> boxes_of(const LinearLayout& shared, int bits) {
  const int bytes = bits / 8;
  if (bytes == 0 || shared.ins().size() != 1) return std::nullopt;
  std::optional<SharedBoxes> best;
  auto size = [](const SharedBoxes& boxes) {
    return std::accumulate(boxes.extents.begin(), boxes.extents.end(), int64_t(1), std::multiplies<>());
  };
  for (int swizzle : {kMaxRowBytes, kMaxRowBytes / 2, kMaxRowBytes / 4, 0}) {
    BoxReader reader(shared, bytes);
    auto boxes = reader.read(swizzle);
    if (boxes && (!best || size(*boxes) > size(*best))) best = boxes;
  }
  return best;
}

int64_t offset_at(const LinearLayout& to_offset, const std::vector<int64_t>& coordinates) {
  std::vector<std::pair<Dim, int32_t>> at;
  for (size_t axis = 0; axis < coordinates.size(); ++axis)
    at.emplace_back(tile_dim(int(axis)), int32_t(coordinates[axis]));
  return to_offset.apply(at)[0];
}

namespace {

// Whether the boxes that follow each other along an axis lie at equal distances.
bool are_alike(const LinearLayout& shared, const SharedBoxes& boxes, size_t axis) {
  const std::vector<int64_t> shape = shared.tile_shape();
  const LinearLayout to_offset = shared.invert();
  std::vector<int64_t> at(shape.size(), 0);
  const int64_t step = boxes.extents[axis];
  if (shape[axis] > step) at[axis] = step;
  const int64_t distance = offset_at(to_offset, at);
  // Whole boxes and the swizzle's rows move together, so the boxes' first elements tell.
  for (size_t other = 0; other < shape.size(); ++other)
    for (int64_t first = 0; other != axis && first < shape[other]; first += boxes.extents[other]) {
      std::fill(at.begin(), at.end(), 0);
      at[other] = first;
      const int64_t here = offset_at(to_offset, at);
      for (int64_t number = 1; number < shape[axis] / step; ++number) {
        at[axis] = number * step;
        if (offset_at(to_offset, at) != here + number * distance) return false;
      }
    }
  return true;
}

}  // namespace

int axis_of_parts(const LinearLayout& shared, SharedBoxes& boxes, int64_t blocks) {
  const std::vector<int64_t> shape = shared.tile_shape();
  for (const int axis : boxes.order)
    if (shape[size_t(axis)] / boxes.extents[size_t(axis)] % blocks == 0 && are_alike(shared, boxes, size_t(axis)))
      return axis;
  size_t last = boxes.order.size() - 1;
  while (last > 0 && boxes.extents[size_t(boxes.order[last])] == 1) --last;
  if (last == 0) return -1;
  const auto axis = size_t(boxes.order[last]);
  // Of the boxes that divide these, those of which no block brings many rows, nor many boxes.
  const auto price = [&](int64_t extent) {
    return (shape[axis] / extent + blocks - 1) / blocks * (extent + kRowsOfSwizzle);
  };
  SharedBoxes dealt = boxes;
  int64_t best = 0;
  for (int64_t extent = boxes.extents[axis]; extent > 0; extent -= kRowsOfSwizzle) {
    if (extent % kRowsOfSwizzle || boxes.extents[axis] % extent || shape[axis] == extent) continue;
    dealt.extents[axis] = extent;
    if ((best == 0 || price(extent) < price(best)) && are_alike(shared, dealt, axis)) best = extent;
  }
  if (best == 0) return -1;
  boxes.extents[axis] = best;
  return int(axis);
}

}  // namespace tegula
