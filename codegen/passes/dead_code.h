// Removal of what no effect and no result depends on.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Removes ops that nothing needs (loads too, unless volatile), also whole loops and branches, and the results and
/// carried values of for and if that are not needed. True if anything was removed.
bool remove_dead_code(ir::Func& func);

}  // namespace tegula
