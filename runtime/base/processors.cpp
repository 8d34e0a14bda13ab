#include "runtime/base/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/base/per_process.h"

namespace tegula {

namespace {

// Of a thread by its number, or of the calling one (0).
unsigned processors_of(pid_t thread) {
  constexpr int kMost = 1 << 14;
  cpu_set_t* set = CPU_ALLOC(kMost);
  const size_t bytes = CPU_ALLOC_SIZE(kMost);
  const bool known = set && sched_getaffinity(thread, bytes, set) == 0;
  const int count = known ? CPU_COUNT_S(bytes, set) : 1;
  CPU_FREE(set);
  return unsigned(std::max(1, count));
}

}  // namespace

// Those that are free, and who waits for one.
class ProcessorSlots {
 public:
  explicit ProcessorSlots(unsigned count) : free_(count) {}

  void take(uint64_t turn) {
    std::unique_lock lock(mutex_);
    if (free_ > 0) {
      --free_;
      return;
    }
    Waiting me;
    waiting_.emplace(turn, &me);
    me.given.wait(lock, [&] { return me.has_one; });
  }

  void give_back() {
    std::lock_guard lock(mutex_);
    if (waiting_.empty()) {
      ++free_;
      return;
    }
    Waiting& next = *waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    next.has_one = true;
    next.given.notify_one();
  }

 private:
  struct Waiting {
    std::condition_variable given;
    bool has_one = false;
  };
  std::mutex mutex_;  ///< guards what follows
  unsigned free_;     ///< none while somebody waits
  std::multimap<uint64_t, Waiting*> waiting_;
};

namespace {

// Never destroyed: threads may compile while the process ends.
ProcessorSlots& slots() {
  static auto* all = new PerProcess<ProcessorSlots>(
      [] { return std::make_unique<ProcessorSlots>(std::max(processors(), processors_of(getpid()))); });
  return all->get();
}

thread_local ProcessorSlot* held = nullptr;  ///< by the thread

}  // namespace

unsigned processors() { return processors_of(0); }

ProcessorSlot::ProcessorSlot(uint64_t turn) : from_(slots()), turn_(turn) {
  from_.take(turn);
  held = this;
}
ProcessorSlot::~ProcessorSlot() {
  if (held == this) held = nullptr;
  if (&from_ == &slots()) from_.give_back();  // else a forked child's copy of one of its parent's
}

ProcessorBreak::ProcessorBreak() : slot_(held && &held->from_ == &slots() ? held : nullptr) {
  if (slot_) slot_->from_.give_back();
}
ProcessorBreak::~ProcessorBreak() {
  if (slot_) slot_->from_.take(slot_->turn_);
}

uint64_t ProcessorSlot::next_turn() {
  static std::atomic<uint64_t> given{0};
  return ++given;
}

}  // namespace tegula
