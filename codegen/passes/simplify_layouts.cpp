// Removes and cheapens layout conversions.
//
// - A conversion to the layout that the value has, and one of a conversion, fold.
// - A value that follows cheaply from others is computed again in the wanted layout, if what must then be converted
//   instead is nothing or a small part of it: index arithmetic from aranges, what is broadcast from a row, or read from
//   a place in shared memory, which is read again where it was read. So are a few integers that are loaded, as pages of
//   a table that say where a tile lies: threads would wait for each other.
// - A conversion of a widening cast goes before the cast, where the elements are smaller.
// - What is computed element by element for a conversion alone is computed after it, if less is converted there: the
//   float16 that was loaded, not the float32 that follows.
// - Equal pure ops are merged and dead ones dropped.
// - A conversion that one branch alone uses is made there.
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/analysis/conversion.h"
#include "codegen/ir/builder.h"
#include "codegen/layout/layout_hash.h"
#include "codegen/passes/dead_code.h"
#include "codegen/passes/equal_ops.h"
#include "codegen/passes/layout_rules.h"
#include "codegen/passes/passes.h"

namespace tegula {

using ir::Block;
using ir::Builder;
using ir::Func;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr int kMaxRecomputed = 64;     ///< ops for one conversion
constexpr int64_t kMinimumSaving = 4;  ///< how many times cheaper what is converted instead must be

/// Whether computing the op twice costs less than moving its result.
bool is_cheap(const Op& op) {
  if (!op.has(ir::Pure) || op.results.size() != 1) return false;
  if (is_layout_free(op)) return true;
  switch (op.opcode) {
    case Opcode::ExpandDims:
    case Opcode::Broadcast:
    case Opcode::Reshape:
    case Opcode::Trans:
      return true;
    case Opcode::Div:
    case Opcode::Rem:
      return !op.result()->type.is_float();
    case Opcode::InlineAsm:
    case Opcode::Libdevice:
    case Opcode::Pow:
      return false;
    case Opcode::Abs:
    case Opcode::Neg:
    case Opcode::Fma:
      return true;
    default:
      return op.has(ir::Elementwise) && !op.has(ir::FloatOnly);
  }
}

/// Whether it is cheaper that each thread loads the elements it needs in the layout than that it gets them from other
/// threads.
bool is_loaded_again(const Value& x, const LinearLayout& layout) {
  constexpr int kMostLoads = 16;  // of a thread
  const Op& load = *x.def;
  if (load.opcode == Opcode::SharedRead) return true;
  return load.opcode == Opcode::Load && !load.get(ir::attr::volatile_) && x.type.is_integer() &&
         (1 << layout.in_bits(Dim::Register)) <= kMostLoads &&
         goes_through_shared(plan_conversion(*x.type.layout, layout).route);
}

std::optional<LinearLayout> needed_for(const Op& op, const LinearLayout& result) {
  return op.opcode == Opcode::Load ? result : operand_layout(op, result);
}

int64_t bytes_of(const ir::Type& type) { return type.num_elements() * std::max(1, type.bits() / 8); }

// A block, and a layout that values in it are converted to.
using Wanted = std::pair<const Block*, LayoutRef>;
struct WantedHash {
  size_t operator()(const Wanted& wanted) const {
    return std::hash<const Block*>()(wanted.first) ^ LayoutHash()(wanted.second);
  }
};
struct EqualWanted {
  bool operator()(const Wanted& a, const Wanted& b) const { return a.first == b.first && *a.second == *b.second; }
};

class Simplifier {
 public:
  explicit Simplifier(Func& func) : func_(func) {}

  void run() {
    ir::walk(func_.body, [&](Op& op) {
      if (op.opcode == Opcode::ConvertLayout) add_conversion(op);
      add_uses(op);
    });
    while (!work_.empty()) {
      Op* op = work_.front();
      work_.pop_front();
      simplify(*op);
    }
    merge(func_.body, nullptr);
    remove_dead_code(func_);
    into_branches();
  }

 private:
  void add_uses(Op& op) {
    for (Value* operand : op.operands)
      if (operand) users_[operand].push_back(&op), ++uses_[operand];
  }

  void add_conversion(Op& op) {
    work_.push_back(&op);
    conversions_[{op.parent, op.result()->type.layout}].push_back(&op);
  }

  void replace(Value* value, Value* by) {
    const auto users = users_.find(value);
    if (users == users_.end() || value == by) return;
    const std::vector<Op*> changed = std::move(users->second);
    users_.erase(users);
    for (Op* user : changed) {
      int uses = 0;
      for (Value*& operand : user->operands)
        if (operand == value) operand = by, ++uses;
      if (!uses) continue;
      users_[by].push_back(user);
      uses_[value] -= uses, uses_[by] += uses;
    }
  }

