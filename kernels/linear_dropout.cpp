#include "kernels/linear_dropout.h"

#include "kernels/gemm_kernel.h"
#include "kernels/library.h"
#include "kernels/products.h"

namespace tegula::kernels {

namespace {

// As in elementwise.py.
Tile random_of(const Tile& seed, const Tile& number) {
  const auto [a, b, c, d] = unpack<4>(rand4x(seed, floordiv(number, 4)));
  const Tile place = number % 4;
  return where(place < 2, where(place == 0, a, b), where(place == 2, c, d));
}

template <Activation activation>
const auto& dropout_kernel() {
  static const auto kernel =
      gemm_kernel("linear_dropout", [](Tile acc, const GemmTile& at, Float<"p"> p, Int<"seed"> seed, Int<"width"> width,
                                       Ptr<"hidden_ptr"> hidden, Int<"hidden_stride"> stride) {
        const Tile rows = at.rows[{all, none}], cols = at.cols[{none, all}];
        if_(hidden != none, [&] {
          store(hidden + rows.to(tl::int64) * stride + cols, acc.to(hidden.dtype().element_ty()),
                at.row_mask[{all, none}] & at.col_mask[{none, all}]);
        });
        const Tile kept = random_of(seed, rows.to(tl::int64) * width + cols) >= p;
        return where(kept, activated(acc, activation) / (1.0f - p), 0.0f);
      });
  return kernel;
}

}  // namespace

void run_linear_dropout(Device& device, const BoundCall& call, StreamHandle stream) {
  const Tensor& c = *call.tensor("out");
  const detail::AnyMatrix out(c.address, c.elem, c.shape[0], c.shape[1], c.strides[0]);
  const detail::GemmOperands product = detail::gemm_operands(call);
  const Tensor* hidden = call.tensor("hidden");
  const Arg hidden_ptr = detail::pointer(hidden), stride = detail::integer(hidden ? hidden->strides[0] : 0);
  const Arg p = float(call.number("p")), seed = detail::integer(call.integer("seed"));
  const Arg width = detail::integer(call.extent("n"));
  detail::with_activation(Activation(call.choice("activation")), [&](auto activation) {
    dropout_kernel<activation()>().launch_any(device, out, product.a, product.b, product.options, stream, p, seed,
                                              width, hidden_ptr, stride);
  });
}

}  // namespace tegula::kernels
