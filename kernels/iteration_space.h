// The places that a kernel made of a C++ function goes through: the extents of its tensors' elements, and each tensor's
// strides along them. Not for users.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/tensor.h"

namespace tegula::kernels::detail {

/// Extents, outermost first, and for each tensor (outputs, then inputs) a stride along each of them, in elements; 0
/// where the tensor has one element for all places of the extent.
struct IterationSpace {
  static constexpr int kMaxRank = Tensor::kMaxRank;
  static constexpr size_t kMaxTensors = 16;
  /// An extent that is joined from several ones is no larger, so that indices of 32 bits reach beyond its end.
  static constexpr int64_t kLargestJoined = 1 << 30;

  int rank = 0;
  size_t tensors = 0;
  std::array<int64_t, kMaxRank> extents = {};
  std::array<std::array<int64_t, kMaxRank>, kMaxTensors> strides = {};  ///< [tensor][extent]

  /// The shape that all tensors are broadcast to: their extents, the last ones under each other, are equal or 1.
  /// Outputs have this shape; with `row_results` they may have one element a row. Throws LaunchError, in the name of
  /// `kernel`, for shapes that do not fit, for tensors that are not given or have negative strides, and for outputs
  /// that have several places in one element or share memory with another tensor but lie otherwise.
  static IterationSpace broadcast(std::string_view kernel, std::span<const Tensor> outputs,
                                  std::span<const Tensor> inputs, bool row_results);

  int64_t elements() const;
  /// Adds a tensor whose strides are those of elements' numbers in row-major order.
  void add_numbers();
  /// Brings the extents along which the first tensor's stride is large to the front.
  void sort();
  /// Among the first `count` extents, leaves out those of 1 and joins neighbours that every tensor goes through as
  /// through one extent. The others keep their order.
  void join(int count);
  /// Puts extents of 1 in front until there are `count`.
  void pad(int count);
  /// Makes extent number `from` number `to`, which lies after it; those between them move to the front.
  void move_back(int from, int to);

 private:
  void erase(int dim);
  bool joins(int dim) const;  ///< extents `dim` and `dim` + 1
  template <class F>
  void permute(const F& reorder);
};

}  // namespace tegula::kernels::detail
