// When two ops compute the same.
#pragma once

#include <string>

#include "codegen/ir/ir.h"

namespace tegula {

/// A key that pure ops without regions share exactly when they compute the same: opcode, operands (in any order for a
/// commutative op), attributes (floats by their bits, so that 0.0 and -0.0 differ and a NaN equals itself), and the
/// type of the first result, layout included.
std::string equality_key(const ir::Op& op);

}  // namespace tegula
