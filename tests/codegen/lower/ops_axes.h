// Shapes and axes of tiles, for the tests of what runs along an axis: reductions and scans.
#pragma once

#include <numeric>

#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {

using Shape = std::vector<int>;

inline int elements(const Shape& shape) { return std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>()); }

/// Text of the row-major offsets of a tile of this shape: "tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]".
inline std::string offsets(const Shape& shape) {
  std::string out;
  int stride = elements(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    stride /= shape[i];
    std::string index;
    for (size_t j = 0; j < shape.size(); ++j) index += (j ? ", " : "") + std::string(j == i ? ":" : "None");
    out += fmt::format("{}tl.arange(0, {})[{}] * {}", i ? " + " : "", shape[i], index, stride);
  }
  return out;
}

/// The elements that are reduced together: groups[i] holds the places, in order along the axis, of result i.
inline std::vector<std::vector<int>> groups_along(const Shape& shape, std::optional<int> axis) {
  if (!axis) {
    std::vector<int> all(elements(shape));
    std::iota(all.begin(), all.end(), 0);
    return {all};
  }
  int inner = 1, extent = shape[*axis];
  for (size_t i = *axis + 1; i < shape.size(); ++i) inner *= shape[i];
  std::vector<std::vector<int>> groups(elements(shape) / extent);
  for (int i = 0; i < elements(shape); ++i) groups[i / (inner * extent) * inner + i % inner].push_back(i);
  return groups;
}

/// The type of a sum of elements of type T: integers of less than 32 bits are widened.
template <class T>
using SumOf = std::conditional_t<
    is_real<T>, T, std::conditional_t<sizeof(T) == 8, T, std::conditional_t<std::is_unsigned_v<T>, uint32_t, int32_t>>>;

}  // namespace tegula::ops
