// Where products have their operands.
#pragma once

#include <functional>

#include "codegen/ir/ir.h"

namespace tegula {

/// A dot's operand without the transpositions on the way to it, which cost nothing in shared memory.
ir::Value* untransposed(ir::Value* operand);
/// Which axis of the untransposed operand 0 or 1 is K.
int untransposed_k_axis(const ir::Op& dot, int operand);
/// Whether it is read from a place in shared memory.
bool is_place_read(const ir::Value* operand);

/// Where a dot that will run beside the program has an operand.
enum class OperandForm {
  Place,     ///< in shared memory, from which it is read
  Fragment,  ///< in registers, from which it is read
  Stored,    ///< in registers: to be put into shared memory first
};
/// The form of operand 0 or 1 of a planned dot; `in_place` tells of values that will be read from places.
OperandForm operand_form(const ir::Op& dot, int operand,
                         const std::function<bool(const ir::Value*)>& in_place = is_place_read);

/// The axis of the untransposed operand whose elements must lie side by side in shared memory for the dot's plan; -1
/// where any may.
int axis_side_by_side(const ir::Op& dot, int operand);
/// Whether its plan can read the dot's operand from the place that it is in, if it is in one.
bool can_read_place(const ir::Op& dot, int operand);

}  // namespace tegula
