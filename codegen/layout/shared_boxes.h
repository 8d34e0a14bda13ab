// Shared memory as bulk copies write it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/layout/linear_layout.h"

namespace tegula {

/// The boxes that a tile in shared memory is made of: each one lies in one piece, its rows one after the other, their
/// groups of 16 bytes in the places that the swizzle gives them: byte address bits 4, 5, 6 ^= bits 7, 8, 9, as many as
/// `swizzle` has of (32 bytes: one; 64: two; 128: three).
struct SharedBoxes {
  std::vector<int64_t> extents;  ///< of a box, for each dimension of the tile
  std::vector<int> order;        ///< the tile's dimensions, that of a row first
  int swizzle;                   ///< bytes of a row, or 0
};

constexpr int64_t kMaxBoxExtent = 256;

/// The largest boxes that bulk copies bring so, elements of `bits` bits; none where rows have less than 16 bytes or lie
/// otherwise. A box has rows of 128 bytes at most.
std::optional<SharedBoxes> boxes_of(const LinearLayout& shared, int bits);

/// The axis along which `blocks` blocks of a cluster can bring a tile, each every so many boxes; boxes are made smaller
/// for that along the tile's slowest axis if they must, so that blocks bring about as much as each other. Along the
/// axis boxes lie at equal distances. -1: none, nothing is changed.
int axis_of_parts(const LinearLayout& shared, SharedBoxes& boxes, int64_t blocks);

/// What a map from coordinates to offsets gives for these.
int64_t offset_at(const LinearLayout& to_offset, const std::vector<int64_t>& coordinates);

}  // namespace tegula
