// Arithmetic of compile-time numbers that are scalars of the kernel (Val::typed).
#include <algorithm>
#include <cmath>
#include <optional>

#include "dsl/semantics/control.h"
#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

Int as_int(const Val& x) { return x.is<Int>() ? x.as<Int>() : Int(x.as<bool>()); }

/// The number that a variable of the type holds.
Int in_type(const Int& x, Elem elem) {
  const int unused = 64 - elem_bits(elem);
  const uint64_t bits = x.low_bits() << unused;
  return is_unsigned(elem) ? Int(bits >> unused) : Int(int64_t(bits) >> unused);
}

double in_type(double x, Elem elem) { return elem == Elem::F32 ? double(float(x)) : x; }

/// Rounded toward zero, the divisor is not 0.
Int truncated_div(const Int& a, const Int& b) {
  const Int size = floor_div(a < 0 ? -a : a, b < 0 ? -b : b);
  return (a < 0) != (b < 0) ? -size : size;
}

/// The type of what two numbers give; nothing where they do not go together.
std::optional<Elem> type_of(const Val& a, const Val& b, bool division) {
  return computation_type(literal_type(a), !a.typed, literal_type(b), !b.typed, division);
}

/// The number if its value says the type, else a scalar of the type.
Val number_of_type(Sema& s, const Val& number, Elem type) {
  return literal_type(number) == type ? as_scalars(number) : Val(constant(s, ir::Type::scalar(type), number));
}

Val integer_of_type(Sema& s, const Int& x, Elem type) {
  const Int held = in_type(x, type);
  return number_of_type(s, type == Elem::I1 ? Val(bool(held)) : Val(held), type);
}

/// + - * // % & | ^ << >> in the integers' type; nothing where that is no plain number.
std::optional<Val> integers_of_type(Sema& s, std::string_view op, const Val& lhs, const Val& rhs) {
  static constexpr std::string_view kOps[] = {"+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"};
  if (std::ranges::find(kOps, op) == std::end(kOps)) return std::nullopt;
  const bool divides = op == "//" || op == "%";
  const auto type = type_of(lhs, rhs, divides);
  if (!type || !(lhs.typed || literal_fits(lhs, *type)) || !(rhs.typed || literal_fits(rhs, *type)))
    return std::nullopt;
  const Int a = in_type(as_int(lhs), *type), b = in_type(as_int(rhs), *type);
  const bool shifts = op == "<<" || op == ">>";
  if (shifts && (is_signed(literal_type(lhs)) != is_signed(*type) || b < 0 || b >= Int(elem_bits(*type))))
    return std::nullopt;
  const Val exact = op == "//"  ? Val(truncated_div(a, b))
                    : op == "%" ? Val(a - truncated_div(a, b) * b)
                                : binary(s, op, a, b);
  return integer_of_type(s, exact.as<Int>(), *type);
}

/// + - * / % in the floats' type, which is float32 for a quotient of integers; nothing for other operators.
std::optional<Val> reals_of_type(Sema& s, std::string_view op, const Val& lhs, const Val& rhs) {
  const auto type = type_of(lhs, rhs, op == "/" || op == "%");
  if (!type) return std::nullopt;
  const Elem elem = is_float(*type) ? *type : Elem::F32;
  const double a = in_type(as_double(lhs), elem), b = in_type(as_double(rhs), elem);
  double result = 0;
  if (op == "+")
    result = a + b;
  else if (op == "-")
    result = a - b;
  else if (op == "*")
    result = a * b;
  else if (op == "/")
    result = a / b;
  else if (op == "%")
    result = std::fmod(a, b);
  else
    return std::nullopt;
  return number_of_type(s, in_type(result, elem), elem);
}

bool has_type(const Val& x) { return !x.is<Int>() || literal_fits(x, literal_type(x)); }

}  // namespace

Val binary_of_typed(Sema& s, std::string_view op, const Val& lhs, const Val& rhs) {
  const bool real = lhs.is<double>() || rhs.is<double>() || op == "/";
  const bool by_zero = !real && (op == "//" || op == "%") && is_number(rhs) && as_double(rhs) == 0;
  if (!is_number(lhs) || !is_number(rhs) || !has_type(lhs) || !has_type(rhs) || by_zero || op == "**") {
    Val a = lhs, b = rhs;
    a.typed = b.typed = false;
    return as_scalars(binary(s, op, a, b));
  }
  if (const auto result = real ? reals_of_type(s, op, lhs, rhs) : integers_of_type(s, op, lhs, rhs)) return *result;
  auto scalar = [&](const Val& x) { return x.typed ? Val(to_value(s, x)) : x; };
  return binary(s, op, scalar(lhs), scalar(rhs));
}

Val compare_typed(Sema& s, std::string_view op, const Val& lhs, const Val& rhs) {
  const auto type = computation_type(literal_type(lhs), false, literal_type(rhs), false, false);
  auto number = [&](const Val& x) -> Val {
    if (!type || !has_type(x)) return x.is<bool>() ? Val(as_int(x)) : x.is<Int>() ? Val(x.as<Int>()) : as_double(x);
    if (is_float(*type)) return in_type(as_double(x), *type);
    return in_type(as_int(x), *type);
  };
  return as_scalars(compare(s, op, number(lhs), number(rhs)));
}

Val unary_of_typed(Sema& s, std::string_view op, const Val& x) {
  if (op == "+") return x;
  const Elem type = literal_type(x);
  if (x.is<double>()) {
    if (op == "-") return as_scalars(0 - x.as<double>());
    return s.error("'~' takes integers, found a float");
  }
  const Int value = as_int(x);
  if (!has_type(x)) return as_scalars(op == "-" ? -value : ~value);
  return integer_of_type(s, op == "-" ? -value : ~value, type);
}

Val in_common_type(Sema& s, const Val& chosen, const Val& other) {
  const auto type = type_of(chosen, other, false);
  if (!type || !has_type(chosen)) return chosen;
  return is_float(*type) ? number_of_type(s, in_type(as_double(chosen), *type), *type)
                         : integer_of_type(s, as_int(chosen), *type);
}

}  // namespace tegula::dsl
