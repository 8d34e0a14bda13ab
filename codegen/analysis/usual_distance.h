// How far apart neighbouring elements of a tile of indices or pointers usually are, where nothing is known for sure.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/ir/ir.h"

namespace tegula {

/// Guesses, for choices between layouts that are all right: `x % n` follows x, as it mostly does not wrap around, and
/// x / n mostly stays the same, as the row and the column do of pixels that are counted through an image. Of two
/// strides that are known at run time alone the one that is a multiple of less is the smaller one: an outer axis has
/// the extents of inner ones as factors. AxisInfo says what holds.
class UsualDistances {
 public:
  static constexpr int64_t kFar = int64_t(1) << 40;  ///< from here on: a multiple of what is above it, by a stride
  static constexpr int64_t kUnknown = 2 * kFar;  ///< nothing can be said, as of indices that are loaded; but no stride

  /// `axes` lives as long as this.
  explicit UsualDistances(const AxisAnalysis& axes) : axes_(axes) {}

  /// For each axis the difference of neighbours, in bytes for pointers; its sign tells nothing from kFar on.
  const std::vector<int64_t>& of(const ir::Value* v);

 private:
  std::vector<int64_t> find(const ir::Value& v);
  std::vector<int64_t> of_elements(const ir::Op& op);

  const AxisAnalysis& axes_;
  std::unordered_map<const ir::Value*, std::vector<int64_t>> known_;
};

}  // namespace tegula
