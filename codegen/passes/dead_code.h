// Dead-code elimination.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Removes ops without effect whose results are not used (loads too, unless volatile), including whole loops and
/// branches, and unused results and carried values of for and if. Returns whether it removed anything.
bool remove_dead_code(ir::Func& func);

}  // namespace tegula
