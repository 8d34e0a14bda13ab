#include "codegen/pipeline/loop_bounds.h"

#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

bool goes_up(const Op& loop) {
  const Value* step = ForLoop(loop).step();
  if (is_unsigned(step->type.elem)) return true;
  return (step->def && step->def->opcode == Opcode::NumPrograms) || constant_integer(step) > 0;
}

Value* wide(Builder& build, Value* x) { return x->type.bits() < 64 ? build.cast(x, Elem::I64) : x; }

Value* within_loop(Builder& build, const Op& op, Value* at) {
  const ForLoop loop(op);
  Value *upper = wide(build, loop.upper()), *step = loop.step();
  at = wide(build, at);
  if (goes_up(op)) return build.lt(at, upper);
  step = wide(build, step);
  Value* down = build.lt(step, build.constant(step->type, 0));
  Value* below = build.lt(at, upper);
  return build.select(down, build.gt(at, upper), below);
}

Value* gets_to(Builder& build, const Op& loop, Value* at) {
  return goes_up(loop) ? build.lt(at, ForLoop(loop).upper()) : within_loop(build, loop, at);
}

}  // namespace tegula
