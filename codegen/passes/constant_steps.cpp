#include "codegen/passes/constant_steps.h"

#include <cmath>

#include "codegen/passes/constant_fold.h"

namespace tegula {

using ir::Attr;

namespace {

bool is_negative_zero(const Attr& constant) {
  const auto* number = std::get_if<double>(&constant);
  return number && *number == 0 && std::signbit(*number);
}

}  // namespace

std::optional<Attr> step_between(const Attr& first, const Attr& second, Elem elem) {
  if (first.index() != second.index() || is_negative_zero(first)) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(&first))
    return wrap_integer(uint64_t(std::get<int64_t>(second)) - uint64_t(*number), elem);
  if (const auto* number = std::get_if<double>(&first)) return std::get<double>(second) - *number;
  return std::nullopt;
}

bool has_grown(const Attr& constant, const Attr& first, const Attr& step, size_t copies, Elem elem) {
  if (const auto* number = std::get_if<int64_t>(&first))
    return std::get<int64_t>(constant) ==
           wrap_integer(uint64_t(*number) + copies * uint64_t(std::get<int64_t>(step)), elem);
  const double from = std::get<double>(first), to = std::get<double>(constant);
  const double number = double(copies), distance = number * std::get<double>(step);
  auto is_exact = [&](double x) { return std::isfinite(x) && round_float(x, elem) == x; };
  const double rounded_off = std::fma(number, std::get<double>(step), -distance);
  return is_exact(number) && is_exact(distance) && rounded_off == 0 && from + distance == to && to - distance == from &&
         to - from == distance && !is_negative_zero(constant);
}

}  // namespace tegula
