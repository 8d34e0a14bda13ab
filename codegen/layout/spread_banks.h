// Registers that threads exchange among their own, so that the lanes of a warp access different banks at a time.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "codegen/layout/linear_layout.h"

namespace tegula {

/// Where lanes whose bit `first` is 1 take the register with the other bit `second` for each, one pair after the other,
/// registers lie as `layout` says.
struct SpreadBanks {
  std::vector<std::pair<int, int>> swaps;  ///< of a lane bit and a register bit
  LinearLayout layout;
};

/// Elements of 32 bits laid out as `reg` that accesses of `vector` elements move to or from `shared`: which registers
/// to exchange so that fewer lanes share a bank. Nullopt where none help. With a select for each register a swap costs
/// a quarter of what the access would take once more, as a multiprocessor has one path to shared memory for four warps
/// that compute.
std::optional<SpreadBanks> spread_banks(const LinearLayout& reg, const LinearLayout& shared, int vector);

}  // namespace tegula
