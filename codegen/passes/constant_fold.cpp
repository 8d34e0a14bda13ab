#include "codegen/passes/constant_fold.h"

#include <cmath>
#include <limits>

#include "runtime/base/float16.h"
#include "runtime/base/float8.h"

namespace tegula {

using ir::Attr;
using ir::Opcode;

const Attr* constant_of(const ir::Value* v) {
  if (!v || !v->def || v->def->opcode != Opcode::Constant) return nullptr;
  return &v->def->attrs.find(ir::attr::value.name)->second;
}

int64_t wrap_integer(uint64_t value, Elem elem) {
  int bits = elem_bits(elem);
  if (bits == 64) return int64_t(value);
  int shift = 64 - bits;
  return is_signed(elem) ? int64_t(value << shift) >> shift : int64_t(value << shift >> shift);
}

double round_float(double value, Elem elem) {
  if (is_float8(elem)) return round_to_float8(float(value), elem);
  if (std::isnan(value)) return std::numeric_limits<double>::quiet_NaN();
  if (elem == Elem::F64 || std::isinf(value) || value == 0) return value;
  if (elem == Elem::F32) return double(float(value));
  return elem == Elem::F16 ? float16::round(value) : bfloat16::round(value);
}

namespace {

std::optional<Attr> fold_integers(Opcode opcode, Elem elem, int64_t a, int64_t b) {
  const bool sign = is_signed(elem);
  const uint64_t ua = uint64_t(a), ub = uint64_t(b);
  const bool less = sign ? a < b : ua < ub;
  auto wrap = [&](uint64_t v) { return Attr(wrap_integer(v, elem)); };
  auto truth = [](bool v) { return Attr(int64_t(v)); };
  switch (opcode) {
    case Opcode::Add:
      return wrap(ua + ub);
    case Opcode::Sub:
      return wrap(ua - ub);
    case Opcode::Mul:
      return wrap(ua * ub);
    case Opcode::Div:
    case Opcode::Rem: {
      int64_t lowest = wrap_integer(uint64_t(1) << (elem_bits(elem) - 1), elem);
      if (b == 0 || (sign && b == -1 && a == lowest)) return std::nullopt;
      if (opcode == Opcode::Div) return sign ? wrap(uint64_t(a / b)) : wrap(ua / ub);
      return sign ? wrap(uint64_t(a % b)) : wrap(ua % ub);
    }
    case Opcode::BitAnd:
      return wrap(ua & ub);
    case Opcode::BitOr:
      return wrap(ua | ub);
    case Opcode::BitXor:
      return wrap(ua ^ ub);
    case Opcode::Shl:
    case Opcode::Shr:
      if (ub >= uint64_t(elem_bits(elem))) return std::nullopt;
      if (opcode == Opcode::Shl) return wrap(ua << ub);
      return sign ? wrap(uint64_t(a >> b)) : wrap(ua >> ub);
    case Opcode::MulHi:
      if (sign) return std::nullopt;  // the language's umulhi takes signed operands as unsigned
      return wrap(uint64_t(((unsigned __int128)ua * ub) >> elem_bits(elem)));
    case Opcode::Minimum:
      return Attr(less ? a : b);
    case Opcode::Maximum:
      return Attr(less ? b : a);
    case Opcode::Eq:
      return truth(a == b);
    case Opcode::Ne:
      return truth(a != b);
    case Opcode::Lt:
      return truth(less);
    case Opcode::Le:
      return truth(less || a == b);
    case Opcode::Gt:
      return truth(!less && a != b);
    case Opcode::Ge:
      return truth(!less);
    case Opcode::Neg:
      return wrap(0 - ua);
    case Opcode::Abs:
      return wrap(sign && a < 0 ? 0 - ua : ua);
    default:
      return std::nullopt;
  }
}

// Operands are values of `elem`. Computing in double and rounding once more gives the correctly rounded result of
// + - * / sqrt in every narrower type, since 53 >= 2 * 24 + 2.
std::optional<Attr> fold_floats(const ir::Op& op, Elem elem, double a, double b) {
  auto round = [&](double v) { return Attr(round_float(v, elem)); };
  auto truth = [](bool v) { return Attr(int64_t(v)); };
  switch (op.opcode) {
    case Opcode::Add:
      return round(a + b);
    case Opcode::Sub:
      return round(a - b);
    case Opcode::Mul:
      return round(a * b);
    case Opcode::Div:
    case Opcode::DivRn:
      return round(a / b);
    case Opcode::Rem:
      return round(std::fmod(a, b));
    case Opcode::Minimum:
    case Opcode::Maximum:
      if (a == 0 && b == 0 && std::signbit(a) != std::signbit(b)) return std::nullopt;
      if (op.get(ir::attr::nan) && (std::isnan(a) || std::isnan(b))) return round(a + b);
      return round(op.opcode == Opcode::Minimum ? std::fmin(a, b) : std::fmax(a, b));
    case Opcode::Eq:
      return truth(a == b);
    case Opcode::Ne:
      return truth(a != b);
    case Opcode::Lt:
      return truth(a < b);
    case Opcode::Le:
      return truth(a <= b);
    case Opcode::Gt:
      return truth(a > b);
    case Opcode::Ge:
      return truth(a >= b);
    case Opcode::Neg:
      return round(-a);
    case Opcode::Abs:
      return round(std::abs(a));
    case Opcode::Floor:
      return round(std::floor(a));
    case Opcode::Ceil:
      return round(std::ceil(a));
    case Opcode::Sqrt:
    case Opcode::SqrtRn:
      return round(std::sqrt(a));
    default:
      return std::nullopt;
  }
}

std::optional<Attr> fold_cast(const ir::Op& op, Elem from, Elem to, const Attr& value) {
  if (is_float(from)) {
    double v = round_float(std::get<double>(value), from);
    if (is_float(to)) {
      double rounded = round_float(v, to);
      if (op.get(ir::attr::rounding) == "rtz" && rounded != v && !std::isnan(v)) return std::nullopt;
      return Attr(rounded);
    }
    v = std::trunc(v);
    int magnitude_bits = elem_bits(to) - is_signed(to);
    double low = is_signed(to) ? -std::ldexp(1.0, magnitude_bits) : 0;
    if (to == Elem::I1 || !(v >= low && v < std::ldexp(1.0, magnitude_bits))) return std::nullopt;
    return Attr(v < 0 ? int64_t(v) : int64_t(uint64_t(v)));
  }
  int64_t v = std::get<int64_t>(value);
  if (!is_float(to)) {
    if (to == Elem::I1 && (v & ~int64_t(1))) return std::nullopt;
    return Attr(wrap_integer(uint64_t(v), to));
  }
  if (to == Elem::F32) return Attr(is_signed(from) ? double(float(v)) : double(float(uint64_t(v))));
  double exact = is_signed(from) ? double(v) : double(uint64_t(v));
  if (to != Elem::F64 && std::abs(exact) > std::ldexp(1.0, 53)) return std::nullopt;
  return Attr(round_float(exact, to));
}

}  // namespace

std::optional<Attr> fold_elementwise(const ir::Op& op, const std::vector<const Attr*>& operands) {
  if (operands.empty()) return std::nullopt;
  const ir::Type& type = op.operands[0]->type;
  switch (op.opcode) {
    case Opcode::Select:
      return std::get<int64_t>(*operands[0]) ? *operands[1] : *operands[2];
    case Opcode::Hint:
      return *operands[0];
    case Opcode::Cast:
      return fold_cast(op, type.elem, op.result()->type.elem, *operands[0]);
    case Opcode::Fma: {
      double x = std::get<double>(*operands[0]), y = std::get<double>(*operands[1]), z = std::get<double>(*operands[2]);
      if (type.elem == Elem::F64) return Attr(round_float(std::fma(x, y, z), Elem::F64));
      if (type.elem == Elem::F32) return Attr(round_float(std::fma(float(x), float(y), float(z)), Elem::F32));
      return std::nullopt;
    }
    default:
      break;
  }
  if (type.pointer || operands.size() > 2) return std::nullopt;
  const Attr& b = *operands.back();
  if (!type.is_float())
    return fold_integers(op.opcode, type.elem, std::get<int64_t>(*operands[0]), std::get<int64_t>(b));
  return fold_floats(op, type.elem, round_float(std::get<double>(*operands[0]), type.elem),
                     round_float(std::get<double>(b), type.elem));
}

}  // namespace tegula
