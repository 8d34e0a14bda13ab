// Folds constants, applies identities, resolves constant control, merges equal pure ops, sums products into what they
// are added to and removes dead ops, until nothing changes. Needs nothing but a verified function, so it may run with
// layouts or without; it runs first because specialised kernels arrive full of constants.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/ir/flow.h"
#include "codegen/passes/constant_fold.h"
#include "codegen/passes/dead_code.h"
#include "codegen/passes/equal_ops.h"
#include "codegen/passes/passes.h"

namespace tegula {

using namespace ir;

namespace {

bool is_integer(const Value* v, int64_t value) { return constant_integer(v) == value; }
bool is_all_ones(const Value* v) {
  return v->type.is_integer() && is_integer(v, wrap_integer(~uint64_t(0), v->type.elem));
}
// Distinguishes +0 and -0.
bool is_double(const Value* v, double value) {
  const Attr* attr = constant_of(v);
  return attr && std::holds_alternative<double>(*attr) &&
         std::bit_cast<uint64_t>(std::get<double>(*attr)) == std::bit_cast<uint64_t>(value);
}
const Op* def_of(const Value* v, Opcode opcode) { return v->def && v->def->opcode == opcode ? v->def : nullptr; }

// The comparison with its operands swapped.
Opcode swapped(Opcode opcode) {
  switch (opcode) {
    case Opcode::Lt:
      return Opcode::Gt;
    case Opcode::Le:
      return Opcode::Ge;
    case Opcode::Gt:
      return Opcode::Lt;
    case Opcode::Ge:
      return Opcode::Le;
    default:
      return opcode;
  }
}

// Whether `to` holds every value of `from`.
bool holds_all(Elem from, Elem to) {
  if (is_float(from)) return is_float(to) && (from == to || (elem_bits(from) < elem_bits(to) && elem_bits(to) >= 32));
  if (is_float(to) || to == Elem::I1) return from == to;
  if (is_signed(from)) return is_signed(to) && elem_bits(from) <= elem_bits(to);
  return elem_bits(from) + is_signed(to) <= elem_bits(to);
}

class Canonicalizer {
 public:
  // One walk over the function; true if it changed.
  bool run(Func& func) {
    changed_ = false;
    block(func.body, nullptr);
    return changed_;
  }

 private:
  using Position = std::list<std::unique_ptr<Op>>::iterator;

  Value* resolve(Value* v) const {
    for (auto it = replaced_.find(v); it != replaced_.end(); it = replaced_.find(v)) v = it->second;
    return v;
  }
  void replace(Value* from, Value* to) {
    changed_ = true;
    replaced_[from] = to;
  }

  // Ops are visited in order, so every use of a value comes after the op that replaced it.
  void block(Block& b, const Op* owner) {
    equal_.enter(owner);
    block_ = &b;
    for (auto it = b.ops.begin(); it != b.ops.end();) {
      Op& op = **it;
      at_ = it;
      block_ = &b;
      for (Value*& v : op.operands) v = resolve(v);
      if (auto next = control(op, it)) {
        it = *next;
        continue;
      }
      if (Value* value = simplify(op)) {
        replace(op.result(), value);
      } else if (Value* same = equal_.find_or_add(op)) {
        replace(op.result(), same);
      } else if (removable(op)) {
        changed_ = true;
        it = retire(it);
        continue;
      }
      for (auto& region : op.regions) block(*region, &op);
      ++it;
    }
    equal_.leave();
  }

  // Removes an op from its block but keeps it alive, since replaced_ still refers to its results.
  Position retire(Position it) {
    retired_.push_back(std::move(*it));
    return block_->ops.erase(it);
  }

  // ---- New ops, before the one being visited
  Value* create(Opcode opcode, std::vector<Value*> operands, Type type, Attrs attrs = {}) {
    auto op = std::make_unique<Op>();
    op->opcode = opcode;
    op->operands = std::move(operands);
    op->attrs = std::move(attrs);
    op->loc = (*at_)->loc;
    op->parent = block_;
    op->results.push_back(std::make_unique<Value>(Value{std::move(type), op.get(), nullptr, 0, {}}));
    return block_->ops.insert(at_, std::move(op))->get()->result();
  }
  Value* constant(const Type& type, Attr value) {
    return create(Opcode::Constant, {}, type, {{attr::value, std::move(value)}});
  }
  Value* integer(const Type& type, int64_t value) { return constant(type, wrap_integer(uint64_t(value), type.elem)); }

