// Arithmetic of compile-time numbers that are scalars, as Triton makes them of what is assigned to a name.
#include <algorithm>
#include <optional>

#include "dsl/semantics/control.h"
#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

/// The number that a variable of the type holds.
Int in_type(const Int& x, Elem elem) {
  const int unused = 64 - elem_bits(elem);
  const uint64_t bits = x.low_bits() << unused;
  return is_unsigned(elem) ? Int(bits >> unused) : Int(int64_t(bits) >> unused);
}

/// Rounded toward zero, the divisor is not 0.
Int truncated_div(const Int& a, const Int& b) {
  const Int size = floor_div(a < 0 ? -a : a, b < 0 ? -b : b);
  return (a < 0) != (b < 0) ? -size : size;
}

/// Of compile-time numbers, which has a type.
struct TypedPair {
  const Val &lhs, &rhs;
  bool lhs_typed, rhs_typed;

  std::optional<Elem> type(bool division) const {
    return computation_type(literal_type(lhs), !lhs_typed, literal_type(rhs), !rhs_typed, division);
  }
};

/// The number if its value says the type, else a scalar of the type.
Val number_of_type(Sema& s, const Val& number, Elem type) {
  return literal_type(number) == type ? number : Val(constant(s, ir::Type::scalar(type), number));
}

/// + - * // % & | ^ << >> in the integers' type; nothing where that is no plain number.
std::optional<Val> integers_of_type(Sema& s, std::string_view op, const TypedPair& x) {
  static constexpr std::string_view kOps[] = {"+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"};
  if (std::ranges::find(kOps, op) == std::end(kOps)) return std::nullopt;
  const bool divides = op == "//" || op == "%";
  const auto type = x.type(divides);
  if (!type || !(x.lhs_typed || literal_fits(x.lhs, *type)) || !(x.rhs_typed || literal_fits(x.rhs, *type)))
    return std::nullopt;
  const Int a = in_type(x.lhs.as<Int>(), *type), b = in_type(x.rhs.as<Int>(), *type);
  if ((op == "<<" || op == ">>") &&
      (is_signed(literal_type(x.lhs)) != is_signed(*type) || b < 0 || b >= Int(elem_bits(*type))))
    return std::nullopt;
  const Val exact = op == "//"  ? Val(truncated_div(a, b))
                    : op == "%" ? Val(a - truncated_div(a, b) * b)
                                : binary(s, op, a, b);
  return number_of_type(s, in_type(exact.as<Int>(), *type), *type);
}

/// + - * / in the floats' type, which is float32 for a quotient of integers; nothing for other operators.
std::optional<Val> reals_of_type(Sema& s, std::string_view op, const TypedPair& x) {
  const auto type = x.type(op == "/");
  if (!type) return std::nullopt;
  const Elem elem = is_float(*type) ? *type : Elem::F32;
  auto rounded = [&](double number) { return elem == Elem::F32 ? double(float(number)) : number; };
  const double a = rounded(as_double(x.lhs)), b = rounded(as_double(x.rhs));
  double result = 0;
  if (op == "+")
    result = a + b;
  else if (op == "-")
    result = a - b;
  else if (op == "*")
    result = a * b;
  else if (op == "/")
    result = a / b;
  else
    return std::nullopt;
  return number_of_type(s, rounded(result), elem);
}

}  // namespace

Val binary_of_typed(Sema& s, std::string_view op, const Val& lhs, bool lhs_typed, const Val& rhs, bool rhs_typed) {
  if (lhs.is<bool>() && rhs.is<bool>()) {  // of one bit
    if (op == "+" || op == "-") return lhs.as<bool>() != rhs.as<bool>();
    if (op == "*") return lhs.as<bool>() && rhs.as<bool>();
    if (op == "//" && rhs.as<bool>()) return lhs;
    if (op == "%" && rhs.as<bool>()) return false;
    if ((op == "<<" || op == ">>") && !rhs.as<bool>()) return lhs;
  }
  auto is_plain = [](const Val& x) { return x.is<double>() || (x.is<Int>() && literal_fits(x, literal_type(x))); };
  const bool by_zero = (op == "/" || op == "//" || op == "%") && is_number(rhs) && as_double(rhs) == 0;
  if (!is_plain(lhs) || !is_plain(rhs) || by_zero) return binary(s, op, lhs, rhs);
  const bool real = lhs.is<double>() || rhs.is<double>() || op == "/";
  const TypedPair pair{lhs, rhs, lhs_typed, rhs_typed};
  if (const auto result = real ? reals_of_type(s, op, pair) : integers_of_type(s, op, pair)) return *result;
  if (real || op == "**") return binary(s, op, lhs, rhs);
  auto scalar = [&](const Val& x, bool typed) { return typed ? Val(to_value(s, x)) : x; };
  return binary(s, op, scalar(lhs, lhs_typed), scalar(rhs, rhs_typed));
}

}  // namespace tegula::dsl
