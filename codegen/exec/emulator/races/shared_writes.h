// Who stored last to each 16 bytes of a program's shared memory, and whether the asynchronous proxy, through which
// wgmma reads it and bulk copies write it, is sure to see that: a fence_async_shared of the storing thread came after
// the store, or one of the reading thread after a barrier, or after its wait for the phase of an mbarrier that ended,
// after it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tegula::emulator {

class SharedWrites {
 public:
  struct Write {
    uint32_t time = 0;  ///< 0: never
    uint32_t thread = 0;
    uint32_t site = 0;
  };

  /// No stores yet. Without bytes nothing is tracked.
  void reset(size_t bytes, size_t threads) {
    writes_.assign((bytes + 15) / 16, {});
    fences_.assign(threads, {});
    acquired_.assign(threads, 0);
    now_ = 1;
    last_barrier_ = 0;
  }
  bool tracks() const { return !writes_.empty(); }

  void store(uint32_t offset, uint32_t bytes, uint32_t thread, uint32_t site) {
    for (uint32_t i = offset / 16; i <= (offset + bytes - 1) / 16; ++i) writes_[i] = {now_, thread, site};
  }
  /// The bytes were written through the asynchronous proxy itself.
  void forget(uint32_t offset, uint32_t bytes) {
    for (uint32_t i = offset / 16; i <= (offset + bytes - 1) / 16; ++i) writes_[i] = {};
  }
  void barrier() { last_barrier_ = ++now_; }
  /// The time at which a phase of an mbarrier ends, for acquire() by those who wait for that.
  uint32_t end_phase() { return ++now_; }
  void acquire(uint32_t thread, uint32_t time) { acquired_[thread] = std::max(acquired_[thread], time); }
  void fence(uint32_t thread) { fences_[thread] = {++now_, std::max(last_barrier_, acquired_[thread])}; }

  /// The store that `reader` may not see in these 16 bytes; null if there is none.
  const Write* unseen(uint32_t offset, uint32_t reader) const {
    const Write& write = writes_[offset / 16];
    bool seen = fences_[write.thread].time > write.time || fences_[reader].barrier > write.time;
    return write.time == 0 || seen ? nullptr : &write;
  }

 private:
  struct Fence {
    uint32_t time = 0;     ///< of a thread's last fence
    uint32_t barrier = 0;  ///< of the last barrier or phase's end that the thread knew of then
  };
  std::vector<Write> writes_;
  std::vector<Fence> fences_;
  std::vector<uint32_t> acquired_;  ///< by each thread
  uint32_t now_ = 1, last_barrier_ = 0;
};

}  // namespace tegula::emulator
