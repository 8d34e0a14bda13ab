// cross_entropy of a linear layer's results, some rows at a time.
#include <algorithm>
#include <array>

#include "kernels/gemm_kernel.h"
#include "kernels/kernels.h"
#include "kernels/library.h"
#include "kernels/products.h"

namespace tegula::kernels {

namespace {

// Rows `first` to `first` + `count` of a matrix, or elements of a vector.
Tensor rows_of(Tensor t, int64_t first, int64_t count) {
  t.address += uint64_t(first * t.strides[0]) * elem_bytes(t.elem);
  t.shape[0] = count;
  return t;
}

// c += a b. What c held is set back after each run that is timed.
const auto& adding_kernel() {
  static const auto kernel = [] {
    const auto made =
        gemm_kernel("gemm_added", [](Tile acc, const GemmTile& at, Ptr<"sums_ptr"> sums, Int<"sums_stride"> stride) {
          return acc + at.of_matrix(sums, stride);
        });
    return made.restoring("c_ptr");
  }();
  return kernel;
}

void multiply(Device& device, const Tensor& c, const Tensor& a, const Tensor& b, const detail::AnyGemmOptions& how,
              bool accumulate, StreamHandle stream) {
  if (!accumulate) return detail::gemm(device, detail::matrix(c), detail::matrix(a), detail::matrix(b), how, stream);
  const Arg sums = detail::pointer(&c), stride = detail::integer(c.strides[0]);
  adding_kernel().launch_any(device, detail::matrix(c), detail::matrix(a), detail::matrix(b), how, stream, sums,
                             stride);
}

}  // namespace

void run_linear_cross_entropy(Device& device, const BoundCall& call, StreamHandle stream) {
  const Tensor &losses = *call.tensor("losses"), &x = *call.tensor("x"), &weight = *call.tensor("weight");
  const Tensor &targets = *call.tensor("targets"), &logits = *call.tensor("logits");
  const Tensor *dx = call.tensor("dx"), *dweight = call.tensor("dweight"), *lse = call.tensor("lse");
  const int64_t rows = call.extent("rows"), chunk = call.extent("chunk");
  const bool gradient = dx || dweight, accumulate = call.flag("accumulate");
  detail::AnyGemmOptions transposed_a, transposed_b;
  transposed_a.transpose_a = transposed_b.transpose_b = true;
  if (rows > 0 && chunk == 0) call.refuse("logits has no rows, expected room for one at least");
  // Without rows dweight is 0.
  for (int64_t first = 0; first < std::max<int64_t>(rows, 1); first += std::max<int64_t>(chunk, 1)) {
    const int64_t count = std::min(chunk, rows - first);
    const Tensor part = rows_of(logits, 0, count), x_part = rows_of(x, first, count);
    multiply(device, part, x_part, weight, transposed_b, false, stream);
    const std::array<Operand, 12> operands{rows_of(losses, first, count),
                                           part,
                                           rows_of(targets, first, count),
                                           lse ? Operand(rows_of(*lse, first, count)) : Operand(),
                                           call.integer("ignore"),
                                           call.number("smoothing"),
                                           call.number("z_loss"),
                                           call.number("cap"),
                                           call.number("factor"),
                                           call.flag("mean"),
                                           gradient,
                                           targets};
    run(device, entry(EntryId::cross_entropy), operands, stream);
    if (dx) multiply(device, rows_of(*dx, first, count), part, weight, {}, false, stream);
    if (dweight) multiply(device, *dweight, part, x_part, transposed_a, accumulate || first > 0, stream);
  }
}

}  // namespace tegula::kernels
