#include "runtime/base/processors.h"

#include <sched.h>

#include <algorithm>

namespace tegula {

unsigned processors() {
  constexpr int kMost = 1 << 14;
  cpu_set_t* set = CPU_ALLOC(kMost);
  const size_t bytes = CPU_ALLOC_SIZE(kMost);
  const bool known = set && sched_getaffinity(0, bytes, set) == 0;
  const int count = known ? CPU_COUNT_S(bytes, set) : 1;
  CPU_FREE(set);
  return unsigned(std::max(1, count));
}

}  // namespace tegula
