// Reductions and scans, all of them through the ops `reduce` and `scan` with their combining regions.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

using Group = std::vector<ir::Value*>;
using Combine = std::function<Group(ir::Builder&, const Group& left, const Group& right)>;

// False after an error: tiles of numbers are combined.
bool check_inputs(Sema& s, const Group& inputs, const char* function) {
  if (inputs.empty() || inputs[0]->type.is_scalar()) {
    s.error(fmt::format("{} takes a tile, found {}", function, inputs.empty() ? "nothing" : describe(inputs[0])));
    return false;
  }
  for (const ir::Value* x : inputs) {
    if (!x->type.pointer) continue;
    s.error(fmt::format("{} takes numbers, found {}", function, describe(inputs[0])));
    return false;
  }
  return true;
}

// For the builder, which gives both groups as one list.
ir::Builder::Combine in_halves(const Combine& combine) {
  return [&combine](ir::Builder& b, const Group& args) {
    const auto middle = args.begin() + long(args.size() / 2);
    return combine(b, Group(args.begin(), middle), Group(middle, args.end()));
  };
}

// Reduces along `axis` (None: all elements, as a tile of rank 1). Scalars come back as they are.
std::optional<Group> reduce_tiles(Sema& s, Group inputs, const Val& axis, bool keep_dims, const char* function,
                                  const Combine& combine) {
  if (!check_inputs(s, inputs, function)) return std::nullopt;
  const int rank = inputs[0]->type.rank();
  int at = 0;
  if (axis.is<None>()) {
    for (ir::Value*& x : inputs)
      if (rank > 1) x = s.builder.reshape(x, {x->type.num_elements()});
  } else {
    auto i = to_axis(s, axis, rank, function);
    if (!i) return std::nullopt;
    at = *i;
  }
  Group out = s.builder.reduce(inputs, at, in_halves(combine));
  if (keep_dims) {
    for (ir::Value*& x : out) {
      if (axis.is<None>())
        x = s.builder.splat(x, ir::Shape(size_t(rank), 1));
      else
        x = x->type.is_scalar() ? s.builder.splat(x, {1}) : s.builder.expand_dims(x, at);
    }
  }
  return out;
}

Combine binary_combine(ir::Value* (ir::Builder::*op)(ir::Value*, ir::Value*)) {
  return [op](ir::Builder& b, const Group& left, const Group& right) { return Group{(b.*op)(left[0], right[0])}; };
}

// The inputs of a function that combines by a user's function: tiles of one shape.
std::optional<Group> tiles_to_combine(Sema& s, const Val& input, const char* function) {
  Group out;
  for (const Val& item : input.is<TupleVal>() ? *input.as<TupleVal>().items : std::vector<Val>{input}) {
    ir::Value* x = to_value(s, item, fmt::format("an input of {}", function));
    if (!x) return std::nullopt;
    out.push_back(x);
  }
  for (ir::Value* x : out)
    if (x->type.shape != out[0]->type.shape) {
      s.error(fmt::format("{} takes tiles of one shape, found {} and {}", function, describe(out[0]), describe(x)));
      return std::nullopt;
    }
  return out;
}

// What the user's function gives for two groups, as values of the types of `left`; null where it gives none.
Group call_combine(Sema& s, const FunctionRef& function, const Group& left, const Group& right) {
  std::vector<Val> values(left.begin(), left.end());
  values.insert(values.end(), right.begin(), right.end());
  const Val combined = s.call(function, std::move(values));
  Group results(left.size(), nullptr);
  if (combined.is_poison()) return results;
  if (combined.is<None>()) {
    s.error(fmt::format("the combine function '{}' returns nothing", function.name));
    return results;
  }
  const std::vector<Val> items = combined.is<TupleVal>() ? *combined.as<TupleVal>().items : std::vector<Val>{combined};
  if (items.size() != left.size()) {
    s.error(fmt::format("the combine function '{}' gives {} values for {} inputs", function.name, items.size(),
                        left.size()));
    return results;
  }
  for (size_t i = 0; i < left.size(); ++i) {
    if (items[i].is_value() && !items[i].value()->type.same_shape_and_elem(left[i]->type))
      s.error(fmt::format("the combine function '{}' gives {}, expected {}", function.name, describe(items[i]),
                          describe(left[i])),
              "it combines two values of one type to one of that type");
    else
      results[i] = convert(s, items[i], left[i]->type).value();
  }
  return results;
}

