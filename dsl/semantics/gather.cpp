// Elements that are looked up or counted: gather, flip, histogram.
#include <fmt/format.h>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

/// src with, along `axis`, the elements at `index`.
ir::Value* gathered(Sema& s, ir::Value* src, ir::Value* index, int axis) {
  ir::Type type = src->type;
  type.shape = index->type.shape;
  return s.builder.create(ir::Opcode::Gather, {src, index}, {type}, {{"axis", int64_t(axis)}})->result();
}

/// A value of rank 1 or more that holds no pointers, or null after an error.
ir::Value* tile_of_numbers(Sema& s, const Val& x, const char* function) {
  ir::Value* v = to_value(s, x, fmt::format("the input of {}", function));
  if (!v || (v->type.is_tile() && !v->type.pointer)) return v;
  s.error(fmt::format("{} takes a tile of numbers, found {}", function, describe(v)));
  return nullptr;
}

}  // namespace

Val fn_gather(Sema& s, Args args) {
  ir::Value *src = tile_of_numbers(s, args[0], "gather"), *index = to_value(s, args[1], "the index of gather");
  if (!src || !index) return {};
  if (!index->type.is_integer())
    return s.error(fmt::format("the index of gather is a tile of integers, found {}", describe(index)));
  const int rank = src->type.rank();
  auto axis = to_axis(s, args[2], rank, "gather");
  if (!axis) return {};
  bool fits = index->type.rank() == rank;
  for (int i = 0; fits && i < rank; ++i)
    fits = i == *axis || index->type.shape[size_t(i)] == src->type.shape[size_t(i)];
  if (!fits)
    return s.error(fmt::format("gather of shape {} with indices of shape {}", ir::shape_to_string(src->type.shape),
                               ir::shape_to_string(index->type.shape)),
                   "they have one rank and, but for the axis, the same extents");
  return gathered(s, src, index, *axis);
}

Val fn_flip(Sema& s, Args args) {
  ir::Value* x = tile_of_numbers(s, args[0], "flip");
  if (!x) return {};
  const int rank = x->type.rank();
  auto axis = to_axis(s, args[1].is<None>() ? Val(Int(rank - 1)) : args[1], rank, "flip");
  if (!axis) return {};
  const int64_t extent = x->type.shape[size_t(*axis)];
  ir::Value* place = s.builder.arange(0, extent);
  place = s.builder.sub(s.builder.constant(place->type, extent - 1), place);
  for (int i = 0; i < rank; ++i)
    if (i != *axis) place = s.builder.expand_dims(place, i);
  return gathered(s, x, broadcast_value(s, place, x->type.shape), *axis);
}

Val fn_histogram(Sema& s, Args args) {
  ir::Builder& b = s.builder;
  ir::Value* x = tile_of_numbers(s, args[0], "histogram");
  if (!x) return {};
  if (!x->type.is_integer() || x->type.rank() != 1)
    return s.error(fmt::format("histogram takes a tile of integers of rank 1, found {}", describe(x)),
                   x->type.is_integer() ? "x.ravel() has rank 1" : "");
  auto bins = to_shape(s, args[1], "histogram");
  if (!bins) return {};
  if (bins->size() != 1)
    return s.error(fmt::format("the num_bins of histogram is a number, found {}", describe(args[1])));
  if (x->type.bits() < 32) x = cast_to(s, x, Elem::I32);
  // What is not counted gets a number that is no bin.
  const int64_t limit = (*bins)[0];
  ir::Value* counted = b.lt(x, b.constant(x->type, limit));
  if (is_signed(x->type.elem)) counted = b.bit_and(counted, b.ge(x, b.constant(x->type, 0)));
  if (!args[2].is<None>()) {
    ir::Value* mask = to_value(s, args[2], "the mask of histogram");
    if (!mask) return {};
    if (!mask->type.is_bool())
      return s.error(fmt::format("the mask of histogram is {}, expected int1", describe(mask)), "compare: offsets < n");
    mask = broadcast_value(s, mask, x->type.shape);
    if (!mask) return {};
    counted = b.bit_and(counted, mask);
  }
  x = cast_to(s, x, Elem::I32);
  x = b.select(counted, x, b.constant(x->type, -1));
  return b.create(ir::Opcode::Histogram, {x}, {ir::Type::tile(Elem::I32, *bins)})->result();
}

}  // namespace tegula::dsl
