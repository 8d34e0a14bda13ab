// expect: a kernel is a lambda that returns nothing and is not mutable
#include "dsl/tegula.h"
using namespace tegula;
auto counted = kernel("k", [n = 0](Ptr<"x"> x) mutable { store(x, ++n); });
