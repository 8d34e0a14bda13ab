#include "codegen/analysis/iterations_apart.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/analysis/axis_facts.h"
#include "codegen/analysis/integer_bounds.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kMostDepth = 32;                // of an expression that is looked into
constexpr int64_t kLargestFactor = 1 << 20;   // of one product
constexpr int64_t kLarge = int64_t(1) << 40;  // factors beyond it say nothing, so that sums do not overflow

/// The axes of the pointers that those of a value are.
using Axes = std::vector<int64_t>;

/// factor * induction + the sum of factors * aranges + a number that is the same for all elements in all iterations.
struct Form {
  int64_t induction = 0;
  std::map<std::pair<const Op*, int64_t>, int64_t> aranges;  ///< each along its axis
  bool has_number = false;                                   ///< which may be negative

  void add(const Form& other, int64_t factor) {
    induction += factor * other.induction;
    for (const auto& [along, times] : other.aranges)
      if ((aranges[along] += factor * times) == 0) aranges.erase(along);
    has_number |= other.has_number;
  }
  bool is_small() const {
    auto small = [](int64_t factor) { return std::abs(factor) < kLarge; };
    return small(induction) && std::all_of(aranges.begin(), aranges.end(), [&](auto& a) { return small(a.second); });
  }
  /// The largest distance of two elements in one iteration.
  int64_t spread() const {
    int64_t sum = 0;
    for (const auto& [along, factor] : aranges)
      sum += std::abs(factor) * (along.first->get(attr::end) - along.first->get(attr::start) - 1);
    return sum;
  }
};

class Iterations {
 public:
  Iterations(const ForLoop& loop, const std::function<bool(const Value*)>& varies) : loop_(loop), varies_(varies) {}

