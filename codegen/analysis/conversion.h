// How elements get from the threads and registers of one layout to those of another.
#pragma once

#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/layout/linear_layout.h"

namespace tegula {

/// The cheapest way that the algebra of the two layouts allows.
struct Conversion {
  enum class Route {
    Registers,  ///< every thread has what it needs: a permutation (or copy) of registers
    Shuffle,    ///< what a thread needs is in its own warp, in a register that hardly depends on its lane
    Exchange,   ///< likewise after `swaps` of register bits with lane bits
    Shared,     ///< through shared memory
  };
  Route route;
  /// (register, lane, warp) of the destination -> (register, lane, warp) of the source that holds the element.
  LinearLayout source_of;
  /// Bits of the source's register and of the lane that change places: of the two registers that differ in the first,
  /// a lane keeps the one that its own bit says and trades the other one.
  struct Swap {
    int register_bit, lane_bit;
  };
  std::vector<Swap> swaps;
};

/// Both layouts have in-dimensions register, lane and warp of one program and the same tile dimensions.
Conversion plan_conversion(const LinearLayout& source, const LinearLayout& destination);

/// For an op that only renames or repeats coordinates (expand_dims, broadcast, reshape, trans, splat of a tile), the
/// layout in which its operand, with coordinates renamed the same way, would give the result register by register: the
/// result's layout seen from the operand's elements.
LinearLayout operand_view(const ir::Op& op);

}  // namespace tegula
