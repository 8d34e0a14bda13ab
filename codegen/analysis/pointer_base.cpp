#include "codegen/analysis/pointer_base.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

namespace {

// Nullopt where paths disagree. A path around a loop back to a value under way adds nothing: null.
std::optional<const Value*> base_of(const Value* pointer, std::vector<const Value*>& visiting) {
  const Value* common = nullptr;
  auto merge = [&](const Value* v) {
    if (!v || std::ranges::find(visiting, v) != visiting.end()) return v != nullptr;
    std::optional<const Value*> base = base_of(v, visiting);
    if (!base || (common && *base && common != *base)) return false;
    if (*base) common = *base;
    return true;
  };
  auto handed_on = [&] {
    const std::vector<Value*> from = origins(pointer);
    return !from.empty() && std::all_of(from.begin(), from.end(), merge);
  };
  visiting.push_back(pointer);
  bool known = false;
  if (const Op* op = pointer->def) {
    switch (op->opcode) {
      case Opcode::AddPtr:
      case Opcode::Splat:
      case Opcode::Broadcast:
      case Opcode::ExpandDims:
      case Opcode::Reshape:
      case Opcode::Trans:
      case Opcode::Hint:
      case Opcode::ConvertLayout:
        known = merge(op->operands[0]);
        break;
      case Opcode::Bitcast:
        known = op->operands[0]->type.pointer && merge(op->operands[0]);
        break;
      case Opcode::Select:
        known = merge(op->operands[1]) && merge(op->operands[2]);
        break;
      default:
        known = handed_on();
        break;
    }
  } else if (!pointer->block->parent) {
    common = pointer;
    known = true;
  } else {
    known = handed_on();
  }
  visiting.pop_back();
  if (!known) return std::nullopt;
  return common;
}

}  // namespace

const Value* pointer_base(const Value* pointer) {
  std::vector<const Value*> visiting;
  return base_of(pointer, visiting).value_or(nullptr);
}

bool no_alias(const Value* pointer, const std::vector<const Value*>& written) {
  const Value* base = pointer_base(pointer);
  return std::all_of(written.begin(), written.end(), [&](const Value* w) { return w && base && w != base; });
}

bool orders_memory(const Op& op, std::vector<const Value*>& written) {
  bool ordered = false;
  if (op.opcode == Opcode::Store || op.opcode == Opcode::AtomicRmw)
    written.push_back(pointer_base(op.operands[0]));
  else if (op.opcode == Opcode::BulkStore)
    written.push_back(pointer_base(op.operands[1]->def->operands[0]));
  else if (op.has(WritesGlobal))  // a barrier, or an op that nothing is known of here
    ordered = op.opcode != Opcode::Barrier || !op.get(attr::async_proxy);  // which a pass set for shared memory alone
  ordered |= op.opcode == Opcode::AtomicRmw && op.get(attr::sem) != "relaxed";
  ordered |= op.has(attr::volatile_) && op.get(attr::volatile_);
  for (const auto& region : op.regions) ordered |= orders_memory(*region, written);
  return ordered;
}

bool orders_memory(const Block& block, std::vector<const Value*>& written) {
  bool ordered = false;
  for (const auto& op : block.ops) ordered |= orders_memory(*op, written);
  return ordered;
}

std::vector<const Value*> written_by(const Func& func) {
  std::vector<const Value*> written;
  orders_memory(func.body, written);
  walk(func.body, [&](const Op& op) {
    if (op.opcode == Opcode::InlineAsmEffects) written.push_back(nullptr);
  });
  return written;
}

bool follows_order(const Op& loop) {
  std::vector<const Value*> written;
  for (const Op* op = &loop; op; op = op->parent->parent) {
    const Op* around = op->parent->parent;
    if (around && around->info().loops() &&
        std::any_of(around->regions.begin(), around->regions.end(),
                    [&](const auto& region) { return orders_memory(*region, written); }))
      return true;
    for (auto& other : op->parent->ops) {
      if (other.get() == op) break;
      if (orders_memory(*other, written)) return true;
    }
  }
  return false;
}

}  // namespace tegula
