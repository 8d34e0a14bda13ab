#include "codegen/passes/index_parts.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/passes/axis_classes.h"

namespace tegula {

using namespace ir;

namespace {

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

// Which classes of axes a use of a tile wants its axes in; kNone where an axis has one element, or nobody asks.
using Wanted = std::vector<size_t>;
constexpr size_t kNone = size_t(-1);

Wanted wanted_of_operand(const Op& op, const Value& operand, const Wanted& result) {
  if (op.opcode == Opcode::Trans) {
    const Ints order = op.get(attr::order);
    Wanted wanted(order.size());
    for (size_t i = 0; i < order.size(); ++i) wanted[size_t(order[i])] = result[i];
    return wanted;
  }
  Wanted wanted = result;
  if (op.opcode == Opcode::ExpandDims) wanted.erase(wanted.begin() + op.get(attr::axis));
  if (op.opcode == Opcode::Broadcast)
    for (size_t i = 0; i < wanted.size(); ++i)
      if (operand.type.shape[i] != op.result()->type.shape[i]) wanted[i] = kNone;
  return wanted;
}

class UserParts {
 public:
  explicit UserParts(Func& func) : func_(func) {}

  void run() {
    std::vector<Op*> ops;
    walk(func_.body, [&](Op& op) { ops.push_back(&op); });
    find_uses(ops);
    for (size_t at = ops.size(); at-- > 0;)  // users before what they use
      if (is_free(*ops[at])) divide(*ops[at]);
  }

 private:
  struct Use {
    Op* op;
    size_t operand;
    Wanted wanted;
  };

  bool is_free(const Op& op) {
    return op.results.size() == 1 && op.result()->type.is_tile() && tegula::is_free(op.result(), known_);
  }

  // Those by ops that are not free. While classes are found, a value of its own stands in each of them.
  void find_uses(const std::vector<Op*>& ops) {
    std::deque<Value> own;
    std::vector<std::pair<Use, Value*>> found;
    AxisClasses::Ops reductions;
    for (Op* op : ops) {
      if (op->opcode == Opcode::Reduce) reductions.insert(op);
      if (is_free(*op)) continue;
      for (size_t i = 0; i < op->operands.size(); ++i) {
        Value* v = op->operands[i];
        if (!v || !v->def || !is_free(*v->def)) continue;
        own.emplace_back().type = v->type;
        found.push_back({{op, i, {}}, v});
        op->operands[i] = &own.back();
      }
    }
    // Axes on both sides of a reduction may be divided apart.
    AxisClasses classes(func_, std::move(reductions));
    for (size_t n = 0; n < found.size(); ++n) {
      auto& [use, v] = found[n];
      for (int i = 0; i < v->type.rank(); ++i) use.wanted.push_back(classes.find({&own[n], i}));
      use.op->operands[use.operand] = v;
      uses_[v].push_back(std::move(use));
    }
  }

  // One copy for each way in which users want it.
  void divide(Op& op) {
    std::map<Wanted, std::vector<Use>> ways;
    for (Use& use : uses_[op.result()]) {
      Wanted wanted = use.wanted;
      ways[std::move(wanted)].push_back(std::move(use));
    }
    if (ways.empty()) ways[Wanted(size_t(op.result()->type.rank()), kNone)];
    bool first = true;
    for (const auto& [wanted, uses] : ways) {
      Op* own = &op;
      if (!std::exchange(first, false)) {
        Builder here;
        here.set_before(&op);
        ValueMap map;
        own = here.insert(clone_op(op, map));
      }
      for (const Use& use : uses) use.op->operands[use.operand] = own->result();
      for (size_t i = 0; i < own->operands.size(); ++i) {
        const Value* v = own->operands[i];
        if (v && v->type.is_tile()) uses_[v].push_back({own, i, wanted_of_operand(*own, *v, wanted)});
      }
    }
  }

  Func& func_;
  std::unordered_map<const Value*, bool> known_;
  std::unordered_map<const Value*, std::vector<Use>> uses_;
};

}  // namespace

void part_users(Func& func) { UserParts(func).run(); }

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
