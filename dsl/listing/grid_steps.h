// Grids as text, compiled into arithmetic that a launch without the compiler carries out.
#pragma once

#include <string>
#include <vector>

#include "runtime/package/grid.h"
#include "runtime/package/package.h"

namespace tegula::dsl {

/// A grid over the names of the code's integer arguments and of what is compiled in: 1 to 3 integers of numbers, names,
/// + - * // %, cdiv, min and max, and next_power_of_2 of what is compiled in; divisors are compiled in and above 0.
/// Throws TextError that says what of it is not understood.
PackagedGrid grid_steps(const std::string& text, const KernelImage& image, const std::vector<NamedInteger>& constexprs);

}  // namespace tegula::dsl
