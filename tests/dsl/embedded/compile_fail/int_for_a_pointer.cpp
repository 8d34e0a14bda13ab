// expect: this argument of the launch is a Ptr: pass a typed pointer, such as buffer.as<float>()
#include "dsl/tegula.h"
using namespace tegula;
void f(Device& device) {
  kernel("k", [](Ptr<"x"> x, Int<"n"> n) { store(x, n); }).launch(device, {1}, {}, 3, 4);
}