// A user's function as what combines. `failed` becomes true after an error.
Combine user_combine(Sema& s, const FunctionRef& function, const char* caller, bool& failed) {
  return [&s, &function, caller, &failed](ir::Builder& b, const Group& left, const Group& right) {
    ir::Builder outside = std::exchange(s.builder, b);
    Group results = call_combine(s, function, left, right);
    b = std::exchange(s.builder, outside);
    for (size_t i = 0; i < results.size(); ++i)
      if (!results[i]) failed = true, results[i] = left[i];
    // How often the function runs is not said, so what Triton takes as an effect counts as none.
    ir::walk(*b.block(), [](ir::Op& op) {
      if (op.opcode == ir::Opcode::InlineAsmEffects) op.opcode = ir::Opcode::InlineAsm;
    });
    failed = failed || !check_elements_region(s, *b.block(), results, function.name, caller);
    return results;
  };
}

const FunctionRef* combine_function(Sema& s, const Val& x, const char* function) {
  if (x.is<FunctionRef>() && s.call) return &x.as<FunctionRef>();
  s.error(fmt::format("{} combines by a @triton.jit function, found {}", function, describe(x)),
          "define one beside the kernel: @triton.jit, def add(a, b): return a + b");
  return nullptr;
}

Val as_given(const Val& input, const Group& out) {
  return input.is<TupleVal>() ? make_tuple(std::vector<Val>(out.begin(), out.end())) : Val(out[0]);
}

// Scans along `axis`: element i of a result combines elements 0 to i (reversed: from the last one down to i).
std::optional<Group> scan_tiles(Sema& s, const Group& inputs, const Val& axis, const Val& reverse, const char* function,
                                const Combine& combine) {
  if (!check_inputs(s, inputs, function)) return std::nullopt;
  auto at = to_axis(s, axis, inputs[0]->type.rank(), function);
  const auto backwards = to_flag(s, reverse, fmt::format("the reverse of {}", function));
  if (!at || !backwards) return std::nullopt;
  ir::Attrs attrs{{ir::attr::axis, int64_t(*at)}};
  if (*backwards) attrs[ir::attr::reverse] = true;
  return s.builder.combine(ir::Opcode::Scan, inputs, {}, std::move(attrs), in_halves(combine));
}

Val arithmetic_scan(Sema& s, ir::Value* x, const Val& axis, const Val& reverse, const char* function,
                    ir::Value* (ir::Builder::*op)(ir::Value*, ir::Value*)) {
  if (!check_arithmetic(s, function, x)) return {};
  auto out = scan_tiles(s, {x}, axis, reverse, function, binary_combine(op));
  return out ? Val((*out)[0]) : Val();
}

// Integers below 32 bits are summed in 32 bits.
ir::Value* widen_for_sum(Sema& s, ir::Value* x) {
  if (!x->type.is_integer() || x->type.bits() >= 32) return x;
  return cast_to(s, x, is_signed(x->type.elem) ? Elem::I32 : Elem::U32);
}

// 8- and 16-bit elements are compared in 32 bits, as Triton does.
ir::Value* widened(Sema& s, ir::Value* x) {
  if (x->type.pointer || x->type.bits() >= 32) return x;
  return cast_to(s, x, x->type.is_float() ? Elem::F32 : Elem::I32);
}

