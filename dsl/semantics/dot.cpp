// Matrix products: which types and precisions there are, products of tiles of any rank, and products of operands in
// microscaling formats, which are converted before they are multiplied.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

// The elements of a dot's sums, as in Triton: out_dtype decides for float16 and float8 alone. nullopt if there is no
// such dot.
std::optional<Elem> dot_result(Elem operand, std::optional<Elem> out_dtype) {
  switch (operand) {
    case Elem::I8:
    case Elem::U8:
      return Elem::I32;
    case Elem::F8E4M3:
    case Elem::F8E5M2:
    case Elem::F16:
      return out_dtype == Elem::F16 ? Elem::F16 : Elem::F32;
    case Elem::BF16:
    case Elem::F32:
      return Elem::F32;
    case Elem::F64:
      return Elem::F64;
    default:
      return std::nullopt;
  }
}

// How float32 operands are multiplied, as in Triton: by tf32 unless the kernel says otherwise. nullopt after an error.
std::optional<std::string> dot_precision(Sema& s, const Val& input_precision, const Val& allow_tf32) {
  if (input_precision.is<None>()) return allow_tf32.is<None>() || truth(allow_tf32) ? "tf32" : "ieee";
  std::string name = input_precision.is<std::string>() ? input_precision.as<std::string>() : std::string();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  const bool known = name == "tf32" || name == "tf32x3" || name == "bf16x3" || name == "bf16x6" || name == "ieee";
  if (!known)
    s.error(fmt::format("input_precision of dot is {}, expected 'tf32', 'tf32x3', 'bf16x3', 'bf16x6' or 'ieee'",
                        describe(input_precision)));
  else if (!allow_tf32.is<None>())
    s.error("dot takes input_precision or allow_tf32, found both", "allow_tf32 is the older name: leave it out");
  else
    return name;
  return std::nullopt;
}

// The shape of a product, or nullopt after an error.
std::optional<ir::Shape> product_shape(Sema& s, ir::Value* a, ir::Value* b) {
  const ir::Shape &left = a->type.shape, &right = b->type.shape;
  const int rank = a->type.rank(), m = rank - 2, n = rank - 1;
  if (rank < 2 || b->type.rank() != rank) {
    s.error(fmt::format("dot takes two tiles of one rank, 2 or more, found {} and {}", describe(a), describe(b)),
            rank == 1 && b->type.rank() == 1 ? "of two vectors it is tl.sum(a * b, axis=0)"
                                             : "x[:, None] is a column of a tile of rank 1, x[None, :] a row");
    return std::nullopt;
  }
  if (left[size_t(n)] != right[size_t(m)]) {
    s.error(fmt::format("dot of shapes {} and {}: the inner extents {} and {} differ", ir::shape_to_string(left),
                        ir::shape_to_string(right), left[size_t(n)], right[size_t(m)]),
            "the first operand is [M, K], the second [K, N]");
    return std::nullopt;
  }
  for (int i = 0; i < m; ++i) {
    if (left[size_t(i)] == right[size_t(i)]) continue;
    s.error(fmt::format("dot of shapes {} and {}: {} and {} matrices", ir::shape_to_string(left),
                        ir::shape_to_string(right), left[size_t(i)], right[size_t(i)]),
            "the first operand is [B, M, K], the second [B, K, N]");
    return std::nullopt;
  }
  ir::Shape shape = left;
  shape.back() = right.back();
  return shape;
}

ir::Value* zeros(Sema& s, const ir::Type& type) {
  return type.is_float() ? s.builder.constant_float(type, 0) : s.builder.constant(type, 0);
}

/// acc, given as an argument of `function`, or zeros. Null after an error.
ir::Value* accumulator(Sema& s, const Val& acc, const ir::Type& type, const char* function) {
  if (acc.is<None>()) return zeros(s, type);
  ir::Value* given = to_value(s, acc, fmt::format("the accumulator of {}", function));
  if (!given || given->type.same_shape_and_elem(type)) return given;
  s.error(fmt::format("the accumulator of {} is {}, expected {}", function, describe(given), describe(DType{type})));
  return nullptr;
}

