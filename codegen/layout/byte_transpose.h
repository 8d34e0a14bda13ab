// Transposes tiles of bytes in shared memory by instructions that move matrices of 16-bit elements.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/layout/linear_layout.h"

namespace tegula {

/// Warps bring blocks of 16 x 32 bytes from a place where elements along axis `from` lie side by side into one where
/// those along the other axis do. A block takes one ldmatrix (x4, transposed), four selections of bytes and one
/// stmatrix (x4). The maps are (Register, Lane, Warp) -> coordinates of the tile: registers 16 i + {0 .. 15} are the 16
/// bytes whose address the lane supplies for block i.
///
/// ldmatrix gives a lane, of each matrix, bytes 2 (lane / 4) + {0, 1} of two rows; the words of matrices 0 and 1 (2 and
/// 3) have the four rows 4 (lane % 4) + {0 .. 3}, those of matrix 1 first where lane bit 1 is set. stmatrix takes the
/// even ones of these bytes as row lane / 4 of matrix 0 (2), the odd ones as that of matrix 1 (3); the other way round
/// where lane bit 4 is set. So no two rows of a matrix lie in the same banks of swizzled places.
struct ByteTranspose {
  LinearLayout load, store;
};

/// Whether such a transposition exists: both extents are powers of two of at least 32, and the warps share the blocks
/// evenly.
bool can_transpose_bytes(const std::vector<int64_t>& shape, int num_warps);
ByteTranspose plan_byte_transpose(const std::vector<int64_t>& shape, int from, int num_warps);

}  // namespace tegula
