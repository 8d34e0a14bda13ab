#include "kernels/pointwise_convolution.h"

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/gemm.h"

namespace tegula::kernels::detail {

namespace {

bool has_one_place(const BoundCall& call) {
  auto all = [&](std::array<const char*, 2> names, int64_t value) {
    return std::ranges::all_of(names, [&](const char* name) { return call.integer(name) == value; });
  };
  return call.extent("kernel_height") == 1 && call.extent("kernel_width") == 1 && call.integer("groups") == 1 &&
         all({"stride_h", "stride_w"}, 1) && all({"padding_h", "padding_w"}, 0);
}

// Images as a matrix with a row for each pixel; none where pixels do not lie at equal distances.
std::optional<AnyMatrix> pixels_of(const Tensor& t) {
  const auto [batch, height, width, channels] = std::array{t.shape[0], t.shape[1], t.shape[2], t.shape[3]};
  const int64_t distance = t.strides[2];
  const bool even = (height == 1 || t.strides[1] == width * distance) &&
                    (batch == 1 || t.strides[0] == height * width * distance) && distance >= channels;
  if (!even) return std::nullopt;
  return AnyMatrix(t.address, t.elem, batch * height * width, channels, distance);
}

}  // namespace

bool convolve_as_product(Device& device, const BoundCall& call, StreamHandle stream) {
  if (!has_one_place(call)) return false;
  const auto out = pixels_of(*call.tensor("out")), x = pixels_of(*call.tensor("x"));
  if (!out || !x) return false;
  const Tensor &w = *call.tensor("w"), *bias = call.tensor("bias");
  AnyGemmOptions options;
  if (bias) options.bias = AnyVector(bias->address, bias->elem, bias->shape[0]);
  options.epilogue = Activation(call.choice("epilogue"));
  options.transpose_b = true;
  gemm(device, *out, *x, AnyMatrix(w.address, w.elem, w.shape[0], w.shape[3], w.strides[0]), options, stream);
  return true;
}

}  // namespace tegula::kernels::detail
