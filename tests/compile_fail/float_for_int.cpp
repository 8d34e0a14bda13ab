// error: this argument of the launch is an Int: pass an integer
#include "dsl/tegula.h"
using namespace tegula;

void launch(Device& device, float* out) {
  auto k = kernel("k", [](Ptr<"out"> out, Int<"n"> n) { store(out, n); });
  k.launch(device, {1}, {}, out, 4.0f);
}
