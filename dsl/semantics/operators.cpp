// Operators: type promotion, broadcasting, and compile-time evaluation as Python has it. Promotion follows Triton's
// computation type rules.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dsl/semantics/control.h"
#include "dsl/semantics/internal.h"

namespace tegula::dsl {

double as_double(const Val& x) {
  if (auto* d = x.get_if<double>()) return *d;
  if (auto* i = x.get_if<Int>()) return i->to_double();
  return x.as<bool>();
}

namespace {

// ------------------------------------------------------------------------------------------------ compile time

Int as_int(const Val& x) { return x.is<Int>() ? x.as<Int>() : Int(x.as<bool>()); }

// Python's floor division and modulo of floats: the remainder has the sign of the divisor, and is exact.
double floor_mod(double a, double b) {
  double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
double floor_div(double a, double b) { return std::floor((a - floor_mod(a, b)) / b + 0.5); }

// base ** exponent by squaring.
Int power(Int base, uint64_t exponent) {
  Int result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = result * base;
    if (exponent > 1) base = base * base;
  }
  return result;
}

// At least how many bits the result of an operator has, roughly: for those that may be refused.
double bits_of_result(std::string_view op, const Int& a, const Int& b) {
  if (op == "*") return double(a.bits()) + double(b.bits());
  if (op == "<<") return a ? double(a.bits()) + b.to_double() : 0;
  if (op == "**") return a.bits() > 1 ? double(a.bits() - 1) * b.to_double() : 0;
  return double(std::max(a.bits(), b.bits()));
}

Val fold_integers(Sema& s, std::string_view op, const Int& a, const Int& b) {
  if ((op == "<<" || op == ">>") && b < 0) return s.error("negative shift count");
  if (bits_of_result(op, a, b) > double(Int::kMaxBits))
    return s.error(fmt::format("the result of '{}' has more than {} bits", op, Int::kMaxBits));
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "//") return floor_div(a, b);
  if (op == "%") return floor_mod(a, b);
  if (op == "**") return power(a, b.narrow() ? uint64_t(*b.narrow()) : 2 + (b.low_bits() & 1));  // large: of 0, 1, -1
  if (op == "<<") return a ? a << b.clamped() : Int(0);
  if (op == ">>") return a >> b.clamped();
  if (op == "&") return a & b;
  if (op == "|") return a | b;
  if (op == "^") return a ^ b;
  return s.error(fmt::format("'{}' is not defined for the ints {} and {}", op, a, b));
}

// What would be longer than this is refused, so that host code cannot take all memory.
constexpr size_t kMaxLength = 1 << 16;

Val too_long(Sema& s, size_t length) {
  return s.error(fmt::format("the result has {} elements, more than {}", length, kMaxLength));
}

// A string or tuple repeated, or two of them joined; nullopt if that is not what `op` asks for.
std::optional<Val> fold_sequences(Sema& s, std::string_view op, const Val& lhs, const Val& rhs) {
  auto sequence = [](const Val& x) { return x.is<std::string>() || x.is<TupleVal>(); };
  auto count = [](const Val& x) { return x.is<Int>() || x.is<bool>(); };
  auto length = [](const Val& x) {
    return x.is<std::string>() ? x.as<std::string>().size() : x.as<TupleVal>().items->size();
  };
  if (op == "*" && count(lhs) && sequence(rhs)) return fold_sequences(s, op, rhs, lhs);
  if (op == "*" && sequence(lhs) && count(rhs)) {
    const size_t times = length(lhs) ? size_t(std::max<int64_t>(0, as_int(rhs).clamped())) : 0;
    if (times > kMaxLength) return too_long(s, times);
    if (times * length(lhs) > kMaxLength) return too_long(s, times * length(lhs));
    if (const auto* text = lhs.get_if<std::string>()) {
      std::string out;
      for (size_t i = 0; i < times; ++i) out += *text;
      return Val(std::move(out));
    }
    std::vector<Val> out;
    for (size_t i = 0; i < times; ++i)
      out.insert(out.end(), lhs.as<TupleVal>().items->begin(), lhs.as<TupleVal>().items->end());
    return lhs.as<TupleVal>().is_list ? make_list(std::move(out)) : make_tuple(std::move(out));
  }
  if (op != "+" || !sequence(lhs) || lhs.v.index() != rhs.v.index()) return std::nullopt;
  if (length(lhs) + length(rhs) > kMaxLength) return too_long(s, length(lhs) + length(rhs));
  if (lhs.is<std::string>()) return Val(lhs.as<std::string>() + rhs.as<std::string>());
  std::vector<Val> items = *lhs.as<TupleVal>().items;
  items.insert(items.end(), rhs.as<TupleVal>().items->begin(), rhs.as<TupleVal>().items->end());
  return lhs.as<TupleVal>().is_list ? make_list(std::move(items)) : make_tuple(std::move(items));
}

Val fold_pow(Sema& s, double a, double b) {
  if (a == 0 && b < 0) return s.error("division by zero");
  double power = std::pow(a, b);
  if (std::isnan(power) && !std::isnan(a) && !std::isnan(b))
    return s.error(fmt::format("the result of {} ** {} is no real number", a, b));
  return power;
}

Val fold_binary(Sema& s, std::string_view op, const Val& lhs, const Val& rhs) {
  if (auto sequence = fold_sequences(s, op, lhs, rhs)) return *sequence;
  if (!is_number(lhs) || !is_number(rhs))
    return s.error(fmt::format("'{}' is not defined for {} and {}", op, describe(lhs), describe(rhs)));
  bool real = lhs.is<double>() || rhs.is<double>();
  bool zero = as_double(rhs) == 0;
  if ((op == "/" || op == "//" || op == "%") && zero) return s.error("division by zero");
  if (op == "/") return as_double(lhs) / as_double(rhs);
  if (real) {
    double a = as_double(lhs), b = as_double(rhs);
    if (op == "+") return a + b;
    if (op == "-") return a - b;
    if (op == "*") return a * b;
    if (op == "//") return floor_div(a, b);
    if (op == "%") return floor_mod(a, b);
    if (op == "**") return fold_pow(s, a, b);
    return s.error(fmt::format("'{}' is not defined for {} and {}", op, describe(lhs), describe(rhs)));
  }
  if (lhs.is<bool>() && rhs.is<bool>()) {
    if (op == "&") return lhs.as<bool>() && rhs.as<bool>();
    if (op == "|") return lhs.as<bool>() || rhs.as<bool>();
    if (op == "^") return lhs.as<bool>() != rhs.as<bool>();
  }
  Int a = as_int(lhs), b = as_int(rhs);
  if (op == "**" && b < 0) return fold_pow(s, a.to_double(), b.to_double());
  return fold_integers(s, op, a, b);
}

// Two compile-time values, or their lack of an order.
std::optional<int> order(const Val& lhs, const Val& rhs) {
  auto three_way = [](auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; };
  if (is_number(lhs) && is_number(rhs)) {
    if (lhs.is<double>() && rhs.is<double>()) return three_way(lhs.as<double>(), rhs.as<double>());
    if (lhs.is<double>()) return -*order(rhs, lhs);
    if (!rhs.is<double>()) return three_way(as_int(lhs), as_int(rhs));
    const double real = rhs.as<double>();  // exact, as in Python
    if (!std::isfinite(real)) return three_way(0.0, real);
    const int whole = three_way(as_int(lhs), Int::truncate(real));
    return whole ? whole : three_way(std::trunc(real), real);
  }
  if (lhs.is<std::string>() && rhs.is<std::string>()) return three_way(lhs.as<std::string>(), rhs.as<std::string>());
  if (!lhs.is<TupleVal>() || !rhs.is<TupleVal>()) return std::nullopt;
  const auto &a = *lhs.as<TupleVal>().items, &b = *rhs.as<TupleVal>().items;  // by the first items that differ
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (auto o = order(a[i], b[i]); !o || *o != 0) return o;
  return three_way(a.size(), b.size());
}

// Python's ==.
bool equal(const Val& lhs, const Val& rhs) {
  if (auto o = lhs.is<TupleVal>() ? std::nullopt : order(lhs, rhs))
    return *o == 0 && !(lhs.is<double>() && std::isnan(lhs.as<double>())) &&
           !(rhs.is<double>() && std::isnan(rhs.as<double>()));
  if (lhs.is<None>() || rhs.is<None>()) return lhs.is<None>() && rhs.is<None>();
  if (lhs.is<DType>() && rhs.is<DType>())
    return lhs.as<DType>().to_block == rhs.as<DType>().to_block &&
           lhs.as<DType>().type.same_shape_and_elem(rhs.as<DType>().type);
  if (lhs.is<TupleVal>() && rhs.is<TupleVal>()) {
    auto &a = *lhs.as<TupleVal>().items, &b = *rhs.as<TupleVal>().items;
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), equal);
  }
  if (lhs.is<FunctionRef>() && rhs.is<FunctionRef>())
    return lhs.as<FunctionRef>().name == rhs.as<FunctionRef>().name &&
           lhs.as<FunctionRef>().function == rhs.as<FunctionRef>().function;
  return false;
}

