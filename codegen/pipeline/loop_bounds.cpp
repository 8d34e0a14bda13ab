#include "codegen/pipeline/loop_bounds.h"

#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

namespace {

bool known_positive(const Value* v) {
  if (is_unsigned(v->type.elem)) return true;
  return (v->def && v->def->opcode == Opcode::NumPrograms) || constant_integer(v) > 0;
}

}  // namespace

Value* wide(Builder& build, Value* x) { return x->type.bits() < 64 ? build.cast(x, Elem::I64) : x; }

Value* within_loop(Builder& build, const Op& op, Value* at) {
  const ForLoop loop(op);
  Value *upper = wide(build, loop.upper()), *step = loop.step();
  at = wide(build, at);
  if (known_positive(step)) return build.lt(at, upper);
  step = wide(build, step);
  Value* down = build.lt(step, build.constant(step->type, 0));
  Value* below = build.lt(at, upper);
  return build.select(down, build.gt(at, upper), below);
}

}  // namespace tegula
