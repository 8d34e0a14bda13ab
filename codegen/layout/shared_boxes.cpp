#include "codegen/layout/shared_boxes.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

namespace tegula {

namespace {

constexpr int kGroupBytes = 16, kMaxRowBytes = 128;
constexpr int kFirstRowBit = 7;  // of a byte's address: the lowest one that a swizzle looks at

int log2_of(int64_t n) { return std::countr_zero(uint64_t(n)); }

// Reads a box off the bits of an offset, beginning with the lowest one.
class BoxReader {
 public:
  BoxReader(const LinearLayout& shared, int bytes)
      : bases_(shared.ins()[0].bases), outs_(shared.outs()), bytes_(bytes) {
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
    return std::all_of(bases_.begin() + int64_t(next_), bases_.end(), [&](auto& basis) { return moves_boxes(basis); })
               ? std::optional(out_)
               : std::nullopt;
  }

  bool moves_boxes(const LinearLayout::Basis& basis) const {
    for (size_t axis = 0; axis < basis.size(); ++axis)
      if (basis[axis] % out_.extents[axis]) return false;
    return true;
  }

 private:
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

  // How many elements further along the row the swizzle puts what this bit of the offset leads to.
  int64_t moved_by_swizzle() const {
    const int bit = log2_of(bytes_) + int(next_) - kFirstRowBit;
    const int moved = out_.swizzle ? log2_of(out_.swizzle / kGroupBytes) : 0;
    return 0 <= bit && bit < moved ? (int64_t(kGroupBytes) << bit) / bytes_ : 0;
  }

  const std::vector<LinearLayout::Basis>& bases_;
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
    const auto& repeats = shared.ins()[0].repeats;
    if (boxes && (!best || size(*boxes) > size(*best)) &&
        std::all_of(repeats.begin(), repeats.end(), [&](auto& repeat) { return reader.moves_boxes(repeat.image); }))
      best = boxes;
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

// Whether what lies in the first part lies in each other one as many times a distance further.
bool are_alike(const LinearLayout& shared, const SharedBoxes& boxes, size_t axis, int64_t part, int64_t blocks) {
  const std::vector<int64_t> shape = shared.tile_shape();
  const LinearLayout to_offset = shared.invert();
  std::vector<int64_t> at(shape.size(), 0);
  at[axis] = part;
  const int64_t distance = offset_at(to_offset, at);
  // Whole boxes and the swizzle's rows move together, so the boxes' first elements tell.
  for (size_t other = 0; other < shape.size(); ++other)
    for (int64_t first = 0; first < (other == axis ? part : shape[other]); first += boxes.extents[other])
      for (int64_t block = 0; block < blocks; ++block) {
        std::fill(at.begin(), at.end(), 0);
        at[other] = first;
        const int64_t here = offset_at(to_offset, at);
        at[axis] += block * part;
        if (offset_at(to_offset, at) != here + block * distance) return false;
      }
  return true;
}

}  // namespace

int axis_of_parts(const LinearLayout& shared, SharedBoxes& boxes, int64_t blocks) {
  constexpr int64_t kRowsOfSwizzle = 8;
  const std::vector<int64_t> shape = shared.tile_shape();
  for (const int axis : boxes.order) {
    const int64_t part = shape[size_t(axis)] / blocks;
    if (shape[size_t(axis)] % blocks == 0 && part % boxes.extents[size_t(axis)] == 0 &&
        are_alike(shared, boxes, size_t(axis), part, blocks))
      return axis;
  }
  SharedBoxes smaller = boxes;
  for (size_t i = boxes.order.size(); i-- > 1;) {
    const auto axis = size_t(boxes.order[i]);
    const int64_t part = shape[axis] / blocks;
    if (boxes.extents[axis] == 1) continue;
    smaller.extents[axis] = std::gcd(part, boxes.extents[axis]);
    if (shape[axis] % blocks || smaller.extents[axis] < kRowsOfSwizzle ||
        !are_alike(shared, smaller, axis, part, blocks))
      return -1;
    boxes = std::move(smaller);
    return int(axis);
  }
  return -1;
}

}  // namespace tegula
