// Functions of Triton's standard library that are written in the language itself: orders of programs, logarithms of
// extents, dimensions of extent 1.
#include <fmt/format.h>

#include <bit>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

Val fn_swizzle2d(Sema& s, Args args) {
  const Val &i = args[0], &j = args[1], &size_i = args[2], &size_j = args[3], &size_g = args[4];
  auto op = [&](const Val& x, const char* name, const Val& y) { return binary(s, name, x, y); };
  Val place = op(op(i, "*", size_j), "+", j);
  Val group_size = op(size_g, "*", size_j);
  Val first = op(op(place, "//", group_size), "*", size_g);  // row of the group
  // The last group may have fewer rows.
  Val rows = call_function(s, *find_function("minimum"), {op(size_i, "-", first), size_g}, {});
  place = op(place, "%", group_size);
  Val row = op(first, "+", op(place, "%", rows)), column = op(place, "//", rows);
  return row.is_poison() || column.is_poison() ? Val() : make_tuple({row, column});
}

Val fn__log2(Sema& s, Args args) {
  auto n = to_int(s, args[0], "the argument of _log2");
  return n ? Val(Int(*n > 1 ? std::bit_width(uint64_t(*n)) - 1 : 0)) : Val();
}

Val fn__is_power_of_two(Sema& s, Args args) {
  auto n = to_int(s, args[0], "the argument of _is_power_of_two");
  return n ? Val(*n > 0 && std::has_single_bit(uint64_t(*n))) : Val();
}

namespace {

Val logical_method(Sema& s, std::string_view op, Args args) {
  for (const Val& x : args) {
    const bool is_bool = x.is_value() ? x.value()->type.is_bool() : x.is<bool>();
    if (!is_bool)
      return s.error(fmt::format("logical_{} takes int1, found {}", op, describe(x)),
                     "compare first: x != 0, or use & and | of integers");
  }
  if (args[0].is_constant() && args[1].is_constant())
    return op == "and" ? truth(args[0]) && truth(args[1]) : truth(args[0]) || truth(args[1]);
  return logical(s, op, args[0], args[1]);
}

Val call(Sema& s, const char* function, std::vector<Val> args) {
  return call_function(s, *find_function(function), std::move(args), {});
}

// The better value and its index, as a tuple.
Val better_of(Sema& s, const char* comparison, Args args, bool lower_index) {
  Val first = compare(s, comparison, args[0], args[2]);
  if (lower_index) {
    Val tie = binary(s, "&", compare(s, "==", args[0], args[2]), compare(s, "<", args[1], args[3]));
    first = binary(s, "|", first, tie);
  }
  Val value = call(s, "where", {first, args[0], args[2]}), index = call(s, "where", {first, args[1], args[3]});
  return value.is_poison() || index.is_poison() ? Val() : make_tuple({value, index});
}

}  // namespace

Val fn_logical_and(Sema& s, Args args) { return logical_method(s, "and", args); }
Val fn_logical_or(Sema& s, Args args) { return logical_method(s, "or", args); }

Val fn__sum_combine(Sema& s, Args args) { return binary(s, "+", args[0], args[1]); }
Val fn__prod_combine(Sema& s, Args args) { return binary(s, "*", args[0], args[1]); }
Val fn__xor_combine(Sema& s, Args args) { return binary(s, "^", args[0], args[1]); }
Val fn__or_combine(Sema& s, Args args) { return binary(s, "|", args[0], args[1]); }
Val fn__elementwise_max(Sema& s, Args args) { return call(s, "maximum", {args[0], args[1]}); }
Val fn__elementwise_min(Sema& s, Args args) { return call(s, "minimum", {args[0], args[1]}); }
Val fn__argmax_combine(Sema& s, Args args) { return better_of(s, ">", args, truth(args[4])); }
Val fn__argmax_combine_tie_break_left(Sema& s, Args args) { return better_of(s, ">", args, true); }
Val fn__argmax_combine_tie_break_fast(Sema& s, Args args) { return better_of(s, ">", args, false); }
Val fn__argmin_combine(Sema& s, Args args) { return better_of(s, "<", args, truth(args[4])); }
Val fn__argmin_combine_tie_break_left(Sema& s, Args args) { return better_of(s, "<", args, true); }
Val fn__argmin_combine_tie_break_fast(Sema& s, Args args) { return better_of(s, "<", args, false); }

Val fn_squeeze(Sema& s, Args args) {
  ir::Value* x = to_value(s, args[0], "the input of squeeze");
  if (!x) return {};
  auto axis = to_axis(s, args[1], x->type.rank(), "squeeze");
  if (!axis) return {};
  ir::Shape shape = x->type.shape;
  if (shape[size_t(*axis)] != 1)
    return s.error(
        fmt::format("squeeze removes a dimension of extent 1, found {} in {}", shape[size_t(*axis)], describe(x)));
  shape.erase(shape.begin() + *axis);
  if (shape.empty()) return single_element(s, x, "squeeze");
  return s.builder.reshape(x, shape);
}

Val fn_unsqueeze(Sema& s, Args args) { return call_function(s, *find_function("expand_dims"), {args[0], args[1]}, {}); }

}  // namespace tegula::dsl
