// The last step of assign_layouts: values get their layouts, and conversions where an op needs another one.
//
// Where an operand has another layout than its op needs, a convert_layout is put behind the operand's definition, as
// late as its first use allows and outside of loops that it is not changed in; those that can be had in any layout are
// made again instead. A scan asks for a layout that has the elements along its axis in order. Places in shared memory
// are swizzled for the copies that fill them and for ldmatrix.
#pragma once

#include <unordered_map>

#include "codegen/ir/ir.h"
#include "codegen/passes/memory_layouts.h"

namespace tegula {

/// Layouts of the tiles of a function.
using LayoutMap = std::unordered_map<const ir::Value*, LayoutRef>;

/// `layouts` has all tiles of the function that are no places in shared memory.
void materialise_layouts(ir::Func& func, const LayoutMap& layouts, MemoryLayouts& memory);

}  // namespace tegula
