// Creation, arithmetic, shape, compile-time functions and hints.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "dsl/semantics/control.h"
#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

std::optional<int> grid_axis(Sema& s, const Val& axis, const char* function) {
  auto i = to_int(s, axis, fmt::format("the axis of {}", function));
  if (!i) return std::nullopt;
  if (*i < 0 || *i > 2) {
    s.error(fmt::format("axis {} of {} is out of range", *i, function), "a grid has axes 0, 1 and 2");
    return std::nullopt;
  }
  return int(*i);
}

// A value of rank 1 or more, or an error naming the function.
ir::Value* tile(Sema& s, const Val& x, const char* function) {
  ir::Value* v = to_value(s, x, fmt::format("the input of {}", function));
  if (v && v->type.is_scalar()) {
    s.error(fmt::format("{} takes a tile, found {}", function, describe(x)));
    return nullptr;
  }
  return v;
}

Val select_extreme(Sema& s, const Val& x, const Val& y, bool nan, ir::Opcode opcode, const char* function) {
  auto is_known = [](const Val& v) { return v.is_constant() && !(v.is<double>() && std::isnan(v.as<double>())); };
  if (is_known(x) && is_known(y)) {
    const Val a = as_scalars(x), b = as_scalars(y), less = compare(s, "<", a, b);
    if (less.is_poison()) return {};
    return truth(less) == (opcode == ir::Opcode::Minimum) ? in_common_type(s, a, b) : in_common_type(s, b, a);
  }
  // Arguments are values first: unlike an operator's, a literal is not weak.
  ir::Value *a = to_value(s, x, fmt::format("an argument of {}", function)),
            *b = to_value(s, y, fmt::format("an argument of {}", function));
  if (!a || !b) return {};
  auto ab = operands(s, function, widen_bfloat16(s, a), widen_bfloat16(s, b), {});
  if (!ab) return {};
  ir::Attrs attrs;
  if (nan && ab->first->type.is_float()) attrs[ir::attr::nan] = true;
  return s.builder.create(opcode, {ab->first, ab->second}, {}, std::move(attrs))->result();
}

// propagate_nan: a bool, or tl.PropagateNan.ALL or NONE by its name.
std::optional<bool> propagates_nan(Sema& s, const Val& x, const char* function) {
  if (x.is<None>()) return false;
  if (auto* choice = x.get_if<bool>()) return *choice;
  if (auto* name = x.get_if<std::string>(); name && (*name == "ALL" || *name == "NONE")) return *name == "ALL";
  s.error(fmt::format("the propagate_nan of {} is {}", function, describe(x)),
          "it is tl.PropagateNan.ALL or tl.PropagateNan.NONE");
  return std::nullopt;
}

Val permuted(Sema& s, ir::Value* x, const Val& dims, const char* function) {
  int rank = x->type.rank();
  std::vector<Val> items = *dims.as<TupleVal>().items;
  if (items.size() == 1 && items[0].is<TupleVal>()) {
    std::vector<Val> inner = *items[0].as<TupleVal>().items;
    items = std::move(inner);
  }
  std::vector<int64_t> order;
  for (const Val& d : items) {
    auto axis = to_axis(s, d, rank, function);
    if (!axis) return {};
    order.push_back(*axis);
  }
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < int(sorted.size()); ++i)
    if (int(sorted.size()) != rank || sorted[i] != i)
      return s.error(fmt::format("the dims of {} must be a permutation of 0 to {}", function, rank - 1));
  if (sorted.empty()) return s.error(fmt::format("{} needs the new order of {} dimensions", function, rank));
  return s.builder.trans(x, std::move(order));
}

Val hint(Sema& s, Args args, ir::attr::Key<ir::Ints> attribute) {
  std::vector<Val> items = args[1].is<TupleVal>() ? *args[1].as<TupleVal>().items : std::vector<Val>{args[1]};
  std::vector<int64_t> values;
  for (const Val& item : items) {
    auto i = to_int(s, item, fmt::format("each value of {}", attribute.name));
    if (!i) return {};
    if (*i <= 0) return s.error(fmt::format("a hint must be positive, found {}", *i));
    values.push_back(*i & -*i);  // facts are powers of two
  }
  if (args[0].is<Int>() || args[0].is<bool>()) return args[0];
  ir::Value* x = to_value(s, args[0]);
  if (!x) return {};
  size_t rank = size_t(std::max(1, x->type.rank()));
  if (values.size() != rank)
    return s.error(fmt::format("{} values for {}", values.size(), describe(args[0])), "give one number a dimension");
  return s.builder.create(ir::Opcode::Hint, {x}, {}, {{attribute, values}})->result();
}

