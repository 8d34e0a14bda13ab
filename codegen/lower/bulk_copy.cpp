// Bulk copies, and the maps of arrays that they read.
#include "codegen/lower/lowering.h"
#include "runtime/base/check.h"

namespace tegula::lower {

void lower_TensorMap(Lowering&, const ir::Op&) {}

void lower_BulkCopy(Lowering&, const ir::Op&) { TEGULA_CHECK(false, "bulk copies are not lowered yet"); }

}  // namespace tegula::lower
