// The smaller and larger of integers of few bits.
#pragma once

namespace llvm {
class Module;
}

namespace tegula {

/// Computes the minima and maxima of integers of 8 and 16 bits in 32 bits. Where a program compares the larger or
/// smaller of a number and a constant with that constant, ptxas takes the comparison from an instruction for two
/// halves, which answers it wrongly (ptxas 13.0, sm_90a: `max.s16 m, x, 0; setp.eq.b16 p, m, 0`, and so for u16 and
/// min).
void widen_extremes(llvm::Module& module);

}  // namespace tegula
