#include "runtime/base/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

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

// Those that are free, and who waits for one.
class Slots {
 public:
  explicit Slots(unsigned count) : free_(count) {}

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

// Never destroyed: threads may compile while the process ends.
Slots& slots() {
  static auto* all = new Slots(std::max(processors(), processors_of(getpid())));
  return *all;
}

}  // namespace

unsigned processors() { return processors_of(0); }

ProcessorSlot::ProcessorSlot(uint64_t turn) { slots().take(turn); }
ProcessorSlot::~ProcessorSlot() { slots().give_back(); }

uint64_t ProcessorSlot::next_turn() {
  static std::atomic<uint64_t> given{0};
  return ++given;
}

}  // namespace tegula
