// expect: this argument of the launch is a Float: pass a float or a double
#include "dsl/tegula.h"
using namespace tegula;

void launch(Device& device, float* out) {
  auto k = kernel("k", [](Ptr<"out"> out, Float<"x"> x) { store(out, x); });
  k.launch(device, {1}, {}, out, 4);
}
