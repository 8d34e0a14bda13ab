#include "codegen/analysis/axis_info.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <unordered_set>

#include "codegen/analysis/axis_facts.h"
#include "codegen/analysis/axis_runs.h"
#include "codegen/analysis/mask_bounds.h"
#include "codegen/analysis/usual_distance.h"
#include "codegen/ir/flow.h"
#include "runtime/base/check.h"

namespace tegula {

using ir::Block;
using ir::ForLoop;
using ir::Op;
using ir::Opcode;
using ir::Value;
using ir::WhileLoop;

namespace {

using namespace axis_facts;
using Facts = std::unordered_map<const Value*, AxisInfo>;

/// What an op's result is, from what its operands are. `instead`: facts that hold in place of `info`, or null.
class Transfer {
 public:
  Transfer(const Facts& info, const AxisPremises& premises, const Facts* instead = nullptr)
      : info_(info), premises_(premises), instead_(instead) {}

  AxisInfo transfer(const Op& op) const {
    AxisInfo info = facts(op);
    const ir::Type& type = op.result()->type;
    if (type.is_integer() && !stays_in_range(type)) keep_in_range(info, type);
    if ((type.is_integer() && !stays_in_range(type)) || leaves_wrapped_runs(op)) {
      info.strided.clear();
      return info;
    }
    set_runs(info, strided_runs(op, [this](const Value* v) -> const AxisInfo& { return get(v); }));
    return info;
  }

 protected:
  const AxisInfo& get(const Value* v) const {
    if (instead_)
      if (auto it = instead_->find(v); it != instead_->end()) return it->second;
    auto it = info_.find(v);
    TEGULA_CHECK(it != info_.end(), "value used before it is defined");
    return it->second;
  }

 private:
  AxisInfo facts(const Op& op) const {
    const Value* result = op.result();
    switch (op.opcode) {
      case Opcode::Constant: {
        if (auto v = ir::constant_integer(result)) return of_constant(result, *v);
        AxisInfo info = unknown(result);
        info.constancy = extents(result);
        return info;
      }
      case Opcode::ProgramId:
      case Opcode::NumPrograms:
      case Opcode::BlockId:
      case Opcode::GroupId: {
        AxisInfo info = unknown(result);
        info.non_negative = true;
        return info;
      }
      case Opcode::Arange:
        return arange(op);
      case Opcode::Splat:
      case Opcode::Broadcast:
      case Opcode::ExpandDims:
      case Opcode::Reshape:
      case Opcode::Trans:
        return shape(op);
      case Opcode::Hint:
        return hint(op);
      case Opcode::InlineAsm:  // may have elements of a run in one block
      case Opcode::InlineAsmEffects:
        return unknown(result);
      case Opcode::ConvertLayout:
        return get(op.operands[0]);
      case Opcode::Cast:
      case Opcode::Bitcast:
        return cast(op);
      case Opcode::Select:
        return select(op);
      case Opcode::Load:  // what one address holds is one number, unless it changes under way
        return op.get(ir::attr::volatile_) ? unknown(result) : constant_with_operands(op);
      default:
        return op.has(ir::Elementwise) ? elementwise(op) : unknown(result);
    }
  }

  AxisInfo arange(const Op& op) const {
    int64_t start = op.get(ir::attr::start), end = op.get(ir::attr::end);
    if (end - start == 1) return of_constant(op.result(), start);
    // Where there are several runs, as in an extent of 3 * 2^k, each begins a run's length after the one before.
    const int64_t run = extents(op.result())[0], first = power_of_two_divisor(start);
    return {{run}, {run == end - start ? first : std::min(first, run)}, {1}, std::nullopt, start >= 0};
  }