  // ---- Control
  // Moves the ops of a region before `it` without its terminator; results take what it passes on.
  Position inline_region(Op& op, Block& region, Position it) {
    Block& b = *block_;
    for (size_t i = 0; i < op.results.size(); ++i) replace(op.result(int(i)), region.terminator()->operands[i]);
    retired_.push_back(std::move(region.ops.back()));
    region.ops.pop_back();
    for (auto& inner : region.ops) inner->parent = &b;
    Position first = region.ops.empty() ? it : region.ops.begin();
    b.ops.splice(it, region.ops);
    Position next = retire(it);
    changed_ = true;
    return first == it ? next : first;
  }

  std::optional<Position> control(Op& op, Position it) {
    if (op.opcode == Opcode::If) {
      if (auto condition = constant_integer(op.operands[0]))
        return inline_region(op, *op.regions[*condition ? 0 : 1], it);
      for (size_t i = 0; i < op.results.size(); ++i) {
        Value* value = resolve(op.regions[0]->terminator()->operands[i]);
        if (value == resolve(op.regions[1]->terminator()->operands[i])) take_place(op.result(int(i)), value);
      }
    } else if (op.opcode == Opcode::For) {
      const ForLoop loop(op);
      auto trips = trip_count(loop);
      if (trips == 0) {
        for (size_t i = 0; i < loop.carried(); ++i) replace(loop.result(i), loop.init(i));
        changed_ = true;
        return retire(it);
      }
      if (trips == 1) {
        replace(loop.induction(), loop.lower());
        for (size_t i = 0; i < loop.carried(); ++i) replace(loop.arg(i), loop.init(i));
        return inline_region(op, loop.body(), it);
      }
      for (size_t i = 0; i < loop.carried(); ++i) {
        Value *init = loop.init(i), *arg = loop.arg(i), *next = resolve(loop.next(i));
        if (next != arg && next != init) continue;
        take_place(arg, init);
        take_place(loop.result(i), init);
      }
    }
    return std::nullopt;
  }

  // Redirects uses without reporting a change; dead-code elimination removes the old value.
  void take_place(Value* from, Value* to) { replaced_[from] = to; }

  // 0, 1, or 2 for two and more; nullopt if the bounds are not known.
  static std::optional<int> trip_count(const ForLoop& loop) {
    auto lower = constant_integer(loop.lower()), upper = constant_integer(loop.upper()),
         step = constant_integer(loop.step());
    if (!lower || !upper) return std::nullopt;
    bool sign = is_signed(loop.lower()->type.elem);
    auto less = [&](int64_t a, int64_t b) { return sign ? a < b : uint64_t(a) < uint64_t(b); };
    if (!step) return *lower == *upper ? std::optional(0) : std::nullopt;
    bool down = sign && *step < 0;
    if (*step == 0) return std::nullopt;
    if (!(down ? less(*upper, *lower) : less(*lower, *upper))) return 0;
    uint64_t distance = down ? uint64_t(*lower) - uint64_t(*upper) : uint64_t(*upper) - uint64_t(*lower);
    uint64_t stride = down ? 0 - uint64_t(*step) : uint64_t(*step);
    return distance <= stride ? 1 : 2;
  }

  static bool removable(const Op& op) { return op.opcode == Opcode::Store && is_integer(op.operand(2), 0); }

  // ---- Simplification: the value that stands for the op's result, or null; the op may change in place.
  Value* simplify(Op& op) {
    if (op.has(Reads) || op.has(Writes)) return memory(op);
    if (!op.has(Pure) || op.opcode == Opcode::Constant || op.opcode == Opcode::InlineAsm) return nullptr;
    constants_.clear();
    for (Value* v : op.operands) constants_.push_back(constant_of(v));
    bool all = std::find(constants_.begin(), constants_.end(), nullptr) == constants_.end();
    if (op.has(Elementwise)) {
      if (all)
        if (auto value = fold_elementwise(op, constants_)) return constant(op.result()->type, *value);
      return elementwise(op);
    }
    switch (op.opcode) {
      case Opcode::Splat:
      case Opcode::Broadcast:
      case Opcode::ExpandDims:
      case Opcode::Reshape:
      case Opcode::Trans:
        if (all) return constant(op.result()->type, *constants_[0]);
        return shape(op);
      case Opcode::Arange:
        if (op.result()->type.num_elements() == 1) return integer(op.result()->type, op.get(attr::start));
        return nullptr;
      case Opcode::Dot:
        return product(op);
      default:
        return nullptr;
    }
  }

