// LLVM's fatal errors.
#pragma once

namespace tegula {

/// Makes LLVM's fatal errors throw InternalError from now on. The LLVM objects in use at that moment are leaked.
void throw_fatal_errors();

}  // namespace tegula
