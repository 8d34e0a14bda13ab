// Tensors as entries of the kernel library take them: with element type, rank and strides as values.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "kernels/matrix.h"

namespace tegula::kernels {

/// An array in device memory that somebody else owns. Strides count elements. Without address and rank it is none, for
/// operands that may be left out.
struct Tensor {
  static constexpr int kMaxRank = 5;
  /// The largest extent of the library's operands: 32 bits count what lies after it in its last tile, too.
  static constexpr int64_t kMostExtent = INT32_MAX - (1 << 17);

  uint64_t address = 0;
  Elem elem = Elem::F32;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape = {};
  std::array<int64_t, kMaxRank> strides = {};

  Tensor() = default;
  /// Contiguous, in row-major order. Throws LaunchError for more than kMaxRank extents.
  Tensor(uint64_t address, Elem elem, std::initializer_list<int64_t> extents);
  template <class T>
  requires(elem_of<T>().has_value()) Tensor(T* data, std::initializer_list<int64_t> extents)
      : Tensor(reinterpret_cast<uint64_t>(data), *elem_of<T>(), extents) {}
  template <class T>
  Tensor(const Matrix<T>& m) : address(reinterpret_cast<uint64_t>(m.data)), elem(*elem_of<T>()) {
    if (!m.data && !m.rows && !m.cols) return;
    rank = 2;
    shape = {m.rows, m.cols};
    strides = {m.stride, 1};
  }
  template <class T>
  Tensor(const Vector<T>& v) : address(reinterpret_cast<uint64_t>(v.data)), elem(*elem_of<T>()) {
    if (!v.data && !v.size) return;
    rank = 1;
    shape = {v.size};
    strides = {1};
  }

  bool given() const { return address || rank; }
  int64_t elements() const {
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= shape[size_t(i)];
    return count;
  }
  /// From the first element to after the last one; strides are not negative.
  int64_t bytes() const {
    if (elements() == 0) return 0;
    int64_t last = 0;
    for (int i = 0; i < rank; ++i) last += (shape[size_t(i)] - 1) * strides[size_t(i)];
    return (last + 1) * elem_bytes(elem);
  }
  /// Equal places of all elements.
  bool same_layout(const Tensor& other) const;
};

namespace detail {
/// "is 4 x 9", "has 9 elements"
std::string shape_text(const Tensor& t);
/// The matrix that a tensor of two extents is.
inline AnyMatrix matrix(const Tensor& t) { return {t.address, t.elem, t.shape[0], t.shape[1], t.strides[0]}; }
}  // namespace detail

}  // namespace tegula::kernels
