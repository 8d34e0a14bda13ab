// What layouts cost: prices in issue slots of a warp.
#pragma once

#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/ir/ir.h"

namespace tegula {

/// A memory op as a warp's threads see it.
struct Access {
  /// For each axis how far apart in memory elements lie, in bytes; those of different runs are far from each other.
  std::vector<AxisInfo::Run> runs;
  int axis = 0;  ///< along which an instruction of a thread covers `width` elements
  int width = 1;
  int bytes = 1;         ///< of an element
  bool is_load = false;  ///< what several instructions of loads touch comes from the L1 cache but for the first time
  std::vector<int64_t> repeats =
      {};  ///< elements along each axis that are one in memory, and loaded once; empty: all differ
  bool operator==(const Access&) const = default;
};

/// Of a warp's accesses to global memory for all its elements.
double access_price(const LinearLayout& layout, const Access& access);

/// The same for elements of `bytes` bytes that lie side by side along `axis`, rows far apart.
double access_price(const LinearLayout& layout, int axis, int bytes, int width);

/// Of a warp's elements' way from one layout to another one. `waits`: warps wait for each other on it if they exchange
/// elements; where another one makes them wait anyway, they do not wait again.
double conversion_price(const ir::Type& type, const LinearLayout& from, const LinearLayout& to, bool waits = true);

}  // namespace tegula
