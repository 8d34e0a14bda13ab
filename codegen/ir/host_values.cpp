#include "codegen/ir/host_values.h"

#include <algorithm>

namespace tegula::ir {

namespace {

bool is_host_arithmetic(Opcode opcode) {
  switch (opcode) {
    case Opcode::Constant:
    case Opcode::Cast:
    case Opcode::Hint:
    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::Mul:
    case Opcode::Div:
    case Opcode::Rem:
    case Opcode::Minimum:
    case Opcode::Maximum:
    case Opcode::AddPtr:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool is_host_computable(const Value* v, const Func& func) {
  if (!v->type.is_scalar() || !(v->type.pointer || v->type.is_integer())) return false;
  if (!v->def) return v->block == &func.body;
  return is_host_arithmetic(v->def->opcode) &&
         std::all_of(v->def->operands.begin(), v->def->operands.end(),
                     [&](const Value* operand) { return is_host_computable(operand, func); });
}

}  // namespace tegula::ir
