// expect: this argument of the launch is a Ptr: pass a typed pointer
#include "dsl/tegula.h"
using namespace tegula;
void f(Device& device, float* p) {
  kernel("k", [](Ptr<"x", int> x) { store(x, 1); }).launch(device, {1}, {}, p);
}
