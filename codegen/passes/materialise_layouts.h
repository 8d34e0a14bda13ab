// The last step of assign_layouts: gives values their layouts, and inserts conversions where an op needs another one.
#pragma once

#include <unordered_map>

#include "codegen/ir/ir.h"
#include "codegen/passes/memory_layouts.h"

namespace tegula {

/// Layouts of the tiles of a function.
using LayoutMap = std::unordered_map<const ir::Value*, LayoutRef>;

/// `layouts` must contain all tiles of the function except places in shared memory.
void materialise_layouts(ir::Func& func, const LayoutMap& layouts, MemoryLayouts& memory);

}  // namespace tegula
