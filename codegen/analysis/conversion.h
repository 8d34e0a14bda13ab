// How elements move from the threads and registers of one layout to those of another.
#pragma once

#include <optional>
#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/layout/linear_layout.h"

namespace tegula {

/// The cheapest way that the algebra of the two layouts allows.
struct Conversion {
  enum class Route {
    Registers,  ///< every thread has what it needs: a copy of a register, or of one of several as its lane and warp say
    Shuffle,    ///< what a thread needs is in its own warp, in a register that hardly depends on its lane
    Exchange,   ///< likewise after `swaps` of register bits with lane bits
    Shared,     ///< through shared memory
    Cluster,    ///< through that of all blocks of the cluster, since another block has it
  };
  Route route;
  /// Maps (register, lane, warp, block) of the destination to the register, lane, warp and block of the source that
  /// holds the element. Not set for Shared and Cluster.
  LinearLayout source_of;
  /// A bit of the register index and a bit of the lane index that change places: of two registers that differ in the
  /// register bit, a lane keeps the one that equals its own lane bit and exchanges the other one.
  struct Swap {
    int register_bit, lane_bit;
  };
  std::vector<Swap> swaps;
};

inline bool goes_through_shared(Conversion::Route route) {
  return route == Conversion::Route::Shared || route == Conversion::Route::Cluster;
}

/// Both layouts map register, lane and warp (and block, where the blocks of a cluster divide the tile) of one program
/// to the same tile dimensions.
Conversion plan_conversion(const LinearLayout& source, const LinearLayout& destination);

/// Whether the laid-out op exchanges data through the scratch of several blocks of a cluster of `num_ctas`: a reduction
/// along an axis that the blocks divide, a conversion that moves elements between blocks, or an atomic operation, whose
/// result is used, that one block performs for all.
bool crosses_blocks(const ir::Op& op, int num_ctas);

/// For an op that only renames or repeats coordinates (expand_dims, broadcast, reshape, trans, splat of a tile), the
/// layout in which its operand, with coordinates renamed the same way, would give the result register by register: the
/// result's layout seen from the operand's elements. nullopt where that is no linear layout: for a reshape that cuts up
/// extents that are not powers of two.
std::optional<LinearLayout> operand_view(const ir::Op& op);

}  // namespace tegula
