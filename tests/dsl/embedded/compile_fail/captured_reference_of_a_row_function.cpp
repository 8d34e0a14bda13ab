// expect: the function of a kernel captures values, which the compiled kernel would keep
#include "kernels/row_kernel.h"

using namespace tegula;

auto scaled(const float& factor) {
  return kernels::row_kernel("scaled", [&factor](const kernels::RowTile&, Tile x) { return x * factor; });
}
