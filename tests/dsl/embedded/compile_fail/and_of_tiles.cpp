// expect: && of Tiles cannot be recorded: write & for conditions, or logical_and(a, b)
#include "dsl/tegula.h"
using namespace tegula;
auto k = kernel("k", [](Ptr<"x"> x, Int<"n"> n) { store(x, n > 1 && n < 3); });
