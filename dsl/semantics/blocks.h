// Arrays in memory that are read and written in blocks: what block pointers and tensor descriptors share.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

/// A compile-time integer or an integer scalar as int64; null after an error that names `what`.
ir::Value* to_int64(Sema& s, const Val& x, std::string_view what);
/// The items of a tuple; of anything else that alone.
std::vector<Val> items_of(const Val& x);
/// `count` int64 values, one a dimension; nullopt after an error that names `what` and the function.
std::optional<std::vector<ir::Value*>> to_int64s(Sema& s, const Val& list, size_t count, std::string_view what,
                                                 std::string_view function);

/// Pointers to the elements of a block, and which of them may be accessed.
struct BlockAccess {
  ir::Value* pointers;
  ir::Value* mask;  ///< null: all
};

/// The positions offset, offset + 1, ... along one axis of a block.
struct BlockAxis {
  ir::Value* start;      ///< int64 scalar; null for 0
  ir::Value* positions;  ///< int64 tile of rank 1, relative to `start`
  bool checked;          ///< positions outside of the array are masked
};
/// Addresses are base + sum over axes of (start + position) * stride in 64 bits, with all that is the same for the
/// whole block computed on scalars, and the mask axis by axis.
BlockAccess block_access(Sema& s, const BlockView& view, std::span<const BlockAxis> axes);
/// The axes of the block that begins at `offsets`.
std::vector<BlockAxis> block_axes(Sema& s, const BlockView& view, std::span<ir::Value* const> offsets,
                                  const std::vector<bool>& checked);

/// load and store through a block pointer, with the arguments of these functions.
Val load_block(Sema& s, const BlockView& view, Args args);
Val store_block(Sema& s, const BlockView& view, Args args);

/// Whether a padding_option ('', 'zero', 'nan', None) asks for NaN; nullopt after an error that names the function.
std::optional<bool> pads_with_nan(Sema& s, const Val& option, Elem elem, const char* function);

/// "tile of [16, 32] float16" of a view's blocks, for messages.
std::string block_text(const BlockView& view);

}  // namespace tegula::dsl
