// Occupancy: how many programs run at a time on a multiprocessor, from laid-out tile IR.
#pragma once

#include <cstdint>

#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

/// The number of programs that shared memory and warps allow, whatever the registers.
int64_t programs_by_room(const ir::Func& func, const Target& target, int64_t shared_bytes);

/// How many programs of the function an SM has registers for, if each thread takes so many.
int64_t programs_by_registers(const ir::Func& func, const Target& target, int64_t registers);

/// The registers a thread that hold what is live at a time, as the program is written.
int64_t live_registers(const ir::Func& func);

/// The registers a thread that the assembler is expected to use if it is free to choose. It keeps fewer values at a
/// time than RegisterPressure finds live: two thirds of them in loops around products, as measured.
int64_t expected_registers(const ir::Func& func);

/// Whether a loop has several products, as that of attention.
bool has_chained_products(const ir::Func& func);

/// Whether `registers` a thread suffice for each instruction of the function's mma_starts.
bool products_fit(const ir::Func& func, int64_t registers);

/// The number of programs of the laid-out function that the assembler must leave registers for; 1: it is free to
/// choose. It is more than one in two cases. First, where threads only load vectors, compute with at most some 80
/// instructions an element, and store: as many programs as leave a thread registers for all that it loads, so that it
/// can issue all loads at once. Second, where a loop has several products by warpgroups, a second program would fit and
/// the registers are about what that allows: such loops gain more from a second program than they lose by the few
/// values that are recomputed or spilled.
int64_t programs_to_fit(const ir::Func& func, const Target& target, int64_t shared_bytes);

}  // namespace tegula
