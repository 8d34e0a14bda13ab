#include "codegen/exec/emulator/races/cells.h"

#include <algorithm>

namespace tegula::emulator {

void Slots::divide(size_t cells, size_t times) {
  for (std::unique_ptr<Slot[]>& slots : slots_) {
    if (!slots) continue;
    auto divided = std::make_unique_for_overwrite<Slot[]>(cells * times);
    for (size_t cell = 0; cell < cells; ++cell) std::fill_n(&divided[cell * times], times, slots[cell]);
    slots = std::move(divided);
  }
}

void Cells::divide(uint32_t most) {
  const uint32_t least = std::max(most, kLeastBytes);
  const size_t times = bytes / least;
  writes.divide(count, times);
  reads.divide(count, times);
  count *= times;
  bytes = least;
}

}  // namespace tegula::emulator
