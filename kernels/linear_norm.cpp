// The norm of a linear layer's rows: in one kernel where clusters have whole rows, else in two.
#include "kernels/linear_norm.h"

#include <fmt/format.h>

#include <array>

#include "codegen/target/target.h"
#include "kernels/gemm_call.h"
#include "kernels/kernels.h"
#include "kernels/library.h"
#include "kernels/products.h"

namespace tegula::kernels {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Of a product in one kernel, on an H200: wider and deeper ones take longer in clusters than the second kernel does.
constexpr int64_t kMostColumns = 512, kMostDepth = 512;

// Whether the rows are enough for blocks on all multiprocessors, and what a second kernel would move counts.
bool in_one_kernel(const Device& device, int64_t rows, int64_t cols, int64_t depth) {
  if (cols > kMostColumns || depth > kMostDepth) return false;
  if (cols > 256 && !target_for_sm(device.info().sm).has(Feature::Cluster)) return false;
  return ceil_div(rows, 64) >= device.info().num_sms;
}

void check(const BoundCall& call) {
  const Tensor* sum = call.tensor("sum");
  for (const char* name : {"a", "b"})
    if (sum && sum->address == call.tensor(name)->address)
      call.refuse(fmt::format("sum is {}, which other programs still read", name));
}

void run_linear_norm(Device& device, const BoundCall& call, bool center, StreamHandle stream) {
  check(call);
  const auto [a, b, options] = detail::gemm_operands(call);
  const Tensor &out = *call.tensor("out"), *weight = call.tensor("weight");
  const Tensor* shift = center ? call.tensor("shift") : nullptr;
  const Tensor *residual = call.tensor("residual"), *sum = call.tensor("sum");
  if (in_one_kernel(device, out.shape[0], out.shape[1], options.transpose_a ? a.rows : a.cols)) {
    static const std::array kernels{
        detail::by_activation("linear_norm.py", "linear_norm", "ACTIVATION", {{"CENTER", false}}),
        detail::by_activation("linear_norm.py", "linear_norm", "ACTIVATION", {{"CENTER", true}})};
    const auto product = detail::gemm_call(device, detail::matrix(out), a, b, options, stream);
    if (!product) return;
    // As gemm.py has them: c, a, b, bias, M, N, K, strides of a, of b and of c, the class of M.
    const auto& given = product->args;
    auto stride = [](const Tensor* t) { return detail::integer(t ? t->strides[0] : 0); };
    const std::array<Arg, 20> args{given[0],
                                   detail::pointer(sum),
                                   given[1],
                                   given[2],
                                   given[3],
                                   detail::pointer(residual),
                                   detail::pointer(weight),
                                   detail::pointer(shift),
                                   given[4],
                                   given[5],
                                   given[6],
                                   given[11],
                                   stride(sum),
                                   given[7],
                                   given[8],
                                   given[9],
                                   given[10],
                                   stride(residual),
                                   float(call.number("eps")),
                                   given[13]};
    const auto grid = [&](const Config& config) { return Grid{unsigned(ceil_div(product->rows, config["BLOCK_M"]))}; };
    kernels[center][size_t(call.choice("activation"))].launch(device, tegula::detail::GridRef(grid), stream, args);
    return;
  }
  detail::gemm(device, detail::matrix(out), a, b, options, stream);
  auto given = [](const Tensor* t) { return t ? Operand(*t) : Operand(); };
  const Operand eps = call.number("eps"), activation = Activation(call.choice("activation"));
  if (center) {
    const std::array<Operand, 10> operands{out,        out,        given(weight), given(shift), eps, given(residual),
                                           given(sum), activation, Operand(),     Operand()};
    run(device, entry(EntryId::layer_norm), operands, stream);
  } else {
    const std::array<Operand, 9> operands{out,        out,        given(weight), eps,      given(residual),
                                          given(sum), activation, Operand(),     Operand()};
    run(device, entry(EntryId::rms_norm), operands, stream);
  }
}

}  // namespace

void run_linear_rms_norm(Device& device, const BoundCall& call, StreamHandle stream) {
  run_linear_norm(device, call, false, stream);
}
void run_linear_layer_norm(Device& device, const BoundCall& call, StreamHandle stream) {
  run_linear_norm(device, call, true, stream);
}

}  // namespace tegula::kernels