// -------------------------------------------------------------------------------------------------- promotion

enum class Kind { Boolean, Integer, Float };
Kind kind_of(Elem e) { return e == Elem::I1 ? Kind::Boolean : tegula::is_float(e) ? Kind::Float : Kind::Integer; }

Elem integer_promote(Elem a, Elem b) {
  int a_bits = elem_bits(a), b_bits = elem_bits(b);
  if (is_unsigned(a) == is_unsigned(b)) return a_bits > b_bits ? a : b;
  Elem u = is_unsigned(a) ? a : b, i = is_unsigned(a) ? b : a;
  return elem_bits(u) >= elem_bits(i) ? u : i;
}

}  // namespace

std::optional<Elem> computation_type(Elem a, bool a_literal, Elem b, bool b_literal, bool division) {
  auto widened = [&](Elem e) { return division && (e == Elem::F16 || e == Elem::BF16) ? Elem::F32 : e; };
  if (a_literal != b_literal) {
    Elem literal = a_literal ? a : b, other = a_literal ? b : a;
    if (kind_of(literal) <= kind_of(other)) return widened(other);
  }
  auto either = [&](Elem e) { return a == e || b == e; };
  if (either(Elem::F64)) return Elem::F64;
  if (either(Elem::F32)) return Elem::F32;
  if (either(Elem::F16)) return widened(Elem::F16);
  if (a == Elem::BF16 && b == Elem::BF16) return widened(Elem::BF16);
  if (either(Elem::BF16)) return Elem::F32;
  if (is_float8(a) && is_float8(b)) return a == b ? a : Elem::F16;
  if (is_float8(a) || is_float8(b)) return std::nullopt;
  if (division && is_unsigned(a) != is_unsigned(b)) return std::nullopt;
  return integer_promote(a, b);
}

