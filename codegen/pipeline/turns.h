// Loops with two products: the two overlap, and two warpgroups take turns at the tensor cores.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/ir/ir.h"
#include "runtime/kernel_image.h"

namespace tegula {

/// Schedules loops with two products whose operands copy_warps bring: the second product overlaps with the next
/// iteration (overlap_products) if `registers` a thread suffice, and of two warpgroups one multiplies while the other
/// computes what lies between the products. Returns what was done to which loop.
std::vector<Transfer> schedule_chained_products(ir::Func& func, int64_t registers);

}  // namespace tegula
