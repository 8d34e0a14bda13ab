// Register tiles as bulk stores write them to arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/layout/linear_layout.h"

namespace tegula {

/// The boxes that warps hold of a tile. A box belongs to `warps` consecutive warps together; a piece of the tile is one
/// box of each such group.
struct WarpBoxes {
  struct Piece {
    std::vector<int> registers;  ///< of the tile, those of the piece in order
    std::vector<int64_t> first;  ///< coordinates of the first group's box
  };
  int warps;                     ///< 1, 2 or 4
  std::vector<int64_t> extents;  ///< of a box, for each dimension of the tile: powers of two
  int swizzle;                   ///< bytes of a box's row, or 0
  LinearLayout piece;            ///< (Register, Lane, Warp) -> coordinates in a piece
  LinearLayout shared;           ///< Offset -> coordinates in a piece: rows swizzled, each box in one piece
  LinearLayout groups;           ///< (Warp) -> coordinates of the group's box in the tile, from the piece's first ones
  std::vector<Piece> pieces;
};

/// A stretch of each row of a tile; of a count of 0: all of it.
struct Stretch {
  int64_t first = 0, count = 0;
};
/// What rows of so many elements are made of, each a power of two, the longest first.
std::vector<Stretch> stretches_of(int64_t extent);
/// The stretch of its rows, along dimension `fast`, that has so many of a tile's elements; nullopt if there is none.
std::optional<Stretch> stretch_with(int64_t elements, const std::vector<int64_t>& tile, int fast);

/// The boxes of a tile of elements of `bits` bits, with rows along dimension `fast` that are as long as possible, up to
/// 128 bytes. Nullopt if rows have less than 32 bytes, boxes have fewer than eight rows, or threads hold copies. Of a
/// stretch of rows the boxes are as wide as it allows; their registers are those of the whole tile, as are the
/// coordinates of pieces, and rows may have 16 bytes, which are not swizzled.
std::optional<WarpBoxes> warp_boxes(const LinearLayout& tile, int fast, int bits, const Stretch& stretch = {});

}  // namespace tegula
