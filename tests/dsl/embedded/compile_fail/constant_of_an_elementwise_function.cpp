// expect: behind its Tiles the function takes Ptr, Int, Float and Bool parameters
#include "kernels/elementwise_kernel.h"

using namespace tegula;

auto scaled = kernels::elementwise_kernel("scaled", [](Tile x, Const<"N"> n) { return x * n; });
