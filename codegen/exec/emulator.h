// The emulator: a Device that runs kernel images (their LLVM bitcode) on the CPU, each GPU thread a fiber.
#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"

namespace tegula {

struct EmulatorOptions {
  std::string target = "sm_90a";  ///< the GPU it stands for
  int threads = 0;                ///< worker threads; 0: one a core
  bool check_bounds = true;       ///< global accesses are checked against what was allocated
};

/// An emulator. Emulated addresses are host addresses.
std::unique_ptr<Device> make_emulator(const EmulatorOptions& options = {});

}  // namespace tegula
