// Tensor descriptors: an array in memory that is loaded and stored in blocks at any offsets, always within its bounds.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "dsl/semantics/blocks.h"

namespace tegula::dsl {

namespace {

constexpr size_t kMaxRank = 5;
constexpr int64_t kLeastBytes = 16;  // of a row of a block

// A tensor descriptor as an operand; null after an error that names the function.
const BlockView* descriptor(Sema& s, const Val& x, const char* function) {
  const auto* view = x.get_if<BlockView>();
  if (view && !view->is_pointer()) return view;
  if (!x.is_poison())
    s.error(fmt::format("{} takes a tensor descriptor, found {}", function, describe(x)),
            view ? "tl.load and tl.store take a block pointer" : "tl.make_tensor_descriptor makes one");
  return nullptr;
}

// Extents are int32, or int64 where they are given so.
ir::Value* to_extent(Sema& s, const Val& x) {
  ir::Value* wide = to_int64(s, x, "each of the extents in `shape` of make_tensor_descriptor");
  if (!wide) return nullptr;
  const bool is_wide = x.is_value() ? elem_bits(x.value()->type.elem) == 64 || x.value()->type.elem == Elem::U32
                                    : x.is<Int>() && !literal_fits(x, Elem::I32);
  return is_wide ? wide : cast_to(s, x.is_value() && x.value()->type.is_scalar() ? x.value() : wide, Elem::I32);
}

// Whether x is known to be 1, as the last stride of a descriptor is that another one is made of.
bool is_one(const Val& x) {
  if (const auto* number = x.get_if<Int>()) return *number == 1;
  return x.is_value() && ir::constant_integer(x.value()) == 1;
}

// The block at the offsets, or nothing after an error.
std::optional<BlockAccess> access_at(Sema& s, const BlockView& view, const Val& offsets, const char* function) {
  auto starts = to_int64s(s, offsets, size_t(view.rank()), "offsets", function);
  if (!starts) return std::nullopt;
  return block_access(s, view, block_axes(s, view, *starts, std::vector<bool>(size_t(view.rank()), true)));
}

// False after an error: the value that a function puts into memory has the shape of a block.
bool check_value(Sema& s, const Val& value, const ir::Shape& shape, const char* function) {
  const ir::Value* v = to_value(s, value, fmt::format("the value of {}", function));
  if (!v) return false;
  if (v->type.shape == shape && !v->type.pointer) return true;
  s.error(fmt::format("the value of {} must be a tile of {}, found {}", function, ir::shape_to_string(shape),
                      describe(value)),
          "it has the shape of the descriptor's block");
  return false;
}

// Rows of the array by their numbers: gather and scatter. Nothing after an error.
std::optional<BlockAccess> access_rows(Sema& s, const BlockView& view, const Val& rows, const Val& column,
                                       const char* function) {
  const ir::Shape& block = view.form->block.shape;
  if (view.rank() != 2 || block[0] != 1) {
    s.error(fmt::format("{} takes a descriptor of blocks of one row, found {}", function, describe(view)),
            "its block_shape is [1, columns]");
    return std::nullopt;
  }
  ir::Value* numbers = rows.value();
  if (!numbers || numbers->type.rank() != 1 || !numbers->type.is_integer()) {
    if (!rows.is_poison())
      s.error(fmt::format("{} takes the numbers of rows as a tile of rank 1, found {}", function, describe(rows)));
    return std::nullopt;
  }
  ir::Value* start = to_int64(s, column, fmt::format("the column of {}", function));
  if (!start) return std::nullopt;
  std::vector<BlockAxis> axes = {
      {nullptr, cast_to(s, numbers, Elem::I64), true},
      {start, s.builder.cast(s.builder.arange(0, block[1]), Elem::I64), true},
  };
  return block_access(s, view, axes);
}

Val load_from(Sema& s, const BlockView& view, const BlockAccess& access) {
  const Val other = view.form->pad_nan ? Val(std::numeric_limits<double>::quiet_NaN()) : Val(None{});
  return fn_load(s, std::vector<Val>{access.pointers, access.mask, other, make_tuple({}), std::string(), std::string(),
                                     std::string(), false});
}

Val store_to(Sema& s, const BlockAccess& access, const Val& value) {
  return fn_store(s,
                  std::vector<Val>{access.pointers, value, access.mask, make_tuple({}), std::string(), std::string()});
}

// The element types that the atomic function of a descriptor takes: those of the hardware's bulk reductions.
std::vector<Elem> combined_types(std::string_view function) {
  std::vector<Elem> types{Elem::U32, Elem::I32, Elem::U64};
  if (function != "atomic_add") types.push_back(Elem::I64);
  if (function == "atomic_add") types.push_back(Elem::F32);
  if (function == "atomic_add" || function == "atomic_min" || function == "atomic_max")
    types.insert(types.end(), {Elem::F16, Elem::BF16});
  return types;
}

// False after an error that lists them.
bool check_combined_type(Sema& s, const BlockView& view, const char* function) {
  const std::vector<Elem> types = combined_types(function);
  if (std::find(types.begin(), types.end(), view.form->block.elem) != types.end()) return true;
  std::string names;
  for (Elem elem : types) names += (names.empty() ? "" : ", ") + std::string(elem_info(elem).tl);
  s.error(fmt::format("{} of a tensor descriptor takes no {}", function, elem_info(view.form->block.elem).tl),
          fmt::format("it takes {}; tl.{} takes pointers to other types", names, function));
  return false;
}

// Memory combined with the value by the atomic function of that name; gives nothing.
Val combine(Sema& s, Args args, const char* function) {
  const BlockView* view = descriptor(s, args[0], function);
  if (!view || !check_value(s, args[2], view->form->block.shape, function) || !check_combined_type(s, *view, function))
    return {};
  auto access = access_at(s, *view, args[1], function);
  if (!access) return {};
  const FunctionInfo* atomic = find_function(function);
  if (!atomic) return s.error(fmt::format("'{}' of a tensor descriptor is not there", function));
  Val old =
      call_function(s, *atomic, {access->pointers, args[2]}, {{"mask", access->mask}, {"sem", std::string("relaxed")}});
  return old.is_poison() ? old : Val(None{});
}

}  // namespace

Val fn_make_tensor_descriptor(Sema& s, Args args) {
  constexpr std::string_view kName = "make_tensor_descriptor";
  ir::Value* base = args[0].value();
  if (!base || !base->type.pointer || base->type.is_tile())
    return s.error(fmt::format("the base of make_tensor_descriptor must be a pointer, found {}", describe(args[0])),
                   args[0].is<None>() ? "the argument is None: test `p is not None` first" : "");
  auto block = to_shape(s, args[3], "a block of make_tensor_descriptor");
  if (!block) return {};
  if (block->empty() || block->size() > kMaxRank)
    return s.error(fmt::format("a tensor descriptor has 1 to {} dimensions, found {}", kMaxRank, block->size()));
  const int64_t row = block->back() * elem_bytes(base->type.elem);
  if (row < kLeastBytes)
    return s.error(fmt::format("a row of the descriptor's block has {} bytes, expected {} at least", row, kLeastBytes),
                   fmt::format("{} of {} are {}", kLeastBytes / elem_bytes(base->type.elem),
                               elem_info(base->type.elem).tl, kLeastBytes));
  const std::vector<Val> strides = items_of(args[2]);
  if (strides.size() == block->size() && !is_one(strides.back()))
    return s.error(fmt::format("the last stride of make_tensor_descriptor must be the constant 1, found {}",
                               describe(strides.back())),
                   strides.back().is_value() ? "write 1: a descriptor's rows are contiguous" : "");
  auto nan = pads_with_nan(s, args[4], base->type.elem, "make_tensor_descriptor");
  auto wide_strides = to_int64s(s, args[2], block->size(), "strides", kName);
  if (!nan || !wide_strides) return {};
  const std::vector<Val> extents = items_of(args[1]);
  if (extents.size() != block->size())
    return s.error(fmt::format("make_tensor_descriptor has {} extents in `shape` for {} dimension{}", extents.size(),
                               block->size(), block->size() == 1 ? "" : "s"),
                   "give one a dimension");
  std::vector<Val> parts{base};
  for (const Val& extent : extents) {
    ir::Value* value = to_extent(s, extent);
    if (!value) return {};
    parts.emplace_back(value);
  }
  parts.insert(parts.end(), wide_strides->begin(), wide_strides->end());
  BlockForm form{BlockForm::Kind::Descriptor, ir::Type::tile(base->type.elem, *block), *nan};
  return BlockView{std::make_shared<const BlockForm>(std::move(form)),
                   std::make_shared<const std::vector<Val>>(std::move(parts))};
}

Val fn_load_tensor_descriptor(Sema& s, Args args) {
  const BlockView* view = descriptor(s, args[0], "load");
  if (!view) return {};
  auto access = access_at(s, *view, args[1], "load");
  return access ? load_from(s, *view, *access) : Val();
}

Val fn_store_tensor_descriptor(Sema& s, Args args) {
  const BlockView* view = descriptor(s, args[0], "store");
  if (!view || !check_value(s, args[2], view->form->block.shape, "store")) return {};
  auto access = access_at(s, *view, args[1], "store");
  return access ? store_to(s, *access, args[2]) : Val();
}

Val descriptor_load(Sema& s, Args args) { return fn_load_tensor_descriptor(s, args); }
Val descriptor_store(Sema& s, Args args) { return fn_store_tensor_descriptor(s, args); }

Val descriptor_gather(Sema& s, Args args) {
  const BlockView* view = descriptor(s, args[0], "gather");
  if (!view) return {};
  auto access = access_rows(s, *view, args[1], args[2], "gather");
  return access ? load_from(s, *view, *access) : Val();
}

Val descriptor_scatter(Sema& s, Args args) {
  const BlockView* view = descriptor(s, args[0], "scatter");
  if (!view) return {};
  auto access = access_rows(s, *view, args[2], args[3], "scatter");
  if (!access || !check_value(s, args[1], access->pointers->type.shape, "scatter")) return {};
  return store_to(s, *access, args[1]);
}

Val descriptor_atomic_add(Sema& s, Args args) { return combine(s, args, "atomic_add"); }
Val descriptor_atomic_min(Sema& s, Args args) { return combine(s, args, "atomic_min"); }
Val descriptor_atomic_max(Sema& s, Args args) { return combine(s, args, "atomic_max"); }
Val descriptor_atomic_and(Sema& s, Args args) { return combine(s, args, "atomic_and"); }
Val descriptor_atomic_or(Sema& s, Args args) { return combine(s, args, "atomic_or"); }
Val descriptor_atomic_xor(Sema& s, Args args) { return combine(s, args, "atomic_xor"); }

}  // namespace tegula::dsl
