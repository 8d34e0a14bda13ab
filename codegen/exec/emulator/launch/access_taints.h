// Numbers of what is told where something follows from it (warnings/taints.h), as threads load and store them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tegula::emulator {

/// The bit of reads of memory that nobody has written; the other bits number the reads of a cluster. Taints without it
/// are those of warnings (taint_of() in fault.h).
inline constexpr uint32_t kUnwrittenTaint = 1u << 31;

/// Of an access of a thread, by its bytes.
struct AccessTaints {
  bool any = false;
  std::array<uint32_t, 16> bytes{};

  void add(uint32_t first, uint32_t count, uint32_t taint) {
    if (taint == 0) return;
    if (!any) bytes = {};
    any = true;
    std::fill_n(bytes.begin() + first, count, taint);
  }
  uint32_t of(uint32_t first, uint32_t count) const {
    return any ? *std::max_element(bytes.begin() + first, bytes.begin() + first + count) : 0;
  }
};

}  // namespace tegula::emulator
