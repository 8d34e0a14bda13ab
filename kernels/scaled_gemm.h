// Products of float8 matrices that have scales, by the tensor cores for float8 where the GPU has them. The kernel
// stands in scaled_gemm.py.
#pragma once

#include <utility>

#include "kernels/activation.h"
#include "kernels/entry.h"
#include "kernels/matrix.h"

namespace tegula::kernels {

/// Element types of the operands of scaled_gemm().
template <class T>
concept Float8 = std::is_same_v<std::remove_const_t<T>, float8e4nv> || std::is_same_v<std::remove_const_t<T>, float8e5>;

/// Along K, and of b along its rows too, so many elements have one scale where there are scales of blocks.
inline constexpr int64_t kScaledBlock = 128;

/// The fp32 factors of an operand with R rows of K elements: one for all, one a row, or one for each block: `of_blocks`
/// has a row for each row of a or for each 128 rows of b, and a column for each 128 elements along K.
struct Scales {
  Scales(Vector<const float> v) : values(v), is_vector(true) {}
  Scales(Vector<float> v) : Scales(Vector<const float>(v)) {}
  Scales(Matrix<const float> of_blocks) : values(of_blocks) {}
  Scales(Matrix<float> of_blocks) : Scales(Matrix<const float>(of_blocks)) {}
  /// Likewise, with a row for each 128 elements along K.
  static Scales transposed(Matrix<const float> of_blocks) {
    Scales scales(of_blocks);
    std::swap(scales.values.shape[0], scales.values.shape[1]);
    std::swap(scales.values.strides[0], scales.values.strides[1]);
    return scales;
  }

  Tensor values;
  bool is_vector = false;
};

/// What a product with results of type T may have besides.
template <Floating T>
struct ScaledGemmOptions {
  Vector<const T> bias = {};  ///< one element a column
  Activation epilogue = Activation::None;
  /// Hopper's tensor cores keep about 14 bits of sums of float8: whether these are added up in fp32 after some products
  /// along K each, as those of blocks with scales are. Without, the relative error grows with K, to 4e-3 at 16384.
  bool promote = true;
};

namespace detail {
/// As R x K / 128, or K / 128 x R if `across`.
Tensor scales_of_operand(const Scales& scales, bool across);
Tensor transposed(Tensor t);
}  // namespace detail

/// c = activation((scale_a a) (scale_b b)^T + bias), for c of M x N, a of M x K and b of N x K, as the weights of a
/// linear layer are. The two scales are both of blocks or neither is. Results are rounded once to c's type.
///
/// Throws LaunchError for shapes that do not fit. Traffic: M K + K N bytes and the scales read, M N elements written.
template <Floating Out, Float8 A, Float8 B>
void scaled_gemm(Device& device, Matrix<Out> c, Matrix<A> a, Matrix<B> b, const Scales& scale_a, const Scales& scale_b,
                 const std::type_identity_t<ScaledGemmOptions<Out>>& options = {}, StreamHandle stream = nullptr) {
  run<EntryId::scaled_gemm>(device, stream, c, a, detail::transposed(b), detail::scales_of_operand(scale_a, false),
                            detail::scales_of_operand(scale_b, true), options.bias, options.epilogue, options.promote);
}

}  // namespace tegula::kernels
