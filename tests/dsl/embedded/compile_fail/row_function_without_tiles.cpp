// expect: the function takes at least one Tile
#include "kernels/row_kernel.h"

using namespace tegula;

auto copied = kernels::row_kernel("copied", [](const kernels::RowTile& row) { return row.cols; });
