// PTX to machine code outside of the library: by ptxas if it is installed, else by the driver of a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/kernel_image.h"

namespace tegula::dsl {

struct Assembled {
  std::vector<uint8_t> cubin;
  int registers = -1;    ///< per thread
  int spill_bytes = -1;  ///< stores and loads together
  std::string by;        ///< "ptxas", "driver of NVIDIA H200"
};

/// None if neither is there (or the GPU is another one than the image is for); `why` says so. Throws CompileError if
/// the assembler refuses the PTX.
std::optional<Assembled> assemble(const KernelImage& image, std::string& why);

}  // namespace tegula::dsl
