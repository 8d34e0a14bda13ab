// Elements of a tile that are one and the same in memory.
#pragma once

#include <span>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// For each register of a laid-out tile, the first register that holds an element of the same run. Along each axis,
/// aligned runs of `runs[axis]` elements (powers of two) are equal.
std::vector<int> first_registers(const ir::Type& type, std::span<const int64_t> runs);

/// The number of different elements that a thread holds.
int64_t count_different(const ir::Type& type, std::span<const int64_t> runs);

/// The number of elements that a thread loads for a laid-out load: equal ones counted once, without those that the mask
/// excludes in every thread.
int64_t loaded_elements(const ir::Op& load);

/// The bytes of the registers that they are loaded into: an access narrower than a register takes a whole one.
int64_t register_bytes(const ir::Op& load);

}  // namespace tegula
