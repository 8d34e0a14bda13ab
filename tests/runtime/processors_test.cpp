#include "runtime/base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

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

}  // namespace
}  // namespace tegula