// Extreme value and its index. Of equal values the lower index wins if tie_break_left; else either.
std::optional<Group> extreme_with_index(Sema& s, ir::Value* x, const Val& axis, bool max, bool tie_break_left,
                                        bool keep_dims, const char* function) {
  if (!check_arithmetic(s, function, x)) return std::nullopt;
  x = widen_bfloat16(s, x);
  Val along = axis;
  if (along.is<None>()) {
    if (x->type.rank() > 1) x = s.builder.reshape(x, {x->type.num_elements()});
    along = Int(0);
  }
  if (x->type.is_scalar()) {
    s.error(fmt::format("{} takes a tile, found {}", function, describe(x)));
    return std::nullopt;
  }
  auto at = to_axis(s, along, x->type.rank(), function);
  if (!at) return std::nullopt;
  ir::Value* index = s.builder.arange(0, x->type.shape[*at]);
  for (int i = 0; i < x->type.rank(); ++i)
    if (i != *at) index = s.builder.expand_dims(index, i);
  index = broadcast_value(s, index, x->type.shape);
  return reduce_tiles(s, {x, index}, Int(*at), keep_dims, function,
                      [&](ir::Builder& b, const Group& left, const Group& right) -> Group {
                        ir::Value* wins = max ? b.gt(left[0], right[0]) : b.lt(left[0], right[0]);
                        if (tie_break_left) {
                          ir::Value* earlier = b.lt(left[1], right[1]);
                          wins = b.bit_or(wins, b.bit_and(b.eq(left[0], right[0]), earlier));
                        }
                        return {b.select(wins, left[0], right[0]), b.select(wins, left[1], right[1])};
                      });
}

Val extreme(Sema& s, Args args, bool max) {
  const char* function = max ? "max" : "min";
  ir::Value* x = to_value(s, args[0], fmt::format("the input of {}", function));
  if (!x) return {};
  bool keep_dims = truth(args[4]);
  const auto with_indices = to_flag(s, args[2], fmt::format("the return_indices of {}", function));
  if (!with_indices) return {};
  if (*with_indices) {
    auto out = extreme_with_index(s, x, args[1], max, truth(args[3]), keep_dims, function);
    return out ? make_tuple({(*out)[0], (*out)[1]}) : Val();
  }
  auto out = reduce_tiles(s, {widened(s, x)}, args[1], keep_dims, function,
                          binary_combine(max ? &ir::Builder::maximum : &ir::Builder::minimum));
  return out ? Val((*out)[0]) : Val();
}

Val arg_extreme(Sema& s, Args args, bool max) {
  const char* function = max ? "argmax" : "argmin";
  ir::Value* x = to_value(s, args[0], fmt::format("the input of {}", function));
  if (!x) return {};
  auto out = extreme_with_index(s, x, args[1], max, truth(args[2]), truth(args[3]), function);
  return out ? Val((*out)[1]) : Val();
}

Val integer_reduction(Sema& s, Args args, const char* function, ir::Value* (ir::Builder::*op)(ir::Value*, ir::Value*)) {
  ir::Value* x = to_value(s, args[0], fmt::format("the input of {}", function));
  if (!x) return {};
  if (!x->type.is_integer()) return s.error(fmt::format("{} takes integers, found {}", function, describe(args[0])));
  auto out = reduce_tiles(s, {x}, args[1], truth(args[2]), function, binary_combine(op));
  return out ? Val((*out)[0]) : Val();
}

}  // namespace

ir::Value* single_element(Sema& s, ir::Value* x, std::string_view function) {
  if (x->type.is_scalar()) return x;
  if (x->type.num_elements() != 1) {
    s.error(fmt::format("{} takes a tile of one element, found {}", function, describe(x)));
    return nullptr;
  }
  ir::Type type = x->type.element();
  if (type.pointer) x = s.builder.bitcast(x, ir::Type::scalar(Elem::I64));
  auto first = [](ir::Builder&, const Group& left, const Group&) { return left; };
  ir::Value* out = (*reduce_tiles(s, {x}, None{}, false, "item", first))[0];
  return type.pointer ? s.builder.bitcast(out, type) : out;
}

Val reduce_named(Sema& s, std::string_view name, const Val& x, int axis, bool keep_dims) {
  return call_function(s, *find_function(name), {x, Int(axis)}, {{"keep_dims", keep_dims}});
}

// Functions ask for the type of a tile that they make of an element: nothing is computed with it.
static void remove_unused(ir::Block& region, const Group& results) {
  auto uses = ir::count_uses(region);
  for (const ir::Value* result : results) ++uses[result];
  for (auto it = region.ops.end(); it != region.ops.begin();) {
    const ir::Op& op = **--it;
    const bool used = std::ranges::any_of(op.results, [&](auto& r) { return uses[r.get()] > 0; });
    if (used || !op.has(ir::Pure) || !op.regions.empty()) continue;
    for (const ir::Value* operand : op.operands) --uses[operand];
    it = region.ops.erase(it);
  }
}

