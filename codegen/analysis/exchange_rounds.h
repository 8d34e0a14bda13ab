// Layout conversions that are too large for shared memory at once.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/layout/linear_layout.h"

namespace tegula {

/// A conversion in two rounds, each of which moves the half of the tile in which one bit of a coordinate has its value.
/// In each layout either a register bit of every thread tells the halves apart, or a thread holds elements of one half
/// only.
struct Halves {
  Dim dim;
  int bit;                           ///< of the coordinate along `dim`
  LinearLayout source, destination;  ///< of one half, a tile itself; where threads say which half, each has both
  std::optional<int> source_register, destination_register;
  /// The number of the register that is number `register_of_half` among the registers of a half, if register bit `bit`
  /// tells the halves apart.
  static int whole(int register_of_half, int bit, int half) {
    const int low = register_of_half & ((1 << bit) - 1);
    return (register_of_half - low) * 2 + (half << bit) + low;
  }
};

/// The halves in which a tile with elements of `bits` bits goes through shared memory; nullopt if it goes at once:
/// because it is small, or because no bit of its coordinates is a single bit of register, lane or warp in both layouts.
std::optional<Halves> halves_of(const LinearLayout& source, const LinearLayout& destination, int bits);

/// Bytes of shared memory that a conversion within one block needs.
int64_t exchange_bytes(const LinearLayout& source, const LinearLayout& destination, int bits);

}  // namespace tegula
