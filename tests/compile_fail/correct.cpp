// no error: the same constructs as they should be
#include "dsl/tegula.h"
using namespace tegula;

void launch(Device& device, const Buffer& in, float* out, const float* x) {
  auto k = kernel("k", [](Ptr<"out", float> out, Ptr<"x", float> x, Ptr<"in"> in, Int<"n"> n, Float<"f"> f, Bool<"b"> b,
                          Const<"BLOCK"> BLOCK) {
    if_((n > 3) & ~(n < 10) | b, [&] { store(out, load(x) + load(in) + f + BLOCK); });
  });
  k.launch(device, {1}, {.constexprs = {{"BLOCK", 4}}}, out, x, in.as<int>(), 7, 1.0f, true);
}
