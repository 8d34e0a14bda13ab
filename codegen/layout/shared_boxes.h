// Layouts of shared memory that bulk copies can write.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/layout/linear_layout.h"

namespace tegula {

/// The boxes that a tile in shared memory consists of. Each box is contiguous, row after row; the groups of 16 bytes of
/// a row are permuted by the swizzle: byte address bits 4, 5, 6 ^= bits 7, 8, 9, as many bits as `swizzle` has (32
/// bytes: one; 64: two; 128: three).
struct SharedBoxes {
  std::vector<int64_t> extents;  ///< of a box, for each dimension of the tile
  std::vector<int> order;        ///< the tile's dimensions, that of a row first
  int swizzle;                   ///< bytes of a row, or 0
};

constexpr int64_t kMaxBoxExtent = 256;

/// The largest boxes of elements of `bits` bits that bulk copies can fill in this layout, with rows of at most 128
/// bytes; nullopt if rows have less than 16 bytes or lie in another order.
std::optional<SharedBoxes> boxes_of(const LinearLayout& shared, int bits);

/// The axis along which `blocks` blocks of a cluster can bring a tile, each every so many boxes; boxes are made smaller
/// for that along the tile's slowest axis if they must, so that blocks bring about as much as each other. Along the
/// axis boxes lie at equal distances. -1: none, nothing is changed.
int axis_of_parts(const LinearLayout& shared, SharedBoxes& boxes, int64_t blocks);

/// The offset of these coordinates under a map from coordinates to offsets.
int64_t offset_at(const LinearLayout& to_offset, const std::vector<int64_t>& coordinates);

}  // namespace tegula
