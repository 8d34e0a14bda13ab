// Orders along the last dimension: sort, topk, bitonic_merge.
#include <fmt/format.h>

#include <bit>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

struct Order {
  const char* function;
  std::optional<int64_t> keep = {};  ///< how many elements stay; all if not given
  bool descending = false;
  bool merge = false;  ///< the elements first go up and then down
};

/// Whether `dim` is the last dimension of x; else an error.
bool is_last(Sema& s, const char* function, const ir::Value* x, const Val& dim) {
  if (dim.is<None>()) return true;
  auto axis = to_axis(s, dim, x->type.rank(), function);
  if (!axis) return false;
  if (*axis == x->type.rank() - 1) return true;
  s.error(fmt::format("{} goes along the last dimension, found dim {} of rank {}", function, *axis, x->type.rank()),
          "put it last with tl.permute, and back after");
  return false;
}

/// Types below 32 bits as their elements are once they were compared by max, as Triton's topk does it.
Elem widened(Elem elem) { return elem_bits(elem) >= 32 ? elem : is_float(elem) ? Elem::F32 : Elem::I32; }

Val in_order(Sema& s, const Val& input, const Val& dim, const Order& order) {
  ir::Value* x = to_value(s, input, fmt::format("the input of {}", order.function));
  if (!x) return {};
  const ir::Type& type = x->type;
  if (type.is_scalar() || type.pointer)
    return s.error(fmt::format("{} takes a tile of numbers, found {}", order.function, describe(x)));
  if (!check_arithmetic(s, order.function, x) || !is_last(s, order.function, x, dim)) return {};
  const int64_t extent = type.shape.back();
  auto is_power = [](int64_t n) { return n > 0 && std::has_single_bit(uint64_t(n)); };
  if (!is_power(extent))
    return s.error(fmt::format("{} takes a last extent that is a power of two, found {}", order.function, extent),
                   "pad it: load a larger tile, with other= a value that comes last");
  const int64_t keep = order.keep.value_or(extent);
  if (!is_power(keep) || keep > extent)
    return s.error(
        fmt::format("the k of {} is {}, expected a power of two up to the extent, {}", order.function, keep, extent));
  ir::Type result = type;
  result.shape.back() = keep;
  ir::Attrs attrs;
  if (order.descending) attrs["descending"] = true;
  if (order.merge) attrs["merge"] = true;
  ir::Value* out = s.builder.create(ir::Opcode::Sort, {x}, {result}, std::move(attrs))->result();
  return keep < extent ? cast_to(s, out, widened(type.elem)) : out;
}

Val topk(Sema& s, const Val& x, const Val& k, const Val& dim, const Val& descending, const char* function) {
  auto keep = to_int(s, k, fmt::format("the k of {}", function));
  auto down = to_flag(s, descending, fmt::format("the descending of {}", function));
  return keep && down ? in_order(s, x, dim, {function, *keep, *down}) : Val();
}

}  // namespace

Val fn_sort(Sema& s, Args args) {
  auto descending = to_flag(s, args[2], "the descending of sort");
  return descending ? in_order(s, args[0], args[1], {"sort", {}, *descending}) : Val();
}

Val fn_topk(Sema& s, Args args) { return topk(s, args[0], args[1], args[2], args[3], "topk"); }

Val fn_sort_impl(Sema& s, Args args) {
  if (!args[1].is<None>()) return topk(s, args[0], args[1], args[2], args[3], "sort_impl");
  auto descending = to_flag(s, args[3], "the descending of sort_impl");
  return descending ? in_order(s, args[0], args[2], {"sort_impl", {}, *descending}) : Val();
}

Val fn_bitonic_merge(Sema& s, Args args) {
  auto descending = to_flag(s, args[2], "the descending of bitonic_merge");
  return descending ? in_order(s, args[0], args[1], {"bitonic_merge", {}, *descending, true}) : Val();
}

}  // namespace tegula::dsl
