// How many programs of a kernel the GPU that is emulated runs at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codegen/target/target.h"
#include "runtime/kernel_image.h"

namespace tegula::emulator {

/// By warps, shared memory and blocks; by registers where the assembler has told them.
inline int64_t programs_at_once(const KernelImage& image, const Target& target) {
  constexpr int64_t kSharedBeside = 1024;  // that a block takes beside its own
  int64_t blocks =
      std::min(target.programs_of(image.threads() / 32), target.shared_per_sm / (image.shared_bytes + kSharedBeside));
  if (image.registers > 0) blocks = std::min(blocks, target.registers_per_sm / (image.threads() * image.registers));
  return std::max<int64_t>(1, blocks * target.rates.num_sms / image.num_ctas);
}

}  // namespace tegula::emulator
