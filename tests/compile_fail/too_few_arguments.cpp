// error: the launch takes one argument for each Ptr, Int, Float and Bool of the kernel
#include "dsl/tegula.h"
using namespace tegula;

void launch(Device& device, float* out) {
  auto k = kernel("k", [](Ptr<"out"> out, Int<"n"> n, Const<"BLOCK"> BLOCK) { store(out, n + BLOCK); });
  k.launch(device, {1}, {.constexprs = {{"BLOCK", 4}}}, out);
}
