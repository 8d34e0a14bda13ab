// expect: a Tile is known only when the kernel runs: write if_(condition,
#include "dsl/tegula.h"
using namespace tegula;
auto k = kernel("k", [](Ptr<"x"> x, Int<"n"> n) {
  if (n > 1) store(x, n);
});
