// Convolution of images. The kernel stands in conv2d.py.
#pragma once

#include "kernels/activation.h"
#include "kernels/entry.h"

namespace tegula::kernels {

/// Two numbers each: along the height and along the width of an image.
struct Conv2dOptions {
  Tensor bias = {};  ///< one element an output channel, of any of the library's types
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};  ///< zeros on either side
  std::array<int64_t, 2> dilation = {1, 1};
  int64_t groups = 1;  ///< parts of the output channels, each of which sees as many parts of the channels
  Activation epilogue = Activation::None;
};

/// out = activation(conv(x, w) + bias) for x of batch x height x width x channels, w of output channels x kernel height
/// x kernel width x channels / groups and out of batch x height x width x output channels, (extent + 2 padding -
/// dilation (kernel - 1) - 1) / stride + 1 along each axis of the image. Channels of a pixel lie side by side, as
/// channels-last formats have them; pixels, rows and images any strides apart. x and w have element type float16 or
/// bfloat16, out any of the library's types.
///
/// An implicit product: the matrix of all kernel places is never there. With one place, without strides and padding, it
/// is the product of gemm.h. Sums are fp32, rounded once. Throws LaunchError for operands that do not fit, and what
/// Kernel::launch throws. Traffic: x, w and out once (x again from the caches for each place of the kernel). Chetlur et
/// al.: cuDNN: Efficient Primitives for Deep Learning, 2014.
inline void conv2d(Device& device, const Tensor& out, const Tensor& x, const Tensor& w,
                   const Conv2dOptions& options = {}, StreamHandle stream = nullptr) {
  run<EntryId::conv2d>(device, stream, out, x, w, options.bias, options.stride[0], options.stride[1],
                       options.padding[0], options.padding[1], options.dilation[0], options.dilation[1], options.groups,
                       options.epilogue);
}

}  // namespace tegula::kernels
