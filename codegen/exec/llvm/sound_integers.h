// Arithmetic of integers, in forms that ptxas assembles rightly.
#pragma once

namespace llvm {
class Module;
}

namespace tegula {

/// Works around three faults of ptxas 13.0 on sm_90a.
///
/// Where a program compares the larger or smaller of a number of 16 bits and a constant with that constant, ptxas takes
/// the comparison from an instruction for two halves, which answers it wrongly (`max.s16 m, x, 0; setp.eq.b16 p, m, 0`,
/// and so for u16 and min). Minima, maxima, and sums and differences that end at the largest and smallest number, are
/// computed in 32 bits where they have 8 or 16.
///
/// Of three numbers of 32 bits, the second one's minus is dropped (`neg.s32 n, b; min.s32 m, a, n; min.s32 m, m, c`).
/// Numbers with a minus come as copies that ptxas does not see through.
///
/// The negative and the absolute value of the smallest number of 16 bits are taken for 32768 where they are extended
/// (`neg.s16 n, x; cvt.s32.s16 w, n`) or compared. They are computed in 32 bits and cut.
void make_integers_sound(llvm::Module& module);

}  // namespace tegula
