#pragma once

namespace llvm {
class Function;
}

namespace tegula {

/// Keeps elements of 16 and 8 bits in the word that they come in. Phis of all parts of a word become one of the word,
/// so that tiles that loops carry, such as those loaded ahead, take half the registers and are not taken apart before
/// they are needed. A bfloat16 that is half of a word becomes a float by one operation on the word; the conversion
/// instruction would take the upper half out of the word first.
void keep_words_whole(llvm::Function& function);

}  // namespace tegula
