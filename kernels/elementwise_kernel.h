// Elementwise kernels made of a C++ function (docs/cpp.md says how such functions are written):
//
//   static const auto gated = elementwise_kernel("gated", [](Tile x, Tile y) { return silu(x) * y; });
//   gated.launch(device, out, {x, y});
//
//   static const auto step = elementwise_kernel("step", [](Tile x, Tile m, Float<"rate"> rate) {
//     Tile next = 0.9f * m + x;
//     return std::array{x - rate * next, next};
//   });
//   step.launch(device, {x, m}, {x, m}, stream, 1e-3f);
//
// One launch reads each input once and writes each output once, whatever their strides.
#pragma once

#include "kernels/lambda_kernel.h"

namespace tegula::kernels {

/// The elements that a program computes, for functions that ask for it by a first parameter.
struct ElementTile {
  Tile number;  ///< int64: of each element in row-major order of the shape
  Tile mask;    ///< which of them there are; what else is computed is dropped
};

namespace detail {

using ElementFunction = std::function<std::vector<Tile>(const ElementTile&, const std::vector<Tile>&,
                                                        const tegula::detail::TracedArgs&, size_t)>;
std::shared_ptr<const SpaceKernel> make_elementwise(const SpaceKernel::Form& form, ElementFunction function);

}  // namespace detail

/// out[i] = function(x[i], ...) for all indices i of the outputs' shape, up to 5 extents, by any strides: views and
/// transposes are tensors like others. Inputs are broadcast to the shape: their extents, the last ones under each
/// other, are equal or 1. `function` is a lambda Tile(Tile x, ...), or std::array<Tile, N>(Tile x, ...) for N outputs;
/// in front it may take a const ElementTile&, and after its Tiles Ptr, Int, Float and Bool parameters, which launches
/// pass.
///
/// Inputs of type float16, bfloat16 and float8 come as float32, others as they are. Results are converted to the type
/// of their output: to integers by rounding to nearest even, those of 8 and 16 bits clamped. Mistakes of the function
/// are a CompileError of the first launch, at the line of the function or of this call.
///
/// Extents that all tensors go through as through one are joined, so that contiguous tensors of any shape are one run
/// of elements. Where an input's elements lie side by side along another extent than the output's, tiles of both
/// extents are read and written in whole sectors and turned on the chip. Traffic: each input and output once, an input
/// that is broadcast as often as caches forget it.
template <class F>
auto elementwise_kernel(std::string name, F function, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE()) {
  tegula::detail::refuse_captures<F>();
  using Signature = detail::SignatureOf<ElementTile, F>;
  return LambdaKernel<Signature>(
      detail::make_elementwise(Signature::form(std::move(name), file, line), Signature::function(std::move(function))));
}

}  // namespace tegula::kernels
