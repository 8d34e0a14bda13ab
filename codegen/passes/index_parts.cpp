#include "codegen/passes/index_parts.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <vector>

namespace tegula {

using namespace ir;

namespace {

constexpr size_t kMostClones = 10000;

// Whether the value can be computed for any rows without data movement: from arange, constants and scalars.
bool is_free(const Value* v, std::unordered_map<const Value*, bool>& known) {
  if (!v->type.is_tile()) return true;
  const auto [it, is_new] = known.try_emplace(v, false);
  if (!is_new || !v->def) return it->second;
  const Op& op = *v->def;
  const bool computed = op.has(Elementwise) || op.opcode == Opcode::Splat || op.opcode == Opcode::Arange ||
                        op.opcode == Opcode::Constant || op.opcode == Opcode::Unset ||
                        op.opcode == Opcode::ExpandDims || op.opcode == Opcode::Broadcast || op.opcode == Opcode::Trans;
  const bool found =
      computed && op.has(Pure) && op.results.size() == 1 &&
      std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* x) { return !x || is_free(x, known); });
  return known[v] = found;
}

}  // namespace

bool part_users(Func& func) {
  struct Use {
    Op* op;
    size_t operand;
  };
  std::unordered_map<const Value*, std::vector<Use>> uses;
  std::vector<Op*> ops;
  walk(func.body, [&](Op& op) {
    ops.push_back(&op);
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i] && op.operands[i]->type.is_tile()) uses[op.operands[i]].push_back({&op, i});
  });
  std::unordered_map<const Value*, bool> known;
  size_t clones = 0;
  for (size_t at = ops.size(); at-- > 0;) {  // users before what they use
    Op& op = *ops[at];
    if (op.results.size() != 1 || !op.result()->type.is_tile() || !is_free(op.result(), known)) continue;
    const std::vector<Use> of = uses[op.result()];
    for (size_t i = 1; i < of.size(); ++i) {
      if (++clones > kMostClones) return false;
      Builder here;
      here.set_before(&op);
      ValueMap map;
      Op* own = here.insert(clone_op(op, map));
      of[i].op->operands[of[i].operand] = own->result();
      for (size_t k = 0; k < own->operands.size(); ++k)
        if (own->operands[k] && own->operands[k]->type.is_tile()) uses[own->operands[k]].push_back({own, k});
    }
  }
  return true;
}

void begin_range(Func& func, Op& arange, const std::function<Value*(Builder&)>& begin) {
  const int64_t extent = arange.result()->type.shape[0];
  Builder build;
  build.set_after(&arange);
  build.set_loc(arange.loc);
  Value* own = begin(build);
  Value* sum = build.create(Opcode::Add, {arange.result(), build.splat(own, {extent})})->result();
  arange.set(attr::end, arange.get(attr::start) + extent);
  replace_uses(func.body, arange.result(), sum);
  sum->def->operands[0] = arange.result();
}

namespace {

template <class Use>
void for_each_list(Op& hint, const Use& use) {
  for (auto key : {attr::divisibility, attr::contiguity, attr::constancy})
    if (hint.has(key)) use(key);
}

}  // namespace

void weaken_hint(Op& hint, size_t axis) {
  const int64_t extent = hint.result()->type.shape[axis];
  for_each_list(hint, [&](auto key) {
    Ints numbers = hint.get(key);
    numbers[axis] =
        key.name == attr::divisibility.name ? std::gcd(numbers[axis], extent) : std::min(numbers[axis], extent);
    hint.set(key, std::move(numbers));
  });
}

void drop_hint(Op& hint) {
  for_each_list(hint, [&](auto key) { hint.attrs.erase(hint.attrs.find(key.name)); });
}

}  // namespace tegula
