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

constexpr int kMostTerms = 64;                // of one sum
constexpr int64_t kLarge = int64_t(1) << 30;  // a factor beyond it is taken for one that a launch gives

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

/// A summand of an address that tells elements apart.
struct Term {
  enum Kind { Along, Quotient, Remainder } kind;
  const Value* of;  ///< an arange, a value that is handed on; or the dividend
  const Value* divisor = nullptr;
  Axes axes;
  Factor factor;

  AxisMask varies() const {
    AxisMask mask = 0;
    for (size_t i = 0; i < axes.size(); ++i)
      if (of->type.shape[i] > 1) mask |= AxisMask(1) << axes[i];
    return mask;
  }
};

class Addresses {
 public:
  /// The axes along which no two elements of the value, alike along the others, are equal.
  AxisMask told_apart(const Value* v) {
    std::unordered_map<const Value*, AxisMask> before;
    do {  // what loops hand on to themselves is taken to tell all apart until it is known better
      before = std::exchange(known_, {});
      presumed_ = before;
      find(v);
    } while (known_ != before);
    return known_[v];
  }

 private:
  AxisMask find(const Value* v) {
    const auto presumed = presumed_.find(v);
    const auto [it, is_new] = known_.try_emplace(v, presumed == presumed_.end() ? ~AxisMask(0) : presumed->second);
    if (!is_new) return it->second;
    const std::vector<Value*> from = origins(v);
    AxisMask apart = from.empty() ? Sum(*this, v).told_apart() : ~AxisMask(0);
    for (const Value* origin : from) apart &= find(origin);
    return known_[v] = apart;
  }

  class Sum {
   public:
    Sum(Addresses& addresses, const Value* v) : addresses_(addresses), type_(v->type) {
      Axes axes(type_.shape.size());
      std::iota(axes.begin(), axes.end(), 0);
      add(v, axes, 1);
    }

    AxisMask told_apart() {
      while (unite_a_division()) {
      }
      AxisMask apart = 0;
      for (size_t axis = 0; axis < type_.shape.size(); ++axis)
        if (type_.shape[axis] == 1) apart |= AxisMask(1) << axis;
      for (const Term& term : terms_) {
        if (term.kind != Term::Along) {
          mixed_ |= term.varies();
        } else if (term.of->def && term.of->def->opcode == Opcode::Arange) {
          apart |= term.varies();
        } else {
          const AxisMask own = addresses_.find(term.of);
          for (size_t i = 0; i < term.axes.size(); ++i)
            if (own >> i & 1) apart |= AxisMask(1) << term.axes[i];
        }
      }
      return factors_keep_apart() ? apart & ~mixed_ : 0;
    }

   private:
    void add(const Value* v, const Axes& axes, const Factor& factor) {
      if (scalar_of(v)) return;
      if (factor == 0) return;
      if (int(terms_.size()) >= kMostTerms) return mix(v, axes);
      if (!origins(v).empty()) return along(v, axes, factor);
      if (!v->def) return mix(v, axes);
      const Op& op = *v->def;
      switch (op.opcode) {
        case Opcode::Arange:
          return along(v, axes, factor);
        case Opcode::Broadcast:
        case Opcode::ConvertLayout:
        case Opcode::Hint:
          return add(op.operand(0), axes, factor);
        case Opcode::Cast:  // indices are presumed to fit
          return op.operand(0)->type.is_integer() && v->type.is_integer() ? add(op.operand(0), axes, factor)
                                                                          : mix(v, axes);
        case Opcode::ExpandDims: {
          Axes inner = axes;
          inner.erase(inner.begin() + op.get(attr::axis));
          return add(op.operand(0), inner, factor);
        }
        case Opcode::Trans: {
          Axes inner(axes.size());
          const std::vector<int64_t> order = op.get(attr::order);
          for (size_t i = 0; i < axes.size(); ++i) inner[size_t(order[i])] = axes[i];
          return add(op.operand(0), inner, factor);
        }
        case Opcode::Add:
        case Opcode::AddPtr:
          add(op.operand(0), axes, factor);
          return add(op.operand(1), axes, factor);
        case Opcode::Sub:
          add(op.operand(0), axes, factor);
          return add(op.operand(1), axes, times(factor, -1));
        case Opcode::Mul:
          for (const auto [one, other] : {std::pair(0, 1), {1, 0}})
            if (const Value* by = scalar_of(op.operand(size_t(other))))
              return add(op.operand(size_t(one)), axes, times(factor, number_of(by)));
          return mix(v, axes);
        case Opcode::Shl:
          if (const Factor bits = shift_of(op)) return add(op.operand(0), axes, times(factor, int64_t(1) << *bits));
          return mix(v, axes);
        case Opcode::Div:
        case Opcode::Rem:
          if (const Value* by = scalar_of(op.operand(1)))
            return divide(op.opcode == Opcode::Div ? Term::Quotient : Term::Remainder, op.operand(0), by, axes, factor);
          return mix(v, axes);
        default:
          return mix(v, axes);
      }
    }

