#include "codegen/passes/dead_code.h"

#include <algorithm>
#include <unordered_set>

namespace tegula {

using namespace ir;

namespace {

class DeadCode {
 public:
  bool run(Func& func) {
    walk(func.body, [&](Op& op) {
      bool effect = op.has(Writes) || (op.has(Reads) && op.attr_bool("volatile")) || op.opcode == Opcode::Return;
      if (effect) need(&op);
    });
    while (!work_.empty()) {
      const Value* value = work_.back();
      work_.pop_back();
      value->def ? need_result(*value) : need_argument(*value);
    }
    sweep(func.body);
    return removed_;
  }

 private:
  void need(const Value* value) {
    if (value && values_.insert(value).second) work_.push_back(value);
  }
  void need(Block* block) {
    if (block->parent) need(block->parent);
  }

  // The op stays, hence what it is nested in. Carried values and results of for and if are needed one by one.
  void need(Op* op) {
    if (!ops_.insert(op).second) return;
    if (op->parent) need(op->parent);
    size_t count = op->opcode == Opcode::For ? kForBounds : op->operands.size();
    for (size_t i = 0; i < count; ++i) need(op->operands[i]);
    for (auto& region : op->regions) {
      Op* end = region->terminator();
      ops_.insert(end);
      if (op->opcode != Opcode::For && op->opcode != Opcode::If)
        for (Value* v : end->operands) need(v);
    }
  }

  void need_result(const Value& value) {
    Op* op = value.def;
    need(op);
    if (op->opcode == Opcode::For) return need_carried(*op, value.index);
    if (op->opcode == Opcode::If)
      for (auto& region : op->regions) need(region->terminator()->operands[value.index]);
  }

  void need_argument(const Value& value) {
    Op* op = value.block->parent;
    if (!op) return;
    need(op);
    if (op->opcode == Opcode::For && value.index > 0) need_carried(*op, value.index - 1);
  }

  void need_carried(const Op& op, int i) {
    need(op.operands[kForBounds + i]);
    need(op.regions[0]->terminator()->operands[i]);
    need(op.regions[0]->args[1 + i].get());
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
      if (op.opcode == Opcode::For || op.opcode == Opcode::If) trim(op);
      for (auto& region : op.regions) sweep(*region);
      ++it;
    }
  }

  void trim(Op& op) {
    bool loop = op.opcode == Opcode::For;
    std::vector<bool> keep;
    for (size_t i = 0; i < op.results.size(); ++i)
      keep.push_back(values_.contains(op.result(int(i))) ||
                     (loop && values_.contains(op.regions[0]->args[1 + i].get())));
    if (std::find(keep.begin(), keep.end(), false) == keep.end()) return;
    removed_ = true;
    keep_only(op.results, keep, 0);
    for (size_t i = 0; i < op.results.size(); ++i) op.results[i]->index = int(i);
    for (auto& region : op.regions) keep_only(region->terminator()->operands, keep, 0);
    if (!loop) return;
    keep_only(op.operands, keep, kForBounds);
    auto& args = op.regions[0]->args;
    keep_only(args, keep, 1);
    for (size_t i = 0; i < args.size(); ++i) args[i]->index = int(i);
  }

  std::unordered_set<const Value*> values_;
  std::unordered_set<const Op*> ops_;
  std::vector<const Value*> work_;
  bool removed_ = false;
};

}  // namespace

bool remove_dead_code(Func& func) { return DeadCode().run(func); }

}  // namespace tegula
