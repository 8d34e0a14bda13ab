#include "codegen/analysis/repeated_addresses.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kMostVisits = 512;              // of values; what is not looked into may repeat
constexpr int64_t kLarge = int64_t(1) << 30;  // a factor beyond it is taken for one that a launch gives
constexpr int64_t kAnywhere = INT64_MAX;      // how far a term reaches that is not known to end

using AxisMask = uint64_t;
/// The axes of the tile that those of a value are.
using Axes = std::vector<int>;
/// What an index is multiplied with; nullopt: known at the launch alone.
using Factor = std::optional<int64_t>;

Factor times(const Factor& a, const Factor& b) {
  if (!a || !b || std::abs(*a) > kLarge || std::abs(*b) > kLarge) return std::nullopt;
  return *a * *b;
}

/// Whether all elements of the value are equal; `depth` ops are looked into.
bool is_uniform(const Value* v, int depth = 8) {
  if (!v->type.is_tile()) return true;
  if (!v->def || !v->def->has(Pure) || !v->def->regions.empty() || depth == 0) return false;
  const auto& from = v->def->operands;
  if (from.empty()) return v->def->opcode == Opcode::Constant;
  return std::all_of(from.begin(), from.end(), [&](const Value* operand) { return is_uniform(operand, depth - 1); });
}

/// The value that all elements of `v` are, without what only gives it a shape; null if they may differ.
const Value* scalar_of(const Value* v) {
  if (!is_uniform(v)) return nullptr;
  while (v->def && (v->def->opcode == Opcode::Splat || v->def->opcode == Opcode::Broadcast ||
                    v->def->opcode == Opcode::ExpandDims || v->def->opcode == Opcode::ConvertLayout))
    v = v->def->operand(0);
  return v;
}

Factor number_of(const Value* scalar) {
  const std::optional<int64_t> number = constant_integer(scalar);
  return number && std::abs(*number) <= kLarge ? number : std::nullopt;
}

/// Whether a scalar may follow from what the kernel has loaded, and not from the launch alone; `depth` ops are looked
/// into.
bool may_be_loaded(const Value* scalar, int depth = 8) {
  if (!scalar->def) return false;
  if (!scalar->def->has(Pure) || !scalar->def->regions.empty() || depth == 0) return true;
  const auto& from = scalar->def->operands;
  return std::any_of(from.begin(), from.end(), [&](const Value* operand) { return may_be_loaded(operand, depth - 1); });
}

struct Divisor {
  const Value* value = nullptr;
  Factor number = std::nullopt;
  bool operator==(const Divisor& o) const { return number ? number == o.number : !o.number && value == o.value; }
};

/// A summand of an address that differs between elements: factor * (an arange, a value that is handed on, the quotient
/// or remainder of a value, or a value that may be any integers).
struct Term {
  enum Kind { Along, HandedOn, Quotient, Remainder, Anything } kind;
  const Value* of;
  Axes axes;
  Factor factor;
  bool gaps = false;  ///< the numbers lie `factor` apart at least
  Divisor divisor = {};

  bool operator==(const Term&) const = default;
  AxisMask varies() const {
    AxisMask mask = 0;
    for (size_t i = 0; i < axes.size(); ++i)
      if (of->type.shape[i] > 1) mask |= AxisMask(1) << axes[i];
    return mask;
  }
};

/// An index as a sum.
using Sum = std::vector<Term>;

bool is_understood(const Sum& sum) {
  return std::none_of(sum.begin(), sum.end(), [](const Term& term) { return term.kind == Term::Anything; });
}

class Addresses {
 public:
  bool may_repeat(const Value* pointers) {
    const Sum sum = sum_of(pointers);
    for (int axis = 0; axis < pointers->type.rank(); ++axis)
      if (!tells_apart(sum, pointers, axis)) return true;
    return !factors_keep_apart(sum);
  }

  bool may_repeat_along(const Value* pointers, int axis) {
    loaded_factors_ = false;
    const Sum sum = sum_of(pointers);
    return !tells_apart(sum, pointers, axis) || !factors_keep_apart(sum);
  }

