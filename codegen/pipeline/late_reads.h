// Moves reads of shared memory to their uses.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Moves each shared_read after products and conversions that do not need its result, if no op between it and its
/// first user accesses another place. Otherwise the barriers inserted later would keep it early, and its result would
/// occupy registers meanwhile.
void read_late(ir::Func& func);

}  // namespace tegula
