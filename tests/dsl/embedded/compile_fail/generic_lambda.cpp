// expect: a kernel is a lambda with written-out parameter types
#include "dsl/tegula.h"
using namespace tegula;
auto k = kernel("k", [](auto x) { store(x, 1); });
