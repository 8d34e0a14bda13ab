// Numbers of 8 and 4 bits with scales, from matrices of float, float16 or bfloat16 and back. The kernels stand in
// quantise.py, whose head says how numbers and scales lie in memory.
//
// Results are int8_t, float8e4nv, float8e5, or uint8_t: two numbers of 4 bits each, the first one in the low half, so
// that a row has (cols + 1) / 2 of them. Integers and e2m1 are rounded to nearest even and clamped; what is too large
// for a float8 becomes its largest number. A NaN or infinity makes its scale such, and the group's results are of no
// meaning. Rows may have any stride, and any width. The first launch for a number of columns and a type tunes on a GPU.
// Throw LaunchError for operands that do not fit, and what Kernel::launch throws.
//
// Traffic: each input and output once (rows that do not fit on the chip are read twice, the second time from a cache
// mostly).
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels {

/// What a uint8_t holds two of: -8 to 7 in two's complement, or a sign and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6.
enum class Packed { Int4, E2M1 };
/// Columns of a group that has a scale.
enum class Group { Of16, Of32, Of64, Of128 };
/// Rows of a group: 1, or 128 for square blocks of weights.
enum class Tall { One, Of128 };
/// Likewise where numbers have one scale for all columns or all rows.
enum class GroupRead { All, Of16, Of32, Of64, Of128 };
enum class TallRead { One, All, Of128 };
/// A type that tensor_scale() scales for.
enum class Quantised { Int8, Float8e4nv, Float8e5, Int4, E2M1 };

/// out[r, c] = x[r, c] / scales[r], scales[r] = the largest magnitude of row r / the largest number of the type.
template <Element Out, Floating T>
void quantise_rows(Device& device, Matrix<Out> out, Vector<float> scales, Matrix<T> x, Packed packed = Packed::Int4,
                   StreamHandle stream = nullptr) {
  run<EntryId::quantise_rows>(device, stream, out, scales, x, packed);
}

/// out[r, c] = x[r, c] / scales[r / tall, c / group], likewise for groups. With scales of uint8_t they are powers of
/// two, as microscaling formats have them (mxfp8: float8 and groups of 32; mxfp4: E2M1 and groups of 32).
///
/// OCP Microscaling Formats Specification, 2023.
template <Element Out, Element Scale, Floating T>
void quantise_groups(Device& device, Matrix<Out> out, Matrix<Scale> scales, Matrix<T> x, Group group = Group::Of32,
                     Tall tall = Tall::One, Packed packed = Packed::Int4, StreamHandle stream = nullptr) {
  run<EntryId::quantise_groups>(device, stream, out, scales, x, group, tall, packed);
}

/// out[r, c] = x[r, c] / scale[0], with a scale that is given.
template <Element Out, Floating T>
void quantise_tensor(Device& device, Matrix<Out> out, Matrix<T> x, VectorIn<float> scale, Packed packed = Packed::Int4,
                     StreamHandle stream = nullptr) {
  run<EntryId::quantise_tensor>(device, stream, out, x, scale, packed);
}

/// scale[0] = the largest magnitude of x / the largest number of the type. One launch; the same in every run.
template <Floating T>
void tensor_scale(Device& device, Vector<float> scale, Matrix<T> x, Quantised format, StreamHandle stream = nullptr) {
  run<EntryId::tensor_scale>(device, stream, scale, x, format);
}

/// out[r, c] = x[r, c] * scales[r / tall, c / group]; by default one scale a row, rows x 1. Scales are float or
/// uint8_t.
template <Floating T, Element In, Element Scale>
void dequantise(Device& device, Matrix<T> out, Matrix<In> x, Matrix<Scale> scales, GroupRead group = GroupRead::All,
                TallRead tall = TallRead::One, Packed packed = Packed::Int4, StreamHandle stream = nullptr) {
  run<EntryId::dequantise>(device, stream, out, x, scales, group, tall, packed);
}

}  // namespace tegula::kernels