/// Puts the promise after the op that makes x. There x itself becomes the hint's result, so that whatever uses it, or
/// will, has the promise.
void hint_non_negative(ir::Value* x) {
  ir::Op* def = x->def;
  if (def->opcode == ir::Opcode::Hint && def->get(ir::attr::non_negative)) return;
  ir::Builder behind;
  behind.set_after(def);
  ir::Op* hint = behind.create(ir::Opcode::Hint, {x}, {}, {{ir::attr::non_negative, true}});
  std::swap(def->results[0], hint->results[0]);
  def->result()->def = def;
  hint->result()->def = hint;
  hint->operands[0] = def->result();
}

/// Makes hints of what the condition says of the compared values' signs. Only where whoever makes the value comes to
/// the promise too, that is in this block.
void promise(Sema& s, ir::Value* condition) {
  const ir::Op* op = condition->def;
  if (!op || op->operands.size() != 2) return;
  auto is_at_least = [&](ir::Value* x, ir::Value* bound, int64_t least) {
    while (bound->def && bound->def->opcode == ir::Opcode::Splat) bound = bound->def->operand(0);
    const std::optional<int64_t> limit = ir::constant_integer(bound);
    if (!limit || *limit < least || !x->type.is_integer() || !x->def || x->def->parent != s.builder.block()) return;
    if (x->def->results.size() == 1 && x->def->regions.empty()) hint_non_negative(x);
  };
  switch (op->opcode) {
    case ir::Opcode::BitAnd:
      promise(s, op->operand(0)), promise(s, op->operand(1));
      break;
    case ir::Opcode::Ge:
    case ir::Opcode::Gt:
      is_at_least(op->operand(0), op->operand(1), op->opcode == ir::Opcode::Ge ? 0 : -1);
      break;
    case ir::Opcode::Le:
    case ir::Opcode::Lt:
      is_at_least(op->operand(1), op->operand(0), op->opcode == ir::Opcode::Le ? 0 : -1);
      break;
    default:
      break;
  }
}

// A block pointer counts as a pointer.
std::optional<ir::Type> type_of(const Val& x) {
  if (auto* t = x.get_if<DType>()) return t->to_block ? ir::Type::pointer_to(t->type.elem) : t->type;
  if (auto* view = x.get_if<BlockView>(); view && view->is_pointer())
    return ir::Type::pointer_to(view->form->block.elem);
  return x.is_value() ? std::optional(x.value()->type) : std::nullopt;
}

Val type_query(Sema& s, const Val& x, bool (*query)(const ir::Type&)) {
  const std::optional<ir::Type> type = type_of(x);
  return type ? Val(query(*type)) : s.error(fmt::format("expected a type, found {}", describe(x)));
}

}  // namespace

// ------------------------------------------------------------------------------------------ programs and creation

Val fn_program_id(Sema& s, Args args) {
  auto axis = grid_axis(s, args[0], "program_id");
  return axis ? Val(s.builder.program_id(*axis)) : Val();
}

Val fn_num_programs(Sema& s, Args args) {
  auto axis = grid_axis(s, args[0], "num_programs");
  return axis ? Val(s.builder.num_programs(*axis)) : Val();
}

Val fn_arange(Sema& s, Args args) {
  auto start = to_int(s, args[0], "the start of arange"), end = to_int(s, args[1], "the end of arange");
  if (!start || !end) return {};
  if (*end <= *start) return s.error(fmt::format("arange from {} to {} is empty", *start, *end));
  int64_t extent = *end - *start;
  if (!is_tile_extent(extent)) {
    const OnPage on_page(s.diags, page::kExtents);
    return s.error(
        fmt::format("the extent of arange is {}, which is no q * 2^k with odd q up to {}", extent, kMaxRepeats),
        next_extents(extent) + "mask what is too much: mask = tl.arange(0, BLOCK) < n");
  }
  if (!to_shape(s, extent, "arange")) return {};
  if (*start < INT32_MIN || *end > INT32_MAX) return s.error("arange is limited to int32 values");
  return s.builder.arange(*start, *end);
}

