// Makers of linear layouts: the shapes that hardware and passes ask for, each as one F2 map.
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

/// A blocked layout for `shape` in which each thread holds up to `per_thread` elements along order[0] and lanes, then
/// warps, are laid along the fastest dimensions first.
LinearLayout coalesced_layout(const std::vector<int64_t>& shape, const std::vector<int>& order, int per_thread,
                              int num_warps);

/// Accumulator of mma.sync m16n8; the last two dimensions of `shape` are M and N (dimensions before them are repeated
/// in registers). Within one instruction tile, with g = lane / 4 and t = lane % 4, registers 0 to 3 hold (g, 2t), (g,
/// 2t + 1), (g + 8, 2t), (g + 8, 2t + 1): the order of the PTX fragment. The warps tile the block above the instruction
/// tile, along N first (warp = warp_m * warps_n + warp_n). The rest of the tile repeats in registers, over N, then over
/// M. Where the tile is smaller than the block, bits are free.
LinearLayout mma_accumulator_layout(const std::vector<int64_t>& shape, int warps_m, int warps_n);
/// Operand 0 (A, M x K) or 1 (B, K x N) of mma.sync m16n8k(256/bits) for elements of `bits` (8, 16, 32) bits, for the
/// accumulator's warp arrangement: warps that differ only along the other operand's dimension hold copies. Register
/// order is that of the PTX fragment; for 16 bits:
///   A: (g, 2t + {0, 1}), (g + 8, 2t + {0, 1}), (g, 2t + 8 + {0, 1}), (g + 8, 2t + 8 + {0, 1}): 8 registers;
///   B: (2t + {0, 1}, g), (2t + 8 + {0, 1}, g): 4 registers.
/// Instruction tiles then repeat along K, after that along M (A) or N (B).
LinearLayout mma_operand_layout(const std::vector<int64_t>& shape, int operand, int bits, int warps_m, int warps_n);

/// Operand 0 (A, M x K) or 1 (B, K x N) of shape `shape` for a dot whose sums lie as `sums`, any layout: each thread
/// has all of K for its rows (A) or columns (B).
LinearLayout fma_operand_layout(const LinearLayout& sums, int operand, const std::vector<int64_t>& shape);

/// Accumulator of wgmma m64nN, for groups_m x groups_n warpgroups (group = group_m * groups_n + group_n), of at least
/// 64 rows each. Four warps have 16 rows each; inside a warp registers are as of mma_accumulator_layout. Each group has
/// columns of its own side by side; its rows repeat in registers.
LinearLayout wgmma_accumulator_layout(const std::vector<int64_t>& shape, int groups_m, int groups_n);
/// A (M x K, elements of `bits` bits) in registers for wgmma, for the accumulator's arrangement of warpgroups: each
/// warp has A's fragments of mma_operand_layout for its 16 rows; groups that differ only along N hold copies.
LinearLayout wgmma_operand_layout(const std::vector<int64_t>& shape, int bits, int groups_m, int groups_n);

/// The layout in which a warp stores what it holds as `reg` with `vector` consecutive elements along tile dimension
/// `axis` a thread: register and lane bits of that axis change places. Nullopt where a warp does not hold them.
std::optional<LinearLayout> warp_local_store_layout(const LinearLayout& reg, int axis, int vector);

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
/// 32 bytes that wgmma reads.
LinearLayout shared_layout_for_dot_operand(const LinearLayout& src, int bits);
/// The same for a tile of `shape` whose dimension order[0] is to be contiguous.
LinearLayout shared_layout_for_dot_operand(const std::vector<int64_t>& shape, std::vector<int> order, int bits);

/// Tile dimensions from the one that moves fastest over registers and lanes to the slowest.
std::vector<int> fastest_order(const LinearLayout& reg);

/// How to fill registers by ldmatrix, which reads 8x8 matrices of 16-bit elements: each matrix row is 16 contiguous,
/// 16-byte aligned bytes whose address one lane supplies, and lane i receives row i / 4, elements 2 (i % 4) + {0, 1}
/// (not transposed), or column i / 4, rows 2 (i % 4) + {0, 1} (transposed), as one 32-bit register.
struct LdmatrixPlan {
  bool transposed;
  int matrices;  ///< 1, 2 or 4 an instruction
  /// (Register, Lane, Warp) -> Offset in elements: the address that a lane supplies to the instruction that fills the
  /// 2 * matrices registers (of 16 bits) from `register` on. Result j of that instruction is registers
  /// (register + 2 j, register + 2 j + 1). Lanes from 8 * matrices on repeat addresses of lower ones, harmlessly.
  LinearLayout address;
};
/// The plan for reading registers laid out as `reg` (16-bit elements) from shared memory laid out as `shared`, or
/// nullopt where the layouts do not allow ldmatrix.
std::optional<LdmatrixPlan> plan_ldmatrix(const LinearLayout& reg, const LinearLayout& shared);

/// Bank-conflict degree (1: none) of a warp accessing shared memory laid out as `shared` through registers laid out as
/// `reg`, `vector` elements of `bits` bits at a time, worst over the registers: wavefronts needed for each 128 bytes
/// that a warp asks for. Bank = 4 bytes, 32 banks; lanes that read the same 4 bytes do not conflict.
int bank_conflicts(const LinearLayout& reg, const LinearLayout& shared, int bits, int vector);

}  // namespace tegula
