// Elements of a tile that are the same one in memory.
#pragma once

#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// Of each register of a laid-out tile the first one with an element of the same run, where runs of so many elements
/// along each axis, from 0 on, are equal. `runs`: powers of two, one an axis.
std::vector<int> first_registers(const ir::Type& type, const ir::Ints& runs);

/// How many different ones there are.
int64_t count_different(const ir::Type& type, const ir::Ints& runs);

/// Elements that a thread holds of what a laid-out load gives, equal ones counted once, those left out that its mask
/// lets through in no thread.
int64_t loaded_elements(const ir::Op& load);

/// Of the registers that they are loaded into: an access narrower than a register takes a whole one.
int64_t register_bytes(const ir::Op& load);

}  // namespace tegula
