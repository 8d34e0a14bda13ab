// expect: the function is a lambda that is not mutable and not generic
#include "kernels/row_kernel.h"

using namespace tegula;

auto copied = kernels::row_kernel("copied", [](const kernels::RowTile&, auto x) { return x; });
