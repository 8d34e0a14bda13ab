// How many iterations ahead loads and copies may run, given the shared memory and registers of the target.
#pragma once

#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

/// The async_copy or shared_store ops whose places are to get slots.
struct Stores {
  std::vector<ir::Op*> own;
  std::vector<ir::Op*> others = {};  ///< whose places are to have two slots later, if there is room for that at all
  bool barriers = false;             ///< each slot needs a barrier in shared memory too
};

/// The largest number of slots for each place, at least 1 and at most `wanted`, with which the laid-out function fits
/// shared memory. The count is exact (plan_shared).
int64_t fit_slots(const ir::Func& func, const Target& target, Stores stores, int64_t wanted);

/// The bytes of shared memory that the function needs if these places have `slots` slots each.
int64_t shared_bytes_with(const ir::Func& func, const std::vector<ir::Op*>& stores, int64_t slots);

/// Whether they fit with `slots` slots each if their memory stays allocated throughout `outer`, an enclosing loop.
bool fits_around(const ir::Func& func, const Target& target, const Stores& stores, int64_t slots, ir::Op& outer);

/// How many iterations, at most `wanted`, the loads may run ahead in registers. Removes loads from the list, the last
/// ones first, until at least one iteration is possible. `all`: the user has asked for it; otherwise registers are
/// reserved for the loop's products.
int fit_loads(const ir::Func& func, const Target& target, const ir::Op& loop, std::vector<ir::Op*>& loads,
              int64_t wanted, bool all);

}  // namespace tegula
