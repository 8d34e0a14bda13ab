// Lowering of sorts by buckets (analysis/sort_plan.h).
#pragma once

#include <functional>

#include "codegen/analysis/sort_plan.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

/// The elements of `op` in order: `keys`, unsigned numbers of the type `key` of 32 or 64 bits, as registers of the
/// result. Where buckets hold too many, what `otherwise` makes of them.
Regs sort_by_buckets(Lowering& l, const ir::Op& op, const BucketSort& plan, const Regs& keys, const ir::Type& key,
                     const std::function<Regs()>& otherwise);

}  // namespace tegula::lower
