// x[...]: elements and slices of tuples and strings; new axes, elements and slices of tiles.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

// What of [0, size) a slice takes, as Python has it: `count` positions from `first` on, `step` apart.
struct Span {
  int64_t first, count, step;
};

std::optional<Span> resolve(Sema& s, const Slice& slice, int64_t size) {
  const int64_t step = slice.step.value_or(1);
  if (step == 0) {
    s.error("the step of a slice is 0");
    return std::nullopt;
  }
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  auto bound = [&](const std::optional<int64_t>& at, int64_t otherwise) {
    return at ? std::clamp(*at < 0 ? *at + size : *at, low, high) : otherwise;
  };
  const int64_t first = bound(slice.lower, step > 0 ? low : high), end = bound(slice.upper, step > 0 ? high : low);
  const int64_t distance = step > 0 ? end - first : first - end;
  return Span{first, std::max<int64_t>(0, (distance + std::abs(step) - 1) / std::abs(step)), step};
}

Val tuple_subscript(Sema& s, const TupleVal& tuple, const std::vector<Val>& indices) {
  const std::vector<Val>& items = *tuple.items;
  const auto size = int64_t(items.size());
  if (indices.size() != 1) return s.error("a tuple takes one index");
  if (const auto* slice = indices[0].get_if<Slice>()) {
    auto span = resolve(s, *slice, size);
    if (!span) return {};
    std::vector<Val> out;
    for (int64_t i = 0; i < span->count; ++i) out.push_back(items[size_t(span->first + i * span->step)]);
    return tuple.is_list ? make_list(std::move(out)) : make_tuple(std::move(out));
  }
  auto i = to_int(s, indices[0], "a tuple's index");
  if (!i) return {};
  if (*i < -size || *i >= size)
    return s.error(
        fmt::format("index {} is out of range for a tuple of {}", *i, size),
        size == 0 ? "a pointer or a number has no extents; those of an array are arguments of the kernel" : "");
  return items[size_t(*i < 0 ? *i + size : *i)];
}

// Of UTF-8: a byte that begins a character is none of those that go on with one.
Val text_subscript(Sema& s, const std::string& text, const std::vector<Val>& indices) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < text.size(); ++i)
    if ((text[i] & 0xC0) != 0x80) begins.push_back(i);
  const auto size = int64_t(begins.size());
  begins.push_back(text.size());
  auto character = [&](int64_t i) { return text.substr(begins[size_t(i)], begins[size_t(i) + 1] - begins[size_t(i)]); };
  if (indices.size() != 1) return s.error("a string takes one index");
  if (const auto* slice = indices[0].get_if<Slice>()) {
    auto span = resolve(s, *slice, size);
    if (!span) return {};
    std::string out;
    for (int64_t i = 0; i < span->count; ++i) out += character(span->first + i * span->step);
    return out;
  }
  auto i = to_int(s, indices[0], "a string's index");
  if (!i) return {};
  if (*i < -size || *i >= size) return s.error(fmt::format("index {} is out of range for a string of {}", *i, size));
  return character(*i < 0 ? *i + size : *i);
}

// The elements of x at `index` along `axis`; `index` broadcasts against x. The result lacks the axis.
//
// All elements but one are cleared and the bits are combined, which keeps every type's value as it is.
ir::Value* select_along(Sema& s, ir::Value* x, int axis, ir::Value* index) {
  const ir::Type element = x->type.element();
  if (element.pointer)
    x = s.builder.bitcast(x, ir::Type::scalar(Elem::I64));
  else if (element.elem == Elem::I1)
    x = cast_to(s, x, Elem::I32);
  else if (element.is_float())
    x = s.builder.bitcast(x, ir::Type::scalar(*elem_from_text(fmt::format("i{}", element.bits()))));
  const int rank = x->type.rank();
  ir::Value* positions = s.builder.arange(0, x->type.shape[size_t(axis)]);
  for (int i = 0; i < rank; ++i)
    if (i != axis) positions = s.builder.expand_dims(positions, i);
  Val there = compare(s, "==", positions, index);
  Val kept = fn_where(s, std::vector<Val>{there, x, Int(0)});
  if (kept.is_poison()) return nullptr;
  ir::Value* out = fn_reduce_or(s, std::vector<Val>{kept, Int(axis), false}).value();
  if (!out) return nullptr;
  if (element.elem == Elem::I1 && !element.pointer) return to_bool(s, out);
  return element.pointer || element.is_float() ? s.builder.bitcast(out, element) : out;
}

