// Prices of layouts in issue slots of a warp.
#pragma once

#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/ir/ir.h"

namespace tegula {

/// A memory op from the point of view of a warp's threads.
struct Access {
  /// For each axis, the distances of elements in memory, in bytes; elements of different runs are taken to be far
  /// apart.
  std::vector<AxisInfo::Run> runs;
  int axis = 0;  ///< along which an instruction of a thread covers `width` elements
  int width = 1;
  int bytes = 1;         ///< of an element
  bool is_load = false;  ///< what several instructions of loads touch comes from the L1 cache but for the first time
  std::vector<int64_t> repeats =
      {};  ///< elements along each axis that are one in memory, and loaded once; empty: all differ
  bool operator==(const Access&) const = default;
};

/// The price of a warp's accesses to global memory for all its elements.
double access_price(const LinearLayout& layout, const Access& access);

/// The same for elements of `bytes` bytes that lie side by side along `axis`, rows far apart.
double access_price(const LinearLayout& layout, int axis, int bytes, int width);

/// The price of moving a warp's elements from one layout to another. `waits`: a conversion between warps includes the
/// price of its barriers; false if another op makes the warps wait in any case.
double conversion_price(const ir::Type& type, const LinearLayout& from, const LinearLayout& to, bool waits = true);

}  // namespace tegula