namespace {

// A float as an integer: NaN gives 0, and what is out of range the nearest limit.
int64_t truncated(double x) {
  if (std::isnan(x)) return 0;
  if (std::isinf(x)) return x > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
  return Int::truncate(x).clamped();
}

}  // namespace

bool literal_fits(const Val& literal, Elem elem) {
  if (!literal.is<Int>() || tegula::is_float(elem)) return true;
  const Int& x = literal.as<Int>();
  int bits = elem_bits(elem);
  if (is_unsigned(elem)) return x >= 0 && x.bits() <= bits;
  return x.bits() < bits || x == -(Int(1) << (bits - 1));
}

ir::Value* constant(Sema& s, const ir::Type& type, const Val& literal) {
  if (type.is_float()) return s.builder.constant_float(type, as_double(literal));
  if (type.is_bool()) return s.builder.constant(type, truth(literal));
  int64_t value = literal.is<double>() ? truncated(literal.as<double>()) : int64_t(as_int(literal).low_bits());
  int unused = 64 - elem_bits(type.elem);
  value = int64_t(uint64_t(value) << unused);
  return s.builder.constant(type, is_unsigned(type.elem) ? int64_t(uint64_t(value) >> unused) : value >> unused);
}

Elem literal_type(const Val& x) {
  if (x.is<bool>()) return Elem::I1;
  if (x.is<double>()) {
    double d = x.as<double>();
    bool fits = d == 0 || !std::isfinite(d) ||
                (std::fabs(d) >= 1.1754943508222875e-38 && std::fabs(d) <= 3.4028234663852886e38);
    return fits ? Elem::F32 : Elem::F64;
  }
  for (Elem e : {Elem::I32, Elem::U32, Elem::I64})
    if (literal_fits(x, e)) return e;
  return Elem::U64;
}

