// A bound of what the cost model says, ahead of layouts: with it most configurations of a product are known to be
// slower than the best ones for a fraction of the time that it takes to lay them out.
#pragma once

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/cost.h"
#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

/// Microseconds that estimate_cost() predicts at least for the function once it has layouts, as far as what is counted
/// here tells; 0 where nothing is known. `func` is one whose operands of products are staged (stage_products() in
/// codegen/compile.h), `axis` what is known of its values.
///
/// Counted is what no later pass makes less of: the steps of loops around products, their work on the tensor cores and
/// what they read of shared memory, the part of what is copied for them that surely lies in its array, and what is
/// stored.
double least_us(const ir::Func& func, const AxisAnalysis& axis, const Target& target, const CostInputs& inputs);

}  // namespace tegula
