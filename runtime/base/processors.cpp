#include "runtime/base/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <semaphore>

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

// Never destroyed: threads may compile while the process ends.
std::counting_semaphore<>& slots() {
  static auto* all = new std::counting_semaphore<>(std::max(processors(), processors_of(getpid())));
  return *all;
}

}  // namespace

unsigned processors() { return processors_of(0); }

ProcessorSlot::ProcessorSlot() { slots().acquire(); }
ProcessorSlot::~ProcessorSlot() { slots().release(); }

}  // namespace tegula
