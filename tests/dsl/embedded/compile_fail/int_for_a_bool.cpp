// expect: this argument of the launch is a Bool: pass a bool
#include "dsl/tegula.h"
using namespace tegula;

void launch(Device& device, float* out) {
  auto k = kernel("k", [](Ptr<"out"> out, Bool<"b"> b) { store(out, b); });
  k.launch(device, {1}, {}, out, 1);
}
