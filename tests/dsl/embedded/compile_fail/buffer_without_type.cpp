// expect: pass a typed pointer, such as buffer.as<float>()
#include "dsl/tegula.h"
using namespace tegula;

void launch(Device& device, const Buffer& out) {
  auto k = kernel("k", [](Ptr<"out"> out) { store(out, 1); });
  k.launch(device, {1}, {}, out);
}
