// Makers of linear layouts: the shapes that hardware and passes ask for, each as one F2 map. Extents are q * 2^k: what
// is said of a tile holds for its block of powers of two, which registers, or offsets in shared memory, repeat.
#pragma once

#include <optional>
#include <vector>

#include "codegen/layout/linear_layout.h"

namespace tegula {

/// Each thread holds `per_thread` consecutive elements, a warp's lanes tile `lanes`, the warps tile `warps` (one number
/// for each dimension, powers of two); `order` lists the dimensions from the fastest-varying one. What is left of
/// `shape` is repeated in registers; where the block is larger than `shape`, threads hold copies (broadcast bits).
/// The product of `lanes` is 32, that of `warps` the number of warps.
LinearLayout blocked_layout(const std::vector<int64_t>& shape, const std::vector<int>& per_thread,
                            const std::vector<int>& lanes, const std::vector<int>& warps,
                            const std::vector<int>& order);

/// The same for a cluster whose blocks tile `blocks`, each as above: elements of a block lie a block's width apart.
LinearLayout blocked_layout(const std::vector<int64_t>& shape, const std::vector<int>& per_thread,
                            const std::vector<int>& lanes, const std::vector<int>& warps,
                            const std::vector<int>& blocks, const std::vector<int>& order);

/// A blocked layout for `shape` in which each thread holds up to `per_thread` elements along order[0] and lanes, then
/// warps, are laid along the fastest dimensions first.
LinearLayout coalesced_layout(const std::vector<int64_t>& shape, const std::vector<int>& order, int per_thread,
                              int num_warps);

/// The layout in which a warp stores or loads what it holds as `reg` with `vector` consecutive elements along tile
/// dimension `axis` a thread: register and lane bits of that axis change places. Nullopt where a warp does not hold
/// them.
std::optional<LinearLayout> warp_local_layout(const LinearLayout& reg, int axis, int vector);

/// Shared memory for a tile of `shape`: Offset (in elements) -> coordinates, order[0] fastest, with groups of
/// `vector` elements xor-swizzled over `phases` rows: group ^= (row / per_phase) % phases.
LinearLayout swizzled_shared_layout(const std::vector<int64_t>& shape, const std::vector<int>& order, int vector,
                                    int per_phase, int phases);

/// A swizzled shared layout free of bank conflicts (or nearly) for writing from `src` and reading into `dst`, elements
/// of `bits` bits (fewer than 8 count as 8). `vector` receives the widest access in elements (at most 128 bits) that
/// both sides can use: in either one the registers of an access are those whose offsets differ in the lowest
/// log2(vector) bits only, and no lane, warp or other register touches these bits.
LinearLayout shared_layout_for_conversion(const LinearLayout& src, const LinearLayout& dst, int bits, int* vector);

/// The shared layout for an operand of a dot whose elements of `bits` bits come in registers laid out as `src`: the
/// dimension that `src` holds contiguously stays contiguous, in groups of 16 bytes that are swizzled so that both
/// 16-byte writes from a coalesced `src` and ldmatrix (any eight groups below each other) are free of bank conflicts.
/// Rows of more than 128 bytes are cut into panels of 128 bytes, one panel after the other: the swizzles of 128, 64 and
/// 32 bytes that matrix instructions read.
LinearLayout shared_layout_for_dot_operand(const LinearLayout& src, int bits);
/// The same for a tile of `shape` whose dimensions follow each other in `order`, one of its last two being contiguous.
LinearLayout shared_layout_for_dot_operand(const std::vector<int64_t>& shape, std::vector<int> order, int bits);
/// The same for any tile, whose dimensions from the contiguous one on are `order`.
LinearLayout shared_layout_of_rows(const std::vector<int64_t>& shape, const std::vector<int>& order, int bits);

/// Tile dimensions from the one that moves fastest over registers and lanes to the slowest.
std::vector<int> fastest_order(const LinearLayout& reg);

/// How registers are filled by ldmatrix or stored by stmatrix, which move 8x8 matrices of 16-bit elements: each matrix
/// row is 16 contiguous, 16-byte aligned bytes whose address one lane supplies, and lane i holds row i / 4, elements
/// 2 (i % 4) + {0, 1} (not transposed), or column i / 4, rows 2 (i % 4) + {0, 1} (transposed), as one 32-bit register.
/// Not transposed, the four bytes may be elements of 8 or 32 bits as well.
struct MatrixPlan {
  bool transposed;
  int matrices;  ///< 1, 2 or 4 an instruction
  int packed;    ///< elements in a 32-bit register
  /// (Register, Lane, Warp) -> Offset in elements: the address that a lane supplies to the instruction that moves the
  /// packed * matrices registers (elements) from `register` on. Word j of that instruction is registers
  /// register + packed * j and those after it. Lanes from 8 * matrices on repeat addresses of lower ones, harmlessly.
  LinearLayout address;
};
/// The plan for moving registers laid out as `reg`, elements of `bits` bits, from or to shared memory laid out as
/// `shared`, or nullopt where the layouts do not allow it.
std::optional<MatrixPlan> plan_matrices(const LinearLayout& reg, const LinearLayout& shared, int bits);

/// A shared layout, free of bank conflicts, that ldmatrix or stmatrix reads or writes for registers laid out as `reg`,
/// and that `other` accesses by 16 bytes: registers of `other` are the rows of its matrices. Nullopt where there is
/// none.
std::optional<LinearLayout> shared_layout_for_matrices(const LinearLayout& reg, const LinearLayout& other);

/// Bank-conflict degree (1: none) of a warp accessing shared memory laid out as `shared` through registers laid out as
/// `reg`, `vector` elements of `bits` bits at a time, worst over the registers: wavefronts needed for each 128 bytes
/// that a warp asks for. Bank = 4 bytes, 32 banks; lanes that read the same 4 bytes do not conflict.
int bank_conflicts(const LinearLayout& reg, const LinearLayout& shared, int bits, int vector);

}  // namespace tegula
