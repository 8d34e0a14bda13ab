#include "codegen/analysis/cluster_blocks.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

bool is_divided(const Func& func) {
  return func.num_ctas() > 1 && std::any_of(func.body.ops.begin(), func.body.ops.end(),
                                            [](const auto& op) { return op->opcode == Opcode::BlockId; });
}

namespace {

class SameSearch {
 public:
  bool visit(const Value* v) {
    if (!seen_.insert(v).second) return true;
    const Op* owner = v->def ? v->def : v->block->parent;
    if (!owner) return true;  // a parameter
    if (!owner->has(Control)) return visit_op(*owner);
    if (!visit_control(*owner)) return false;
    const std::vector<Value*> from = origins(v);
    return std::all_of(from.begin(), from.end(), [&](const Value* x) { return visit(x); });
  }

  // What decides how often its regions run.
  bool visit_control(const Op& op) {
    if (op.opcode == Opcode::While) return false;
    const std::vector<Value*> deciding = op.opcode == Opcode::For ? ForLoop(op).bounds() : std::vector{op.operands[0]};
    return std::all_of(deciding.begin(), deciding.end(), [&](const Value* x) { return visit(x); });
  }

 private:
  bool visit_op(const Op& op) {
    return op.opcode != Opcode::BlockId && op.opcode != Opcode::ExchangeBlocks && op.has(Pure) &&
           std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* x) { return !x || visit(x); });
  }

  std::unordered_set<const Value*> seen_;
};

}  // namespace

bool same_in_blocks(const Value* scalar) { return SameSearch().visit(scalar); }

bool runs_alike_in_blocks(const Op& op) {
  for (const Op* around = op.parent->parent; around; around = around->parent->parent)
    if (!around->has(Control) || !SameSearch().visit_control(*around)) return false;
  return true;
}

bool meets_other_blocks(const Op& op, const std::unordered_map<const Value*, int>& uses) {
  if (op.opcode == Opcode::Barrier || op.opcode == Opcode::ExchangeBlocks) return true;
  return is_by_owners(op) && !is_per_block(op) && uses.contains(op.result());
}

}  // namespace tegula
