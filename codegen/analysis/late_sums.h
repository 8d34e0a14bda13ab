// Sums of products that a loop uses an iteration after it has made them.
#pragma once

#include <vector>

#include "codegen/ir/flow.h"

namespace tegula {

/// The mma_waits in the loop's body for products that begin with zeros, whose sums the loop does nothing with but carry
/// them to its next iteration, which uses them: it can do so while the next product runs.
std::vector<ir::Op*> late_sums(const ir::ForLoop& loop);

}  // namespace tegula
