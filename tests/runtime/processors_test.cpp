#include "runtime/base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace tegula {
namespace {

TEST(Processors, AreThoseOfTheThreadsAffinity) {
  const unsigned all = processors();
  EXPECT_GE(all, 1u);
  std::thread([] {
    cpu_set_t own, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
    int first = 0;
    while (!CPU_ISSET(first, &own)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(processors(), 1u);
  }).join();
  EXPECT_EQ(processors(), all);
}

TEST(Processors, AreSharedByThreadsThatComputeForLong) {
  std::atomic<unsigned> at_once{0}, most{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3 * processors() + 3; ++i)
    threads.emplace_back([&] {
      ProcessorSlot slot;
      const unsigned now = ++at_once;
      for (unsigned before = most; before < now && !most.compare_exchange_weak(before, now);) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      --at_once;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_LE(most, processors());
}

}  // namespace
}  // namespace tegula
