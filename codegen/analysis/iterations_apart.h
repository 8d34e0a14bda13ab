// Whether a loop's iterations access different elements of an array.
#pragma once

#include <functional>

#include "codegen/ir/flow.h"

namespace tegula {

/// Whether no element that the pointers reach in one iteration of the loop is reached in another one: consecutive
/// pieces of a row, tiles that programs take in turn, pieces of several rows whose mask ends them with the row.
/// `mask`: null if there is none; `varies`: whether a value may differ between iterations. Index arithmetic is presumed
/// not to overflow.
bool iterations_apart(const ir::ForLoop& loop, const ir::Value* pointers, const ir::Value* mask,
                      const std::function<bool(const ir::Value*)>& varies);

}  // namespace tegula
