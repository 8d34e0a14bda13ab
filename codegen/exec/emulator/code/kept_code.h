// Code of a kernel as bytes, for later processes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "codegen/exec/emulator/code/jit.h"

namespace tegula::emulator {

/// The object code, or the kernel's bytecode if there is none, and what the kernel tells of it.
std::string to_bytes(const std::string& object, const JitKernel& kernel);

/// The contrary: fills the kernel and returns the object code, which is empty if the kernel has bytecode; nothing if
/// the bytes are damaged.
std::optional<std::string> read_code(std::string_view bytes, JitKernel& kernel);

}  // namespace tegula::emulator
