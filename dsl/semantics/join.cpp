// Tiles put together and taken apart: join, split, interleave, cat. All come down to a last dimension of extent 2,
// whose two elements a thread mostly holds side by side: a choice between them is then one between registers.
#include <fmt/format.h>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

/// Whether the last coordinate is 0, for a tile whose last extent is 2.
ir::Value* is_first(Sema& s, const ir::Shape& shape) {
  ir::Value* place = s.builder.arange(0, 2);
  return broadcast_value(s, s.builder.eq(place, s.builder.constant(place->type, 0)), shape);
}

/// a and b as the elements 0 and 1 of a new last dimension; null after an error.
ir::Value* joined(Sema& s, const Val& left, const Val& right, const char* function) {
  ir::Value *a = to_value(s, left, fmt::format("an argument of {}", function)),
            *b = to_value(s, right, fmt::format("an argument of {}", function));
  if (!a || !b || !broadcast_pair(s, a, b)) return nullptr;
  // As in Triton, whose types of values do not say whether integers have a sign: the first one's counts.
  if (!a->type.pointer && !b->type.pointer && a->type.is_integer() && b->type.is_integer() &&
      a->type.elem != b->type.elem && a->type.bits() == b->type.bits())
    b = s.builder.bitcast(b, ir::Type::scalar(a->type.elem));
  if (a->type.elem != b->type.elem || a->type.pointer != b->type.pointer) {
    s.error(fmt::format("{} takes two tiles of one type, found {} and {}", function, describe(a), describe(b)),
            "convert one with .to(...)");
    return nullptr;
  }
  ir::Shape shape = a->type.shape;
  shape.push_back(2);
  for (ir::Value** x : {&a, &b}) {
    if ((*x)->type.is_tile()) *x = s.builder.expand_dims(*x, int(shape.size()) - 1);
    *x = broadcast_value(s, *x, shape);
  }
  return s.builder.select(is_first(s, shape), a, b);
}

/// The elements of x where `chosen` holds, one along the last dimension each.
ir::Value* picked(Sema& s, ir::Value* chosen, ir::Value* bits) {
  ir::Value* kept = s.builder.select(chosen, bits, s.builder.constant(bits->type, 0));
  return s.builder.reduce({kept}, bits->type.rank() - 1, [](ir::Builder& b, const std::vector<ir::Value*>& x) {
    return std::vector<ir::Value*>{b.bit_or(x[0], x[1])};
  })[0];
}

/// The integer type that holds the bits of another one.
Elem bits_type(const ir::Type& type) {
  if (type.is_bool()) return Elem::I1;
  switch (type.bits()) {
    case 8:
      return Elem::I8;
    case 16:
      return Elem::I16;
    case 32:
      return Elem::I32;
    default:
      return Elem::I64;
  }
}

}  // namespace

Val fn_join(Sema& s, Args args) {
  ir::Value* out = joined(s, args[0], args[1], "join");
  return out ? Val(out) : Val();
}

Val fn_split(Sema& s, Args args) {
  ir::Value* x = to_value(s, args[0], "the input of split");
  if (!x) return {};
  if (x->type.is_scalar() || x->type.shape.back() != 2)
    return s.error(fmt::format("split takes a tile whose last extent is 2, found {}", describe(x)),
                   "reshape it: x.reshape(N, 2)");
  const Elem elem = bits_type(x->type);
  ir::Value* bits = x->type.elem == elem && !x->type.pointer ? x : s.builder.bitcast(x, ir::Type::scalar(elem));
  ir::Value* first = is_first(s, x->type.shape);
  std::vector<Val> halves;
  for (ir::Value* chosen : {first, s.builder.eq(first, s.builder.constant(first->type, 0))}) {
    ir::Value* half = picked(s, chosen, bits);
    halves.emplace_back(bits == x ? half : s.builder.bitcast(half, x->type.element()));
  }
  return make_tuple(std::move(halves));
}

Val fn_interleave(Sema& s, Args args) {
  ir::Value* out = joined(s, args[0], args[1], "interleave");
  if (!out) return {};
  ir::Shape shape = out->type.shape;
  if (shape.size() == 1) return out;
  shape.pop_back();
  shape.back() *= 2;
  return s.builder.reshape(out, shape);
}

Val fn_cat(Sema& s, Args args) {
  for (int i : {0, 1}) {
    if (args[i].is_value() && args[i].value()->type.is_tile()) continue;
    return s.error(fmt::format("cat takes two tiles, found {}", describe(args[i])));
  }
  ir::Shape shape = args[0].value()->type.shape;
  if (args[1].value()->type.shape != shape)
    return s.error(
        fmt::format("cat takes two tiles of one shape, found {} and {}", describe(args[0]), describe(args[1])));
  const int rank = int(shape.size());
  auto dim = to_axis(s, args[3], rank, "cat");
  if (!dim) return {};
  ir::Value* pairs = joined(s, args[0], args[1], "cat");
  if (!pairs) return {};
  std::vector<int64_t> order;  // the new last dimension ahead of `dim`
  for (int i = 0; i < rank; ++i) {
    if (i == *dim) order.push_back(rank);
    order.push_back(i);
  }
  shape[size_t(*dim)] *= 2;
  return s.builder.reshape(s.builder.trans(pairs, order), shape);
}

}  // namespace tegula::dsl
