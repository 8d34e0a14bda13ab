// expect: this argument of the launch is an Int: pass an integer
#include "dsl/tegula.h"
using namespace tegula;
void f(Device& device, float* p) {
  kernel("k", [](Ptr<"x"> x, Int<"n"> n) { store(x, n); }).launch(device, {1}, {}, p, 1.5f);
}