Val fn_full(Sema& s, Args args) {
  auto shape = to_shape(s, args[0], "full");
  auto elem = to_elem(s, args[2], "the dtype of full");
  if (!shape || !elem) return {};
  if (args[1].is_value() && args[1].value()->type.is_tile())
    return s.error(fmt::format("full takes a scalar value, found {}", describe(args[1])));
  const bool is_zero = args[1].is<double>() && args[1].as<double>() == 0;
  Val value = is_zero ? Val(Int(0)) : args[1];  // 0.0 is the zero of any type, -0.0 too, as in Triton
  if (*elem == Elem::I1 && is_number(value)) value = truth(value);
  if (value.is<double>() && is_integer(*elem))
    return s.error(fmt::format("the value of full, {}, is no {}", value.as<double>(), elem_info(*elem).tl),
                   "take a float dtype");
  if (!literal_fits(value, *elem)) {  // as in Triton, numbers of 64 bits wrap, but no negative one is unsigned
    const std::string message = fmt::format("the number {} does not fit {}", value.as<Int>(), elem_info(*elem).tl);
    if (!literal_fits(value, is_unsigned(*elem) ? Elem::U64 : Elem::I64)) return s.error(message, "take a wider dtype");
    s.diags.warning(s.loc, message + " and wraps, as in Triton").with_hint("take a wider dtype");
  }
  Val scalar = convert(s, value, ir::Type::scalar(*elem));
  if (scalar.is_poison()) return {};
  if (!value.is_value()) return constant(s, ir::Type::tile(*elem, *shape), value.typed ? in_own_type(value) : value);
  return shape->empty() ? scalar : Val(s.builder.splat(scalar.value(), *shape));
}

Val fn_zeros(Sema& s, Args args) {
  auto shape = to_shape(s, args[0], "zeros");
  auto elem = to_elem(s, args[1], "the dtype of zeros");
  if (!shape || !elem) return {};
  return constant(s, ir::Type::tile(*elem, *shape), Int(0));
}

Val fn_zeros_like(Sema& s, Args args) {
  ir::Value* x = to_value(s, args[0], "the input of zeros_like");
  return x ? Val(constant(s, x->type, Int(0))) : Val();
}

namespace {

// Towards zero, by way of float16, of which float8e5 is the upper half: infinities stay, and what is too large becomes
// the largest finite number. A NaN stays one where only its lower half says so.
Val to_float8e5_rtz(Sema& s, ir::Value* x) {
  ir::Builder& b = s.builder;
  if (x->type.elem != Elem::F32) x = b.cast(x, Elem::F32, x->type.elem == Elem::F64 ? "rtz" : "");
  ir::Value* bits = b.bitcast(b.cast(x, Elem::F16, "rtz"), ir::Type::scalar(Elem::U16));
  ir::Value* upper = b.cast(b.shr(bits, b.constant(bits->type, 8)), Elem::U8);
  ir::Value *is_nan = b.ne(x, x), *nan = b.constant(upper->type, 0x7f);
  return b.bitcast(b.select(is_nan, nan, upper), ir::Type::scalar(Elem::F8E5M2));
}

}  // namespace

