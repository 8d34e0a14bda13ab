// Numbers of what is told where something follows from it (warnings/taints.h), as threads load and store them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tegula::emulator {

/// The bit of reads of memory that nobody has written; the others number the program's. Without it: of warnings
/// (taint_of() in fault.h).
inline constexpr uint32_t kUnwrittenTaint = 1u << 31;

/// Of an access of a thread, by each 2 bytes.
struct AccessTaints {
  bool any = false;
  std::array<uint32_t, 8> parts{};

  void add(uint32_t first, uint32_t count, uint32_t taint) {
    if (taint == 0) return;
    if (!any) parts = {};
    any = true;
    std::fill_n(parts.begin() + first, count, taint);
  }
  uint32_t of(uint32_t first, uint32_t count) const {
    return any ? *std::max_element(parts.begin() + first, parts.begin() + first + count) : 0;
  }
};

}  // namespace tegula::emulator
