// Loops with two products: the two overlap, and two warpgroups take turns at the tensor cores.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/ir/ir.h"
#include "runtime/kernel_image.h"

namespace tegula {

/// Loops with two products whose operands copy_warps bring: the second product runs beside the next iteration
/// (overlap_products) where a thread's `registers` suffice, and of two warpgroups one multiplies while the other one
/// computes what comes between the products. Tells which loops do what of that.
std::vector<Transfer> schedule_chained_products(ir::Func& func, int64_t registers);

}  // namespace tegula
