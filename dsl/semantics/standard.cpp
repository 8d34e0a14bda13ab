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
