// Fast conversions of small integers to floating point.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Converts integers that are known to be small to float, half and bfloat by an integer and a floating addition: the
/// bits of a power of two whose last place is 1, plus the integer, are a number from which that power is subtracted.
/// The result is the same. GPUs convert integers of 8 and 16 bits to float, and all integers to half, an eighth as fast
/// as they add.
void convert_small_integers(llvm::Function& function);

}  // namespace tegula
