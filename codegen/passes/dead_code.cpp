#include "codegen/passes/dead_code.h"

#include <algorithm>
#include <vector>

#include "codegen/ir/flow.h"
#include "codegen/ir/pointer_set.h"

namespace tegula {

using namespace ir;

namespace {

class DeadCode {
 public:
  bool run(Func& func) {
    walk(func.body, [&](Op& op) {
      bool effect =
          op.has(Writes) || op.opcode == Opcode::Return || (op.has(attr::volatile_) && op.get(attr::volatile_));
      if (effect) need(&op);
    });
    while (!work_.empty()) {
      const Value* value = work_.back();
      work_.pop_back();
      need_definition(*value);
    }
    sweep(func.body);
    return removed_;
  }

 private:
  void need(const Value* value) {
    if (value && values_.insert(value)) work_.push_back(value);
  }
  void need(Block* block) {
    if (block->parent) need(block->parent);
  }

  // Marks the op and the ops around it as needed. Values that control flow passes on are marked one by one.
  void need(Op* op) {
    if (!ops_.insert(op)) return;
    if (op->parent) need(op->parent);
    need_fixed_operands(*op);
    for (auto& region : op->regions) {
      ops_.insert(region->terminator());
      need_fixed_operands(*region->terminator());
    }
  }

  void need_fixed_operands(const Op& op) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (!is_handed_on(op, i)) need(op.operands[i]);
  }

  void need_definition(const Value& value) {
    Op* op = value.def ? value.def : value.block->parent;
    if (!op) return;
    need(op);
    for (Value* origin : origins(&value)) need(origin);
  }

  template <class T>
  static void keep_only(std::vector<T>& list, const std::vector<bool>& keep, size_t begin) {
    size_t to = begin;
    for (size_t i = 0; i < keep.size(); ++i)
      if (keep[i]) std::swap(list[to++], list[begin + i]);
    list.resize(to);
  }

  void sweep(Block& block) {
    for (auto it = block.ops.begin(); it != block.ops.end();) {
      Op& op = **it;
      if (!ops_.contains(&op)) {
        it = block.ops.erase(it);
        removed_ = true;
        continue;
      }
      trim(op);
      for (auto& region : op.regions) sweep(*region);
      ++it;
    }
  }

  // Removes values that control flow passes on but nobody uses.
  void trim(Op& op) {
    for (const Flow& flow : flows(op)) {
      std::vector<bool> keep;
      for (size_t i = 0; i < flow.size(); ++i)
        keep.push_back(
            std::any_of(flow.to.begin(), flow.to.end(), [&](const Flow::To& to) { return values_.contains(to[i]); }));
      if (std::find(keep.begin(), keep.end(), false) == keep.end()) continue;
      removed_ = true;
      for (const Flow::From& from : flow.from) keep_only(from.op->operands, keep, from.first);
      for (const Flow::To& to : flow.to) {
        keep_only(*to.values, keep, to.first);
        for (size_t i = 0; i < to.values->size(); ++i) (*to.values)[i]->index = int(i);
      }
    }
  }

  PointerSet values_;
  PointerSet ops_;
  std::vector<const Value*> work_;
  bool removed_ = false;
};

}  // namespace

bool remove_dead_code(Func& func) { return DeadCode().run(func); }

}  // namespace tegula