  bool apart(const Value* pointers, const Value* mask) const {
    Axes axes(pointers->type.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    const std::optional<Form> form = form_of(pointers, axes, 0);
    if (!form || form->induction == 0) return false;
    return steps_over(*form) || (mask && ends_with_row(*form, mask, axes, 0));
  }

 private:
  std::optional<Form> form_of(const Value* v, const Axes& axes, int depth) const {
    if (v == loop_.induction()) return Form{1, {}, false};
    if (const auto number = splat_constant(v)) return Form{0, {}, *number < 0 || *number > INT32_MAX};
    if (v->type.is_scalar() && !varies_(v)) return Form{0, {}, true};
    if (!v->def || depth > kMostDepth) return std::nullopt;
    const Op& op = *v->def;
    switch (op.opcode) {
      case Opcode::Arange:
        return Form{0, {{{&op, axes[0]}, 1}}, op.get(attr::start) < 0};
      case Opcode::Splat:
        return form_of(op.operand(0), {}, depth + 1);
      case Opcode::ExpandDims:
        return form_of(op.operand(0), without(axes, op), depth + 1);
      case Opcode::Broadcast:
      case Opcode::ConvertLayout:
      case Opcode::Hint:
        return form_of(op.operand(0), axes, depth + 1);
      case Opcode::Cast:
        return keeps_number(op) ? form_of(op.operand(0), axes, depth + 1) : std::nullopt;
      case Opcode::Add:
      case Opcode::AddPtr:
        return sum(op, 1, axes, depth);
      case Opcode::Sub:
        return sum(op, -1, axes, depth);
      case Opcode::Mul:
        if (const auto factor = splat_constant(op.operand(1))) return scaled(op.operand(0), *factor, axes, depth);
        if (const auto factor = splat_constant(op.operand(0))) return scaled(op.operand(1), *factor, axes, depth);
        return std::nullopt;
      case Opcode::Shl:
        if (const auto bits = splat_constant(op.operand(1)); bits && *bits >= 0 && *bits < 20)
          return scaled(op.operand(0), int64_t(1) << *bits, axes, depth);
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  std::optional<Form> sum(const Op& op, int64_t factor, const Axes& axes, int depth) const {
    std::optional<Form> l = form_of(op.operand(0), axes, depth + 1);
    const std::optional<Form> r = l ? form_of(op.operand(1), axes, depth + 1) : std::nullopt;
    if (!r) return std::nullopt;
    l->add(*r, factor);
    l->has_number |= factor < 0;
    return l->is_small() ? l : std::nullopt;
  }

  std::optional<Form> scaled(const Value* v, int64_t factor, const Axes& axes, int depth) const {
    const std::optional<Form> form = std::abs(factor) <= kLargestFactor ? form_of(v, axes, depth + 1) : std::nullopt;
    if (!form) return std::nullopt;
    Form out;
    out.add(*form, factor);
    out.has_number |= factor < 0;
    return out.is_small() ? std::optional(out) : std::nullopt;
  }

  static std::optional<int64_t> splat_constant(const Value* v) {
    for (; v->def && v->type.is_tile(); v = v->def->operand(0))
      if (v->def->opcode != Opcode::Splat && v->def->opcode != Opcode::Broadcast &&
          v->def->opcode != Opcode::ExpandDims)
        break;
    return constant_integer(v);
  }

  static Axes without(Axes axes, const Op& expand_dims) {
    axes.erase(axes.begin() + expand_dims.get(attr::axis));
    return axes;
  }

  static bool keeps_number(const Op& cast) {
    const Type &from = cast.operand(0)->type, &to = cast.result()->type;
    return from.is_integer() && to.is_integer() && axis_facts::stays_in_range(from) && to.bits() >= from.bits();
  }

  /// By how much the induction variable grows at least; 0: not known.
  int64_t least_step() const {
    if (loop_.step()->def && loop_.step()->def->opcode == Opcode::NumPrograms) return 1;
    return std::max<int64_t>(0, integer_bounds(loop_.step()).least.value_or(0));
  }

  bool steps_over(const Form& form) const { return __int128(std::abs(form.induction)) * least_step() > form.spread(); }

  /// Whether a mask r < S says that r, from 0 on, is the place within a row of S elements: what else the pointers are
  /// made of then tells rows, and iterations are apart if they are within a row.
  bool ends_with_row(const Form& form, const Value* mask, const Axes& axes, int depth) const {
    if (!mask->def || depth > kMostDepth) return false;
    const Op& op = *mask->def;
    switch (op.opcode) {
      case Opcode::BitAnd:
        return ends_with_row(form, op.operand(0), axes, depth + 1) ||
               ends_with_row(form, op.operand(1), axes, depth + 1);
      case Opcode::ExpandDims:
        return ends_with_row(form, op.operand(0), without(axes, op), depth + 1);
      case Opcode::Broadcast:
      case Opcode::ConvertLayout:
        return ends_with_row(form, op.operand(0), axes, depth + 1);
      case Opcode::Lt: {
        const auto width = splat_constant(op.operand(1));
        const std::optional<Form> place = width && *width > 0 ? form_of(op.operand(0), axes, 0) : std::nullopt;
        return place && is_within_rows(form, *place, *width) && steps_over(*place);
      }
      default:
        return false;
    }
  }

  bool is_within_rows(const Form& form, const Form& place, int64_t width) const {
    const auto first = integer_bounds(loop_.lower()).least;
    const bool non_negative =
        !place.has_number && place.induction >= 0 && first && *first >= 0 &&
        std::all_of(place.aranges.begin(), place.aranges.end(), [](const auto& a) { return a.second >= 0; });
    if (!non_negative || place.induction != form.induction) return false;
    Form rows = form;
    rows.add(place, -1);
    return std::all_of(rows.aranges.begin(), rows.aranges.end(), [&](const auto& a) { return a.second % width == 0; });
  }

  const ForLoop& loop_;
  const std::function<bool(const Value*)>& varies_;
};

}  // namespace

bool iterations_apart(const ForLoop& loop, const Value* pointers, const Value* mask,
                      const std::function<bool(const Value*)>& varies) {
  return Iterations(loop, varies).apart(pointers, mask);
}

}  // namespace tegula