  AxisInfo elementwise(const Op& op) const {
    const Value* result = op.result();
    AxisInfo info = constant_with_operands(op);
    if (op.operands.size() == 2 && (op.operands[0]->type.is_integer() || op.operands[0]->type.pointer)) {
      if (auto folded = fold(op)) return of_constant(result, *folded);
      add_binary(op, get(op.operands[0]), get(op.operands[1]), info);
    } else if (op.opcode == Opcode::Neg && result->type.is_integer()) {
      const AxisInfo& x = get(op.operands[0]);
      const int64_t smallest = int64_t(-1) << (result->type.bits() - 1);  // whose negation is itself
      if (x.constant && !may_wrap_around(result->type) && *x.constant != smallest)
        return of_constant(result, -*x.constant);
      for (size_t i = 0; i < info.divisibility.size(); ++i) info.divisibility[i] = divisor_at(x, i, 1, 1);
    } else if (op.opcode == Opcode::Abs && result->type.is_integer()) {
      for (size_t i = 0; i < info.divisibility.size(); ++i)
        info.divisibility[i] = divisor_at(get(op.operands[0]), i, 1, 1);
      info.non_negative = info.non_negative || stays_in_range(result->type);  // of -128 in 8 bits it is -128
    }
    return info;
  }

  /// The constancy common to the operands, nothing else.
  AxisInfo constant_with_operands(const Op& op) const {
    AxisInfo info = unknown(op.result());
    info.constancy = extents(op.result());
    for (const Value* operand : op.operands)
      if (operand)
        for (size_t i = 0; i < info.constancy.size(); ++i)
          info.constancy[i] = std::min(info.constancy[i], get(operand).constancy[i]);
    return info;
  }

  /// The value where both operands are known and the result fits its type.
  std::optional<int64_t> fold(const Op& op) const {
    const AxisInfo &l = get(op.operands[0]), &r = get(op.operands[1]);
    const ir::Type& type = op.operands[0]->type;
    if (!l.constant || !r.constant || type.pointer || type.is_bool()) return std::nullopt;
    // A uint64 of 2^63 and more is a negative constant.
    const auto number = [&](int64_t x) { return is_unsigned(type.elem) ? __int128(uint64_t(x)) : __int128(x); };
    const __int128 a = number(*l.constant), b = number(*r.constant);
    __int128 value;
    switch (op.opcode) {
      case Opcode::Add:
        value = a + b;
        break;
      case Opcode::Sub:
        value = a - b;
        break;
      case Opcode::Mul:
        if (__builtin_mul_overflow(a, b, &value)) return std::nullopt;
        break;
      case Opcode::Div:
        if (b == 0) return std::nullopt;
        value = a / b;
        break;
      case Opcode::Rem:
        if (b == 0) return std::nullopt;
        value = a % b;
        break;
      case Opcode::Minimum:
        value = std::min(a, b);
        break;
      case Opcode::Maximum:
        value = std::max(a, b);
        break;
      default:
        return std::nullopt;
    }
    __int128 limit = __int128(1) << std::min(type.bits() - 1, 62);
    if (value >= limit || value < (is_unsigned(type.elem) ? 0 : -limit)) return std::nullopt;
    return int64_t(value);
  }

  /// Whether what goes on around 0 in the operand's bits does not in those of the result.
  static bool leaves_wrapped_runs(const Op& op) {
    if (op.opcode != Opcode::Cast) return false;
    const ir::Type &from = op.operands[0]->type, &to = op.result()->type;
    return from.is_integer() && !from.is_bool() && to.is_integer() && may_wrap_around(from) && to.bits() > from.bits();
  }

