// How bulk reductions combine boxes with the arrays that they go to.
#pragma once

#include <cstdint>

#include "runtime/base/elem.h"

namespace tegula::emulator {

enum class Combine : uint8_t { Add, Min, Max, And, Or, Xor };

/// Replaces the element at `to` by its combination with the one at `from`, atomically. A NaN gives way to a number in
/// extremes. Floats are added, or the smaller or larger one is taken; other combinations take their bits.
void combine_element(Combine how, Elem elem, void* to, const void* from);

}  // namespace tegula::emulator
