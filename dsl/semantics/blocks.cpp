#include "dsl/semantics/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tegula::dsl {

ir::Value* to_int64(Sema& s, const Val& x, std::string_view what) {
  if (x.is_poison()) return nullptr;
  const ir::Type type = ir::Type::scalar(Elem::I64);
  if (x.is<Int>() || x.is<bool>()) {
    if (literal_fits(x, Elem::I64)) return constant(s, type, x);
    s.error(fmt::format("{} is {}, which does not fit int64", what, describe(x)));
    return nullptr;
  }
  ir::Value* v = x.value();
  if (v && v->type.is_integer() && v->type.is_tile() && v->type.num_elements() == 1) v = single_element(s, v);
  if (v && v->type.is_integer() && v->type.is_scalar()) return cast_to(s, v, Elem::I64);
  s.error(fmt::format("{} must be an integer, found {}", what, describe(x)));
  return nullptr;
}

std::vector<Val> items_of(const Val& x) { return x.is<TupleVal>() ? *x.as<TupleVal>().items : std::vector<Val>{x}; }

std::optional<std::vector<ir::Value*>> to_int64s(Sema& s, const Val& list, size_t count, std::string_view what,
                                                 std::string_view function) {
  const std::vector<Val> items = items_of(list);
  if (items.size() != count) {
    s.error(fmt::format("{} has {} {} for {} dimension{}", function, items.size(), what, count, count == 1 ? "" : "s"),
            "give one a dimension");
    return std::nullopt;
  }
  std::vector<ir::Value*> out;
  for (const Val& item : items) {
    out.push_back(to_int64(s, item, fmt::format("each of the {} of {}", what, function)));
    if (!out.back()) return std::nullopt;
  }
  return out;
}

std::string block_text(const BlockView& view) {
  return fmt::format("tile of {} {}", ir::shape_to_string(view.form->block.shape), elem_info(view.form->block.elem).tl);
}

namespace {

bool is_zero(const ir::Value* v) { return !v || ir::constant_integer(v) == 0; }

// A tile of rank 1 along one axis of `shape`.
ir::Value* along(Sema& s, ir::Value* line, int axis, const ir::Shape& shape) {
  for (int i = 0; i < int(shape.size()); ++i)
    if (i != axis) line = s.builder.expand_dims(line, i);
  return line->type.shape == shape ? line : s.builder.broadcast(line, shape);
}

// Where the positions lie within the extent. One comparison as unsigned numbers does for both ends; no position lies
// within an extent below 0.
ir::Value* within(Sema& s, const BlockAxis& axis, ir::Value* extent) {
  ir::Value* positions = axis.positions;
  if (!is_zero(axis.start)) positions = s.builder.add(s.builder.splat(axis.start, positions->type.shape), positions);
  extent = cast_to(s, extent, Elem::I64);
  extent = s.builder.maximum(extent, s.builder.constant(extent->type, 0));
  ir::Value* end = s.builder.splat(s.builder.cast(extent, Elem::U64), positions->type.shape);
  return s.builder.lt(s.builder.cast(positions, Elem::U64), end);
}

}  // namespace

BlockAccess block_access(Sema& s, const BlockView& view, std::span<const BlockAxis> axes) {
  ir::Shape shape;
  for (const BlockAxis& axis : axes) shape.push_back(axis.positions->type.shape[0]);
  ir::Value *first = nullptr, *distances = nullptr, *mask = nullptr;
  auto sum = [&](ir::Value* a, ir::Value* b) { return a ? s.builder.add(a, b) : b; };
  for (size_t i = 0; i < axes.size(); ++i) {
    const BlockAxis& axis = axes[i];
    ir::Value* stride = view.stride(int(i));
    if (!is_zero(axis.start)) first = sum(first, s.builder.mul(axis.start, stride));
    ir::Value* line = s.builder.mul(axis.positions, s.builder.splat(stride, axis.positions->type.shape));
    distances = sum(distances, along(s, line, int(i), shape));
    if (!axis.checked) continue;
    ir::Value* inside = along(s, within(s, axis, view.extent(int(i))), int(i), shape);
    mask = mask ? s.builder.bit_and(mask, inside) : inside;
  }
  ir::Value* base = first ? s.builder.addptr(view.base(), first) : view.base();
  return {s.builder.addptr(s.builder.splat(base, shape), distances), mask};
}

