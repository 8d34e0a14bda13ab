// expect: the launch takes one argument for each Ptr, Desc, Int, Float and Bool of the kernel
#include "dsl/tegula.h"
using namespace tegula;
void f(Device& device, float* p) {
  kernel("k", [](Ptr<"x"> x, Int<"n"> n) { store(x, n); }).launch(device, {1}, {}, p);
}