Val in_own_type(const Val& number) {
  if (!number.is<double>() || literal_type(number) != Elem::F32) return number;
  return double(float(number.as<double>()));
}

bool check_literal(Sema& s, const Val& literal) {
  if (!literal.is<Int>() || literal_fits(literal, literal_type(literal))) return true;
  s.error(fmt::format("the integer {} does not fit 64 bits", literal.as<Int>()));
  return false;
}

ir::Value* widen_bfloat16(Sema& s, ir::Value* x) { return x->type.elem == Elem::BF16 ? cast_to(s, x, Elem::F32) : x; }

namespace {
constexpr const char* kNoFloat8Arithmetic =
    "float8 numbers are loaded, stored, converted and multiplied by tl.dot: compute in .to(tl.float32)";
}

bool check_arithmetic(Sema& s, std::string_view function, const ir::Value* x) {
  if (x->type.pointer || !is_float8(x->type.elem)) return true;
  const OnPage on_page(s.diags, page::kFloat8);
  s.error(fmt::format("{} is not defined for {}", function, elem_info(x->type.elem).tl), kNoFloat8Arithmetic);
  return false;
}

ir::Value* cast_to(Sema& s, ir::Value* x, Elem elem) {
  return x->type.pointer || x->type.elem == elem ? x : s.builder.cast(x, elem);
}

bool broadcast_pair(Sema& s, ir::Value*& a, ir::Value*& b) {
  if (a->type.shape == b->type.shape) return true;
  ir::Shape shape;
  size_t rank = std::max(a->type.shape.size(), b->type.shape.size());
  for (size_t i = 0; i < rank; ++i) {
    auto extent = [&](const ir::Shape& sh) { return i + sh.size() < rank ? 1 : sh[i + sh.size() - rank]; };
    int64_t x = extent(a->type.shape), y = extent(b->type.shape);
    if (x != y && x != 1 && y != 1) {
      s.error(fmt::format("shapes {} and {} do not fit together at dimension {}: {} and {}",
                          ir::shape_to_string(a->type.shape), ir::shape_to_string(b->type.shape), i, x, y),
              "extents must be equal or 1; x[:, None] and x[None, :] add a dimension of extent 1");
      return false;
    }
    shape.push_back(std::max(x, y));
  }
  a = broadcast_value(s, a, shape);
  b = broadcast_value(s, b, shape);
  return a && b;
}

ir::Value* broadcast_value(Sema& s, ir::Value* x, const ir::Shape& shape) {
  if (x->type.shape == shape) return x;
  if (x->type.is_scalar()) return s.builder.splat(x, shape);
  bool fits = x->type.shape.size() <= shape.size();
  for (size_t i = 0; fits && i < x->type.shape.size(); ++i) {
    int64_t from = x->type.shape[i], to = shape[i + shape.size() - x->type.shape.size()];
    fits = from == to || from == 1;
  }
  if (!fits) {
    s.error(fmt::format("cannot broadcast {} to {}", ir::shape_to_string(x->type.shape), ir::shape_to_string(shape)),
            "only extents of 1 repeat");
    return nullptr;
  }
  while (x->type.shape.size() < shape.size()) x = s.builder.expand_dims(x, 0);
  return x->type.shape == shape ? x : s.builder.broadcast(x, shape);
}