 private:
  Sum sum_of(const Value* v) {
    Axes axes(v->type.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    Sum sum;
    add(v, axes, 1, sum);
    while (unite_a_division(sum)) {
    }
    return sum;
  }

  void add(const Value* v, const Axes& axes, const Factor& factor, Sum& to) {
    if (is_uniform(v) || factor == 0) return;
    if (++visits_ > kMostVisits) return mix(v, axes, factor, to);
    if (!origins(v).empty()) return add_handed_on(v, axes, factor, to);
    if (!v->def) return mix(v, axes, factor, to);
    const Op& op = *v->def;
    switch (op.opcode) {
      case Opcode::Arange:
        return add_term({Term::Along, v, axes, factor}, to);
      case Opcode::Broadcast:
      case Opcode::ConvertLayout:
      case Opcode::Hint:
        return add(op.operand(0), axes, factor, to);
      case Opcode::Cast:
        return keeps_number(op) ? add(op.operand(0), axes, factor, to) : mix(v, axes, factor, to);
      case Opcode::ExpandDims: {
        Axes inner = axes;
        inner.erase(inner.begin() + op.get(attr::axis));
        return add(op.operand(0), inner, factor, to);
      }
      case Opcode::Trans: {
        Axes inner(axes.size());
        const std::vector<int64_t> order = op.get(attr::order);
        for (size_t i = 0; i < axes.size(); ++i) inner[size_t(order[i])] = axes[i];
        return add(op.operand(0), inner, factor, to);
      }
      case Opcode::Add:
      case Opcode::AddPtr:
      case Opcode::Sub:
        add(op.operand(0), axes, factor, to);
        return add(op.operand(1), axes, op.opcode == Opcode::Sub ? times(factor, -1) : factor, to);
      case Opcode::Neg:
        return add(op.operand(0), axes, times(factor, -1), to);
      case Opcode::Mul:
        for (const auto& [one, other] : {std::pair(0, 1), {1, 0}})
          if (const Value* by = scalar_of(op.operand(size_t(other))); by && (loaded_factors_ || !may_be_loaded(by)))
            return add(op.operand(size_t(one)), axes, times(factor, number_of(by)), to);
        return mix(v, axes, factor, to);
      case Opcode::Shl:
        if (const Factor two = power_of_two(op)) return add(op.operand(0), axes, times(factor, two), to);
        return mix(v, axes, factor, to);
      default:
        if (const auto division = division_of(op))
          return add_term({division->first, op.operand(0), axes, factor, false, division->second}, to);
        return mix(v, axes, factor, to);
    }
  }

  /// Indices are presumed to fit into 32 bits.
  static bool keeps_number(const Op& cast) {
    const Type &from = cast.operand(0)->type, &to = cast.result()->type;
    return from.is_integer() && to.is_integer() && !from.is_bool() && to.bits() >= std::min(from.bits(), 32);
  }

  /// 2^n of a shift by n.
  static Factor power_of_two(const Op& shift) {
    const Value* by = scalar_of(shift.operand(1));
    const Factor bits = by ? number_of(by) : std::nullopt;
    return bits && *bits >= 0 && *bits < 30 ? Factor(int64_t(1) << *bits) : std::nullopt;
  }

  /// x // n, x % n, and what is the same of a power of two: x >> n, x & (n - 1).
  static std::optional<std::pair<Term::Kind, Divisor>> division_of(const Op& op) {
    if (op.opcode == Opcode::Shr) {
      const Factor two = power_of_two(op);
      return two ? std::optional(std::pair(Term::Quotient, Divisor{nullptr, two})) : std::nullopt;
    }
    if (op.opcode != Opcode::Div && op.opcode != Opcode::Rem && op.opcode != Opcode::BitAnd) return std::nullopt;
    const Value* by = scalar_of(op.operand(1));
    if (!by) return std::nullopt;
    Factor number = number_of(by);
    if (op.opcode == Opcode::BitAnd) {
      if (!number || *number < 0 || !std::has_single_bit(uint64_t(*number) + 1)) return std::nullopt;
      number = *number + 1;
    }
    return std::pair(op.opcode == Opcode::Div ? Term::Quotient : Term::Remainder, Divisor{by, number});
  }

  static void add_term(Term term, Sum& to) {
    for (Term& known : to) {
      Term alike = term;
      alike.factor = known.factor;
      if (!(alike == known)) continue;
      known.factor = known.factor && term.factor ? Factor(*known.factor + *term.factor) : std::nullopt;
      return;
    }
    to.push_back(std::move(term));
  }

  /// Elements along the value's axes may be any multiples of the factor.
  static void mix(const Value* v, const Axes& axes, const Factor& factor, Sum& to) {
    Term term{Term::Anything, v, axes, factor};
    if (term.varies()) add_term(std::move(term), to);
  }

  /// What a loop or a branch hands on, if it is the same sum, but for what all elements share, wherever it comes from.
  void add_handed_on(const Value* v, const Axes& axes, const Factor& factor, Sum& to) {
    if (std::find(open_.begin(), open_.end(), v) != open_.end()) return add_term({Term::HandedOn, v, axes, factor}, to);
    open_.push_back(v);
    Axes own(axes.size());
    std::iota(own.begin(), own.end(), 0);
    const Sum itself{{Term::HandedOn, v, own, 1}};
    std::optional<Sum> given;
    bool alike = true;
    for (const Value* origin : origins(v)) {
      Sum sum = sum_of(origin);
      if (sum == itself) continue;
      alike = alike && is_understood(sum) && (!given || *given == sum);
      given = std::move(sum);
    }
    open_.pop_back();
    if (!alike || !given) return mix(v, axes, factor, to);
    for (Term term : *given) {
      for (int& axis : term.axes) axis = axes[size_t(axis)];
      term.factor = times(term.factor, factor);
      add_term(std::move(term), to);
    }
  }

  /// A quotient and the remainder of one division tell apart what the dividend does; true if there were such.
  bool unite_a_division(Sum& sum) {
    for (const Term& remainder : sum)
      for (const Term& quotient : sum) {
        if (remainder.kind != Term::Remainder || quotient.kind != Term::Quotient || remainder.axes != quotient.axes ||
            !belong_together(quotient, remainder))
          continue;
        const Term q = quotient, r = remainder;
        std::erase_if(sum, [&](const Term& term) { return term == q || term == r; });
        unite(q, r, sum);
        return true;
      }
    return false;
  }

  /// i // n and i % n; also i // (m * n) and i // m % n of constants.
  static bool belong_together(const Term& quotient, const Term& remainder) {
    if (quotient.of == remainder.of) return quotient.divisor == remainder.divisor;
    const Op* inner = remainder.of->def;
    const auto division = inner ? division_of(*inner) : std::nullopt;
    if (!division || division->first != Term::Quotient || inner->operand(0) != quotient.of) return false;
    const Factor product = times(division->second.number, remainder.divisor.number);
    return product && quotient.divisor.number == product;
  }

  /// Adds q * (x // n) + r * (x % n).
  void unite(const Term& quotient, const Term& remainder, Sum& to) {
    const Value* x = remainder.of;
    const Factor &q = quotient.factor, &r = remainder.factor, &n = remainder.divisor.number;
    if (!q || !r || !n) return add(x, remainder.axes, std::nullopt, to);  // presumed to keep elements apart
    const int64_t of_quotients = std::abs(*q), of_remainders = std::abs(*r);
    const bool gaps = quotient.gaps || remainder.gaps;
    if (!gaps && *q == *n * *r) return add(x, remainder.axes, r, to);
    const int64_t reach = remainder.gaps ? kAnywhere : reach_of(x);
    const int64_t quotients = reach == kAnywhere ? kAnywhere : reach / *n + 2;
    const bool rows = !remainder.gaps && of_quotients >= *n * of_remainders;
    const bool columns = !quotient.gaps && quotients != kAnywhere && of_remainders > of_quotients * (quotients - 1);
    if (!rows && !columns) return mix(x, remainder.axes, 1, to);
    Sum dividend;
    add(x, remainder.axes, rows ? of_remainders : of_quotients, dividend);
    for (Term& term : dividend) {
      term.gaps = true;
      to.push_back(std::move(term));
    }
  }

  /// The largest difference of two elements of an index.
  int64_t reach_of(const Value* index) {
    const Sum sum = sum_of(index);
    int64_t reach = 0;
    for (const Term& term : sum) {
      if (term.kind != Term::Along || !term.factor || term.gaps) return kAnywhere;
      reach += std::abs(*term.factor) * (term.of->type.shape[0] - 1);
    }
    return reach;
  }

  /// Whether the axis has one element, or aranges tell its elements apart and nothing else differs along it.
  static bool tells_apart(const Sum& sum, const Value* pointers, int axis) {
    const AxisMask bit = AxisMask(1) << axis;
    bool apart = pointers->type.shape[size_t(axis)] == 1, mixed = false;
    for (const Term& term : sum)
      if (term.varies() & bit) (term.kind == Term::Along ? apart : mixed) = true;
    return apart && !mixed;
  }

  /// Whether no sum of indices equals another one, as far as their factors are known. Indices that may be any integers
  /// reach anywhere, beyond what a launch's factors would keep apart.
  static bool factors_keep_apart(const Sum& terms) {
    std::vector<std::pair<int64_t, int64_t>> steps;  // the least one, and how far all of them reach
    bool all_known = true, anywhere = false;
    for (const Term& term : terms) {
      all_known &= term.factor.has_value();
      if (!term.factor) continue;
      const int64_t step = std::abs(*term.factor);
      const bool ends = term.kind == Term::Along && !term.gaps;
      anywhere |= term.kind != Term::Along;
      steps.emplace_back(step, ends ? step * (term.of->type.shape[0] - 1) : kAnywhere);
    }
    if (anywhere && !all_known) return false;
    std::sort(steps.begin(), steps.end());
    int64_t reach = 0;
    for (const auto& [step, further] : steps) {
      if (step <= reach) return false;
      reach = further == kAnywhere ? kAnywhere : reach + further;
    }
    return true;
  }

  std::vector<const Value*> open_;  ///< values handed on whose origins are being looked into
  int visits_ = 0;
  bool loaded_factors_ = true;  ///< are presumed to keep elements apart as a launch's are
};

}  // namespace

bool may_repeat(const Value* pointers) {
  if (!pointers->type.is_tile()) return false;
  while (pointers->def && (pointers->def->opcode == Opcode::Reshape || pointers->def->opcode == Opcode::ConvertLayout))
    pointers = pointers->def->operand(0);
  return Addresses().may_repeat(pointers);
}

bool may_repeat_along(const Value* pointers, int axis) { return Addresses().may_repeat_along(pointers, axis); }

}  // namespace tegula
