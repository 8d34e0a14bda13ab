// Keeps 32-bit offsets narrow through loops.
#pragma once

namespace llvm {
class Function;
}

namespace tegula {

inline constexpr const char* kNarrowOffsets = "tegula-narrow-offsets";

/// Of addresses in a loop, base + (the extension of a number of 32 bits + rest), keeps the 32 bits through the loop,
/// not the sum of 64, which optimisation has moved ahead of it: the rest, which most of them share, is added to the
/// base, and extension and addition are one instruction at the access. Rows whose distance is not known have an offset
/// for each access, and dozens of them would fill the registers. Loops with few such offsets stay as they are.
/// A function that was changed has the attribute kNarrowOffsets.
void narrow_offsets(llvm::Function& function);

}  // namespace tegula