std::vector<BlockAxis> block_axes(Sema& s, const BlockView& view, std::span<ir::Value* const> offsets,
                                  const std::vector<bool>& checked) {
  std::vector<BlockAxis> axes;
  for (size_t i = 0; i < offsets.size(); ++i) {
    ir::Value* positions = s.builder.cast(s.builder.arange(0, view.form->block.shape[i]), Elem::I64);
    axes.push_back({offsets[i], positions, checked[i]});
  }
  return axes;
}

// ------------------------------------------------------------------------------------------------- block pointers

namespace {

// A block pointer as an operand; null after an error that names the function.
const BlockView* block_pointer(Sema& s, const Val& x, const char* function) {
  const auto* view = x.get_if<BlockView>();
  if (view && view->is_pointer()) return view;
  if (!x.is_poison())
    s.error(fmt::format("{} takes a block pointer, found {}", function, describe(x)),
            view                                      ? "a descriptor has methods: desc.load(offsets)"
            : x.is_value() && x.value()->type.pointer ? "a pointer moves by itself: p + offset"
                                                      : "tl.make_block_ptr makes one");
  return nullptr;
}

// False after an error: `order` names each axis once. It has no effect, since strides say which axis is contiguous.
bool check_order(Sema& s, const Val& order, size_t rank) {
  std::vector<int64_t> axes;
  for (const Val& item : items_of(order)) {
    auto axis = to_int(s, item, "each axis in the order of make_block_ptr");
    if (!axis) return false;
    axes.push_back(*axis);
  }
  std::sort(axes.begin(), axes.end());
  bool permutes = axes.size() == rank;
  for (size_t i = 0; permutes && i < rank; ++i) permutes = axes[i] == int64_t(i);
  if (!permutes)
    s.error(fmt::format("the order of make_block_ptr is {}, expected a permutation of the axes 0 to {}",
                        describe(make_tuple(items_of(order))), rank - 1),
            "the axis that is contiguous in memory comes first: (1, 0) for rows, (0, 1) for columns");
  return permutes;
}

// Which axes boundary_check names; nullopt after an error.
std::optional<std::vector<bool>> checked_axes(Sema& s, const Val& boundary_check, int rank, const char* function) {
  std::vector<bool> checked(size_t(rank), false);
  if (boundary_check.is<None>()) return checked;
  const bool number = boundary_check.is<Int>() || boundary_check.is<bool>();
  if (number && !truth(boundary_check)) {  // Triton asks whether it is true
    s.diags
        .warning(s.loc, fmt::format("boundary_check={} of {} checks no axis, as in Triton",
                                    boundary_check.is<bool>() ? "False" : "0", function))
        .with_hint("boundary_check=(0,) checks axis 0");
    return checked;
  }
  if (boundary_check.is<bool>()) {
    s.error(fmt::format("boundary_check of {} takes the axes to check, found True", function),
            rank == 1 ? "boundary_check=(0,) checks axis 0" : "boundary_check=(0, 1) checks axes 0 and 1");
    return std::nullopt;
  }
  for (const Val& item : items_of(boundary_check)) {
    auto axis = to_int(s, item, fmt::format("each axis in the boundary_check of {}", function));
    if (!axis) return std::nullopt;
    if (*axis < 0 || *axis >= rank) {
      s.error(
          fmt::format("boundary_check of {} names the axis {} of a block pointer of rank {}", function, *axis, rank),
          fmt::format("axes are 0 to {}", rank - 1));
      return std::nullopt;
    }
    if (checked[size_t(*axis)]) {
      s.error(fmt::format("boundary_check of {} names the axis {} twice", function, *axis));
      return std::nullopt;
    }
    checked[size_t(*axis)] = true;
  }
  return checked;
}

BlockAccess access_through(Sema& s, const BlockView& view, const std::vector<bool>& checked) {
  std::vector<ir::Value*> offsets;
  for (int i = 0; i < view.rank(); ++i) offsets.push_back(view.offset(i));
  return block_access(s, view, block_axes(s, view, offsets, checked));
}

Val mask_or_none(const BlockAccess& access) { return access.mask ? Val(access.mask) : Val(None{}); }

// False after an error: a block pointer brings its own mask.
bool no_mask(Sema& s, const BlockView& view, const Val& mask, const Val& other, const char* function) {
  if (mask.is<None>() && other.is<None>()) return true;
  s.error(fmt::format("{} takes no `{}` beside a block pointer", function, mask.is<None>() ? "other" : "mask"),
          view.rank() == 1 ? "boundary_check=(0,) lets the block reach beyond the array"
                           : "boundary_check=(0, 1) names the axes along which the block may reach beyond the array");
  return false;
}

}  // namespace

