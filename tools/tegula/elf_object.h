// Bytes as an object file that a linker takes.
#pragma once

#include <string>
#include <string_view>

namespace tegula::cli {

/// An ELF file of the machine that this runs on: read-only data under the C name `symbol`, aligned to 16 bytes, and its
/// size as a uint64_t under `symbol`_size.
std::string elf_object(std::string_view bytes, const std::string& symbol);

}  // namespace tegula::cli