  AxisInfo cast(const Op& op) const {
    const Value *x = op.operands[0], *result = op.result();
    const AxisInfo& info = get(x);
    auto whole = [](const ir::Type& t) { return t.is_integer() && !t.is_bool(); };
    AxisInfo out = unknown(result);
    out.constancy = info.constancy;
    bool same_pointers = x->type.pointer && result->type.pointer && step(x) == step(result);
    if (same_pointers || (whole(x->type) && whole(result->type))) {
      out = info;
      int bits = result->type.bits();
      bool fits = bits == 64 || (info.constant && *info.constant < int64_t(1) << (bits - 1) &&
                                 *info.constant >= (is_unsigned(result->type.elem) ? 0 : -(int64_t(1) << (bits - 1))));
      if (!fits) out.constant = std::nullopt;
      out.non_negative = info.non_negative && bits > x->type.bits() - (is_signed(x->type.elem) ? 1 : 0);
      if (leaves_wrapped_runs(op)) keep_in_range(out, x->type);
    } else if (x->type.pointer && result->type.pointer) {  // addresses stay, and what they are multiples of
      for (size_t i = 0; i < out.divisibility.size(); ++i) out.divisibility[i] = divisor_at(info, i, 1, step(x));
    }
    return out;
  }

  AxisInfo select(const Op& op) const {
    const AxisInfo &c = get(op.operands[0]), &l = get(op.operands[1]), &r = get(op.operands[2]);
    if (c.constant) return *c.constant ? l : r;
    AxisInfo out = join(l, r, step(op.result()));
    for (size_t i = 0; i < out.contiguity.size(); ++i) {
      int64_t contiguity = std::min(out.contiguity[i], c.constancy[i]);
      out.divisibility[i] = divisor_at(out, i, contiguity, step(op.result()));
      out.contiguity[i] = contiguity;
      out.constancy[i] = std::min(out.constancy[i], c.constancy[i]);
    }
    return out;
  }

  AxisInfo hint(const Op& op) const {
    AxisInfo out = get(op.operands[0]);
    out.non_negative |= op.get(ir::attr::non_negative);
    if (!premises_.promises) return out;
    auto strengthen = [&](ir::attr::Key<ir::Ints> key, AxisInfo::PerAxis& facts) {
      const ir::Ints promised = op.get(key);
      for (size_t i = 0; i < std::min(promised.size(), facts.size()); ++i)
        facts[i] = std::max(facts[i], power_of_two_divisor(promised[i]));
    };
    const AxisInfo known = out;
    const AxisInfo::PerAxis shape = extents(op.result());
    strengthen(ir::attr::contiguity, out.contiguity);
    strengthen(ir::attr::divisibility, out.divisibility);
    strengthen(ir::attr::constancy, out.constancy);
    for (size_t i = 0; i < shape.size(); ++i) {
      out.contiguity[i] = std::min(out.contiguity[i], shape[i]);
      out.constancy[i] = std::min(out.constancy[i], shape[i]);
      // Who promises what divides the first element of an axis of several runs may mean the axis as one run.
      if (op.result()->type.is_tile() && op.result()->type.shape[i] != shape[i])
        out.divisibility[i] = std::min(out.divisibility[i], std::max(known.divisibility[i], shape[i]));
    }
    return out;
  }

  AxisInfo shape(const Op& op) const {
    const Value *x = op.operands[0], *result = op.result();
    const AxisInfo& in = get(x);
    AxisInfo out = unknown(result);
    const AxisInfo::PerAxis from = extents(x), to = extents(result);
    int64_t all = divisor_of_all(in, step(x));
    switch (op.opcode) {
      case Opcode::Splat:
        out.divisibility.assign(to.size(), in.divisibility[0]);
        out.constancy = to;
        break;
      case Opcode::Broadcast:
        out = in;
        for (size_t i = 0; i < to.size(); ++i)
          if (x->type.shape[i] != result->type.shape[i]) out.constancy[i] = to[i];
        break;
      case Opcode::ExpandDims: {
        out = in;
        int64_t axis = op.get(ir::attr::axis);
        out.contiguity.insert(out.contiguity.begin() + axis, 1);
        out.divisibility.insert(out.divisibility.begin() + axis, all);
        out.constancy.insert(out.constancy.begin() + axis, 1);
        break;
      }
      case Opcode::Trans: {
        std::vector<int64_t> order = op.get(ir::attr::order);
        for (size_t i = 0; i < order.size(); ++i) {
          out.contiguity[i] = in.contiguity[order[i]];
          out.divisibility[i] = in.divisibility[order[i]];
          out.constancy[i] = in.constancy[order[i]];
        }
        break;
      }
      default: {  // Reshape: runs along the last dimension survive as far as the new one reaches.
        for (size_t i = 0; i < to.size(); ++i) out.divisibility[i] = all;
        size_t last = to.size() - 1, old = from.size() - 1;
        out.contiguity[last] = std::min(in.contiguity[old], to[last]);
        out.divisibility[last] = divisor_at(in, old, out.contiguity[last], step(x));
        out.constancy[last] = std::min(in.constancy[old], to[last]);
        if (in.constancy == x->type.shape) out.constancy = to;
        break;
      }
    }
    out.constant = in.constant;
    out.non_negative = in.non_negative;
    return out;
  }

