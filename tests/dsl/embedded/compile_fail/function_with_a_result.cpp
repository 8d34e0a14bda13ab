// expect: a kernel is a lambda that returns nothing and is not mutable
#include "dsl/tegula.h"
using namespace tegula;
auto k = kernel("k", [](Ptr<"x"> x) { return load(x); });
