#include "codegen/analysis/pointer_base.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace tegula {

using namespace ir;

namespace {

// Nullopt where paths disagree. A path around a loop back to a value under way adds nothing: null.
std::optional<const Value*> base_of(const Value* pointer, std::unordered_set<const Value*>& visiting) {
  const Value* common = nullptr;
  auto merge = [&](const Value* v) {
    if (!v || visiting.contains(v)) return v != nullptr;
    std::optional<const Value*> base = base_of(v, visiting);
    if (!base || (common && *base && common != *base)) return false;
    if (*base) common = *base;
    return true;
  };
  visiting.insert(pointer);
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
        known = merge(op->operands[0]);
        break;
      case Opcode::Bitcast:
        known = op->operands[0]->type.pointer && merge(op->operands[0]);
        break;
      case Opcode::Select:
        known = merge(op->operands[1]) && merge(op->operands[2]);
        break;
      case Opcode::For:
        known = merge(op->operands[kForBounds + pointer->index]) &&
                merge(op->regions[0]->terminator()->operands[pointer->index]);
        break;
      case Opcode::If:
        known = merge(op->regions[0]->terminator()->operands[pointer->index]) &&
                merge(op->regions[1]->terminator()->operands[pointer->index]);
        break;
      default:
        break;
    }
  } else if (!pointer->block->parent) {
    common = pointer;
    known = true;
  } else if (const Op* loop = pointer->block->parent; loop->opcode == Opcode::For && pointer->index > 0) {
    known = merge(loop->operands[kForBounds + pointer->index - 1]) &&
            merge(pointer->block->terminator()->operands[pointer->index - 1]);
  }
  visiting.erase(pointer);
  if (!known) return std::nullopt;
  return common;
}

}  // namespace

const Value* pointer_base(const Value* pointer) {
  std::unordered_set<const Value*> visiting;
  return base_of(pointer, visiting).value_or(nullptr);
}

bool apart(const Value* pointer, const std::vector<const Value*>& written) {
  const Value* base = pointer_base(pointer);
  return std::all_of(written.begin(), written.end(), [&](const Value* w) { return w && base && w != base; });
}

bool orders_memory(const Block& block, std::vector<const Value*>& written) {
  bool ordered = false;
  walk(block, [&](const Op& op) {
    if (op.opcode == Opcode::Store || op.opcode == Opcode::AtomicRmw)
      written.push_back(pointer_base(op.operands[0]));
    else if (op.opcode == Opcode::Barrier)
      ordered = true;
    ordered |= op.opcode == Opcode::AtomicRmw && op.attr_string("sem") != "relaxed";
    ordered |= op.attr_bool("volatile");
  });
  return ordered;
}

}  // namespace tegula
