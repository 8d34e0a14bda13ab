// What layouts cost: prices in issue slots of a warp.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula {

/// Of a warp's accesses to global memory for all its elements of `bytes` bytes, which lie side by side along `axis`,
/// rows far apart. Each instruction of a thread covers `width` elements.
double access_price(const LinearLayout& layout, int axis, int bytes, int width);

/// Of a warp's elements' way from one layout to another one.
double conversion_price(const ir::Type& type, const LinearLayout& from, const LinearLayout& to);

}  // namespace tegula
