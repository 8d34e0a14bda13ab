// Lowering of sorts by buckets (analysis/sort_plan.h).
#pragma once

#include <functional>

#include "codegen/analysis/sort_plan.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

/// The sorted elements of `op`, as registers of the result. `keys` are unsigned integers of the type `key`, of 32 or 64
/// bits. If a bucket holds too many keys, `otherwise` sorts them.
Regs sort_by_buckets(Lowering& l, const ir::Op& op, const BucketSort& plan, const Regs& keys, const ir::Type& key,
                     const std::function<Regs()>& otherwise);

}  // namespace tegula::lower
