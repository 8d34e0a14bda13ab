// error: this argument of the launch is a Ptr: pass a typed pointer
#include "dsl/tegula.h"
using namespace tegula;

void launch(Device& device, int* out) {
  auto k = kernel("k", [](Ptr<"out", float> out) { store(out, 1.0f); });
  k.launch(device, {1}, {}, out);
}