    static Factor shift_of(const Op& op) {
      const Value* by = scalar_of(op.operand(1));
      const Factor bits = by ? number_of(by) : std::nullopt;
      return bits && *bits >= 0 && *bits < 30 ? bits : std::nullopt;
    }

    void along(const Value* v, const Axes& axes, const Factor& factor) {
      for (Term& term : terms_)
        if (term.kind == Term::Along && term.of == v && term.axes == axes) {
          term.factor = term.factor && factor ? Factor(*term.factor + *factor) : std::nullopt;
          return;
        }
      terms_.push_back({Term::Along, v, nullptr, axes, factor});
    }

    void divide(Term::Kind kind, const Value* dividend, const Value* divisor, const Axes& axes, const Factor& factor) {
      terms_.push_back({kind, dividend, divisor, axes, factor});
    }

    /// Elements along the value's axes may be anything.
    void mix(const Value* v, const Axes& axes) {
      for (size_t i = 0; i < axes.size(); ++i)
        if (v->type.shape[i] > 1) mixed_ |= AxisMask(1) << axes[i];
    }

    static bool equal(const Value* a, const Value* b) {
      const Factor x = number_of(a), y = number_of(b);
      return a == b || (x && y && *x == *y);
    }

    /// A quotient and the remainder of one division tell apart what the dividend does; true if there were such.
    bool unite_a_division() {
      for (size_t r = 0; r < terms_.size(); ++r)
        for (size_t q = 0; q < terms_.size(); ++q) {
          const Term remainder = terms_[r], quotient = terms_[q];
          if (remainder.kind != Term::Remainder || quotient.kind != Term::Quotient || remainder.axes != quotient.axes)
            continue;
          if (!belong_together(quotient, remainder)) continue;
          terms_.erase(terms_.begin() + int64_t(std::max(r, q)));
          terms_.erase(terms_.begin() + int64_t(std::min(r, q)));
          if (!apart(quotient.factor, remainder.factor, number_of(remainder.divisor))) mixed_ |= remainder.varies();
          add(remainder.of, remainder.axes, std::nullopt);
          return true;
        }
      return false;
    }

    /// i / n and i % n; also i / (m * n) and i / m % n, where m and n are constants.
    static bool belong_together(const Term& quotient, const Term& remainder) {
      if (quotient.of == remainder.of) return equal(quotient.divisor, remainder.divisor);
      const Op* inner = remainder.of->def;
      if (!inner || inner->opcode != Opcode::Div || inner->operand(0) != quotient.of) return false;
      const Value* by = scalar_of(inner->operand(1));
      const Factor product = by ? times(number_of(by), number_of(remainder.divisor)) : std::nullopt;
      return product && number_of(quotient.divisor) == product;
    }

    static bool apart(const Factor& of_quotient, const Factor& of_remainder, const Factor& divisor) {
      if (!of_quotient || !of_remainder || !divisor) return true;
      const int64_t q = std::abs(*of_quotient), r = std::abs(*of_remainder);
      return q >= *divisor * r || r > q;
    }

    /// Whether no sum of indices equals another one, as far as their factors are known.
    bool factors_keep_apart() const {
      std::vector<std::pair<int64_t, int64_t>> steps;  // and how many
      for (const Term& term : terms_) {
        if (term.kind != Term::Along || !term.factor || term.of->type.shape.size() != 1) continue;
        if (*term.factor == 0) return false;
        steps.emplace_back(std::abs(*term.factor), term.of->type.shape[0]);
      }
      std::sort(steps.begin(), steps.end());
      int64_t reach = 0;
      for (const auto& [step, count] : steps) {
        if (step <= reach) return false;
        reach += step * (count - 1);
      }
      return true;
    }

    Addresses& addresses_;
    const Type& type_;
    std::vector<Term> terms_;
    AxisMask mixed_ = 0;
  };

  std::unordered_map<const Value*, AxisMask> known_, presumed_;
};

}  // namespace

bool may_repeat(const Value* pointers) {
  if (!pointers->type.is_tile()) return false;
  while (pointers->def && (pointers->def->opcode == Opcode::Reshape || pointers->def->opcode == Opcode::ConvertLayout))
    pointers = pointers->def->operand(0);
  const AxisMask all = (AxisMask(1) << pointers->type.shape.size()) - 1;
  return (Addresses().told_apart(pointers) & all) != all;
}

}  // namespace tegula
