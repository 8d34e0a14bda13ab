// What a warp does of a matrix instruction: 16 rows by n columns, at once (mma.sync, n = 8) or as its quarter of wgmma.
// Operands come as lines, rows of A and columns of B, each of 32 bytes along K.
#pragma once

#include <cstdint>
#include <cstring>

#include "codegen/exec/emulator/launch/fault.h"
#include "codegen/product/instruction.h"

namespace tegula::emulator {

inline constexpr uint32_t kLineBytes = 32;
inline constexpr uint32_t kWarpRows = 16;

/// Puts a lane's fragment of A (4 registers) or of B (2 registers) where it belongs in the lines.
template <uint32_t kRegisters>
void place_fragment(uint8_t* lines, uint32_t lane, const uint32_t* fragment) {
  for (uint32_t r = 0; r < kRegisters; ++r) {
    const uint32_t line = lane / 4 + (kRegisters == 4 ? r % 2 * 8 : 0), half = kRegisters == 4 ? r / 2 : r;
    std::memcpy(lines + line * kLineBytes + half * 16 + lane % 4 * 4, fragment + r, 4);
  }
}

/// sums += A B, or = A B unless `accumulate`. `sums` has the bits of each lane's n / 2 sums, in the order of lanes: sum
/// r of lane l is (l / 4 + r / 2 % 2 * 8, r / 4 * 8 + l % 4 * 2 + r % 2). fp32 operands are cut to the 10 bits of
/// mantissa that the hardware looks at; sums of f16 are rounded once for each instruction; integers wrap around, or end
/// at the largest and the smallest one (MmaInstruction::saturates).
void multiply_warp(const MmaInstruction& instruction, uint32_t n, const uint8_t* a, const uint8_t* b, uint32_t* sums,
                   bool accumulate = true);

/// Whether such a product, which made `after` of the sums `before`, has made a NaN of numbers, or an infinity of finite
/// ones.
Births births_of_product(const MmaInstruction& instruction, uint32_t n, const uint8_t* a, const uint8_t* b,
                         const uint32_t* before, const uint32_t* after, bool accumulate);

}  // namespace tegula::emulator