  const Facts& info_;
  const AxisPremises& premises_;
  const Facts* instead_;
};

/// Some values with all that they follow from, as far as nothing is known of it.
class Slice {
 public:
  Slice(const Value* value, const Facts& known) : known_(known) {
    add(value);
    while (!open_.empty()) {
      const Value* next = open_.back();
      open_.pop_back();
      for (const Op* op = op_of(next); op && ops_.insert(op).second;) op = op->parent->parent;
      add_sources(next);
    }
  }

  bool has(const Value* value) const { return values_.contains(value); }
  /// Whether the op makes one of the values, itself or in a region.
  bool has(const Op& op) const { return ops_.contains(&op); }

 private:
  static const Op* op_of(const Value* value) { return value->def ? value->def : value->block->parent; }

  void add(const Value* value) {
    if (value && !known_.contains(value) && values_.insert(value).second) open_.push_back(value);
  }

  void add_sources(const Value* value) {
    for (const Value* origin : ir::origins(value)) add(origin);
    if (const Op* op = ir::for_of(value)) {
      const ForLoop loop(*op);
      if (value == loop.induction())
        add(loop.lower()), add(loop.step());
      else
        add(loop.arg(*loop.number(value)));
    } else if (value->def && !value->def->has(ir::Control)) {
      for (const Value* operand : value->def->operands) add(operand);
    }
  }

  const Facts& known_;
  std::vector<const Value*> open_;
  std::unordered_set<const Value*> values_;
  std::unordered_set<const Op*> ops_;
};

/// Abstract interpretation with fixed points for loops. Facts only get weaker on the way to a fixed point, and all are
/// powers of two, so it is reached after few rounds.
class Interpreter : private Transfer {
 public:
  /// `only`: the values of which facts are wanted; null: all.
  Interpreter(Facts& info, const AxisPremises& premises, const Slice* only = nullptr)
      : Transfer(info, premises), info_(info), only_(only) {}

  void block(const Block& block) {
    for (const auto& op : block.ops)
      if (!only_ || only_->has(*op)) visit(*op);
  }

 private:
  bool wants(const Value* value) const { return !only_ || only_->has(value); }
  /// Starts `to` from `from`; sizes match because the verifier has checked the types.
  void assign(const Value* to, const Value* from) { info_[to] = get(from); }
  /// Weakens `to` by `from`; true if that changed something.
  bool merge(const Value* to, const Value* from) {
    AxisInfo joined = join(get(to), get(from), step(to));
    bool changed = !(joined == get(to));
    info_[to] = std::move(joined);
    return changed;
  }

  void visit(const Op& op) {
    switch (op.opcode) {
      case Opcode::For:
        return visit_for(op);
      case Opcode::While:
        return visit_while(op);
      case Opcode::If:
        for (const auto& region : op.regions) block(*region);
        for (const auto& r : op.results) {
          if (!wants(r.get())) continue;
          const std::vector<Value*> from = ir::origins(r.get());
          assign(r.get(), from[0]);
          merge(r.get(), from[1]);
        }
        return;
      default:
        // Nothing is known of what enters other regions, of places in shared memory, maps, and of ops that transfer()
        // does not name.
        for (const auto& region : op.regions) {
          for (const auto& arg : region->args) info_[arg.get()] = unknown(arg.get());
          block(*region);
        }
        for (const auto& r : op.results) {
          const bool known = op.results.size() == 1 && op.regions.empty() && !r->type.is_place() && !r->type.is_map();
          info_[r.get()] = known ? transfer(op) : unknown(r.get());
          if (r->type.is_integer() && is_unsigned(r->type.elem)) info_[r.get()].non_negative = true;
        }
    }
  }

