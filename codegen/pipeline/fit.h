// How many iterations ahead loads and copies may run, given the shared memory and registers of the target.
#pragma once

#include <vector>

#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

/// The async_copy or shared_store ops whose places are to get slots.
struct Stores {
  std::vector<ir::Op*> own;
  std::vector<ir::Op*> others = {};  ///< whose places are to have two slots later, if there is room for that at all
  bool barriers = false;             ///< each slot needs a barrier in shared memory too
};

/// The most slots, up to `wanted`, that the places may have each; at least 1. Exact: what the laid-out function needs
/// of shared memory with these slots is counted (plan_shared).
int64_t fit_slots(const ir::Func& func, ScratchSizes& sizes, const Target& target, Stores stores, int64_t wanted);

/// Ops whose places have so many slots each.
struct Slots {
  std::vector<ir::Op*> stores;
  int64_t slots;
};
/// The function's shared memory with these slots.
int64_t shared_bytes_with(const ir::Func& func, ScratchSizes& sizes, const std::vector<Slots>& slots);
inline int64_t shared_bytes_with(const ir::Func& func, ScratchSizes& sizes, const std::vector<ir::Op*>& stores,
                                 int64_t slots) {
  return shared_bytes_with(func, sizes, {{stores, slots}});
}

/// Whether they may have so many if their room is kept throughout `outer`, a loop around.
bool fits_around(const ir::Func& func, ScratchSizes& sizes, const Target& target, const Stores& stores, int64_t slots,
                 ir::Op& outer);

/// How many iterations, at most `wanted`, the loads may run ahead in registers. Removes loads from the list, those that
/// all programs have in common and then the last ones first, until at least one iteration is possible. `all`: the user
/// has asked for it; otherwise registers are reserved for the loop's products.
int fit_loads(const ir::Func& func, const Target& target, const ir::Op& loop, std::vector<ir::Op*>& loads,
              int64_t wanted, bool all);

/// Removes loads that all programs have in common.
void erase_common(const ir::Func& func, std::vector<ir::Op*>& loads);

}  // namespace tegula
