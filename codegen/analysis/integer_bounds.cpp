#include "codegen/analysis/integer_bounds.h"

#include <algorithm>
#include <functional>

#include "codegen/analysis/axis_facts.h"
#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kMostDepth = 16;       // of an expression that is looked into
constexpr int64_t kLarge = 1 << 30;  // bounds beyond it say nothing, so that sums of some do not overflow

using Bound = std::optional<int64_t>;

Bound both(Bound a, Bound b, const std::function<int64_t(int64_t, int64_t)>& combine) {
  if (!a || !b) return std::nullopt;
  const int64_t x = combine(*a, *b);
  return x > kLarge || x < -kLarge ? std::nullopt : Bound(x);
}

// A bound of the one or the other will do.
Bound either(Bound a, Bound b, const std::function<int64_t(int64_t, int64_t)>& combine) {
  return a && b ? Bound(combine(*a, *b)) : a ? a : b;
}

int64_t smaller(int64_t a, int64_t b) { return std::min(a, b); }
int64_t larger(int64_t a, int64_t b) { return std::max(a, b); }

// Of lhs % divisor and lhs / divisor: what is left keeps the sign of lhs.
IntegerBounds divided(const Op& op, const IntegerBounds& lhs) {
  const auto divisor = constant_integer(op.operand(1));
  if (!divisor || *divisor <= 0) return {};
  const bool non_negative = lhs.least && *lhs.least >= 0;
  if (op.opcode == Opcode::Div)
    return {non_negative ? Bound(*lhs.least / *divisor) : std::nullopt,
            lhs.most && *lhs.most >= 0 ? Bound(*lhs.most / *divisor) : std::nullopt};
  return {non_negative ? 0 : 1 - *divisor, *divisor - 1};
}

struct Range {
  __int128 least, most;
};
Range range_of(const Type& type) {
  const int bits = type.bits() - (is_signed(type.elem) ? 1 : 0);
  return {is_signed(type.elem) ? -(__int128(1) << bits) : 0, (__int128(1) << bits) - 1};
}

// What does not fit the type comes back as another number.
IntegerBounds cast(const IntegerBounds& x, const Type& from, const Type& to) {
  Range found = range_of(from);
  const Range fits = range_of(to);
  if (x.least) found.least = std::max<__int128>(found.least, *x.least);
  if (x.most) found.most = std::min<__int128>(found.most, *x.most);
  if (found.least < fits.least || found.most > fits.most) return {};
  return {found.least >= -kLarge ? Bound(found.least) : std::nullopt,
          found.most <= kLarge ? Bound(found.most) : std::nullopt};
}

// Of a sum or a difference, which is another number where it leaves the range of a type that may wrap around.
IntegerBounds unless_it_wraps(const IntegerBounds& x, const Type& type) {
  if (!axis_facts::may_wrap_around(type)) return x;
  const Range fits = range_of(type);
  return x.least && x.most && *x.least >= fits.least && *x.most <= fits.most ? x : IntegerBounds{};
}

IntegerBounds bounds_of(const Value* v, int depth) {
  if (const auto number = constant_integer(v))
    return *number < 0 && is_unsigned(v->type.elem) ? IntegerBounds{} : IntegerBounds{*number, *number};
  if (!v->def || depth > kMostDepth || !v->type.is_scalar() || !v->type.is_integer()) return {};
  const Op& op = *v->def;
  auto of = [&](size_t i) { return bounds_of(op.operand(i), depth + 1); };
  switch (op.opcode) {
    case Opcode::ProgramId:
      return {0, std::nullopt};
    case Opcode::Cast:
      return op.operand(0)->type.is_integer() ? cast(of(0), op.operand(0)->type, v->type) : IntegerBounds{};
    case Opcode::Add: {
      const IntegerBounds a = of(0), b = of(1);
      return unless_it_wraps({both(a.least, b.least, std::plus<>()), both(a.most, b.most, std::plus<>())}, v->type);
    }
    case Opcode::Sub: {
      const IntegerBounds a = of(0), b = of(1);
      return unless_it_wraps({both(a.least, b.most, std::minus<>()), both(a.most, b.least, std::minus<>())}, v->type);
    }
    case Opcode::Minimum: {
      const IntegerBounds a = of(0), b = of(1);
      return {both(a.least, b.least, smaller), either(a.most, b.most, smaller)};
    }
    case Opcode::Maximum: {
      const IntegerBounds a = of(0), b = of(1);
      return {either(a.least, b.least, larger), both(a.most, b.most, larger)};
    }
    case Opcode::Select: {
      const IntegerBounds a = of(1), b = of(2);
      return {both(a.least, b.least, smaller), both(a.most, b.most, larger)};
    }
    case Opcode::Div:
    case Opcode::Rem:
      return divided(op, of(0));
    default:
      return {};
  }
}