// Both operands as IR values of one type and shape. Pointers pass if allowed.
std::optional<std::pair<ir::Value*, ir::Value*>> operands(Sema& s, std::string_view op, const Val& lhs, const Val& rhs,
                                                          OperandRules rules) {
  auto elem_of = [](const Val& x) { return x.is_value() ? x.value()->type.elem : literal_type(x); };
  for (const Val* x : {&lhs, &rhs}) {
    if (!x->is_value() && !is_number(*x)) {
      const auto* list = x->get_if<TupleVal>();
      s.error(fmt::format("'{}' is not defined for {} and {}", op, describe(lhs), describe(rhs)),
              list && list->items->empty() ? "an empty list is no tile to add to: tl.zeros((BLOCK,), tl.float32)"
              : x->is<std::string>() && (op == "+" || op == "%")
                  ? "print('x', x) prints the elements of x when the kernel runs"
                  : "");
      return std::nullopt;
    }
  }
  bool lhs_ptr = lhs.is_value() && lhs.value()->type.pointer, rhs_ptr = rhs.is_value() && rhs.value()->type.pointer;
  if (lhs_ptr || rhs_ptr) {
    bool same_pointers = lhs_ptr && rhs_ptr && elem_of(lhs) == elem_of(rhs);
    if (!rules.pointers || !same_pointers) {
      s.error(fmt::format("'{}' is not defined for {} and {}", op, describe(lhs), describe(rhs)),
              lhs_ptr && rhs_ptr ? (op == "-" ? "" : "load the elements that they point to first: tl.load(p + offsets)")
              : op == "-" && rhs_ptr ? "the pointer stands on the left: p - n"
                                     : hint_for_pointer((lhs_ptr ? lhs : rhs).value()));
      return std::nullopt;
    }
    ir::Value *a = lhs.value(), *b = rhs.value();
    if (!broadcast_pair(s, a, b)) return std::nullopt;
    return std::pair(a, b);
  }
  for (const Val* x : {&lhs, &rhs})
    if (!check_literal(s, *x)) return std::nullopt;
  auto weak = [&](const Val& x) { return !x.is_value() && !x.typed && !rules.typed_literals; };
  auto type = computation_type(elem_of(lhs), weak(lhs), elem_of(rhs), weak(rhs), rules.division);
  if (type ? is_float8(*type) && !rules.float8 : is_float8(elem_of(lhs)) || is_float8(elem_of(rhs))) {
    const OnPage on_page(s.diags, page::kFloat8);
    s.error(fmt::format("'{}' is not defined for {} and {}", op, describe(lhs), describe(rhs)), kNoFloat8Arithmetic);
    return std::nullopt;
  }
  if (!type) {
    s.error(fmt::format("'{}' of {} and {}, which differ in sign", op, describe(lhs), describe(rhs)),
            "convert one of them with .to(...) so that both have the same sign");
    return std::nullopt;
  }
  for (const Val* x : {&lhs, &rhs}) {
    if (!weak(*x) || literal_fits(*x, *type)) continue;
    s.error(fmt::format("the number {} does not fit {}", x->as<Int>(), elem_info(*type).tl),
            x->as<Int>() < 0 && is_unsigned(*type) ? "convert the unsigned operand to a signed type first"
                                                   : "convert the other operand to a wider type first");
    return std::nullopt;
  }
  auto value = [&](const Val& x) {
    if (x.is_value()) return cast_to(s, x.value(), *type);
    return constant(s, ir::Type::scalar(*type), weak(x) ? x : in_own_type(x));
  };
  ir::Value *a = value(lhs), *b = value(rhs);
  if (!broadcast_pair(s, a, b)) return std::nullopt;
  return std::pair(a, b);
}

