// Taints (warnings/taints.h) of products of matrices: what a row of the first operand follows from, that row of the
// sums does. Lane l of a warp has parts of rows l / 4 and l / 4 + 8 of both.
#pragma once

#include <algorithm>
#include <array>

#include "codegen/exec/emulator/launch/scheduler.h"
#include "codegen/product/instruction.h"

namespace tegula::emulator {

/// By the rows of a warp.
using RowTaints = std::array<uint32_t, 16>;

/// Of what the lanes of the current warp have told to hold: as bytes 0 and 1 of what is stored next.
inline RowTaints take_told_rows() {
  const Fiber& own = this_worker->fiber();
  Fiber* const* lanes = own.program->fibers.data() + own.thread / kLanes * kLanes;
  RowTaints rows{};
  for (uint32_t l = 0; l < kLanes; ++l) {
    if (!lanes[l]->stored.any) continue;
    for (uint32_t half : {0, 1}) {
      uint32_t& row = rows[l / 4 + 8 * half];
      row = std::max(row, lanes[l]->stored.of(half, 1));
    }
    lanes[l]->stored.any = false;
  }
  return rows;
}

/// The lanes of the current warp get the taints of their rows, as those of bytes 0 and 1 that were loaded last.
/// `further`: beside those that they have.
inline void hand_on_rows(const RowTaints& rows, bool further) {
  const Fiber& own = this_worker->fiber();
  Fiber* const* lanes = own.program->fibers.data() + own.thread / kLanes * kLanes;
  const bool any = std::ranges::any_of(rows, [](uint32_t taint) { return taint != 0; });
  for (uint32_t l = 0; l < kLanes; ++l) {
    AccessTaints& loaded = lanes[l]->loaded;
    if (!further) loaded.any = false;
    for (uint32_t half = 0; any && half < 2; ++half)
      loaded.add(half, 1, std::max(loaded.of(half, 1), rows[l / 4 + 8 * half]));
  }
}

}  // namespace tegula::emulator
