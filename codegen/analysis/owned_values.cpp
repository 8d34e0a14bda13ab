#include "codegen/analysis/owned_values.h"

#include <unordered_map>
#include <vector>

#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

namespace {

// Whether each thread computes the results of the op from its own registers alone, and does nothing else.
bool is_of_each_thread(const Op& op) { return op.has(Elementwise) && op.has(Pure); }

// Whether only the owners of elements do anything with the operands, which have one layout.
bool is_for_owners(const Op& op) { return op.opcode == Opcode::Store || op.opcode == Opcode::AtomicRmw; }

}  // namespace

OwnedValues::OwnedValues(const Func& func) {
  std::unordered_map<const Value*, std::vector<const Value*>> sources;  // what a value follows from, in each thread
  std::vector<const Value*> next;
  const auto escape = [&](const Value* value) {
    if (escaping_.insert(value).second) next.push_back(value);
  };
  walk(func.body, [&](const Op& op) {
    for (const std::vector<Value*>& variable : circulating(op))
      for (const Value* value : variable) sources[value].insert(sources[value].end(), variable.begin(), variable.end());
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Value* operand = op.operands[i];
      if (!operand || is_handed_on(op, i) || is_for_owners(op)) continue;
      if (!is_of_each_thread(op)) {
        escape(operand);
        continue;
      }
      for (const auto& result : op.results) sources[result.get()].push_back(operand);
    }
  });
  while (!next.empty()) {
    const Value* value = next.back();
    next.pop_back();
    for (const Value* source : sources[value]) escape(source);
  }
}

}  // namespace tegula