Val fn_cast(Sema& s, Args args) {
  bool bitcast = truth(args[3]);
  const ir::Type* target = args[1].is<DType>() ? &args[1].as<DType>().type : nullptr;
  bool number = args[0].is<bool>() || args[0].is<Int>() || args[0].is<double>();
  if (number && target && target->is_scalar() && !target->pointer && !bitcast && args[2].is<None>())
    return check_literal(s, args[0]) ? Val(constant(s, *target, in_own_type(args[0]))) : Val();
  ir::Value* x = to_value(s, args[0], "the input of a cast");
  if (!x) return {};
  if (target && target->pointer) {
    if (x->type.pointer || (x->type.is_integer() && x->type.bits() == 64))
      return s.builder.bitcast(x, target->element());
    return s.error(fmt::format("cannot cast {} to {}", describe(args[0]), describe(args[1])));
  }
  auto elem = to_elem(s, args[1], "the target of a cast");
  if (!elem) return {};
  if (x->type.pointer) {
    if (*elem == Elem::I1) return to_bool(s, x);
    if (*elem != Elem::I64 && *elem != Elem::U64)
      return s.error(fmt::format("cannot cast {} to {}", describe(args[0]), elem_info(*elem).tl),
                     "pointers convert to int64, uint64, int1 and other pointers");
    return s.builder.bitcast(x, ir::Type::scalar(*elem));
  }
  if (bitcast) {
    if (x->type.bits() != elem_bits(*elem))
      return s.error(fmt::format("cannot bitcast {} ({} bits) to {} ({} bits)", elem_info(x->type.elem).tl,
                                 x->type.bits(), elem_info(*elem).tl, elem_bits(*elem)),
                     "both types must have the same width");
    return x->type.elem == *elem ? Val(x) : Val(s.builder.bitcast(x, ir::Type::scalar(*elem)));
  }
  std::string rounding;
  if (!args[2].is<None>()) {
    rounding = args[2].is<std::string>() ? args[2].as<std::string>() : std::string();
    if (rounding != "rtne" && rounding != "rtz")
      return s.error(fmt::format("fp_downcast_rounding is {}, expected 'rtne' or 'rtz'", describe(args[2])));
    if (x->type.elem == *elem) return x;  // nothing to round, as in Triton
    if (!x->type.is_float() || !is_float(*elem) || x->type.bits() <= elem_bits(*elem))
      return s.error(fmt::format("fp_downcast_rounding belongs to a cast to a narrower float, found one of {} to {}",
                                 describe(args[0]), elem_info(*elem).tl),
                     "leave fp_downcast_rounding out");
    if (*elem == Elem::F8E4B15) rounding.clear();  // it has one way of rounding, whatever is asked for, as in Triton
    if (rounding == "rtz" && *elem == Elem::F8E5M2) return to_float8e5_rtz(s, x);
    if (rounding == "rtz" && is_float8(*elem))
      return s.error(
          fmt::format("a cast to {} rounds to nearest, found fp_downcast_rounding 'rtz'", elem_info(*elem).tl),
          "'rtne', or leave it out");
    if (rounding == "rtne") rounding.clear();
  }
  return x->type.elem == *elem ? Val(x) : Val(s.builder.cast(x, *elem, rounding));
}

Val fn_to(Sema& s, Args args) { return fn_cast(s, args); }

Val fn_extra_cuda_convert_custom_float8(Sema& s, Args args) {
  ir::Value* x = to_value(s, args[0], "the argument of convert_custom_float8");
  const auto* type = args[1].get_if<DType>();
  if (!x) return {};
  if (!type) return s.error(fmt::format("the dst_ty of convert_custom_float8 is a type, found {}", describe(args[1])));
  const Elem from = x->type.elem;
  if (x->type.pointer || (from != Elem::F8E4B15 && from != Elem::F16 && from != Elem::F32))
    return s.error(fmt::format("convert_custom_float8 takes float8e4b15, float16 or float32, found {}", describe(x)));
  if (from != Elem::F8E4B15) return s.builder.cast(x, Elem::F8E4B15);
  return s.builder.cast(x, type->type.elem == Elem::F32 ? Elem::F32 : Elem::F16);
}

Val fn_extra_cuda_convert_custom_float8_sm70(Sema& s, Args args) {
  return fn_extra_cuda_convert_custom_float8(s, args);
}
Val fn_extra_cuda_convert_custom_float8_sm80(Sema& s, Args args) {
  return fn_extra_cuda_convert_custom_float8(s, args);
}

// ------------------------------------------------------------------------------------------------------ arithmetic

Val fn_where(Sema& s, Args args) {
  if (args[0].is_constant() && args[1].is_constant() && args[2].is_constant()) {
    const bool numbers = is_number(args[1]) && is_number(args[2]);
    const Val &chosen = truth(args[0]) ? args[1] : args[2], &other = truth(args[0]) ? args[2] : args[1];
    return numbers ? in_common_type(s, chosen, other) : chosen;
  }
  ir::Value* c =
      args[0].is_constant() ? s.builder.constant(ir::Type::scalar(Elem::I1), truth(args[0])) : to_value(s, args[0]);
  auto xy = operands(s, "where", args[1], args[2], {.pointers = true, .float8 = true});
  if (!c || !xy) return {};
  c = to_bool(s, c);
  auto [x, y] = *xy;
  if (!broadcast_pair(s, c, x) || !broadcast_pair(s, c, y) || !broadcast_pair(s, x, y)) return {};
  return s.builder.select(c, x, y);
}

