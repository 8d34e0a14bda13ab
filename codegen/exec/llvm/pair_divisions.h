#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Replaces the remainder of a division whose quotient is computed as well by a product and a difference, since no GPU
/// instruction gives both. Needs time in proportion to the instructions. (LLVM's div-rem-pairs numbers a block's
/// instructions anew for each pair.)
void pair_divisions(llvm::Function& function);

}  // namespace tegula
