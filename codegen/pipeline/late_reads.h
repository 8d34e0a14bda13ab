// Reads of shared memory stand where they are used.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Has each shared_read behind a product or a conversion that does not need it, if what stands between it and its first
/// user touches no other place: the barriers that come there would keep it early, in registers that others need.
void read_late(ir::Func& func);

}  // namespace tegula