Val fn_minimum(Sema& s, Args args) {
  auto nan = propagates_nan(s, args[2], "minimum");
  return nan ? select_extreme(s, args[0], args[1], *nan, ir::Opcode::Minimum, "minimum") : Val();
}
Val fn_maximum(Sema& s, Args args) {
  auto nan = propagates_nan(s, args[2], "maximum");
  return nan ? select_extreme(s, args[0], args[1], *nan, ir::Opcode::Maximum, "maximum") : Val();
}
Val fn_clamp(Sema& s, Args args) {
  auto nan = propagates_nan(s, args[3], "clamp");
  if (!nan) return {};
  Val low = select_extreme(s, args[0], args[1], *nan, ir::Opcode::Maximum, "clamp");
  return low.is_poison() ? Val() : select_extreme(s, low, args[2], *nan, ir::Opcode::Minimum, "clamp");
}

namespace {

// Two numbers are scalars here, unlike an operator's.
Val binary_of_arguments(Sema& s, std::string_view op, Args args) {
  const bool numbers = is_number(args[0]) && is_number(args[1]);
  const WithoutOverflowAsserts none(s, !truth(args[2]));
  return numbers ? binary(s, op, as_scalars(args[0]), as_scalars(args[1])) : binary(s, op, args[0], args[1]);
}

}  // namespace

Val fn_add(Sema& s, Args args) { return binary_of_arguments(s, "+", args); }
Val fn_sub(Sema& s, Args args) { return binary_of_arguments(s, "-", args); }
Val fn_mul(Sema& s, Args args) { return binary_of_arguments(s, "*", args); }

Val fn_fdiv(Sema& s, Args args) {
  ir::Value *x = to_value(s, args[0], "an argument of fdiv"), *y = to_value(s, args[1], "an argument of fdiv");
  if (!x || !y) return {};
  if (!x->type.is_float() || x->type.pointer || y->type.pointer || x->type.elem != y->type.elem)
    return s.error(
        fmt::format("fdiv takes two floats of one type, found {} and {}", describe(args[0]), describe(args[1])),
        "cast both to one float type, or write x / y");
  if (!check_arithmetic(s, "fdiv", x) || !broadcast_pair(s, x, y)) return {};
  return truth(args[2]) ? s.builder.div_rn(x, y) : s.builder.div(x, y);
}

Val fn_cdiv(Sema& s, Args args) {
  const Val divisor = divisor_of_values(s, args[0], args[1], s.loc);
  return binary(s, "//", binary(s, "+", args[0], binary(s, "-", args[1], Int(1))), divisor);
}

Val fn_sigmoid(Sema& s, Args args) {
  Val e = call_function(s, *find_function("exp"), {unary(s, "-", args[0])}, {});
  return binary(s, "/", Int(1), binary(s, "+", Int(1), e));
}

Val fn_tanh(Sema& s, Args args) {
  ir::Value* x = math_operand(s, args[0], "tanh", ir::op_info(ir::Opcode::Tanh));
  if (!x) return {};
  return truth(args[1]) ? s.builder.fast_tanhf(x) : s.builder.tanh(x);
}

Val fn_softmax(Sema& s, Args args) {
  ir::Value* x = tile(s, args[0], "softmax");
  if (!x) return {};
  auto axis = args[1].is<None>() ? std::optional(0) : to_axis(s, args[1], x->type.rank(), "softmax");
  if (!axis) return {};
  // The reduced dimension is kept so that the results fit the tile at any axis.
  Val e = call_function(s, *find_function("exp"), {binary(s, "-", x, reduce_named(s, "max", x, *axis, true))}, {});
  return fn_fdiv(s, std::vector<Val>{e, reduce_named(s, "sum", e, *axis, true), args[3]});
}

Val fn_next_power_of_2(Sema& s, Args args) {
  auto n = to_int(s, args[0], "the argument of next_power_of_2");
  if (!n) return {};
  if (*n > int64_t(1) << 62) return s.error(fmt::format("the next power of two of {} does not fit 64 bits", *n));
  return Int(std::bit_ceil(uint64_t(std::max<int64_t>(*n, 1))));
}

// ----------------------------------------------------------------------------------------------------------- shape

Val fn_broadcast_to(Sema& s, Args args) {
  ir::Value* x = to_value(s, args[0], "the input of broadcast_to");
  auto shape = to_shape_varargs(s, args[1], "broadcast_to");
  if (!x || !shape) return {};
  ir::Value* out = broadcast_value(s, x, *shape);
  return out ? Val(out) : Val();
}