  // If a product of fp32 operands needs only 10 bits of mantissa, and the operands were widened from 16 bits, it
  // multiplies the narrow operands, which is exact.
  Value* product(Op& op) {
    if (!op.has(attr::precision) || op.has(attr::instruction) || op.operands[0]->type.elem != Elem::F32) return nullptr;
    const Elem a = narrow_elem(op.operands[0]), b = narrow_elem(op.operands[1]);
    if (a != b || (a != Elem::F16 && a != Elem::BF16)) return nullptr;
    for (size_t i : {0, 1}) op.operands[i] = narrow(op.operands[i]);
    op.attrs.erase(std::string(attr::precision));
    changed_ = true;
    return nullptr;
  }
  // The element type from which a value was widened, perhaps before a transposition; otherwise its own.
  static Elem narrow_elem(const Value* v) {
    while (const Op* trans = def_of(v, Opcode::Trans)) v = trans->operands[0];
    const Op* cast = def_of(v, Opcode::Cast);
    return (cast ? cast->operands[0] : v)->type.elem;
  }
  Value* narrow(Value* v) {
    if (v->def->opcode == Opcode::Cast) return v->def->operands[0];
    Value* x = narrow(v->def->operands[0]);
    return create(Opcode::Trans, {x}, v->type.with_elem(x->type.elem), v->def->attrs);
  }

  Value* memory(Op& op) {
    if (op.opcode != Opcode::Load && op.opcode != Opcode::Store && op.opcode != Opcode::AtomicRmw) return nullptr;
    size_t mask = op.opcode == Opcode::Load ? 1 : 2;
    if (is_integer(op.operand(int(mask)), 1)) {
      op.operands[mask] = nullptr;
      if (op.opcode == Opcode::Load) op.operands[2] = nullptr;
      changed_ = true;
    } else if (op.opcode == Opcode::Load && is_integer(op.operand(1), 0) && !op.get(attr::volatile_)) {
      const Type& type = op.result()->type;
      if (op.operand(2)) return op.operands[2];
      return type.is_float() ? constant(type, 0.0) : constant(type, int64_t(0));
    }
    return nullptr;
  }

  Value* shape(Op& op) {
    Value *x = op.operands[0], *result = op.result();
    if (op.opcode != Opcode::Splat && x->type == result->type && op.opcode != Opcode::Trans) return x;
    if (op.opcode == Opcode::Trans) {
      auto order = op.get(attr::order);
      if (std::is_sorted(order.begin(), order.end())) return x;
      if (const Op* inner = def_of(x, Opcode::Trans)) {
        std::vector<int64_t> both, from = inner->get(attr::order);
        for (int64_t i : order) both.push_back(from[i]);
        return create(Opcode::Trans, {inner->operands[0]}, result->type, {{attr::order, both}});
      }
    }
    if (op.opcode == Opcode::Splat) return nullptr;
    if (const Op* splat = def_of(x, Opcode::Splat)) return create(Opcode::Splat, splat->operands, result->type);
    // Two reshapes that exchange elements between threads may have a layout where one of them has none.
    if (op.opcode == Opcode::Broadcast || (op.opcode == Opcode::Reshape && !result->type.layout))
      if (const Op* inner = def_of(x, op.opcode)) return create(op.opcode, inner->operands, result->type);
    return nullptr;
  }

