#include "kernels/softmax.h"

#include "kernels/library.h"

namespace tegula::kernels::detail {

void softmax(Device& device, const char* name, AnyMatrix out, AnyMatrix x, float scale, AnyVector bias, bool plus_one,
             StreamHandle stream) {
  static const LibraryKernel plain("softmax.py", "softmax", {{"PLUS_ONE", Constexpr(false)}}, {"out_ptr"});
  static const LibraryKernel with_one("softmax.py", "softmax", {{"PLUS_ONE", Constexpr(true)}}, {"out_ptr"});
  Call call(name, out);
  call.matrix("x", x);
  if (bias.given()) call.vector("bias", bias);
  if (call.empty()) return;
  const std::array<Arg, 9> args{
      pointer(out),      pointer(x),        pointer(bias), integer(out.stride),         integer(x.stride),
      integer(out.rows), integer(out.cols), scale,         rows_class(device, out.rows)};
  (plus_one ? with_one : plain).launch(device, out.rows, out.cols, call.same(out, x), stream, args);
}

}  // namespace tegula::kernels::detail