Coordinates without_axis(Coordinates at, int64_t axis) {
  at.erase(at.begin() + axis);
  return at;
}

// Along dimensions of one element there is coordinate 0 alone.
Coordinates within(Coordinates at, const Type& type) {
  for (size_t axis = 0; axis < at.size(); ++axis)
    if (type.shape[axis] == 1) at[axis] = 0;
  return at;
}

// What no element of an index tile is below whose coordinates are these or larger.
Bound least_from(const Value* v, const Coordinates& at, int depth) {
  if (const auto number = constant_integer(v)) return *number;
  if (v->type.is_scalar()) return bounds_of(v, depth).least;
  if (!v->def || depth > kMostDepth || !v->type.is_integer()) return std::nullopt;
  const Op& op = *v->def;
  auto of = [&](size_t i, const Coordinates& there) { return least_from(op.operand(i), there, depth + 1); };
  switch (op.opcode) {
    case Opcode::Arange:
      return op.get(attr::start) + at[0];
    case Opcode::Splat:
      return of(0, {});
    case Opcode::Add:
      return !axis_facts::may_wrap_around(v->type) ? both(of(0, at), of(1, at), std::plus<>()) : std::nullopt;
    case Opcode::Cast: {
      const Type& from = op.operand(0)->type;
      return from.is_integer() && range_of(from).most <= range_of(v->type).most ? of(0, at) : std::nullopt;
    }
    case Opcode::ExpandDims:
      return of(0, without_axis(at, op.get(attr::axis)));
    case Opcode::Broadcast:
      return of(0, within(at, op.operand(0)->type));
    case Opcode::ConvertLayout:
    case Opcode::Hint:
      return of(0, at);
    default:
      return std::nullopt;
  }
}

bool is_false_from(const Value* mask, const Coordinates& at, int depth) {
  if (!mask->def || depth > kMostDepth) return false;
  const Op& op = *mask->def;
  auto of = [&](size_t i, const Coordinates& there) { return is_false_from(op.operand(i), there, depth + 1); };
  switch (op.opcode) {
    case Opcode::Lt: {
      const Bound least = least_from(op.operand(0), at, depth + 1);
      const auto end = constant_integer(op.operand(1));
      return least && end && *least >= *end;
    }
    case Opcode::BitAnd:
      return of(0, at) || of(1, at);
    case Opcode::ExpandDims:
      return of(0, without_axis(at, op.get(attr::axis)));
    case Opcode::Broadcast:
      return of(0, within(at, op.operand(0)->type));
    case Opcode::ConvertLayout:
      return of(0, at);
    default:
      return false;
  }
}

}  // namespace

IntegerBounds integer_bounds(const Value* v) { return bounds_of(v, 0); }

bool is_false_from(const Value* mask, const Coordinates& at) { return is_false_from(mask, at, 0); }

std::optional<int64_t> most_trips(const Op& loop) {
  if (loop.opcode != Opcode::For) return std::nullopt;
  const ForLoop parts(loop);
  const auto step = constant_integer(parts.step());
  const auto first = integer_bounds(parts.lower()).least, end = integer_bounds(parts.upper()).most;
  if (!step || *step <= 0 || !first || !end) return std::nullopt;
  return std::max<int64_t>(0, (*end - *first + *step - 1) / *step);
}

}  // namespace tegula
