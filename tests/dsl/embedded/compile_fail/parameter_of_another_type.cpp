// expect: the parameters of a kernel are Ptr, Desc, Int, Float, Bool and Const
#include "dsl/tegula.h"
using namespace tegula;
auto k = kernel("k", [](Ptr<"x"> x, int n) { store(x, n); });