  Value* elementwise(Op& op) {
    Value* x = op.operands[0];
    const Type& type = op.result()->type;
    switch (op.opcode) {
      case Opcode::Cast:
        return cast(op);
      case Opcode::Bitcast:
        if (x->type == type) return x;
        if (const Op* inner = def_of(x, Opcode::Bitcast)) return create(Opcode::Bitcast, inner->operands, type);
        return nullptr;
      case Opcode::Hint:
        return constant_of(x) ? x : nullptr;
      case Opcode::AddPtr:
        return is_integer(op.operands[1], 0) ? x : nullptr;
      case Opcode::Neg: {
        const Op* inner = def_of(x, Opcode::Neg);
        return inner ? inner->operands[0] : nullptr;
      }
      case Opcode::Select:
        return select(op);
      default:
        break;
    }
    if (op.operands.size() != 2) return nullptr;
    if (constant_of(x) && !constant_of(op.operands[1])) {
      Opcode turned = op.has(Commutative) ? op.opcode : swapped(op.opcode);
      if (op.has(Commutative) || turned != op.opcode) {
        std::swap(op.operands[0], op.operands[1]);
        op.opcode = turned;
        changed_ = true;
      }
    }
    if (x->type.pointer) return nullptr;
    return x->type.is_float() ? float_identity(op) : integer_identity(op);
  }

  Value* float_identity(Op& op) {
    Value *x = op.operands[0], *y = op.operands[1];
    switch (op.opcode) {
      case Opcode::Add:
        return is_double(y, -0.0) ? x : nullptr;
      case Opcode::Sub:
        return is_double(y, 0.0) ? x : nullptr;
      case Opcode::Mul:
      case Opcode::Div:
      case Opcode::DivRn:
        return is_double(y, 1.0) ? x : nullptr;
      default:
        return nullptr;
    }
  }

  Value* integer_identity(Op& op) {
    Value *x = op.operands[0], *y = op.operands[1];
    const Type& type = op.result()->type;
    const bool same = x == y, zero = is_integer(y, 0), one = is_integer(y, 1), ones = is_all_ones(y);
    switch (op.opcode) {
      case Opcode::Add:
        return zero ? x : merge_constants(op);
      case Opcode::Sub:
        if (zero) return x;
        if (same) return integer(type, 0);
        if (auto c = constant_integer(y)) {  // x + -c, so that constants of both are merged
          Value* negative = integer(type, int64_t(0 - uint64_t(*c)));
          return create(Opcode::Add, {x, negative}, type);
        }
        return nullptr;
      case Opcode::Mul:
        if (zero) return y;
        return one ? x : merge_constants(op);
      case Opcode::Div:
        return one ? x : nullptr;
      case Opcode::Rem:
        return one && type.elem != Elem::I1 ? integer(type, 0) : nullptr;
      case Opcode::BitAnd:
        if (zero) return y;
        return ones || same ? x : merge_constants(op);
      case Opcode::BitOr:
        if (ones) return y;
        return zero || same ? x : merge_constants(op);
      case Opcode::BitXor:
        if (zero) return x;
        return same ? integer(type, 0) : merge_constants(op);
      case Opcode::Shl:
      case Opcode::Shr:
        return zero ? x : nullptr;
      case Opcode::Minimum:
      case Opcode::Maximum:
        return same ? x : nullptr;
      case Opcode::Eq:
      case Opcode::Ne:
        if (x->type.is_bool() && (op.opcode == Opcode::Eq ? one : zero)) return x;
        if (same) return integer(type, op.opcode == Opcode::Eq);
        return nullptr;
      case Opcode::Le:
      case Opcode::Ge:
        return same ? integer(type, 1) : nullptr;
      case Opcode::Lt:
      case Opcode::Gt:
        return same ? integer(type, 0) : nullptr;
      default:
        return nullptr;
    }
  }

  // (x op c) op d is x op (c op d) for + * & | ^, which wrap.
  Value* merge_constants(Op& op) {
    Value *x = op.operands[0], *y = op.operands[1];
    const Type& type = op.result()->type;
    const Op* inner = def_of(x, op.opcode);
    if (!inner || !constant_of(y) || !constant_of(inner->operands[1])) return nullptr;
    auto both = fold_elementwise(op, {constant_of(inner->operands[1]), constant_of(y)});
    if (!both) return nullptr;
    Value* combined = constant(type, *both);
    return create(op.opcode, {inner->operands[0], combined}, type);
  }

