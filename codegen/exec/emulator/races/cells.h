// What is known of the accesses to memory, by cells of a few bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tegula::emulator {

/// Accesses of a warp in one of its counts.
struct Slot {
  static constexpr uint32_t kMostSites = 1u << 17;  ///< those past the last one are told as that
  uint32_t program = 0, clock = 0, lanes = 0;
  uint32_t site : 17 = 0, warp : 6 = 0;
  uint32_t mixed : 1 = 0;  ///< each of the lanes read some of the bytes, nothing says which
  uint32_t bytes : 4 = 0;  ///< of the cell, as bits; all of a cell of more than four bytes; 0: an empty slot
  uint32_t access : 2 = 0, strong : 1 = 0, program_only : 1 = 0;
};
static_assert(sizeof(Slot) == 16);

/// Two slots of each of the cells. Most cells need one, or none: the other slots are made for all cells when the first
/// needs them.
class Slots {
 public:
  /// Slot `which` of the cell; null if nothing was ever put there.
  Slot* find(int which, size_t cell) const { return slots_[which] ? &slots_[which][cell] : nullptr; }
  /// Out of `cells`.
  Slot& at(int which, size_t cell, size_t cells) {
    if (!slots_[which]) slots_[which] = std::make_unique<Slot[]>(cells);
    return slots_[which][cell];
  }
  /// Each of the cells becomes `times` ones, with what was known of it.
  void divide(size_t cells, size_t times);

 private:
  std::array<std::unique_ptr<Slot[]>, 2> slots_;
};

/// Cells of one size, side by side. They are as large as all accesses to them are, as most kernels access an array in
/// one way: up to 16 bytes, and 4 from when an access is to less, or to part of a cell.
struct Cells {
  static constexpr uint32_t kLeastBytes = 4, kMostBytes = 16;

  size_t count = 0;
  uint32_t bytes = kLeastBytes;  ///< of a cell
  Slots writes, reads;

  /// Nothing is known of so many bytes.
  static Cells of(size_t bytes) { return {bytes / kMostBytes, kMostBytes, {}, {}}; }
  /// Has cells that the `count` bytes at the address consist of, or such of the least size.
  void fit(uint64_t address, uint64_t count) {
    const uint64_t parts = address | count;
    if (parts & (bytes - 1) && bytes > kLeastBytes) [[unlikely]]
      divide(uint32_t(parts & -parts));
  }

 private:
  void divide(uint32_t most);
};

/// The bytes of [address, address + count) that lie in the cell of the least size that begins at `cell`, as bits.
inline uint32_t bytes_of_cell(uint64_t cell, uint64_t address, uint64_t count) {
  const uint64_t from = std::max(cell, address) - cell,
                 to = std::min(cell + Cells::kLeastBytes, address + count) - cell;
  return (1u << to) - (1u << from);
}

}  // namespace tegula::emulator
