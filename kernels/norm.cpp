#include "kernels/norm.h"

#include "kernels/library.h"

namespace tegula::kernels::detail {

void norm(Device& device, const char* name, bool center, AnyMatrix out, AnyMatrix x, AnyVector weight, AnyVector bias,
          const AnyNormOptions& options, StreamHandle stream) {
  auto kernel = [](bool center, bool silu) {
    return LibraryKernel("norm.py", "norm", {{"CENTER", Constexpr(center)}, {"SILU", Constexpr(silu)}},
                         {"out_ptr", "sum_ptr"});
  };
  static const LibraryKernel kernels[2][2] = {{kernel(false, false), kernel(false, true)},
                                              {kernel(true, false), kernel(true, true)}};
  const AnyMatrix& residual = options.residual;
  const AnyMatrix& sum = options.sum;
  Call call(name, out);
  call.matrix("x", x);
  if (residual.given()) call.matrix("residual", residual);
  if (sum.given()) call.matrix("sum", sum);
  if (weight.given()) call.vector("weight", weight);
  if (bias.given()) call.vector("bias", bias);
  if (sum.given() && call.same(out, sum)) call.refuse("out and sum are the same matrix");
  if (call.empty()) return;
  bool in_place = false;
  for (const AnyMatrix& written : {out, sum})
    for (const AnyMatrix& read : {x, residual}) in_place = call.same(written, read) || in_place;
  const std::array<Arg, 14> args{pointer(out),
                                 pointer(x),
                                 pointer(residual),
                                 pointer(sum),
                                 pointer(weight),
                                 pointer(bias),
                                 integer(out.stride),
                                 integer(x.stride),
                                 integer(residual.stride),
                                 integer(sum.stride),
                                 integer(out.rows),
                                 integer(out.cols),
                                 options.eps,
                                 rows_class(device, out.rows)};
  kernels[center][options.silu].launch(device, out.rows, out.cols, in_place, stream, args);
}

}  // namespace tegula::kernels::detail