/// x with all dimensions but the last two as one.
ir::Value* as_batch(Sema& s, ir::Value* x) {
  const ir::Shape& shape = x->type.shape;
  if (shape.size() <= 3) return x;
  const int64_t last = shape[shape.size() - 2] * shape.back();
  return s.builder.reshape(x, {x->type.num_elements() / last, shape[shape.size() - 2], shape.back()});
}

/// acc + a x b for tiles of any rank.
ir::Value* product(Sema& s, ir::Value* a, ir::Value* b, ir::Value* acc, ir::Attrs attrs = {}) {
  const ir::Shape shape = acc->type.shape;
  ir::Value* out = s.builder.dot(as_batch(s, a), as_batch(s, b), as_batch(s, acc), std::move(attrs));
  return shape.size() <= 3 ? out : s.builder.reshape(out, shape);
}

/// x, a float32, as a sum of `count` bfloat16, the largest first.
std::vector<ir::Value*> in_bfloat16(Sema& s, ir::Value* x, int count) {
  std::vector<ir::Value*> parts;
  for (int i = 0; i < count; ++i) {
    parts.push_back(s.builder.cast(x, Elem::BF16));
    if (i + 1 < count) x = s.builder.sub(x, s.builder.cast(parts.back(), Elem::F32));
  }
  return parts;
}

/// acc + a x b of float32 by products of bfloat16 parts, the smallest first: three, or six of which all are as large as
/// float32's last bits. What NaNs the small parts give (of infinities) is left out: the largest parts say what it is.
ir::Value* product_in_bfloat16(Sema& s, ir::Value* a, ir::Value* b, ir::Value* acc, bool six) {
  const int count = six ? 3 : 2;
  const auto left = in_bfloat16(s, a, count), right = in_bfloat16(s, b, count);
  std::vector<std::pair<int, int>> small = {{1, 0}, {0, 1}};
  if (six) small = {{1, 1}, {2, 0}, {0, 2}, {1, 0}, {0, 1}};
  ir::Value *zero = zeros(s, acc->type), *sums = zero;
  for (auto [i, j] : small) sums = product(s, left[size_t(i)], right[size_t(j)], sums);
  sums = s.builder.select(s.builder.ne(sums, sums), zero, sums);
  return s.builder.add(product(s, left[0], right[0], sums), acc);
}

}  // namespace

Val fn_dot(Sema& s, Args args) {
  ir::Value *a = to_value(s, args[0], "the first operand of dot"),
            *b = to_value(s, args[1], "the second operand of dot");
  if (!a || !b) return {};
  const std::optional<ir::Shape> shape = product_shape(s, a, b);
  if (!shape) return {};
  if (is_float8(a->type.elem) && is_float8(b->type.elem) &&
      !(is_ocp_float8(a->type.elem) && is_ocp_float8(b->type.elem)))
    a = cast_to(s, a, Elem::F16), b = cast_to(s, b, Elem::F16);  // no GPU multiplies these formats
  const std::optional<std::string> precision = dot_precision(s, args[3], args[4]);
  if (!precision) return {};
  std::optional<Elem> wanted;
  if (!args[6].is<None>()) {
    wanted = to_elem(s, args[6], "the out_dtype of dot");
    if (!wanted) return {};
  }
  const bool float8 = is_float8(a->type.elem) && is_float8(b->type.elem);
  const auto sums = float8 || a->type.elem == b->type.elem ? dot_result(a->type.elem, wanted) : std::nullopt;
  if (!sums || a->type.pointer || b->type.pointer)
    return s.error(
        fmt::format("dot of {} and {}", describe(args[0]), describe(args[1])),
        "both operands must have the same type, one of float16, bfloat16, float32, float64, int8 and uint8, or "
        "both a float8; convert with .to(...)");
  const bool chosen = float8 || a->type.elem == Elem::F16;  // of others Triton leaves out_dtype alone
  if (chosen && wanted && *wanted != *sums && wanted != Elem::BF16)
    return s.error(fmt::format("dot of {} accumulates in float32 or float16, found out_dtype {}",
                               elem_info(a->type.elem).tl, elem_info(*wanted).tl),
                   "convert the result with .to(...)");
  if (wanted == Elem::BF16)
    return s.error(fmt::format("dot accumulates in {}, found out_dtype bfloat16", elem_info(*sums).tl),
                   "convert the result with .to(...)");
  const ir::Type type = ir::Type::tile(*sums, *shape);
  ir::Value* acc = accumulator(s, args[2], type, "dot");
  if (!acc) return {};
  ir::Attrs attrs;
  if (a->type.elem == Elem::F32 && precision->starts_with("bf16"))
    return product_in_bfloat16(s, a, b, acc, *precision == "bf16x6");
  if (a->type.elem == Elem::F32 && *precision != "ieee") attrs[ir::attr::precision] = *precision;
  if (float8 && !args[5].is<None>()) {
    auto limit = to_int(s, args[5], "the max_num_imprecise_acc of dot");
    if (!limit) return {};
    const int64_t k = a->type.shape.back();
    if (*limit < 0 || *limit > k)
      return s.error(fmt::format("max_num_imprecise_acc of dot is {}, expected 0 to {}", *limit, k),
                     "it is a number of products along K, all of which the dot has at most");
    constexpr int64_t kOfInstruction = 32;
    attrs[ir::attr::imprecise] =
        std::max(kOfInstruction, (*limit + kOfInstruction - 1) / kOfInstruction * kOfInstruction);
  }
  return product(s, a, b, acc, std::move(attrs));
}