  void visit_for(const Op& op) {
    const ForLoop loop(op);
    if (wants(loop.induction())) visit_induction(loop);
    std::vector<size_t> carried;
    for (size_t k = 0; k < loop.carried(); ++k)
      if (wants(loop.arg(k))) carried.push_back(k);
    for (size_t k : carried) assign(loop.arg(k), loop.init(k));
    for (bool changed = true; changed;) {
      block(loop.body());
      changed = false;
      for (size_t k : carried) changed |= merge(loop.arg(k), loop.next(k));
    }
    for (size_t k = 0; k < loop.carried(); ++k)
      if (wants(loop.result(k))) assign(loop.result(k), loop.arg(k));
  }

  void visit_induction(const ForLoop& loop) {
    const Value* i = loop.induction();
    AxisInfo lower = get(loop.lower()), stride = get(loop.step());
    info_[i] = unknown(i);
    info_[i].divisibility[0] = std::min(lower.divisibility[0], stride.divisibility[0]);
    info_[i].non_negative |= lower.non_negative && stride.non_negative;
  }

  void visit_while(const Op& op) {
    const WhileLoop loop(op);
    std::vector<size_t> tested, passed;
    for (size_t k = 0; k < loop.num_tested(); ++k)
      if (wants(loop.tested(k))) tested.push_back(k);
    for (size_t k = 0; k < loop.num_passed(); ++k)
      if (wants(loop.taken(k))) passed.push_back(k);
    for (size_t k : tested) assign(loop.tested(k), loop.init(k));
    for (bool changed = true; changed;) {
      block(loop.test());
      for (size_t k : passed) assign(loop.taken(k), loop.passed(k));
      block(loop.body());
      changed = false;
      for (size_t k : tested) changed |= merge(loop.tested(k), loop.next(k));
    }
    for (size_t k = 0; k < loop.num_passed(); ++k)
      if (wants(loop.result(k))) assign(loop.result(k), loop.passed(k));
  }

  Facts& info_;
  const Slice* only_;
};

/// Facts where a mask is true.
class UnderMask {
 public:
  UnderMask(const Facts& info, const AxisPremises& premises, const Value* mask)
      : info_(info),
        premises_(premises),
        of_([this](const Value* v) -> const AxisInfo& { return get(v); }),
        bounds_(mask, of_) {}

  AxisInfo info(const Value* value) {
    if (!bounds_.empty()) refine(value);
    return get(value);
  }

 private:
  /// Of values that have been made since the analysis nothing is known.
  const AxisInfo& get(const Value* v) const {
    static const AxisInfo nothing;
    if (auto it = refined_.find(v); it != refined_.end()) return it->second;
    auto it = info_.find(v);
    return it != info_.end() ? it->second : nothing;
  }

  /// Whether more is known of the value; an element of it and of its operands has the same place as in the mask.
  bool refine(const Value* v) {
    const bool numbers = v->type.is_integer() || v->type.pointer;
    if (!seen_.insert(v).second || !numbers || !info_.contains(v)) return refined_.contains(v);
    bool more = false;
    const Op* op = v->def;
    auto is_known = [&](const Value* operand) { return operand && info_.contains(operand); };
    if (op && op->regions.empty() && (op->has(ir::Elementwise) || op->opcode == Opcode::Broadcast) &&
        std::all_of(op->operands.begin(), op->operands.end(), is_known)) {
      for (const Value* operand : op->operands) more |= refine(operand);
      if (more) refined_[v] = Transfer(info_, premises_, &refined_).transfer(*op);
    }
    if (v->type.is_tile() && v->type.is_integer() && !get(v).non_negative && bounds_.non_negative(v)) {
      AxisInfo known = get(v);
      known.non_negative = more = true;
      refined_[v] = std::move(known);
    }
    return more;
  }

