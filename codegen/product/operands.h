// Where the operands of products are.
#pragma once

#include <functional>

#include "codegen/ir/ir.h"

namespace tegula {

/// The operand of a dot before the transpositions on the way to it, which cost nothing in shared memory.
ir::Value* untransposed(ir::Value* operand);
/// Which axis of the untransposed operand 0 or 1 is K.
int untransposed_k_axis(const ir::Op& dot, int operand);
/// Whether it is read from a place in shared memory.
bool is_place_read(const ir::Value* operand);

/// Whether an op computes its results element by element, or only puts elements into another shape in their order.
bool keeps_elements(const ir::Op& op);
/// Whether a tile is computed by such ops from a tile of 8-bit elements, perhaps among others, whose op `is_source`
/// accepts.
bool is_widened_from(const ir::Value* value, const std::function<bool(const ir::Op&)>& is_source);

/// Where the operand of a dot that will run beside the program is.
enum class OperandForm {
  Place,     ///< in shared memory, from which it is read
  Fragment,  ///< in registers, from which it is read
  Stored,    ///< in registers: to be put into shared memory first
};
/// The form of operand 0 or 1 of a planned dot; `in_place` tells whether a value will be read from a place.
OperandForm operand_form(const ir::Op& dot, int operand,
                         const std::function<bool(const ir::Value*)>& in_place = is_place_read);

/// The axis along which the untransposed operand must be contiguous in shared memory for the dot's plan; -1 if any axis
/// may be.
int axis_side_by_side(const ir::Op& dot, int operand);
/// Whether the dot's plan can read the operand from the place that holds it; false if none does.
bool can_read_place(const ir::Op& dot, int operand);

}  // namespace tegula
