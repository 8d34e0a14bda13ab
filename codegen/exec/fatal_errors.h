// What LLVM ends the process for.
#pragma once

namespace tegula {

/// From now on an error that LLVM does not come back from is an InternalError. What LLVM had in hand is lost.
void throw_fatal_errors();

}  // namespace tegula