  void simplify(Op& op) {
    Value *x = unconverted(op.operands[0]), *result = op.result();
    --uses_[op.operands[0]], ++uses_[x];
    op.operands[0] = x;
    users_[x].push_back(&op);
    const LinearLayout layout = *result->type.layout;
    if (*x->type.layout == layout) return replace(result, x);

    plan_.clear();
    int64_t moved = plan(x, layout);
    if (moved * kMinimumSaving <= bytes_of(x->type) && int(plan_.size()) <= kMaxRecomputed) {
      made_.clear();
      return replace(result, make(x, layout, &op));
    }
    if (Op* cast = x->def; cast && cast->opcode == Opcode::Cast && cast->operands[0]->type.bits() < x->type.bits()) {
      Builder builder;
      builder.set_before(&op);
      Value* narrow = convert(builder, cast->operands[0], result->type.layout);
      ir::ValueMap map{{cast->operands[0], narrow}};
      Value* wide = builder.insert(ir::clone_op(*cast, map))->result();
      add_uses(*wide->def);
      wide->type.layout = result->type.layout;
      return replace(result, wide);
    }
    if (plan_behind(op)) {
      made_.clear();
      replace(result, make(x, layout, &op));
    }
  }

  /// Plans to compute the inputs of the conversion that nothing else uses in the wanted layout; false if that does not
  /// pay.
  bool plan_behind(const Op& conversion) {
    const Value* x = conversion.operands[0];
    const LinearLayout& layout = *conversion.result()->type.layout;
    if (layout.in_size(Dim::Register) > x->type.layout->in_size(Dim::Register)) return false;  // it would be repeated
    const std::vector<const Op*> alone = computed_for(conversion);
    plan_.clear();
    for (const Op* op : alone) plan_[{op->result(), layout.to_string()}] = true;
    std::set<Value*> operands;
    for (const Op* op : alone) operands.insert(op->operands.begin(), op->operands.end());
    int64_t moved = 0, saved = bytes_of(x->type);
    for (Value* operand : operands) {
      moved += plan(operand, layout);
      const bool goes = operand && operand->def && operand->def->opcode == Opcode::ConvertLayout && !left(operand);
      if (goes) saved += bytes_of(operand->type);
    }
    return !alone.empty() && 4 * moved <= 3 * saved && int(plan_.size()) <= kMaxRecomputed;
  }

  /// Elementwise ops that the conversion follows from, and whose results are for it alone, or for others to its layout.
  std::vector<const Op*> computed_for(const Op& conversion) {
    if (!is_elementwise_in(*conversion.parent, conversion.operands[0])) return {};
    left_.clear();
    std::vector<const Value*> used;
    for (const Op* other : conversions_.at({conversion.parent, conversion.result()->type.layout}))
      used.push_back(other->operands[0]);
    std::unordered_set<const Op*> for_layout;
    while (!used.empty()) {
      const Value* x = used.back();
      used.pop_back();
      if (!x || --left(x) > 0 || !is_elementwise_in(*conversion.parent, x)) continue;
      for_layout.insert(x->def);
      used.insert(used.end(), x->def->operands.begin(), x->def->operands.end());
    }
    std::vector<const Op*> found;
    auto take = [&](const Value* x) {
      if (x && for_layout.erase(x->def)) found.push_back(x->def);
    };
    take(conversion.operands[0]);
    for (size_t i = 0; i < found.size(); ++i)
      for (const Value* operand : found[i]->operands) take(operand);
    return found;
  }
  int& left(const Value* x) { return left_.try_emplace(x, uses_.at(x)).first->second; }

  static bool is_elementwise_in(const Block& block, const Value* x) {
    const Op* op = x->def;
    return op && op->parent == &block && op->has(ir::Elementwise) && op->has(ir::Pure) && op->results.size() == 1;
  }

  static Value* unconverted(Value* x) {
    while (x->def && x->def->opcode == Opcode::ConvertLayout) x = x->def->operands[0];
    return x;
  }

  using Key = std::pair<const Value*, std::string>;  // a value in a layout

  /// Bytes that have to be converted if x is computed in `layout`, as far as that is cheap. Fills plan_.
  int64_t plan(Value* x, const LinearLayout& layout) {
    if (x) x = unconverted(x);
    if (!x || x->type.is_scalar() || *x->type.layout == layout) return 0;
    Key key{x, layout.to_string()};
    if (plan_.contains(key) || int(plan_.size()) > kMaxRecomputed) return 0;
    if (!x->def || !(is_cheap(*x->def) || is_loaded_again(*x, layout))) return bytes_of(x->type);
    plan_[key] = true;
    if (is_layout_free(*x->def)) return 0;
    auto needed = needed_for(*x->def, layout);
    if (!needed) {
      plan_[key] = false;
      return bytes_of(x->type);
    }
    int64_t total = 0;
    for (Value* operand : x->def->operands)
      if (operand) total += plan(operand, *needed);
    // A single conversion of the result beats several of operands.
    if (total >= bytes_of(x->type)) {
      plan_[key] = false;
      return bytes_of(x->type);
    }
    return total;
  }