ir::Value* element_along(Sema& s, ir::Value* x, int axis, const Val& index) {
  const int64_t extent = x->type.shape[size_t(axis)];
  if (const ir::Value* i = index.value()) {
    if (i->type.is_scalar() && i->type.is_integer()) {
      assert_within(s, index.value(), extent, axis);
      return select_along(s, x, axis, index.value());
    }
    s.error(fmt::format("a tile is indexed by integers, slices and None, found {}", describe(index)),
            "tl.gather(x, indices, axis) takes a tile of indices");
    return nullptr;
  }
  if (!index.is<Int>()) {
    s.error(fmt::format("a tile is indexed by integers, slices and None, found {}", describe(index)));
    return nullptr;
  }
  auto i = to_int(s, index, "an index");
  if (!i) return nullptr;
  if (*i < -extent || *i >= extent) {
    s.error(fmt::format("index {} is out of range for the extent {} of dimension {}", *i, extent, axis));
    return nullptr;
  }
  return select_along(s, x, axis, s.builder.constant(ir::Type::scalar(Elem::I32), *i < 0 ? *i + extent : *i));
}

ir::Value* slice_along(Sema& s, ir::Value* x, int axis, const Slice& slice) {
  const int64_t extent = x->type.shape[size_t(axis)];
  auto span = resolve(s, slice, extent);
  if (!span) return nullptr;
  auto [first, count, step] = *span;
  if (first == 0 && count == extent) return x;
  ir::Shape shape = x->type.shape;
  shape[size_t(axis)] = count;
  if (count == 0) {
    s.error(fmt::format("the slice of dimension {} with extent {} is empty", axis, extent));
    return nullptr;
  }
  if (!to_shape(s, Int(count), "a slice")) return nullptr;
  if (step == 1 && first % count == 0 && extent % count == 0) {  // one of equal parts
    ir::Shape parts = x->type.shape;
    parts[size_t(axis)] = count;
    parts.insert(parts.begin() + axis, extent / count);
    return select_along(s, s.builder.reshape(x, parts), axis,
                        s.builder.constant(ir::Type::scalar(Elem::I32), first / count));
  }
  const WithoutOverflowAsserts none(s);
  Val index = binary(s, "+", binary(s, "*", s.builder.arange(0, count), Int(step)), Int(first));
  ir::Value* at = index.value();
  for (int i = 0; i <= x->type.rank(); ++i)
    if (i != axis + 1) at = s.builder.expand_dims(at, i);
  return select_along(s, s.builder.expand_dims(x, axis + 1), axis, at);
}

}  // namespace

Val subscript(Sema& s, const Val& x, const std::vector<Val>& indices) {
  if (x.is_poison()) return {};
  for (const Val& i : indices)
    if (i.is_poison()) return {};
  if (auto* tuple = x.get_if<TupleVal>()) return tuple_subscript(s, *tuple, indices);
  if (auto* text = x.get_if<std::string>()) return text_subscript(s, *text, indices);
  if (!x.is_value()) {
    const auto* block = x.get_if<BlockView>();
    return s.error(fmt::format("{} cannot be indexed", describe(x)), !block ? ""
                                                                     : block->is_pointer()
                                                                         ? "tl.load(p) reads the block"
                                                                         : "desc.load(offsets) reads the block there");
  }
  ir::Value* v = x.value();
  const bool scalar = v->type.is_scalar();
  int axis = 0;
  for (const Val& i : indices) {
    if (i.is<None>()) {
      v = v->type.is_scalar() ? s.builder.splat(v, {1}) : s.builder.expand_dims(v, std::min(axis, v->type.rank()));
      ++axis;
      continue;
    }
    const auto* slice = i.get_if<Slice>();
    if (scalar && slice && slice->full()) continue;  // as in Triton: of no effect
    if (axis >= v->type.rank()) {
      if (!scalar) return s.error(fmt::format("too many indices for a tile of rank {}", x.value()->type.rank()));
      const bool pointer = x.value()->type.pointer;
      return s.error(fmt::format("a single {} cannot be indexed", describe(x)),
                     pointer ? "tl.load(p + i) reads element i" : "");
    }
    v = slice ? slice_along(s, v, axis, *slice) : element_along(s, v, axis, i);
    if (!v) return {};
    axis += slice != nullptr;
  }
  return checked_rank(s, v, "an index");
}

}  // namespace tegula::dsl