  const Facts& info_;
  const AxisPremises& premises_;
  Facts refined_;
  std::unordered_set<const Value*> seen_;
  const AxisInfoOf of_;
  const MaskBounds bounds_;
};

}  // namespace

static Facts facts_of_parameters(const ir::Func& func, const AxisPremises& premises) {
  Facts facts;
  for (size_t i = 0; i < func.body.args.size(); ++i) {
    const Value* param = func.body.args[i].get();
    AxisInfo info = unknown(param);
    if (i < func.divisibility.size()) info.divisibility[0] = power_of_two_divisor(func.divisibility[i]);
    if (premises.divisors)
      if (const auto known = premises.divisors->find(param); known != premises.divisors->end())
        info.divisibility[0] = std::max(info.divisibility[0], power_of_two_divisor(known->second));
    info.non_negative |= premises.no_negative_parameters;
    facts[param] = std::move(info);
  }
  return facts;
}

AxisAnalysis::AxisAnalysis(const ir::Func& func, AxisPremises premises)
    : info_(facts_of_parameters(func, premises)), premises_(premises) {
  Interpreter(info_, premises_).block(func.body);
}

AxisQuery::AxisQuery(const ir::Func& func, AxisPremises premises)
    : func_(func), info_(facts_of_parameters(func, premises)), premises_(premises) {}

const AxisInfo& AxisQuery::info(const Value* value) const {
  if (!info_.contains(value)) {
    const Slice slice(value, info_);
    Interpreter(info_, premises_, &slice).block(func_.body);
  }
  return info_.at(value);
}

const AxisInfo& AxisAnalysis::info(const Value* value) const {
  auto it = info_.find(value);
  TEGULA_CHECK(it != info_.end(), "no facts about a value that is not in the function");
  return it->second;
}

AxisInfo AxisAnalysis::info(const Value* value, const Value* mask) const {
  const AxisInfo& everywhere = info(value);
  return mask ? UnderMask(info_, premises_, mask).info(value) : everywhere;
}

int AxisAnalysis::vector_width(const Value* ptr, const Value* mask, int axis) const {
  return access_width(info(ptr, mask), elem_bytes(ptr->type.elem), mask ? &info(mask) : nullptr, size_t(axis));
}

bool has_promises(const ir::Func& func) {
  bool found = false;
  ir::walk(func.body, [&](const Op& op) {
    found |= op.opcode == Opcode::Hint &&
             (op.has(ir::attr::divisibility) || op.has(ir::attr::contiguity) || op.has(ir::attr::constancy));
  });
  return found;
}

std::vector<int> fastest_axes(const AxisInfo& pointers, const std::vector<int64_t>& usual_distances) {
  std::vector<int> order;
  for (int axis = int(pointers.contiguity.size()); axis-- > 0;) order.push_back(axis);
  auto distance = [&](int axis) {
    const AxisInfo::Run run = pointers.strided.empty() ? AxisInfo::Run{} : pointers.strided[size_t(axis)];
    if (run.stride) return std::abs(double(run.stride)) / double(run.repeats);
    const int64_t usual = std::abs(usual_distances[size_t(axis)]);
    // What is the same all along, or follows from no stride, may be taken before what is a stride apart.
    return double(usual > 0 && usual < UsualDistances::kUnknown ? usual : UsualDistances::kFar);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const int64_t run_a = pointers.contiguity[size_t(a)], run_b = pointers.contiguity[size_t(b)];
    return run_a != run_b ? run_a > run_b : distance(a) < distance(b);
  });
  return order;
}

}  // namespace tegula
