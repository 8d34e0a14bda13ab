// Computes comparisons that have the same result for all elements of a tile once, on scalars.
#include <algorithm>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/ir/builder.h"
#include "codegen/passes/dead_code.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kMaxDepth = 16;

/// Whether the first element of the tile can be computed as a scalar.
bool has_first(const Value* v, int depth = 0) {
  if (v->type.is_scalar()) return true;
  if (!v->def || depth > kMaxDepth) return false;
  const Op& op = *v->def;
  switch (op.opcode) {
    case Opcode::Splat:
    case Opcode::Constant:
    case Opcode::Arange:
      return true;
    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::Mul:
    case Opcode::Cast:
    case Opcode::ExpandDims:
    case Opcode::Broadcast:
      return std::all_of(op.operands.begin(), op.operands.end(),
                         [&](const Value* x) { return has_first(x, depth + 1); });
    default:
      return false;
  }
}

/// The first element of the tile, computed by `build`.
Value* first(Builder& build, Value* v) {
  if (v->type.is_scalar()) return v;
  const Op& op = *v->def;
  const Type scalar = Type::scalar(v->type.elem);
  switch (op.opcode) {
    case Opcode::Splat:
      return op.operands[0];
    case Opcode::Arange:
      return build.constant(scalar, op.get(attr::start));
    case Opcode::ExpandDims:
    case Opcode::Broadcast:
      return first(build, op.operands[0]);
    default: {  // elementwise, or a constant
      ValueMap map;
      for (Value* x : op.operands) map[x] = first(build, x);
      Value* element = build.insert(clone_op(op, map))->result();
      element->type = scalar;
      return element;
    }
  }
}

bool is_uniform_comparison(const Op& op, const AxisAnalysis& axes) {
  if (op.opcode != Opcode::Lt && op.opcode != Opcode::Le && op.opcode != Opcode::Gt && op.opcode != Opcode::Ge)
    return false;
  const Type& type = op.result()->type;
  return type.is_tile() && op.operands[0]->type.is_integer() && axes.info(op.result()).constancy == type.shape &&
         has_first(op.operands[0]) && has_first(op.operands[1]);
}

}  // namespace

void passes::uniform_masks(Func& func, PassContext&) {
  const AxisAnalysis axes(func);
  std::vector<Op*> found;
  walk(func.body, [&](Op& op) {
    if (is_uniform_comparison(op, axes)) found.push_back(&op);
  });
  ValueMap uniform;
  for (Op* op : found) {
    Builder build;
    build.set_before(op);
    build.set_loc(op->loc);
    ValueMap map;
    for (Value* x : op->operands) map[x] = first(build, x);
    Value* once = build.insert(clone_op(*op, map))->result();
    once->type = Type::scalar(Elem::I1);
    uniform[op->result()] = build.splat(once, op->result()->type.shape);
  }
  if (found.empty()) return;
  replace_uses(func.body, uniform);
  remove_dead_code(func);
}

}  // namespace tegula
