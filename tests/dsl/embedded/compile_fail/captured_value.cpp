// expect: the function of a kernel captures values, which the compiled kernel would keep
#include "dsl/tegula.h"
using namespace tegula;
auto scaled(float factor) {
  return kernel("k", [factor](Ptr<"x"> x) { store(x, load(x) * factor); });
}
