// Makers of linear layouts: the shapes that hardware and passes ask for, each as one F2 map.
#pragma once

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

/// Accumulator of mma.sync m16n8: warps tile (warps_m, warps_n); last two dimensions of `shape` are M and N.
LinearLayout mma_accumulator_layout(const std::vector<int64_t>& shape, int warps_m, int warps_n);
/// Operand 0 (A, M x K) or 1 (B, K x N) of mma.sync m16n8k(256/bits) for elements of `bits` bits, for the accumulator's
/// warp arrangement: warps that differ only along the other operand's dimension hold copies.
LinearLayout mma_operand_layout(const std::vector<int64_t>& shape, int operand, int bits, int warps_m, int warps_n);

/// Shared memory for a tile of `shape`: Offset (in elements) -> coordinates, order[0] fastest, with groups of
/// `vector` elements xor-swizzled over `phases` rows: group ^= (row / per_phase) % phases.
LinearLayout swizzled_shared_layout(const std::vector<int64_t>& shape, const std::vector<int>& order, int vector,
                                    int per_phase, int phases);

/// A swizzled shared layout free of bank conflicts (or nearly) for writing from `src` and reading into `dst`, elements
/// of `bits` bits. `vector` receives the widest access in elements that both sides can use.
LinearLayout shared_layout_for_conversion(const LinearLayout& src, const LinearLayout& dst, int bits, int* vector);

/// Bank-conflict degree (1: none) of a warp accessing shared memory laid out as `shared` through registers laid out as
/// `reg`, `vector` elements of `bits` bits at a time, worst over the registers.
int bank_conflicts(const LinearLayout& reg, const LinearLayout& shared, int bits, int vector);

}  // namespace tegula
