// Conversions of layouts that shared memory does not hold at once.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/layout/linear_layout.h"

namespace tegula {

/// A conversion in two rounds, each of which moves the half of the tile where one bit of a coordinate has its value:
/// what shared memory does not hold at once goes through it so. In each layout either a register bit of every thread
/// says which half it belongs to, or the threads do: they then hold elements of one half alone.
struct Halves {
  Dim dim;
  int bit;                           ///< of the coordinate along `dim`
  LinearLayout source, destination;  ///< of one half, a tile itself; where threads say which half, each has both
  std::optional<int> source_register, destination_register;
  /// Number of the register that is `register_of_half` among those of a half, which register bit `bit` says.
  static int whole(int register_of_half, int bit, int half) {
    const int low = register_of_half & ((1 << bit) - 1);
    return (register_of_half - low) * 2 + (half << bit) + low;
  }
};

/// The halves in which a tile with elements of `bits` bits goes through shared memory; nullopt where it goes at once:
/// since it is small, or since no bit of its coordinates is one bit of a register, lane or warp in both layouts.
std::optional<Halves> halves_of(const LinearLayout& source, const LinearLayout& destination, int bits);

/// Bytes of shared memory that such a conversion within one block needs.
int64_t exchange_bytes(const LinearLayout& source, const LinearLayout& destination, int bits);

}  // namespace tegula
