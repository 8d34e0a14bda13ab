// Loads outside of pipelined loops that become copies to shared memory.
#pragma once

#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

class AxisAnalysis;

/// Whether a load, not laid out yet, may become copies by threads: of 4 bytes or more each, filled with zeros.
bool is_copyable(const ir::Op& load, const ir::Func& func, const AxisAnalysis& axes);
/// The axis along which what it loads lies side by side in memory.
int contiguous_axis(const ir::Op& load, const AxisAnalysis& axes);

/// What is loaded outside of pipelined loops and then stored to a place, as an operand of products of its block, is
/// copied there, and waited for where it is used:
///
///   x = load(p); ...; shared_store x, place      ->      async_copy p, place; t = async_commit; ...; async_wait t
///
/// So several operands are on their way at a time, from as early in their block as what they are loaded by is known,
/// and no thread holds them. What else takes them reads the place. Only where the program has room, four programs still
/// run at a time, or as many as before, and the function does not write to the array. The same goes for loads of
/// pipelined loops whose copies found no room for two slots, `without_room`: they begin with their iteration. Returns
/// whether anything was changed.
bool copy_early(ir::Func& func, const Target& target, const std::vector<ir::Op*>& without_room);

}  // namespace tegula