// ------------------------------------------------------------------------------------------ microscaling formats

namespace {

/// One operand of dot_scaled.
struct Scaled {
  ir::Value* x;
  ir::Value* scale;    ///< null: none
  std::string format;  ///< e2m1, e4m3, e5m2, bf16, fp16
  bool k_pack;         ///< of e2m1: two elements along K share a byte; else two rows (columns) do
  bool right;          ///< [K, N] with scales [N, K / group]; else [M, K] with [M, K / group]
  const char* name;    ///< for messages

  int k_axis() const { return x->type.rank() - (right ? 2 : 1); }
};

/// The elements that a format's bytes or words stand for; nullopt for e2m1, which is unpacked.
std::optional<Elem> elem_of_format(const std::string& format) {
  if (format == "e4m3") return Elem::F8E4M3;
  if (format == "e5m2") return Elem::F8E5M2;
  if (format == "bf16") return Elem::BF16;
  if (format == "fp16") return Elem::F16;
  return std::nullopt;
}

/// Operand and format as given, checked; nullopt after an error.
std::optional<Scaled> scaled_operand(Sema& s, const Val& x, const Val& scale, const Val& format, const Val& k_pack,
                                     bool right) {
  const char* name = right ? "rhs" : "lhs";
  ir::Value* v = to_value(s, x, fmt::format("{} of dot_scaled", name));
  if (!v) return std::nullopt;
  Scaled out{v, nullptr, format.is<std::string>() ? format.as<std::string>() : "", truth(k_pack), right, name};
  auto elem = elem_of_format(out.format);
  if (!elem && out.format != "e2m1") {
    s.error(fmt::format("{}_format of dot_scaled is {}", name, describe(format)),
            "it is one of 'e2m1', 'e4m3', 'e5m2', 'bf16', 'fp16'");
    return std::nullopt;
  }
  const int bits = elem ? elem_bits(*elem) : 8;
  const Elem word = bits == 8 ? Elem::U8 : Elem::U16;
  if (v->type.pointer || v->type.rank() < 2 || (v->type.elem != word && v->type.elem != elem)) {
    s.error(fmt::format("{} of dot_scaled is {}, expected a matrix of {}{} for '{}'", name, describe(v),
                        elem_info(word).tl, elem ? fmt::format(" or {}", elem_info(*elem).tl) : "", out.format));
    return std::nullopt;
  }
  if (elem && v->type.elem != *elem) out.x = s.builder.bitcast(v, ir::Type::scalar(*elem));
  if (elem && !out.k_pack) {
    s.error(fmt::format("{0}_k_pack=False belongs to {0}_format 'e2m1', found '{1}'", name, out.format));
    return std::nullopt;
  }
  if (scale.is<None>()) return out;
  out.scale = to_value(s, scale, fmt::format("{}_scale of dot_scaled", name));
  if (!out.scale) return std::nullopt;
  return out;
}

/// Numbers of 1 bit of sign, 2 of exponent and 1 of fraction in the low 4 bits of x (16 bits wide) as `to`, exactly.
ir::Value* from_e2m1(Sema& s, ir::Value* x, Elem to) {
  ir::Builder& b = s.builder;
  auto number = [&](int64_t n) { return b.constant(x->type, n); };
  const int fraction = to == Elem::BF16 ? 7 : 10, bias = to == Elem::BF16 ? 127 : 15;
  ir::Value* magnitude = b.bit_and(x, number(7));
  ir::Value* sign = b.shl(b.bit_and(x, number(8)), number(12));
  // 1.5, 2, 3, ... lie as in the wider format; 0.5 has no fraction there, and 0 no exponent.
  ir::Value* normal = b.add(b.shl(magnitude, number(fraction - 1)), number(int64_t(bias - 1) << fraction));
  ir::Value* half = b.constant(x->type, int64_t(bias - 1) << fraction);
  ir::Value* low = b.select(b.eq(magnitude, number(1)), half, number(0));
  ir::Value* bits = b.bit_or(sign, b.select(b.gt(magnitude, number(1)), normal, low));
  return b.bitcast(bits, ir::Type::scalar(to));
}

/// The two elements in each byte, the low half first, next to each other along `axis`.
ir::Value* unpack_e2m1(Sema& s, ir::Value* x, int axis, Elem to) {
  ir::Builder& b = s.builder;
  ir::Value* wide = b.cast(x, Elem::U16);
  ir::Value* low = from_e2m1(s, wide, to);
  ir::Value* high = from_e2m1(s, b.shr(wide, b.constant(wide->type, 4)), to);
  Val pairs = call_function(s, *find_function("join"), {low, high}, {});
  if (pairs.is_poison()) return nullptr;
  ir::Value* out = pairs.value();
  const int rank = x->type.rank();
  if (axis != rank - 1) {  // from the last place to after the axis
    std::vector<int64_t> order;
    for (int i = 0; i <= axis; ++i) order.push_back(i);
    order.push_back(rank);
    for (int i = axis + 1; i < rank; ++i) order.push_back(i);
    out = b.trans(out, order);
  }
  ir::Shape shape = x->type.shape;
  shape[size_t(axis)] *= 2;
  return b.reshape(out, shape);
}

/// Scales as the type in which the operand is multiplied. Bytes are exponents (e8m0), of which 0 counts as 0.
ir::Value* scale_as(Sema& s, ir::Value* scale, Elem to) {
  ir::Builder& b = s.builder;
  if (is_float8(scale->type.elem)) return b.cast(scale, to);
  const Elem word = to == Elem::BF16 ? Elem::U16 : Elem::U32, real = to == Elem::BF16 ? Elem::BF16 : Elem::F32;
  ir::Value* exponent = b.cast(scale, word);
  exponent = b.shl(exponent, b.constant(exponent->type, to == Elem::BF16 ? 7 : 23));
  return cast_to(s, b.bitcast(exponent, ir::Type::scalar(real)), to);
}

/// A tile of [.., rows, K / group], or for the right operand [.., N, K / group], for each element of the operand.
ir::Value* per_element(Sema& s, ir::Value* x, const Scaled& operand, int64_t group, const ir::Shape& shape) {
  ir::Builder& b = s.builder;
  const int rank = x->type.rank();
  ir::Shape repeated = x->type.shape;
  repeated.push_back(group);
  x = b.broadcast(b.expand_dims(x, rank), repeated);
  ir::Shape flat(repeated.begin(), repeated.end() - 2);
  flat.push_back(repeated[size_t(rank) - 1] * group);
  x = b.reshape(x, flat);
  if (operand.right) {
    std::vector<int64_t> order;
    for (int i = 0; i < rank - 2; ++i) order.push_back(i);
    order.insert(order.end(), {rank - 1, rank - 2});
    x = b.trans(x, order);
  }
  return broadcast_value(s, x, shape);
}

/// The operand's elements times their scales in `to`; where a scale is NaN (255), so are they, unless `fast`. Null
/// after an error.
ir::Value* dequantized(Sema& s, const Scaled& operand, Elem to, bool fast) {
  ir::Builder& b = s.builder;
  ir::Value* x = operand.x;
  const int other = operand.right ? x->type.rank() - 1 : x->type.rank() - 2;
  if (operand.format == "e2m1")
    x = unpack_e2m1(s, x, operand.k_pack ? operand.k_axis() : other, to);
  else
    x = cast_to(s, is_float8(x->type.elem) ? b.cast(x, Elem::F16) : x, to);
  if (!x || !operand.scale) return x;
  const ir::Type& scale = operand.scale->type;
  if (scale.pointer || (scale.elem != Elem::U8 && scale.elem != Elem::I8 && scale.elem != Elem::F8E4M3)) {
    s.error(fmt::format("{}_scale of dot_scaled is {}, expected uint8 (exponents) or float8e4nv", operand.name,
                        describe(operand.scale)));
    return nullptr;
  }
  const int64_t group = is_float8(scale.elem) ? 16 : 32, k = x->type.shape[size_t(operand.k_axis())];
  ir::Shape expected = x->type.shape;
  if (operand.right) std::swap(expected[expected.size() - 2], expected[expected.size() - 1]);
  expected.back() = k / group;
  if (k % group || scale.shape != expected) {
    s.error(fmt::format("{}_scale of dot_scaled has shape {}, expected {}: one for {} elements along K", operand.name,
                        ir::shape_to_string(scale.shape), ir::shape_to_string(expected), group),
            operand.right ? "scales of rhs are [N, K // group], not transposed" : "");
    return nullptr;
  }
  ir::Value* scaled = b.mul(x, per_element(s, scale_as(s, operand.scale, to), operand, group, x->type.shape));
  if (fast || is_float8(scale.elem)) return scaled;
  ir::Value* bytes =
      operand.scale->type.elem == Elem::U8 ? operand.scale : b.bitcast(operand.scale, ir::Type::scalar(Elem::U8));
  ir::Value* nan = per_element(s, b.eq(bytes, b.constant(bytes->type, 255)), operand, group, x->type.shape);
  return b.select(nan, b.constant_float(scaled->type, std::numeric_limits<double>::quiet_NaN()), scaled);
}

/// How many products of float8 may be summed up before they are added to the sums in float32.
constexpr int64_t kImpreciseProducts = 128;

/// Whether the operand needs no conversion where the other one needs none: float8 without scales. (Scales of 32
/// elements along K would have to be multiplied into the sums of each instruction: two operations a sum, which take an
/// H200 as long as the product of bfloat16.)
bool multiplies_as_given(const Scaled& operand) { return !operand.scale && is_float8(operand.x->type.elem); }

}  // namespace

