// expect: a Tile is known only when the kernel runs
#include "dsl/tegula.h"
using namespace tegula;
auto k = kernel("k", [](Ptr<"x"> x, Int<"n"> n) {
  while (n > 1) store(x, n -= 1);
});
