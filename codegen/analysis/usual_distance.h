// How far apart neighbouring elements of a tile of indices or pointers usually are, where nothing is known for sure.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// Guesses, for choices between layouts that are all right: `x % n` follows x, as it mostly does not wrap around, and
/// x / n mostly stays the same, as the row and the column do of pixels that are counted through an image. AxisInfo says
/// what holds.
class UsualDistances {
 public:
  static constexpr int64_t kFar = int64_t(1) << 40;  ///< unknown, as of indices that are loaded or multiplied by a stride

  /// For each axis the difference of neighbours, in bytes for pointers, its sign left out; kFar where nothing can be
  /// said.
  const std::vector<int64_t>& of(const ir::Value* v);

 private:
  std::vector<int64_t> find(const ir::Value& v);
  std::vector<int64_t> of_elements(const ir::Op& op);

  std::unordered_map<const ir::Value*, std::vector<int64_t>> known_;
};

}  // namespace tegula