Val fn_dot_scaled(Sema& s, Args args) {
  auto lhs = scaled_operand(s, args[0], args[1], args[2], args[8], false);
  auto rhs = scaled_operand(s, args[3], args[4], args[5], args[9], true);
  if (!lhs || !rhs) return {};
  if (!args[10].is<None>()) {
    auto elem = to_elem(s, args[10], "the out_dtype of dot_scaled");
    if (!elem) return {};
    if (*elem != Elem::F32)
      return s.error(fmt::format("dot_scaled accumulates in float32, found out_dtype {}", elem_info(*elem).tl),
                     "convert the result with .to(...)");
  }
  const bool half = lhs->format == "fp16" || rhs->format == "fp16", fast = truth(args[7]);
  const bool as_given = multiplies_as_given(*lhs) && multiplies_as_given(*rhs);
  const Elem to = half ? Elem::F16 : Elem::BF16;
  ir::Value* a = as_given ? lhs->x : dequantized(s, *lhs, to, fast);
  ir::Value* b = as_given ? rhs->x : a ? dequantized(s, *rhs, to, fast) : nullptr;
  if (!b) return {};
  const std::optional<ir::Shape> shape = product_shape(s, a, b);
  if (!shape) return {};
  ir::Value* acc = accumulator(s, args[6], ir::Type::tile(Elem::F32, *shape), "dot_scaled");
  if (!acc) return {};
  ir::Attrs attrs;
  if (as_given) attrs[ir::attr::imprecise] = kImpreciseProducts;
  return product(s, a, b, acc, std::move(attrs));
}

}  // namespace tegula::dsl
