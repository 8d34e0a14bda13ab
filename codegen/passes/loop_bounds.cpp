#include "codegen/passes/loop_bounds.h"

namespace tegula {

using namespace ir;

namespace {

bool known_positive(const Value* v) {
  if (is_unsigned(v->type.elem)) return true;
  if (!v->def) return false;
  return v->def->opcode == Opcode::NumPrograms || (v->def->opcode == Opcode::Constant && v->def->attr_int("value") > 0);
}

}  // namespace

Value* wide(Builder& build, Value* x) { return x->type.bits() < 64 ? build.cast(x, Elem::I64) : x; }

Value* within_loop(Builder& build, const Op& loop, Value* at) {
  Value *upper = wide(build, loop.operands[1]), *step = loop.operands[2];
  at = wide(build, at);
  if (known_positive(step)) return build.lt(at, upper);
  step = wide(build, step);
  Value* down = build.lt(step, build.constant(step->type, 0));
  return build.select(down, build.gt(at, upper), build.lt(at, upper));
}

}  // namespace tegula