Val fn_broadcast(Sema& s, Args args) {
  ir::Value *a = to_value(s, args[0]), *b = to_value(s, args[1]);
  if (!a || !b || !broadcast_pair(s, a, b)) return {};
  return make_tuple({a, b});
}

Val fn_expand_dims(Sema& s, Args args) {
  ir::Value* x = to_value(s, args[0], "the input of expand_dims");
  if (!x) return {};
  std::vector<Val> axes = args[1].is<TupleVal>() ? *args[1].as<TupleVal>().items : std::vector<Val>{args[1]};
  int rank = x->type.rank() + int(axes.size());
  std::vector<int> at;
  for (const Val& a : axes) {
    auto axis = to_axis(s, a, rank, "expand_dims");
    if (!axis) return {};
    at.push_back(*axis);
  }
  std::sort(at.begin(), at.end());
  if (std::adjacent_find(at.begin(), at.end()) != at.end())
    return s.error("expand_dims has an axis twice", "the axes are those of the result");
  for (int axis : at) x = x->type.is_scalar() ? s.builder.splat(x, {1}) : s.builder.expand_dims(x, axis);
  return x;
}

Val fn_reshape(Sema& s, Args args) {
  ir::Value* x = tile(s, args[0], "reshape");
  auto shape = to_shape_varargs(s, args[1], "reshape");
  if (!x || !shape) return {};
  if (ir::Type::tile(x->type.elem, *shape).num_elements() != x->type.num_elements())
    return s.error(fmt::format("cannot reshape {} to {}: {} elements against {}", ir::shape_to_string(x->type.shape),
                               ir::shape_to_string(*shape), x->type.num_elements(),
                               ir::Type::tile(x->type.elem, *shape).num_elements()));
  return *shape == x->type.shape ? Val(x) : Val(s.builder.reshape(x, *shape));
}

Val fn_view(Sema& s, Args args) { return fn_reshape(s, args); }

Val fn_item(Sema& s, Args args) {
  ir::Value* x = to_value(s, args[0], "the input of item");
  if (x) x = single_element(s, x);
  return x ? Val(x) : Val();
}

Val fn_ravel(Sema& s, Args args) {
  ir::Value* x = tile(s, args[0], "ravel");
  if (!x) return {};
  return x->type.rank() == 1 ? Val(x) : Val(s.builder.reshape(x, {x->type.num_elements()}));
}

Val fn_trans(Sema& s, Args args) {
  ir::Value* x = tile(s, args[0], "trans");
  if (!x) return {};
  if (!args[1].as<TupleVal>().items->empty()) return permuted(s, x, args[1], "trans");
  int rank = x->type.rank();
  if (rank < 2)
    return s.error(fmt::format("trans swaps the last two dimensions, found {}", describe(args[0])),
                   rank == 1 ? "x[:, None] is a column of a tile of rank 1, x[None, :] a row" : "");
  std::vector<int64_t> order;
  for (int i = 0; i < rank; ++i) order.push_back(i);
  std::swap(order[rank - 1], order[rank - 2]);
  return s.builder.trans(x, std::move(order));
}

Val fn_permute(Sema& s, Args args) {
  ir::Value* x = tile(s, args[0], "permute");
  return x ? permuted(s, x, args[1], "permute") : Val();
}

// --------------------------------------------------------------------------------------- compile time and hints

Val fn_static_assert_(Sema& s, Args args) {
  if (args[0].is_value())
    return s.error("static_assert needs a condition known at compile time",
                   "declare the parameters it uses as tl.constexpr");
  if (truth(args[0])) return None{};
  std::string message = args[1].is<std::string>() ? args[1].as<std::string>() : std::string();
  return s.error(message.empty() ? "static_assert failed" : fmt::format("static_assert failed: {}", message));
}

Val fn_static_print(Sema& s, Args args) {
  if (!args[1].is<std::string>())
    return s.error(fmt::format("the sep of static_print is a string, found {}", describe(args[1])));
  std::string line;
  bool first = true;
  for (const Val& v : *args[0].as<TupleVal>().items) {
    if (!std::exchange(first, false)) line += args[1].as<std::string>();
    line += text_of(v);
  }
  s.prints.push_back(std::move(line));
  return None{};
}