namespace {

Val pointer_offset(Sema& s, const Val& pointer, const Val& offset, bool subtract) {
  ir::Value* x = offset.is_value() ? offset.value() : to_value(s, offset, "a pointer's offset");
  if (!x) return {};
  if (!x->type.is_integer())
    return s.error(fmt::format("a pointer moves by integers, found {}", describe(offset)),
                   offset.is_value() && x->type.is_float() ? hint_for_float(x) : "");
  // An unsigned offset stays positive.
  if (is_unsigned(x->type.elem))
    x = cast_to(s, x, Elem::I64);
  else if (x->type.bits() < 32)
    x = cast_to(s, x, Elem::I32);
  ir::Value* p = pointer.value();
  if (!broadcast_pair(s, p, x)) return {};
  if (subtract) x = s.builder.neg(x);
  return s.builder.addptr(p, x);
}

Val integer_only(Sema& s, std::string_view op, const Val& lhs, const Val& rhs,
                 ir::Value* (ir::Builder::*make)(ir::Value*, ir::Value*)) {
  auto ab = operands(s, op, lhs, rhs, {});
  if (!ab) return {};
  if (!ab->first->type.is_integer())
    return s.error(fmt::format("'{}' takes integers, found {} and {}", op, describe(lhs), describe(rhs)),
                   op == "&" || op == "|" ? "it binds tighter than comparisons: write (a < b) & (c < d)" : "");
  return (s.builder.*make)(ab->first, ab->second);
}

// The left operand's own sign chooses the kind of shift, also where the common type is unsigned.
Val shift_right(Sema& s, const Val& lhs, const Val& rhs) {
  Val out = integer_only(s, ">>", lhs, rhs, &ir::Builder::shr);
  if (!out.is_value() || !lhs.is_value() || !is_signed(lhs.value()->type.elem)) return out;
  Elem common = out.value()->type.elem;
  if (is_signed(common)) return out;
  Elem with_sign = *elem_from_text(fmt::format("i{}", elem_bits(common)));
  ir::Op* shift = out.value()->def;
  ir::Value *a = cast_to(s, shift->operand(0), with_sign), *b = cast_to(s, shift->operand(1), with_sign);
  return cast_to(s, s.builder.shr(a, b), common);
}

}  // namespace