  /// x in `layout` as planned, computed before `user`.
  Value* make(Value* x, const LinearLayout& layout, Op* user) {
    x = unconverted(x);
    if (x->type.is_scalar() || *x->type.layout == layout) return x;
    Key key{x, layout.to_string()};
    if (auto it = made_.find(key); it != made_.end()) return it->second;
    if (auto it = loaded_.find(key); it != loaded_.end()) return it->second;
    auto planned = plan_.find(key);
    Value* result;
    if (planned == plan_.end() || !planned->second) {
      Builder builder;
      builder.set_before(user);
      result = convert(builder, x, std::make_shared<LinearLayout>(layout));
    } else {
      ir::ValueMap map;
      const bool loads = x->def->opcode == Opcode::Load || x->def->opcode == Opcode::SharedRead;
      std::map<Key, Value*> made;                  // so far, not all of it ahead of the load
      if (loads) user = x->def, made.swap(made_);  // no store comes in between
      if (!is_layout_free(*x->def)) {
        LinearLayout needed = *needed_for(*x->def, layout);
        for (Value* operand : x->def->operands)
          if (operand) map[operand] = make(operand, needed, user);
      }
      Builder builder;
      builder.set_before(user);
      result = builder.insert(ir::clone_op(*x->def, map))->result();
      add_uses(*result->def);
      result->type.layout = std::make_shared<LinearLayout>(layout);
      if (loads) {
        if (x->def->opcode == Opcode::Load) result->def->set(ir::attr::vector, 1);
        made_ = std::move(made);
        loaded_[key] = result;
      }
    }
    return made_[key] = result;
  }

  Value* convert(Builder& builder, Value* x, LayoutRef layout) {
    if (*x->type.layout == *layout) return x;
    Value* result = builder.convert_layout(x, std::move(layout));
    add_conversion(*result->def);
    add_uses(*result->def);
    return result;
  }

  /// Replaces a pure op by an equal one above it in this block or an enclosing one.
  void merge(Block& block, const Op* owner) {
    equal_.enter(owner);
    for (auto& op : block.ops) {
      for (auto& region : op->regions) merge(*region, op.get());
      if (Value* same = equal_.find_or_add(*op)) replace(op->result(), same);
    }
    equal_.leave();
  }

  void into_branches() {
    std::map<const Value*, std::vector<Op*>> users;
    std::vector<Op*> conversions;
    ir::walk(func_.body, [&](Op& op) {
      if (op.opcode == Opcode::ConvertLayout) conversions.push_back(&op);
      for (Value* operand : op.operands)
        if (operand) users[operand].push_back(&op);
    });
    for (Op* conversion : conversions)
      while (Op* user = first_in_branch(*conversion, users[conversion->result()])) ir::move_before(*conversion, *user);
  }

  /// The first op of the branch that all users stand in; null if there is none.
  static Op* first_in_branch(const Op& conversion, const std::vector<Op*>& users) {
    Op* first = nullptr;
    for (Op* user : users) {
      while (user->parent != conversion.parent && user->parent->parent->parent != conversion.parent)
        user = user->parent->parent;
      if (user->parent == conversion.parent || user->parent->parent->opcode != Opcode::If) return nullptr;
      if (first && user->parent != first->parent) return nullptr;
      if (!first || comes_before(*user, *first)) first = user;
    }
    return first;
  }

  static bool comes_before(const Op& a, const Op& b) {
    for (const auto& op : a.parent->ops) {
      if (op.get() == &a) return &a != &b;
      if (op.get() == &b) return false;
    }
    return false;
  }

  Func& func_;
  std::deque<Op*> work_;
  std::unordered_map<const Value*, std::vector<Op*>> users_;  ///< of each value, and others that used it once
  std::unordered_map<Wanted, std::vector<const Op*>, WantedHash, EqualWanted> conversions_;
  std::map<Key, bool> plan_;  ///< true: computed again; false: converted after all
  std::map<Key, Value*> made_;
  std::map<Key, Value*> loaded_;                ///< again, after what was loaded
  std::unordered_map<const Value*, int> uses_;  ///< as operands
  std::unordered_map<const Value*, int> left_;  ///< of computed_for(): uses but by such ops, of values looked at
  EqualOps equal_;
};

}  // namespace

void passes::simplify_layouts(Func& func, PassContext&) { Simplifier(func).run(); }

}  // namespace tegula