Val fn_multiple_of(Sema& s, Args args) { return hint(s, args, ir::attr::divisibility); }
Val fn_max_contiguous(Sema& s, Args args) { return hint(s, args, ir::attr::contiguity); }
Val fn_max_constancy(Sema& s, Args args) { return hint(s, args, ir::attr::constancy); }
Val fn_assume(Sema& s, Args args) {
  if (!args[0].is_value()) return None{};
  if (s.debug)  // instead of code that takes it to hold
    assert_promised(s, args[0].value());
  else
    promise(s, args[0].value());
  return None{};
}

#define TEGULA_TYPE_QUERY(name, query)                                      \
  Val fn_##name(Sema& s, Args args) {                                       \
    return type_query(s, args[0], [](const ir::Type& t) { return query; }); \
  }
#define TEGULA_ELEM_QUERY(name, e) TEGULA_TYPE_QUERY(name, t.is_scalar() && !t.pointer && t.elem == Elem::e)
TEGULA_TYPE_QUERY(is_floating, t.is_float())
TEGULA_TYPE_QUERY(is_int, t.is_integer())
TEGULA_TYPE_QUERY(is_int_signed, t.is_integer() && is_signed(t.elem))
TEGULA_TYPE_QUERY(is_int_unsigned, t.is_integer() && is_unsigned(t.elem))
TEGULA_TYPE_QUERY(is_ptr, t.pointer)
TEGULA_TYPE_QUERY(is_block, t.is_tile())
TEGULA_TYPE_QUERY(is_fp8, t.is_scalar() && !t.pointer && is_float8(t.elem))
TEGULA_ELEM_QUERY(is_bool, I1)
TEGULA_ELEM_QUERY(is_int1, I1)
TEGULA_ELEM_QUERY(is_int8, I8)
TEGULA_ELEM_QUERY(is_int16, I16)
TEGULA_ELEM_QUERY(is_int32, I32)
TEGULA_ELEM_QUERY(is_int64, I64)
TEGULA_ELEM_QUERY(is_uint8, U8)
TEGULA_ELEM_QUERY(is_uint16, U16)
TEGULA_ELEM_QUERY(is_uint32, U32)
TEGULA_ELEM_QUERY(is_uint64, U64)
TEGULA_ELEM_QUERY(is_fp8e4nv, F8E4M3)
TEGULA_ELEM_QUERY(is_fp8e5, F8E5M2)
TEGULA_ELEM_QUERY(is_fp8e4b15, F8E4B15)
TEGULA_ELEM_QUERY(is_fp8e4b8, F8E4B8)
TEGULA_ELEM_QUERY(is_fp8e5b16, F8E5B16)
TEGULA_ELEM_QUERY(is_fp16, F16)
TEGULA_ELEM_QUERY(is_bf16, BF16)
TEGULA_ELEM_QUERY(is_fp32, F32)
TEGULA_ELEM_QUERY(is_fp64, F64)
#undef TEGULA_ELEM_QUERY
#undef TEGULA_TYPE_QUERY

Val fn_pointer_type(Sema& s, Args args) {
  auto elem = to_elem(s, args[0], "the argument of pointer_type");
  return elem ? Val(DType{ir::Type::pointer_to(*elem)}) : Val();
}

Val fn_get_block_shapes(Sema& s, Args args) {
  const auto* view = args[0].get_if<BlockView>();
  const auto* dtype = args[0].get_if<DType>();
  const Val type = view ? Val(DType{view->form->block}) : dtype ? Val(DType{dtype->type}) : args[0];
  if (!type.is<DType>() && !type.is_value())
    return s.error(fmt::format("get_block_shapes takes a type, found {}", describe(args[0])));
  return attribute(s, type, "shape");
}

Val fn_get_int_dtype(Sema& s, Args args) {
  auto bits = to_int(s, args[0], "the bitwidth of get_int_dtype");
  if (!bits) return {};
  if (!args[1].is<bool>())
    return s.error(fmt::format("signed of get_int_dtype is a bool, found {}", describe(args[1])));
  bool with_sign = args[1].as<bool>();
  auto elem = elem_from_text(*bits == 1 ? "i1" : fmt::format("{}{}", with_sign ? "i" : "u", *bits));
  if (!elem || (*bits == 1 && with_sign))
    return s.error(fmt::format("there is no {} integer of {} bits", with_sign ? "signed" : "unsigned", *bits),
                   "8, 16, 32 or 64");
  return DType{ir::Type::scalar(*elem)};
}

}  // namespace tegula::dsl
