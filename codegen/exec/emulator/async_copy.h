// Asynchronous copies of one thread, each done as late as the thread's waits allow: what another thread, or this one,
// reads before the wait that it must have is what stood there before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tegula::emulator {

/// Bytes to be copied, or zeros to be written, to shared memory; both addresses were checked.
struct AsyncCopy {
  void* to;
  const void* from;  ///< null: zeros
  uint32_t bytes;
};

class AsyncCopies {
 public:
  void issue(const AsyncCopy& copy) { copies_.push_back(copy); }
  /// Makes a group of the copies since the last commit; it may be empty.
  void commit() { group_ends_.push_back(copies_.size()); }
  /// Does the copies of all groups but the latest `pending`, the oldest first.
  void wait(size_t pending) {
    while (group_ends_.size() - done_groups_ > pending) perform(group_ends_[done_groups_++]);
    if (done_ > 64 && 2 * done_ > copies_.size()) forget_done();
  }
  /// The thread's end: does what is left, committed or not.
  void finish() {
    perform(copies_.size());
    clear();
  }
  void clear() {
    copies_.clear(), group_ends_.clear();
    done_ = done_groups_ = 0;
  }

 private:
  void perform(size_t end) {
    for (; done_ < end; ++done_) {
      const AsyncCopy& copy = copies_[done_];
      if (copy.from)
        std::memcpy(copy.to, copy.from, copy.bytes);
      else
        std::memset(copy.to, 0, copy.bytes);
    }
  }

  void forget_done() {
    copies_.erase(copies_.begin(), copies_.begin() + ptrdiff_t(done_));
    group_ends_.erase(group_ends_.begin(), group_ends_.begin() + ptrdiff_t(done_groups_));
    for (size_t& end : group_ends_) end -= done_;
    done_ = done_groups_ = 0;
  }

  std::vector<AsyncCopy> copies_;
  std::vector<size_t> group_ends_;  ///< in copies_
  size_t done_ = 0, done_groups_ = 0;
};

}  // namespace tegula::emulator