  Value* select(Op& op) {
    Value *condition = op.operands[0], *x = op.operands[1], *y = op.operands[2];
    if (auto c = constant_integer(condition)) return *c ? x : y;
    if (x == y) return x;
    if (op.result()->type.is_bool() && is_integer(x, 1) && is_integer(y, 0)) return condition;
    return nullptr;
  }

  Value* cast(Op& op) {
    Value* x = op.operands[0];
    const Type& type = op.result()->type;
    if (x->type == type) return x;
    const Op* inner = def_of(x, Opcode::Cast);
    if (!inner) return nullptr;
    Value* source = inner->operands[0];
    Elem from = source->type.elem, middle = x->type.elem, to = type.elem;
    // An exact conversion and its inverse cancel; two integer conversions that only extend, or only truncate, are one.
    bool exact = holds_all(from, middle);
    if (exact && from == to && !is_float8(from)) return source;  // float8 has no infinities on the way back
    bool integers = !is_float(from) && !is_float(middle) && !is_float(to) && to != Elem::I1 && middle != Elem::I1;
    bool floats = is_float(from) && is_float(middle) && is_float(to);
    bool cuts = integers && elem_bits(middle) >= elem_bits(to);
    if ((exact && (integers || (floats && holds_all(middle, to)))) || cuts) return create(Opcode::Cast, {source}, type);
    return nullptr;
  }

  bool changed_ = false;
  Block* block_ = nullptr;  // of the op being visited
  Position at_;
  ValueMap replaced_;
  EqualOps equal_;
  std::vector<const Attr*> constants_;  // of the operands of the op being visited, null for others
  std::vector<std::unique_ptr<Op>> retired_;
};

// acc + a x b is one product, which sums into acc: `acc += tl.dot(a, b)` and `tl.dot(a, b, acc)` are the same, as in
// Triton. Not of float8, where the former is how a kernel asks for sums in float32, nor of sums in 16 bits, which would
// be rounded more often; and only where acc is itself a sum that a loop carries, scaled or not, or another product: an
// instruction would have to wait for anything else.
class SumsOfProducts {
 public:
  explicit SumsOfProducts(const Func& func) : func_(func) {}

  bool run(Block& block) {
    bool changed = false;
    for (auto& op : block.ops) {
      for (auto& region : op->regions) changed |= run(*region);
      if (op->opcode == Opcode::Add) changed |= sum_into(*op);
    }
    return changed;
  }

 private:
  bool sum_into(Op& add) {
    const Type& type = add.result()->type;
    if (type.elem != Elem::F32 && type.elem != Elem::F64 && type.elem != Elem::I32) return false;
    for (size_t i : {1, 0}) {
      const Op* dot = def_of(add.operands[i], Opcode::Dot);
      Value* acc = add.operands[1 - i];
      if (!dot || dot->parent != add.parent || dot->has(attr::instruction)) continue;
      if (is_float8(dot->operands[0]->type.elem) || !is_zero(dot->operands[2]) || !is_sum(acc, *add.parent)) continue;
      if (uses_of(*dot->result()) != 1) continue;
      // The addition becomes the product, since acc is known at its position.
      add.opcode = Opcode::Dot;
      add.operands = {dot->operands[0], dot->operands[1], acc};
      add.attrs = dot->attrs;
      return true;
    }
    return false;
  }

  // Counted when first asked for, as most functions have no such addition.
  int uses_of(const Value& v) {
    if (!uses_) uses_ = count_uses(func_.body);
    return (*uses_)[&v];
  }

  static bool is_zero(const Value* v) { return v->type.is_float() ? is_double(v, 0.0) : is_integer(v, 0); }

  static bool is_sum(const Value* v, const Block& block) {
    if (!v->def) return v->block == &block;
    if (v->def->opcode == Opcode::Mul) return is_sum(v->def->operands[0], block) || is_sum(v->def->operands[1], block);
    return v->def->opcode == Opcode::Dot;
  }

  const Func& func_;
  std::optional<std::unordered_map<const Value*, int>> uses_;
};

}  // namespace

void passes::canonicalize(Func& func, PassContext&) {
  for (bool changed = true; changed;) {
    changed = Canonicalizer().run(func);
    changed |= SumsOfProducts(func).run(func.body);
    changed |= remove_dead_code(func);
  }
}

}  // namespace tegula
