// The debugger's interface for programs: the emulator, recordings of a kernel's program, and queries about them.
// Kernels are recorded if they are launched with the option debug=2.
#pragma once

#include "codegen/exec/debug/debugger.h"
#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"

namespace tegula {

/// In a kernel that is a C++ function: tells a debugger that a statement is here and that `name` is x from it on, as an
/// assignment of the language does. Nothing in launches without debug=2.
void watch(const char* name, const Operand& x);

}  // namespace tegula
