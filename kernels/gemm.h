// Matrix products on tensor cores with what follows them: bias and activation are applied to the fp32 accumulator,
// before the one store. The kernel stands in gemm.py; gemm_kernel.h makes one with a C++ function as its epilogue.
//
// `out` must not overlap the inputs. A matrix without rows or columns launches nothing. The first launch for a shape
// (of M the next of 16, 32, 48, 64, 96, 128, 192, ...) and types tunes on a GPU. Products with few tiles may be divided
// along K; their partial sums stand in the stream's workspace (Device::workspace) and are added up in one order, so
// that equal launches give equal bits, unless GemmOptions::atomic_sums is set. Throw LaunchError for shapes that do
// not fit, and what Kernel::launch throws.
#pragma once

#include "kernels/activation.h"
#include "kernels/matrix.h"
#include "runtime/base/function.h"

namespace tegula::kernels {

/// What a product of matrices of type T may have besides.
template <Floating T>
struct GemmOptions {
  Vector<const T> bias = {};  ///< one element a column
  Activation epilogue = Activation::None;
  bool transpose_a = false;  ///< a is given as K x M
  bool transpose_b = false;  ///< b is given as N x K, as weights of a linear layer are
  /// Whether the sums of shares of K are added by atomics as they come, and not in one order: the last bits differ from
  /// run to run then. On an H200 this takes longer.
  bool atomic_sums = false;
};

namespace detail {
struct AnyGemmOptions {
  AnyGemmOptions() = default;
  template <class T>
  AnyGemmOptions(const GemmOptions<T>& o)
      : bias(o.bias),
        epilogue(o.epilogue),
        transpose_a(o.transpose_a),
        transpose_b(o.transpose_b),
        atomic_sums(o.atomic_sums) {}
  AnyVector bias;
  Activation epilogue = Activation::None;
  bool transpose_a = false, transpose_b = false, atomic_sums = false;
  /// Of a b without an address, 16 bits an element, whose memory is the stream's workspace: makes it at an address that
  /// is a multiple of 256, on the stream, ahead of the product.
  Function<void(uint64_t address)> make_b;
};
void gemm(Device& device, AnyMatrix c, AnyMatrix a, AnyMatrix b, const AnyGemmOptions& options, StreamHandle stream);
}  // namespace detail

/// c = activation(a b + bias), for c of M x N, a of M x K and b of K x N. a, b and bias have type float16 or bfloat16;
/// c may have any of the library's types.
///
/// The relative error in the Frobenius norm is that of rounding c, and in float about 1e-6 for K of some thousands.
/// Traffic: M K + K N elements read, M N written; as separate kernels bias and activation read and write M N more each.
template <Floating Out, Floating In>
requires(sizeof(In) == 2) void gemm(Device& device, Matrix<Out> c, Matrix<In> a, MatrixIn<In> b,
                                    const std::type_identity_t<GemmOptions<std::remove_const_t<In>>>& options = {},
                                    StreamHandle stream = nullptr) {
  detail::gemm(device, c, a, b, options, stream);
}

}  // namespace tegula::kernels
