// Bodies of the hardware functions that a warp loads and stores matrices of shared memory with.
#pragma once

#include <cstring>
#include <utility>

#include "codegen/exec/emulator/hardware/access.h"
#include "codegen/exec/emulator/launch/scheduler.h"

namespace tegula::emulator {

/// Row and column of the element 0 or 1 that a lane holds of a matrix.
template <bool transposed>
std::pair<uint32_t, uint32_t> element_of(uint32_t lane, uint32_t which) {
  const uint32_t row = lane / 4, column = lane % 4 * 2 + which;
  return transposed ? std::pair(column, row) : std::pair(row, column);
}

/// The 8x8 matrices of 16-bit elements whose rows the lanes' addresses name: matrix i by lanes 8i .. 8i+7. Lane l gets
/// elements (l / 4, l % 4 * 2 + {0, 1}) of each, transposed those of the transposed matrix.
template <int matrices, bool transposed>
void load_matrices(uint32_t* result, uint32_t address, uint32_t site, uint32_t place) {
  Worker& worker = *this_worker;
  Warp& warp = worker.warp();
  uint32_t lane = worker.fiber().thread % kLanes;
  auto& x = warp.exchange[warp.round & 1].matrix_move;
  x.address[lane] = address;
  worker.meet(warp, {site, place}, [&] {
    Fiber* const* lanes = worker.fiber().program->fibers.data() + worker.fiber().thread / kLanes * kLanes;
    for (uint32_t m = 0; m < matrices; ++m) {
      uint16_t matrix[8][8];
      AccessTaints taints[8];
      for (uint32_t row = 0; row < 8; ++row) {
        const Fiber& fiber = *lanes[8 * m + row];
        const uint32_t from = x.address[8 * m + row];
        std::memcpy(matrix[row], shared_access(fiber, from, 16, Access::Read, site, nullptr, &taints[row]), 16);
      }
      for (uint32_t l = 0; l < kLanes; ++l) {
        if (m == 0) lanes[l]->loaded.any = false;
        for (uint32_t e = 0; e < 2; ++e) {
          const auto [row, column] = element_of<transposed>(l, e);
          x.words[l][m] = (e ? x.words[l][m] : 0) | uint32_t(matrix[row][column]) << 16 * e;
          for (uint32_t byte = 0; byte < 2; ++byte)
            lanes[l]->loaded.add(4 * m + 2 * e + byte, 1, taints[row].of(2 * column + byte, 1));
        }
      }
    }
  });
  std::memcpy(result, x.words[lane], sizeof(uint32_t) * matrices);
}

/// The same the other way round: lanes give elements, and rows are stored where the lanes' addresses say.
template <int matrices, bool transposed>
void store_matrices(uint32_t address, const uint32_t* values, uint32_t site, uint32_t place) {
  Worker& worker = *this_worker;
  Warp& warp = worker.warp();
  uint32_t lane = worker.fiber().thread % kLanes;
  auto& x = warp.exchange[warp.round & 1].matrix_move;
  x.address[lane] = address;
  std::memcpy(x.words[lane], values, sizeof(uint32_t) * matrices);
  worker.meet(warp, {site, place}, [&] {
    Fiber* const* lanes = worker.fiber().program->fibers.data() + worker.fiber().thread / kLanes * kLanes;
    for (uint32_t m = 0; m < matrices; ++m) {
      uint16_t matrix[8][8];
      AccessTaints taints[8];
      for (uint32_t l = 0; l < kLanes; ++l)
        for (uint32_t e = 0; e < 2; ++e) {
          const auto [row, column] = element_of<transposed>(l, e);
          matrix[row][column] = uint16_t(x.words[l][m] >> 16 * e);
          for (uint32_t byte = 0; byte < 2; ++byte)
            taints[row].add(2 * column + byte, 1, lanes[l]->stored.of(4 * m + 2 * e + byte, 1));
        }
      for (uint32_t row = 0; row < 8; ++row) {
        Fiber& fiber = *lanes[8 * m + row];
        const uint32_t to = x.address[8 * m + row];
        std::memcpy(shared_access(fiber, to, 16, Access::Write, site), matrix[row], 16);
        put_taints(*fiber.program, to, 16, taints[row]);
      }
    }
    for (uint32_t l = 0; l < kLanes; ++l) lanes[l]->stored.any = false;
  });
}

}  // namespace tegula::emulator
