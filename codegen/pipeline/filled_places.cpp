#include "codegen/pipeline/filled_places.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "codegen/analysis/shared_plan.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/loop_values.h"
#include "runtime/base/check.h"

namespace tegula {

using namespace ir;

// The op of the body that contains `op`.
static Op* in_body(Op* op, const Block& body) {
  while (op->parent != &body) op = op->parent->parent;
  return op;
}

Span span_of_uses(const Block& body, const Value* place) {
  std::vector<const Value*> views{place};
  std::unordered_map<const Value*, const Op*> waits;
  walk(body, [&](const Op& op) {
    if (op.opcode == Opcode::MmaWait) waits[op.operand(0)] = &op;
  });
  std::unordered_map<const Op*, size_t> order;
  for (const auto& op : body.ops) order.emplace(op.get(), order.size());
  Span span{nullptr, nullptr};
  walk(body, [&](const Op& op) {
    if (op.opcode == Opcode::AsyncCopy || op.opcode == Opcode::BulkCopy) return;
    const bool uses = std::any_of(op.operands.begin(), op.operands.end(), [&](const Value* v) {
      return std::find(views.begin(), views.end(), v) != views.end();
    });
    if (!uses) return;
    if (op.results.size() == 1 && op.result()->type.is_place()) return views.push_back(op.result());
    const Op* done = &op;
    if (op.opcode == Opcode::MmaStart) {
      done = waits[op.result()];
      TEGULA_CHECK(done && done->get(attr::pending) == 0, "a product that its loop does not wait for");
    }
    if (!span.first) span.first = in_body(const_cast<Op*>(&op), body);
    Op* last = in_body(const_cast<Op*>(done), body);  // other ops may use the place while a product reads it
    if (!span.last || order.at(last) > order.at(span.last)) span.last = last;
  });
  TEGULA_CHECK(span.first, "nobody reads what a loop copies");
  return span;
}

void read_slot(Block& body, Value* place, Value* slot) {
  std::vector<Op*> readers;
  walk(body, [&](Op& op) {
    if (std::find(op.operands.begin(), op.operands.end(), place) != op.operands.end()) readers.push_back(&op);
  });
  for (Op* op : readers)
    for (Value*& v : op->operands)
      if (v == place) {
        Builder here = before(*op);
        v = slot_of(here, place, slot);
      }
}

MovedAllocs::MovedAllocs(const std::vector<Op*>& copies, Op& where) {
  for (const Op* copy : copies) {
    Op* alloc = const_cast<Op*>(alloc_of(copy->operand(1)));
    if (alloc->parent == where.parent) continue;
    auto& ops = alloc->parent->ops;
    auto at = std::find_if(ops.begin(), ops.end(), [&](auto& op) { return op.get() == alloc; });
    moved_.emplace_back(alloc, std::next(at)->get());
    move_before(*alloc, where);
  }
}

MovedAllocs::~MovedAllocs() {
  for (size_t i = moved_.size(); i-- > 0;) move_before(*moved_[i].first, *moved_[i].second);
}

}  // namespace tegula