Val binary(Sema& s, std::string_view op, const Val& lhs, const Val& rhs) {
  const OnPage on_page(s.diags, page::kOperators);
  if (lhs.is_poison() || rhs.is_poison()) return {};
  if (lhs.is<BlockView>() || rhs.is<BlockView>())
    return s.error(fmt::format("'{}' is not defined for {} and {}", op, describe(lhs), describe(rhs)),
                   (lhs.is<BlockView>() ? lhs : rhs).as<BlockView>().is_pointer()
                       ? "tl.advance(p, offsets) moves a block pointer"
                       : "a descriptor stays as it is: desc.load(offsets) says which block");
  if (!lhs.is_value() && !rhs.is_value())
    return lhs.typed || rhs.typed ? binary_of_typed(s, op, lhs, rhs) : fold_binary(s, op, lhs, rhs);
  bool lhs_ptr = lhs.is_value() && lhs.value()->type.pointer, rhs_ptr = rhs.is_value() && rhs.value()->type.pointer;
  if (op == "+" && lhs_ptr && !rhs_ptr) return pointer_offset(s, lhs, rhs, false);
  if (op == "+" && rhs_ptr && !lhs_ptr) return pointer_offset(s, rhs, lhs, false);
  if (op == "-" && lhs_ptr && !rhs_ptr) return pointer_offset(s, lhs, rhs, true);

  if (op == "&") return integer_only(s, op, lhs, rhs, &ir::Builder::bit_and);
  if (op == "|") return integer_only(s, op, lhs, rhs, &ir::Builder::bit_or);
  if (op == "^") return integer_only(s, op, lhs, rhs, &ir::Builder::bit_xor);
  if (op == "<<") return integer_only(s, op, lhs, rhs, &ir::Builder::shl);
  if (op == ">>") return shift_right(s, lhs, rhs);
  if (op == "@") return call_function(s, *find_function("dot"), {lhs, rhs}, {});
  if (op == "**") {
    auto ab = operands(s, op, lhs, rhs, {});
    if (!ab) return {};
    if (!ab->first->type.is_float())
      return s.error("'**' takes floating-point values", "multiply, or convert with .to(tl.float32)");
    return s.builder.pow(ab->first, ab->second);
  }
  bool division = op == "/" || op == "//" || op == "%";
  auto ab = operands(s, op, lhs, rhs, {.division = division});
  if (!ab) return {};
  auto [a, b] = *ab;
  bool real = a->type.is_float();
  if (op == "+" || op == "-" || op == "*") {
    assert_no_overflow(s, op, a, b);
    return op == "+" ? s.builder.add(a, b) : op == "-" ? s.builder.sub(a, b) : s.builder.mul(a, b);
  }
  if (op == "/") {
    if (!real) a = cast_to(s, a, Elem::F32), b = cast_to(s, b, Elem::F32);
    return s.builder.div(a, b);
  }
  if (!real && op != "/" && rhs.is<Int>() && !rhs.as<Int>()) return s.error("division by zero");
  if (op == "//") {
    if (real)
      return s.error(fmt::format("'//' takes integers, found {} and {}", describe(lhs), describe(rhs)),
                     "write tl.floor(a / b)");
    return s.builder.div(a, b);
  }
  if (op == "%") return s.builder.rem(a, b);
  return s.error(fmt::format("unknown operator '{}'", op));
}

Val divisor_of_values(Sema& s, const Val& dividend, const Val& divisor, Loc where) {
  const auto* number = divisor.get_if<Int>();
  if (!number || *number != 0 || !dividend.is_value() || !dividend.value()->type.is_integer()) return divisor;
  s.diags.warning(where, "the divisor is 0: what this gives is undefined")
      .with_hint("it follows from compile-time values of this launch");
  return s.builder.constant(ir::Type::scalar(dividend.value()->type.elem), 0);
}

Val compare(Sema& s, std::string_view op, const Val& lhs, const Val& rhs) {
  const OnPage on_page(s.diags, page::kOperators);
  if (lhs.is_poison() || rhs.is_poison()) return {};
  if (op == "is" || op == "is not") {
    // A run-time value is never the same object as a constant, as with Triton; 1 is neither 1.0 nor True.
    bool known = !lhs.is_value() && !rhs.is_value() && lhs.v.index() == rhs.v.index() && lhs.typed == rhs.typed;
    return (known && equal(lhs, rhs)) == (op == "is");
  }
  if (op == "in" || op == "not in") {
    if (!rhs.is<TupleVal>() || lhs.is_value())
      return s.error(fmt::format("'{}' looks a compile-time value up in a tuple, found {} and {}", op, describe(lhs),
                                 describe(rhs)));
    bool found = false;
    for (const Val& item : *rhs.as<TupleVal>().items) found |= equal(lhs, item);
    return found == (op == "in");
  }
  if (is_number(lhs) && is_number(rhs) && (lhs.typed || rhs.typed)) return compare_typed(s, op, lhs, rhs);
  auto is_scalar = [](const Val& v) { return v.is_value() || (v.typed && is_number(v)); };
  for (const auto& [x, y] : {std::pair(&lhs, &rhs), std::pair(&rhs, &lhs)})
    if (is_scalar(*x) && !y->is_value() && !is_number(*y))
      return s.error(fmt::format("'{}' is not defined for {} and {}", op, describe(lhs), describe(rhs)),
                     y->is<None>() ? fmt::format("write 'is{} None'", op == "!=" ? " not" : "")
                                   : "a value of the kernel is compared with numbers and other such values");
  if (!lhs.is_value() && !rhs.is_value()) {
    if (op == "==") return equal(lhs, rhs);
    if (op == "!=") return !equal(lhs, rhs);
    auto o = order(lhs, rhs);
    if (!o) return s.error(fmt::format("'{}' is not defined for {} and {}", op, describe(lhs), describe(rhs)));
    auto is_nan = [](const Val& x) { return x.is<double>() && std::isnan(x.as<double>()); };
    if (is_nan(lhs) || is_nan(rhs)) return false;
    return op == "<" ? *o < 0 : op == "<=" ? *o <= 0 : op == ">" ? *o > 0 : *o >= 0;
  }
  auto ab = operands(s, op, lhs, rhs, {.pointers = true, .typed_literals = true});
  if (!ab) return {};
  auto [a, b] = *ab;
  if (op == "==") return s.builder.eq(a, b);
  if (op == "!=") return s.builder.ne(a, b);
  if (op == "<") return s.builder.lt(a, b);
  if (op == "<=") return s.builder.le(a, b);
  if (op == ">") return s.builder.gt(a, b);
  if (op == ">=") return s.builder.ge(a, b);
  return s.error(fmt::format("unknown comparison '{}'", op));
}