bool check_elements_region(Sema& s, ir::Block& region, const Group& results, std::string_view name,
                           const char* function) {
  remove_unused(region, results);
  const ir::Op* wrong = nullptr;
  ir::Value* tile = nullptr;
  ir::walk(region, [&](const ir::Op& op) {
    if (wrong || op.has(ir::Terminator)) return;
    for (auto& r : op.results)
      if (!r->type.is_scalar()) tile = r.get();
    if (tile || !(op.has(ir::Pure) || op.has(ir::Control))) wrong = &op;
  });
  if (!wrong) return true;
  auto& diagnostic =
      tile
          ? s.diags.error(wrong->loc, fmt::format("'{}' makes a {}, but {} calls it for scalars, which are all that it "
                                                  "may compute with",
                                                  name, describe(tile), function))
          : s.diags.error(wrong->loc, fmt::format("'{}' has an effect ({}), but {} calls it for elements, in no order",
                                                  name, wrong->info().text, function));
  diagnostic
      .with_hint(fmt::format("do that outside of the function, and give {} what it needs as further inputs", function))
      .with_note(s.loc, fmt::format("in the function that {} calls here", function));
  return false;
}

Val fn_max(Sema& s, Args args) { return extreme(s, args, true); }
Val fn_min(Sema& s, Args args) { return extreme(s, args, false); }
Val fn_argmax(Sema& s, Args args) { return arg_extreme(s, args, true); }
Val fn_argmin(Sema& s, Args args) { return arg_extreme(s, args, false); }

Val fn_sum(Sema& s, Args args) {
  ir::Value* x = to_value(s, args[0], "the input of sum");
  if (!x) return {};
  if (!args[3].is<None>()) {
    auto elem = to_elem(s, args[3], "the dtype of sum");
    if (!elem) return {};
    x = cast_to(s, x, *elem);
  } else {
    x = widen_for_sum(s, x);
  }
  if (is_float8(x->type.elem))
    return s.error(fmt::format("sum of {}", describe(x)), "give the type to sum in: dtype=tl.float32");
  auto out = reduce_tiles(s, {x}, args[1], truth(args[2]), "sum", binary_combine(&ir::Builder::add));
  return out ? Val((*out)[0]) : Val();
}

Val fn_xor_sum(Sema& s, Args args) { return integer_reduction(s, args, "xor_sum", &ir::Builder::bit_xor); }
Val fn_reduce_or(Sema& s, Args args) { return integer_reduction(s, args, "reduce_or", &ir::Builder::bit_or); }

Val fn_reduce(Sema& s, Args args) {
  const FunctionRef* function = combine_function(s, args[2], "reduce");
  auto inputs = function ? tiles_to_combine(s, args[0], "reduce") : std::nullopt;
  if (!inputs) return {};
  bool failed = false;
  auto out = reduce_tiles(s, *inputs, args[1], truth(args[3]), "reduce", user_combine(s, *function, "reduce", failed));
  return out && !failed ? as_given(args[0], *out) : Val();
}

Val fn_associative_scan(Sema& s, Args args) {
  const FunctionRef* function = combine_function(s, args[2], "associative_scan");
  auto inputs = function ? tiles_to_combine(s, args[0], "associative_scan") : std::nullopt;
  if (!inputs) return {};
  bool failed = false;
  auto out = scan_tiles(s, *inputs, args[1], args[3], "associative_scan",
                        user_combine(s, *function, "associative_scan", failed));
  return out && !failed ? as_given(args[0], *out) : Val();
}

Val fn_cumsum(Sema& s, Args args) {
  ir::Value* x = to_value(s, args[0], "the input of cumsum");
  if (!x) return {};
  if (args[3].is<None>()) {
    x = widen_for_sum(s, widen_bfloat16(s, x));
  } else {
    auto elem = to_elem(s, args[3], "the dtype of cumsum");
    if (!elem) return {};
    x = cast_to(s, x, *elem);
  }
  return arithmetic_scan(s, x, args[1], args[2], "cumsum", &ir::Builder::add);
}

Val fn_cumprod(Sema& s, Args args) {
  ir::Value* x = to_value(s, args[0], "the input of cumprod");
  if (!x) return {};
  return arithmetic_scan(s, widen_bfloat16(s, x), args[1], args[2], "cumprod", &ir::Builder::mul);
}

}  // namespace tegula::dsl
