#include "kernels/scaled_gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/gemm_call.h"
#include "kernels/library.h"
#include "kernels/products.h"

namespace tegula::kernels {

namespace {

int64_t blocks(int64_t elements) { return (elements + kScaledBlock - 1) / kScaledBlock; }

bool has_shape(const Tensor& t, int64_t rows, int64_t cols) { return t.shape[0] == rows && t.shape[1] == cols; }

// None where one element stands for all.
Arg stride(const Tensor& t, int axis, bool of_blocks) {
  return of_blocks || t.shape[size_t(axis)] > 1 ? detail::integer(t.strides[size_t(axis)]) : Arg(nullptr);
}

// Whether the scales are of blocks.
bool check_scales(const BoundCall& call, int64_t m, int64_t n, int64_t k) {
  const Tensor &a = *call.tensor("scale_a"), &b = *call.tensor("scale_b");
  if ((has_shape(a, 1, 1) || has_shape(a, m, 1)) && (has_shape(b, 1, 1) || has_shape(b, 1, n))) return false;
  if (has_shape(a, m, blocks(k)) && has_shape(b, blocks(k), blocks(n))) return true;
  call.refuse(fmt::format(
      "scale_a is {} x {} and scale_b is {} x {}, but a b is {} x {} with {} products each\n  hint: one scale a "
      "tensor (1 x 1), one a row of a ({} x 1) and column of b (1 x {}), or of blocks of {} ({} x {} and {} x {})",
      a.shape[0], a.shape[1], b.shape[0], b.shape[1], m, n, k, m, n, kScaledBlock, m, blocks(k), blocks(k), blocks(n)));
}

}  // namespace

namespace detail {

Tensor transposed(Tensor t) {
  std::swap(t.shape[0], t.shape[1]);
  std::swap(t.strides[0], t.strides[1]);
  return t;
}

Tensor scales_of_operand(const Scales& scales, bool across) {
  Tensor t = scales.values;
  if (scales.is_vector) {
    t.rank = 2;
    t.shape[1] = t.strides[1] = 1;
  }
  return across ? transposed(t) : t;
}

}  // namespace detail

void run_scaled_gemm(Device& device, const BoundCall& call, StreamHandle stream) {
  using detail::integer, detail::pointer;
  struct Kernels {
    std::vector<detail::FlaggedKernel> of_kind[2][2];  // by blocks, promote
    Kernels() {
      for (bool blocks : {false, true})
        for (bool promote : {false, true})
          of_kind[blocks][promote] = detail::by_activation("scaled_gemm.py", "scaled_gemm", "ACTIVATION",
                                                           {{"BLOCKS", blocks}, {"PROMOTE", promote}});
    }
  };
  static const Kernels kernels;
  const int64_t m = call.extent("m"), n = call.extent("n"), k = call.extent("k");
  const bool of_blocks = check_scales(call, m, n, k);
  const Tensor &c = *call.tensor("out"), &a = *call.tensor("a"), &b = *call.tensor("b");
  const Tensor &scale_a = *call.tensor("scale_a"), &scale_b = *call.tensor("scale_b");
  for (const char* operand : {"out", "a", "b"})
    for (size_t d : {0, 1})
      detail::check_span(call.entry().name, operand, call.tensor(operand)->shape[d], call.tensor(operand)->strides[d]);
  const std::array<Arg, 19> args{pointer(&c),
                                 pointer(&a),
                                 pointer(&b),
                                 pointer(&scale_a),
                                 pointer(&scale_b),
                                 pointer(call.tensor("bias")),
                                 integer(m),
                                 integer(n),
                                 integer(k),
                                 integer(a.strides[0]),
                                 integer(a.strides[1]),
                                 integer(b.strides[0]),
                                 integer(b.strides[1]),
                                 integer(c.strides[0]),
                                 stride(scale_a, 0, of_blocks),
                                 stride(scale_a, 1, of_blocks),
                                 stride(scale_b, 1, of_blocks),
                                 stride(scale_b, 0, of_blocks),
                                 integer(detail::row_class(m))};
  const auto grid = [&](const Config& config) {
    const int64_t block_m = config["BLOCK_M"], block_n = config["BLOCK_N"];
    const int64_t tiles = (m + block_m - 1) / block_m * ((n + block_n - 1) / block_n);
    const int64_t programs = config["PROGRAMS"] * device.info().num_sms / config.num_ctas.value_or(1);
    return Grid{unsigned(programs ? std::min(tiles, programs) : tiles)};
  };
  const auto& by_activation = kernels.of_kind[of_blocks][!of_blocks && call.flag("promote")];
  by_activation[size_t(call.choice("epilogue"))].launch(device, tegula::detail::GridRef(grid), stream, args);
}

}  // namespace tegula::kernels