Val unary(Sema& s, std::string_view op, const Val& x) {
  const OnPage on_page(s.diags, page::kOperators);
  if (x.is_poison()) return {};
  if (op == "not") {
    if (!x.is_value()) return x.typed ? as_scalars(!truth(x)) : Val(!truth(x));
    ir::Value* b = to_bool(s, x.value());
    return b ? Val(s.builder.bit_xor(b, s.builder.constant(b->type, 1))) : Val();
  }
  if (!x.is_value()) {
    if (!is_number(x)) return s.error(fmt::format("unary '{}' is not defined for {}", op, describe(x)));
    if (x.typed) return unary_of_typed(s, op, x);
    if (op == "+") return x.is<bool>() ? Val(as_int(x)) : x;
    if (op == "-" && x.is<double>()) return -x.as<double>();
    if (op == "-") return -as_int(x);
    if (!x.is<double>()) return ~as_int(x);
    return s.error("'~' takes integers, found a float");
  }
  ir::Value* v = x.value();
  if (v->type.pointer) return s.error(fmt::format("unary '{}' is not defined for {}", op, describe(x)));
  if (op == "+") return v;
  if (!check_arithmetic(s, fmt::format("unary '{}'", op), v)) return {};
  if (op == "-") {
    if (s.sanitizes_overflow && v->type.is_integer()) assert_no_overflow(s, op, s.builder.constant(v->type, 0), v);
    return s.builder.neg(v);
  }
  if (!v->type.is_integer()) return s.error(fmt::format("'~' takes integers, found {}", describe(x)));
  // All bits set, as a number of the type.
  bool narrow = is_unsigned(v->type.elem) && v->type.bits() < 64;
  return s.builder.bit_xor(v, s.builder.constant(v->type, narrow ? (int64_t(1) << v->type.bits()) - 1 : -1));
}

Val logical(Sema& s, std::string_view op, const Val& lhs, const Val& rhs) {
  const OnPage on_page(s.diags, page::kOperators);
  if (lhs.is_poison() || rhs.is_poison()) return {};
  auto as_bool = [&](const Val& x) -> ir::Value* {
    if (!x.is_value()) return s.builder.constant(ir::Type::scalar(Elem::I1), truth(x));
    return to_bool(s, x.value());
  };
  ir::Value *a = as_bool(lhs), *b = as_bool(rhs);
  if (!a || !b || !broadcast_pair(s, a, b)) return {};
  return op == "and" ? s.builder.bit_and(a, b) : s.builder.bit_or(a, b);
}

}  // namespace tegula::dsl