std::optional<bool> pads_with_nan(Sema& s, const Val& option, Elem elem, const char* function) {
  if (option.is<None>()) return false;
  const std::string text = option.is<std::string>() ? option.as<std::string>() : describe(option);
  if (text != "" && text != "zero" && text != "nan") {
    s.error(fmt::format("the padding_option of {} is '{}'", function, text), "it is one of '', 'zero', 'nan'");
    return std::nullopt;
  }
  if (text == "nan" && !is_float(elem)) {
    s.error(fmt::format("the padding_option of {} is 'nan', but the elements are {}", function, elem_info(elem).tl),
            "integers are padded with 'zero'");
    return std::nullopt;
  }
  return text == "nan";
}

Val fn_make_block_ptr(Sema& s, Args args) {
  constexpr std::string_view kName = "make_block_ptr";
  ir::Value* base = args[0].value();
  if (!base || !base->type.pointer || base->type.is_tile())
    return s.error(fmt::format("the base of make_block_ptr must be a pointer, found {}", describe(args[0])),
                   args[0].is<None>() ? "the argument is None: test `p is not None` first" : "");
  auto shape = to_shape(s, args[4], kName);
  if (!shape) return {};
  if (shape->empty()) return s.error("the block_shape of make_block_ptr is empty", "give one extent a dimension");
  std::vector<Val> parts;
  // Memory holds an int1 as a byte.
  if (base->type.elem == Elem::I1) base = s.builder.bitcast(base, ir::Type::pointer_to(Elem::I8));
  parts.emplace_back(base);
  for (auto [index, what] : {std::pair(1, "extents in `shape`"), {2, "strides"}, {3, "offsets"}}) {
    auto values = to_int64s(s, args[size_t(index)], shape->size(), what, kName);
    if (!values) return {};
    parts.insert(parts.end(), values->begin(), values->end());
  }
  if (!check_order(s, args[5], shape->size())) return {};
  BlockForm form{BlockForm::Kind::Pointer, ir::Type::tile(base->type.elem, *shape)};
  return BlockView{std::make_shared<const BlockForm>(std::move(form)),
                   std::make_shared<const std::vector<Val>>(std::move(parts))};
}

Val fn_advance(Sema& s, Args args) {
  const BlockView* view = block_pointer(s, args[0], "advance");
  if (!view) return {};
  auto steps = to_int64s(s, args[1], size_t(view->rank()), "offsets", "advance");
  if (!steps) return {};
  std::vector<Val> parts = *view->parts;
  for (int i = 0; i < view->rank(); ++i)
    if (!is_zero((*steps)[size_t(i)]))
      parts[size_t(1 + 2 * view->rank() + i)] = s.builder.add(view->offset(i), (*steps)[size_t(i)]);
  return BlockView{view->form, std::make_shared<const std::vector<Val>>(std::move(parts))};
}

Val load_block(Sema& s, const BlockView& view, Args args) {
  if (!block_pointer(s, args[0], "load") || !no_mask(s, view, args[1], args[2], "load")) return {};
  auto checked = checked_axes(s, args[3], view.rank(), "load");
  auto nan = pads_with_nan(s, args[4], view.form->block.elem, "load");
  if (!checked || !nan) return {};
  BlockAccess access = access_through(s, view, *checked);
  Val other = *nan && access.mask ? Val(std::numeric_limits<double>::quiet_NaN()) : Val(None{});
  return fn_load(s, std::vector<Val>{access.pointers, mask_or_none(access), other, make_tuple({}), std::string(),
                                     args[5], args[6], args[7]});
}

Val store_block(Sema& s, const BlockView& view, Args args) {
  if (!block_pointer(s, args[0], "store") || !no_mask(s, view, args[2], None{}, "store")) return {};
  auto checked = checked_axes(s, args[3], view.rank(), "store");
  if (!checked) return {};
  const ir::Type& block = view.form->block;
  if (const ir::Value* value = args[1].value()) {
    bool fits = value->type.elem == block.elem && !value->type.pointer;
    if (!fits || (value->type.is_tile() && value->type.shape != block.shape))
      return s.error(fmt::format("the value of store is a {}, the block pointer's block is a {}", describe(args[1]),
                                 block_text(view)),
                     fits ? "both have one shape" : "convert the value with .to(p.dtype.element_ty)");
  }
  BlockAccess access = access_through(s, view, *checked);
  return fn_store(s,
                  std::vector<Val>{access.pointers, args[1], mask_or_none(access), make_tuple({}), args[4], args[5]});
}

}  // namespace tegula::dsl
