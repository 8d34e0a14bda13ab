// expect:
#include "dsl/tegula.h"
using namespace tegula;
auto k = kernel("k", [](Ptr<"x", int> x, Int<"n"> n, Const<"B", int64_t, 4> B) noexcept {
  if (B > 3) if_(n > 1, [&] { store(x, n & (n < 3)); });
});
void f(Device& device, int* p) { k.launch(device, {1}, {}, p, 3); }
