// error: write if_(condition, [&] { ... })
#include "dsl/tegula.h"
using namespace tegula;

auto k = kernel("k", [](Ptr<"out"> out, Int<"n"> n) {
  if (n > 3) store(out, 1);
});
