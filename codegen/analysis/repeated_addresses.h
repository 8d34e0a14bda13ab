// Whether elements of a tile of pointers lie at one and the same place in memory.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Whether two elements of the tile may have the same address, so that two threads may access one place through it.
///
/// Addresses are followed through sums and products to what tells their elements apart along each axis: an arange, or a
/// number's quotient together with its remainder. Loaded, clamped, and chosen indices may repeat. A factor that a
/// launch gives is presumed to keep elements apart: a matrix whose rows overlap is no place to write to.
bool may_repeat(const ir::Value* pointers);

/// Whether two elements of the tile at different places along `axis` may have the same address. Loaded indices along
/// another axis may repeat; times a launch's factor, though not times a loaded one, they are presumed to stay apart
/// from other indices too.
bool may_repeat_along(const ir::Value* pointers, int axis);

}  // namespace tegula
