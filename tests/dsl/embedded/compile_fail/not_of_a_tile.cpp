// expect: ! of a Tile cannot be recorded: write ~ for conditions, or logical_not(x)
#include "dsl/tegula.h"
using namespace tegula;

auto k = kernel("k", [](Ptr<"out"> out, Int<"n"> n) { store(out, 1, !(n < 3)); });
