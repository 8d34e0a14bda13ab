#include "codegen/layout/layout_builder.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "runtime/base/check.h"

namespace tegula {

int log2_of(int64_t n) {
  TEGULA_CHECK(n > 0 && std::has_single_bit(uint64_t(n)), "{} is not a power of two", n);
  return std::countr_zero(uint64_t(n));
}

int block_bits(int64_t extent) { return log2_of(block_of(extent)); }

std::vector<LinearLayout::Repeat> repeats_of_tile(const std::vector<int64_t>& shape, const std::vector<int>& order) {
  std::vector<LinearLayout::Repeat> repeats;
  for (int axis : order) {
    if (repeats_of(shape[axis]) == 1) continue;
    repeats.push_back({int32_t(repeats_of(shape[axis])), LinearLayout::Basis(shape.size(), 0)});
    repeats.back().image[axis] = int32_t(block_of(shape[axis]));
  }
  return repeats;
}

std::vector<LinearLayout::Repeat> repeats_of_tile(const std::vector<int64_t>& shape) {
  std::vector<int> order(shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  return repeats_of_tile(shape, order);
}

LayoutBuilder::LayoutBuilder(const std::vector<int64_t>& shape) : shape_(shape), used_(shape.size()) {
  for (size_t axis = 0; axis < shape.size(); ++axis) outs_.push_back({tile_dim(int(axis)), int32_t(shape[axis])});
}

void LayoutBuilder::place(Dim in, int axis, int bit) {
  LinearLayout::Basis basis(outs_.size(), 0);
  const int32_t coordinate = int32_t(1) << bit;
  if (coordinate < block_of(shape_[axis])) {
    basis[axis] = coordinate;
    used_[axis] = std::max(used_[axis], bit + 1);
  }
  bases_[in].push_back(std::move(basis));
}

void LayoutBuilder::extend(Dim in, int axis, int bits) {
  for (int i = 0; i < bits; ++i) place(in, axis, is_full(axis) ? kBeyond : used_[axis]);
}

void LayoutBuilder::fill(Dim in, int axis) {
  while (!is_full(axis)) place(in, axis, used_[axis]);
}

void LayoutBuilder::place_fragment(int rows, int columns, int packed, bool high_rows) {
  for (int bit = 0; bit < packed; ++bit) place(Dim::Register, columns, bit);
  for (int bit : {packed, packed + 1}) place(Dim::Lane, columns, bit);
  for (int bit : {0, 1, 2}) place(Dim::Lane, rows, bit);
  if (high_rows) place(Dim::Register, rows, 3);
}

void LayoutBuilder::repeat_matrix(int first, int second) {
  fill(Dim::Register, first);
  fill(Dim::Register, second);
  for (int axis = int(shape_.size()) - 2; axis-- > 0;) fill(Dim::Register, axis);
}

bool LayoutBuilder::is_full(int axis) const { return int64_t(1) << used_[axis] >= block_of(shape_[axis]); }

LinearLayout LayoutBuilder::threads() const {
  auto bits = [&](Dim dim) {
    auto found = bases_.find(dim);
    return found == bases_.end() ? std::vector<LinearLayout::Basis>() : found->second;
  };
  std::vector<LinearLayout::In> ins = {{Dim::Register, bits(Dim::Register), repeats_of_tile(shape_)},
                                       {Dim::Lane, bits(Dim::Lane)},
                                       {Dim::Warp, bits(Dim::Warp)}};
  if (bases_.contains(Dim::Block)) ins.push_back({Dim::Block, bits(Dim::Block)});
  return LinearLayout(std::move(ins), outs_);
}

}  // namespace tegula
