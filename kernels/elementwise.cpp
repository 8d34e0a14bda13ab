#include "kernels/elementwise.h"

#include "kernels/library.h"

namespace tegula::kernels::detail {

void affine(Device& device, AnyMatrix out, AnyMatrix x, const AnyAffineOptions& options, StreamHandle stream) {
  static const auto kernels = by_activation("elementwise.py", "affine", "ACTIVATION", {"out_ptr"});
  Call call("affine", out);
  call.matrix("x", x);
  if (options.bias.given()) call.vector("bias", options.bias);
  if (options.scale.given()) call.vector("scale", options.scale);
  if (options.offset.given()) call.vector("offset", options.offset);
  if (call.empty()) return;
  const std::array<Arg, 10> args{pointer(out),
                                 pointer(x),
                                 pointer(options.bias),
                                 pointer(options.scale),
                                 pointer(options.offset),
                                 integer(out.stride),
                                 integer(x.stride),
                                 integer(out.rows),
                                 integer(out.cols),
                                 rows_class(device, out.rows)};
  kernels[size_t(options.activation)].launch(device, out.rows, out.cols, call.same(out, x), stream, args);
}

void swiglu(Device& device, AnyMatrix out, AnyMatrix gate, AnyMatrix up, StreamHandle stream) {
  static const LibraryKernel kernel("elementwise.py", "swiglu", {}, {"out_ptr"});
  Call call("swiglu", out);
  call.matrix("gate", gate);
  call.matrix("up", up);
  if (call.empty()) return;
  const bool in_place = call.same(out, gate) || call.same(out, up);
  const std::array<Arg, 9> args{pointer(out),        pointer(gate),        pointer(up),
                                integer(out.stride), integer(gate.stride), integer(up.stride),
                                integer(out.rows),   integer(out.cols),    rows_class(device, out.rows)};
  kernel.launch(device, out.rows, out.cols, in_place, stream, args);
}

}  // namespace tegula::kernels::detail
