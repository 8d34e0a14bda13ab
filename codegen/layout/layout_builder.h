// Builds register layouts bit by bit, in the way that hardware manuals describe fragments.
#pragma once

#include <map>
#include <vector>

#include "codegen/layout/linear_layout.h"

namespace tegula {

/// log2 of a power of two.
int log2_of(int64_t n);
/// The number of bits of a coordinate within the power-of-two block of an extent.
int block_bits(int64_t extent);
/// The repeats of the power-of-two block that make up a tile of `shape`, along the axes in `order`; the first axis
/// repeats fastest.
std::vector<LinearLayout::Repeat> repeats_of_tile(const std::vector<int64_t>& shape, const std::vector<int>& order);
/// The same along all axes, the last one fastest.
std::vector<LinearLayout::Repeat> repeats_of_tile(const std::vector<int64_t>& shape);

/// Every call appends input bits that take the next bits of a tile dimension. Threads repeat the blocks of a tile in
/// their registers, the last dimension fastest.
class LayoutBuilder {
 public:
  static constexpr int kBeyond = 30;  ///< a bit that no dimension has, hence a free one

  explicit LayoutBuilder(const std::vector<int64_t>& shape);

  /// Bit `bit` of dimension `axis`; a free bit where the tile is too small.
  void place(Dim in, int axis, int bit);
  /// The next `bits` bits of `axis`.
  void extend(Dim in, int axis, int bits);
  /// Everything of `axis` that is left.
  void fill(Dim in, int axis);
  /// A fragment of mma.sync, with g = lane / 4 and t = lane % 4: a 32-bit register holds 2^packed neighbours of row g
  /// from column 2^packed t on, and with `high_rows` the next one those of row g + 8.
  void place_fragment(int rows, int columns, int packed, bool high_rows = true);
  /// Puts what is left of the last two dimensions into registers, in the order given, then the dimensions before them,
  /// the last one first.
  void repeat_matrix(int first, int second);

  LinearLayout threads() const;

 private:
  bool is_full(int axis) const;

  std::vector<int64_t> shape_;
  std::vector<LinearLayout::Out> outs_;
  std::vector<int> used_;
  std::map<Dim, std::vector<LinearLayout::Basis>> bases_;
};

}  // namespace tegula
