// How many programs an SM has room for, from laid-out tile IR.
#pragma once

#include <cstdint>

#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

/// By shared memory and warps alone.
int64_t programs_by_room(const ir::Func& func, const Target& target, int64_t shared_bytes);

/// Registers of a thread that the assembler is expected to take if it is free to. It keeps fewer values at a time than
/// RegisterPressure finds live: two thirds of them in loops around products, as measured.
int64_t expected_registers(const ir::Func& func);

/// Whether so many registers of a thread suffice for each instruction of the function's mma_starts.
bool products_fit(const ir::Func& func, int64_t registers);

/// How many programs of the laid-out function the assembler is to keep registers for; 1: it is free to choose. More
/// than one in two cases. Where threads do nothing but load vectors, compute, with at most some 80 instructions an
/// element, and store: as many as leave registers for all that a thread loads, so that it loads all at once. Where a
/// loop has several products by warpgroups, a second program would fit, and registers are about what that allows: such
/// loops gain more from a second program than they lose by the few values that are computed anew or spilled.
int64_t programs_to_fit(const ir::Func& func, const Target& target, int64_t shared_bytes);

}  // namespace tegula
