// What a kernel may access: global memory (allocations and registered host arrays) and the arrays of shared memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace tegula::emulator {

/// Addresses [begin, end).
struct Range {
  uint64_t begin = 0, end = 0;
  bool contains(uint64_t address, uint64_t bytes) const {
    return address - begin < end - begin && end - address >= bytes;
  }
};

/// Disjoint ranges in ascending order.
using RangeTable = std::vector<Range>;

/// The range that holds all of [address, address + bytes); null if there is none.
const Range* find_range(const RangeTable& table, uint64_t address, uint64_t bytes);

/// Which bytes of an allocation have been written. Any thread may ask and mark.
class WrittenAllocation {
 public:
  WrittenAllocation(uint64_t begin, size_t bytes)
      : begin_(begin), bytes_(bytes), written_(std::make_unique<std::atomic<uint64_t>[]>((bytes + 63) / 64)) {}

  bool contains(uint64_t address) const { return address - begin_ < bytes_; }
  uint64_t end() const { return begin_ + bytes_; }
  /// Bytes behind the allocation's end do not count.
  void mark(uint64_t address, size_t bytes);
  bool all_written(uint64_t address, size_t bytes) const;

 private:
  uint64_t begin_;
  size_t bytes_;
  std::unique_ptr<std::atomic<uint64_t>[]> written_;  ///< a bit for each byte
};

/// Which bytes of allocations have been written. All members may be called from any thread.
class WrittenBytes {
 public:
  void allocate(uint64_t begin, size_t bytes);
  void free(uint64_t begin);
  void mark(uint64_t address, size_t bytes);
  /// Null if the address is of no allocation; `beside`, if not null, gets the addresses around it that are of none
  /// then.
  std::shared_ptr<WrittenAllocation> find(uint64_t address, Range* beside = nullptr) const;

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<WrittenAllocation>> allocations_;
};

/// Memory that the device gave out or was told of. All members may be called from any thread.
class GlobalMemory {
 public:
  GlobalMemory();
  ~GlobalMemory();

  /// 256-byte-aligned memory, poisoned. Throws DeviceError if the host has none.
  uint64_t allocate(size_t bytes);
  void free(uint64_t address) noexcept;
  /// Bytes from `address` to the end of its allocation; 0 if it lies in none.
  size_t allocated_bytes(uint64_t address) const;
  void add_host(uint64_t begin, size_t bytes);
  void remove_host(uint64_t begin);

  /// Whether each array of the host's begins at one of these addresses. One with gaps between its rows has many ranges.
  bool host_begins_at(const std::set<uint64_t>& addresses) const;

  /// What may be accessed now. The table never changes; a later call returns another one.
  std::shared_ptr<const RangeTable> table() const;
  /// Where an address lies as words for a message: "12 bytes past the end of a 4096-byte allocation". `near`, if not
  /// null, gets the allocation meant.
  std::string describe(uint64_t address, uint64_t bytes, Range* near = nullptr) const;
  /// Whether the address lies so far from all memory that no array which ends, or begins, there is overrun.
  bool is_nowhere(uint64_t address) const;
  /// Whether the address lies in memory that was freed lately.
  bool was_freed(uint64_t address) const;

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, size_t> allocations_;           ///< begin -> bytes
  std::multimap<uint64_t, size_t> host_;             ///< begin -> bytes
  std::deque<Range> freed_;                          ///< the latest ones, for messages
  mutable std::shared_ptr<const RangeTable> table_;  ///< null: to be made anew
};

/// Shared memory of one resident program: below 4 GiB, because shared addresses have 32 bits, and aligned to 256 KiB.
class SharedArena {
 public:
  static constexpr size_t kAlignment = 256 << 10;
  /// Throws DeviceError if no memory below 4 GiB is left.
  explicit SharedArena(size_t bytes);
  ~SharedArena();
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  uint32_t base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  uint32_t base_ = 0;
  size_t bytes_ = 0;
};

/// What fresh memory holds: a value that stands out, and a large negative number as an index.
inline constexpr int kPoison = 0xCD;

}  // namespace tegula::emulator
