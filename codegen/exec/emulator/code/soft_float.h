// The functions that generated code may call by name.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tegula::emulator {

/// Functions that the host's code generator calls for operations that the host lacks, and those of the C library.
const std::vector<std::pair<const char*, void*>>& runtime_functions();

}  // namespace tegula::emulator
