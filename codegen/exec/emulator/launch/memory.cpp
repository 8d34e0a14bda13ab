#include "codegen/exec/emulator/launch/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/base/error.h"

namespace tegula::emulator {

namespace {

constexpr size_t kAllocationAlignment = 256;
constexpr size_t kLeastRedZone = 4096, kMostRedZone = 1 << 20;
constexpr size_t kFreedRemembered = 64;
constexpr uint64_t kNear = 64 << 20;  ///< farther from any allocation than this, a message names none

constexpr size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

/// Bytes behind an allocation that belong to none, so that an overrun never reaches the next one unseen: as many again,
/// since a wrong row or a wrong grid overruns by a part of the array. Nothing touches them: the host gives no pages.
constexpr size_t red_zone(size_t bytes) { return std::clamp(bytes, kLeastRedZone, kMostRedZone); }

}  // namespace

const Range* find_range(const RangeTable& table, uint64_t address, uint64_t bytes) {
  auto after = std::upper_bound(table.begin(), table.end(), address,
                                [](uint64_t a, const Range& range) { return a < range.begin; });
  if (after == table.begin()) return nullptr;
  const Range& range = after[-1];
  return range.contains(address, bytes) ? &range : nullptr;
}

namespace {

/// Calls `see` with each word of bits that has some of [from, to), and with those as a mask, until it returns false.
template <class See>
void for_words(size_t from, size_t to, const See& see) {
  while (from < to) {
    const size_t first = from % 64, count = std::min<size_t>(64 - first, to - from);
    if (!see(from / 64, (~uint64_t(0) >> (64 - count)) << first)) return;
    from += count;
  }
}

}  // namespace

void WrittenAllocation::mark(uint64_t address, size_t bytes) {
  const size_t from = address - begin_;
  for_words(from, std::min<size_t>(from + bytes, bytes_), [&](size_t word, uint64_t mask) {
    if ((written_[word].load(std::memory_order_relaxed) & mask) != mask)  // cheaper than to store what stands there
      written_[word].fetch_or(mask, std::memory_order_relaxed);
    return true;
  });
}

bool WrittenAllocation::all_written(uint64_t address, size_t bytes) const {
  const size_t from = address - begin_;
  bool all = true;
  for_words(from, std::min<size_t>(from + bytes, bytes_), [&](size_t word, uint64_t mask) {
    return all = (written_[word].load(std::memory_order_relaxed) & mask) == mask;
  });
  return all;
}

void WrittenBytes::allocate(uint64_t begin, size_t bytes) {
  std::lock_guard lock(mutex_);
  allocations_[begin] = std::make_shared<WrittenAllocation>(begin, bytes);
}

void WrittenBytes::free(uint64_t begin) {
  std::lock_guard lock(mutex_);
  allocations_.erase(begin);
}

std::shared_ptr<WrittenAllocation> WrittenBytes::find(uint64_t address, Range* beside) const {
  std::lock_guard lock(mutex_);
  const auto after = allocations_.upper_bound(address);
  const auto* before = after == allocations_.begin() ? nullptr : &std::prev(after)->second;
  if (before && (*before)->contains(address)) return *before;
  if (beside) *beside = {before ? (*before)->end() : 0, after == allocations_.end() ? UINT64_MAX : after->first};
  return nullptr;
}

void WrittenBytes::mark(uint64_t address, size_t bytes) {
  if (const auto allocation = find(address)) allocation->mark(address, bytes);
}

GlobalMemory::GlobalMemory() = default;

GlobalMemory::~GlobalMemory() {
  for (auto& [begin, bytes] : allocations_) std::free(reinterpret_cast<void*>(begin));
}

uint64_t GlobalMemory::allocate(size_t bytes) {
  void* memory = nullptr;
  if (bytes < SIZE_MAX / 2)
    memory = std::aligned_alloc(kAllocationAlignment, round_up(bytes + red_zone(bytes), kAllocationAlignment));
  if (!memory)
    throw DeviceError(fmt::format("the emulator cannot allocate {} bytes: the host has no memory left", bytes));
  std::memset(memory, kPoison, bytes);
  uint64_t begin = reinterpret_cast<uint64_t>(memory);
  std::lock_guard lock(mutex_);
  allocations_[begin] = bytes;
  std::erase_if(freed_, [&](const Range& r) { return r.begin < begin + bytes && begin < r.end; });
  table_ = nullptr;
  return begin;
}

void GlobalMemory::free(uint64_t address) noexcept {
  std::lock_guard lock(mutex_);
  auto it = allocations_.find(address);
  if (it == allocations_.end()) return;
  freed_.push_back({address, address + it->second});
  if (freed_.size() > kFreedRemembered) freed_.pop_front();
  allocations_.erase(it);
  table_ = nullptr;
  std::free(reinterpret_cast<void*>(address));
}

size_t GlobalMemory::allocated_bytes(uint64_t address) const {
  std::lock_guard lock(mutex_);
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return 0;
  auto [begin, bytes] = *std::prev(after);
  return address - begin < bytes ? begin + bytes - address : 0;
}

void GlobalMemory::add_host(uint64_t begin, size_t bytes) {
  std::lock_guard lock(mutex_);
  host_.emplace(begin, bytes);
  table_ = nullptr;
}

void GlobalMemory::remove_host(uint64_t begin) {
  std::lock_guard lock(mutex_);
  auto it = host_.find(begin);
  if (it == host_.end()) throw DeviceError(fmt::format("no host range that begins at {:#x} is registered", begin));
  host_.erase(it);
  table_ = nullptr;
}

bool GlobalMemory::host_begins_at(const std::set<uint64_t>& addresses) const {
  std::lock_guard lock(mutex_);
  return std::ranges::all_of(host_, [&](const auto& range) { return addresses.contains(range.first); });
}

std::shared_ptr<const RangeTable> GlobalMemory::table() const {
  std::lock_guard lock(mutex_);
  if (table_) return table_;
  RangeTable all;
  for (auto& [begin, bytes] : allocations_) all.push_back({begin, begin + bytes});
  for (auto& [begin, bytes] : host_) all.push_back({begin, begin + bytes});
  std::sort(all.begin(), all.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  auto table = std::make_shared<RangeTable>();
  for (const Range& range : all)
    if (!table->empty() && range.begin < table->back().end)
      table->back().end = std::max(table->back().end, range.end);
    else
      table->push_back(range);
  return table_ = table;
}

bool GlobalMemory::was_freed(uint64_t address) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(freed_, [&](const Range& range) { return range.contains(address, 1); });
}

bool GlobalMemory::is_nowhere(uint64_t address) const {
  const auto ranges = table();
  return !was_freed(address) && std::ranges::none_of(*ranges, [&](const Range& range) {
    const uint64_t near = red_zone(range.end - range.begin);
    return address < range.end ? range.begin - std::min(range.begin, address) < near : address - range.end < near;
  });
}

std::string GlobalMemory::describe(uint64_t address, uint64_t bytes, Range* near) const {
  if (near) *near = {};
  auto ranges = table();
  {
    std::lock_guard lock(mutex_);
    for (const Range& range : freed_)
      if (range.contains(address, 1))
        return fmt::format("in a {}-byte allocation that was freed", range.end - range.begin);
  }
  const Range* best = nullptr;
  uint64_t best_distance = kNear;
  for (const Range& range : *ranges) {
    uint64_t distance = address < range.begin ? range.begin - address : address < range.end ? 0 : address - range.end;
    if (distance >= best_distance) continue;
    best = &range;
    best_distance = distance;
  }
  if (address < 4096) return "near the null pointer";
  if (!best) return "far from every allocation";
  if (near) *near = *best;
  uint64_t size = best->end - best->begin;
  if (address < best->begin)
    return fmt::format("{} bytes before the start of a {}-byte allocation", best->begin - address, size);
  if (address < best->end && best->end - address < bytes)
    return fmt::format("its last {} bytes past the end of a {}-byte allocation", bytes - (best->end - address), size);
  if (address < best->end) return fmt::format("{} bytes into a {}-byte allocation", address - best->begin, size);
  return fmt::format("{} bytes past the end of a {}-byte allocation", address - best->end, size);
}

SharedArena::SharedArena(size_t bytes) : bytes_(round_up(std::max<size_t>(bytes, 1), kAlignment)) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  constexpr int kAccess = PROT_READ | PROT_WRITE;
#ifdef MAP_32BIT
  // The kernel's own search for low addresses first, which x86-64 has; it covers only a part of them, so then all that
  // are aligned.
  size_t wanted = bytes_ + kAlignment;
  if (void* memory = mmap(nullptr, wanted, kAccess, kFlags | MAP_32BIT, -1, 0); memory != MAP_FAILED) {
    uint64_t begin = reinterpret_cast<uint64_t>(memory), base = round_up(begin, kAlignment);
    if (base > begin) munmap(memory, base - begin);
    if (size_t rest = begin + wanted - (base + bytes_)) munmap(reinterpret_cast<void*>(base + bytes_), rest);
    base_ = uint32_t(base);
    return;
  }
#endif
  for (uint64_t base = kAlignment; base + bytes_ <= uint64_t(1) << 32; base += kAlignment) {
    void* memory = mmap(reinterpret_cast<void*>(base), bytes_, kAccess, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == MAP_FAILED) continue;
    if (reinterpret_cast<uint64_t>(memory) == base) {
      base_ = uint32_t(base);
      return;
    }
    munmap(memory, bytes_);
  }
  throw DeviceError(fmt::format("the emulator finds no {} bytes for shared memory below 4 GiB", bytes_));
}

SharedArena::~SharedArena() { munmap(reinterpret_cast<void*>(uint64_t(base_)), bytes_); }

}  // namespace tegula::emulator
