// PTX to machine code outside of devices: by ptxas if it is installed, else by the driver of a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/kernel_image.h"

namespace tegula::dsl {

struct Assembled {
  std::vector<uint8_t> cubin;  ///< empty where a driver assembled it that hands out none (KernelImage::moves_registers)
  int registers = -1;          ///< per thread
  int spill_bytes = -1;        ///< stores and loads together
  std::string by;              ///< "ptxas", "driver of NVIDIA H200"
};

/// None if neither is there (or the GPU is another one than the image is for). `why` says why there is none, or no
/// cubin of it. Throws Error if the assembler refuses the PTX.
std::optional<Assembled> assemble(const KernelImage& image, std::string& why);

/// Whether the cache would keep the image as PTX alone, which each process has to assemble anew and a sealed one
/// refuses, though ptxas, which is here, can make machine code of it. Not where ptxas has failed in this process
/// before.
bool wants_ptxas(const KernelImage& image);
/// Has ptxas make machine code of an image that wants it. False, and the image is as it was, where ptxas refuses it.
bool assemble_to_keep(KernelImage& image);
/// Told of machine code that the device does not take: ptxas is of another version than the driver.
void leave_ptxas_alone();

}  // namespace tegula::dsl
