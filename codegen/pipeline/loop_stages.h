// Which loops are pipelined, and how far.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

class AxisAnalysis;

/// Whether its body has a product, loops within it aside.
bool has_product(const ir::Op& loop);

/// How many iterations of a For loop are under way at a time. As in Triton, its own attribute num_stages goes for all
/// its loads; without one the function's goes for loops with a product in their body, and others have 1, as short ones.
int64_t stages_of(const ir::Op& loop, const ir::Func& func);

/// Whether a loop around products from registers is known to have four iterations at most, and does not say itself how
/// it is pipelined. A good part of such a loop is its first iteration, whose loads are waited for in any case: what
/// runs ahead takes registers and shared memory of other programs, which hide that wait. Not so where several products
/// multiply what one load brings: that goes through shared memory anyway.
bool is_short(const ir::Op& loop);

/// Loads of the loop's body that can be issued iterations ahead: their operands follow by pure ops from values of
/// before the loop, the induction variable and carried values that only grow by an invariant step, or from a few
/// integers that such a load gives, as the pages of a table; and no store of the loop can reach their memory (pointers
/// of different parameters are taken not to overlap). None in a loop with a barrier, a volatile access or an atomic
/// that orders memory. Without an attribute num_stages of its own, only those that products of the body follow from,
/// and beside products that run beside the program small ones. Copies to shared memory count as loads.
std::vector<ir::Op*> loads_ahead(const ir::Op& loop);

/// Whether it is a laid-out load of a few registers a thread, as of scales of an iteration's sums: a warpgroup would
/// wait for these longer than for its product.
bool is_small_load(const ir::Op& op);

/// Whether a copy may stand for a laid-out load: each of its accesses (attribute vector) is loaded whole or, where the
/// mask does not hold, is zeros.
bool has_whole_accesses(const ir::Op& load, const AxisAnalysis& axes);

/// Whether warps of their own are to issue the loop's copies, as the option warp_specialize: what the loop says, or
/// else the next one around it that does, or the function.
int64_t warp_specialize_of(const ir::Op& loop, const ir::Func& func);

}  // namespace tegula
