// What the kernel library works on: matrices and vectors in device memory that somebody else owns.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/base/elem.h"
#include "runtime/base/error.h"
#include "runtime/base/float16.h"
#include "runtime/base/float8.h"
#include "runtime/launch.h"
#include "runtime/memory.h"

namespace tegula::kernels {

/// Element types of the library: float, float16, bfloat16, const or not.
template <class T>
concept Floating = std::is_same_v < std::remove_const_t<T>,
float > || std::is_same_v<std::remove_const_t<T>, float16> || std::is_same_v<std::remove_const_t<T>, bfloat16>;

/// Element types that matrices and vectors may have: also float8e4nv, float8e5 and integers.
template <class T>
concept Element = elem_of<T>()
.has_value();

namespace detail {
[[noreturn]] void refuse_matrix(int64_t rows, int64_t cols, int64_t stride, size_t element_bytes, size_t buffer_bytes);
[[noreturn]] void refuse_vector(int64_t size, size_t element_bytes, size_t buffer_bytes);
}  // namespace detail

/// `rows` rows of `cols` elements side by side, the first elements of neighbouring rows `stride` elements apart.
/// `data` is a device address. A matrix without an address is none (for arguments that may be left out).
template <Element T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  Matrix() = default;
  Matrix(T* data, int64_t rows, int64_t cols) : Matrix(data, rows, cols, cols) {}
  Matrix(T* data, int64_t rows, int64_t cols, int64_t stride) : data(data), rows(rows), cols(cols), stride(stride) {}
  /// From the start of a buffer. Throws LaunchError if it is too small.
  Matrix(const Buffer& buffer, int64_t rows, int64_t cols) : Matrix(buffer, rows, cols, cols) {}
  Matrix(const Buffer& buffer, int64_t rows, int64_t cols, int64_t stride)
      : Matrix(buffer.template as<T>(), rows, cols, stride) {
    const int64_t elements = rows > 0 && cols > 0 ? (rows - 1) * stride + cols : 0;
    if (elements * int64_t(sizeof(T)) > int64_t(buffer.bytes()))
      detail::refuse_matrix(rows, cols, stride, sizeof(T), buffer.bytes());
  }
  operator Matrix<const T>() const requires(!std::is_const_v<T>) { return {data, rows, cols, stride}; }
};

/// `size` elements side by side. A vector without an address is none.
template <Element T>
struct Vector {
  T* data = nullptr;
  int64_t size = 0;

  Vector() = default;
  Vector(T* data, int64_t size) : data(data), size(size) {}
  /// From the start of a buffer. Throws LaunchError if it is too small.
  Vector(const Buffer& buffer, int64_t size) : Vector(buffer.template as<T>(), size) {
    if (size * int64_t(sizeof(T)) > int64_t(buffer.bytes())) detail::refuse_vector(size, sizeof(T), buffer.bytes());
  }
  operator Vector<const T>() const requires(!std::is_const_v<T>) { return {data, size}; }
};

/// Inputs beside one of type T: a Matrix<T> converts to what they take.
template <class T>
using MatrixIn = Matrix<const std::type_identity_t<T>>;
template <class T>
using VectorIn = Vector<const std::type_identity_t<T>>;

namespace detail {

/// A matrix or vector with its element type as a value.
struct AnyMatrix {
  uint64_t address = 0;
  Elem elem = Elem::F32;
  int64_t rows = 0, cols = 0, stride = 0;

  AnyMatrix() = default;
  AnyMatrix(uint64_t address, Elem elem, int64_t rows, int64_t cols, int64_t stride)
      : address(address), elem(elem), rows(rows), cols(cols), stride(stride) {}
  bool given() const { return address || rows || cols; }
  template <class T>
  AnyMatrix(const Matrix<T>& m)
      : address(reinterpret_cast<uint64_t>(m.data)),
        elem(*elem_of<T>()),
        rows(m.rows),
        cols(m.cols),
        stride(m.stride) {}
};

struct AnyVector {
  uint64_t address = 0;
  Elem elem = Elem::F32;
  int64_t size = 0;

  AnyVector() = default;
  AnyVector(uint64_t address, Elem elem, int64_t size) : address(address), elem(elem), size(size) {}
  bool given() const { return address || size; }
  template <class T>
  AnyVector(const Vector<T>& v) : address(reinterpret_cast<uint64_t>(v.data)), elem(*elem_of<T>()), size(v.size) {}
};

}  // namespace detail
}  // namespace tegula::kernels
