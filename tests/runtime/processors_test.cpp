#include "runtime/base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/forked_child.h"

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

TEST(Processors, GoToTheThreadsOfTheLeastTurnFirst) {
  const uint64_t early = ProcessorSlot::next_turn(), late = ProcessorSlot::next_turn();
  EXPECT_LT(0u, early);
  EXPECT_LT(early, late);
  std::vector<std::unique_ptr<ProcessorSlot>> all;
  for (unsigned i = 0; i < processors(); ++i) all.push_back(std::make_unique<ProcessorSlot>());
  std::mutex mutex;
  std::vector<uint64_t> order;
  std::vector<std::thread> threads;
  for (uint64_t turn : {late, late, early, uint64_t(0), early}) {
    threads.emplace_back([&, turn] {
      ProcessorSlot slot(turn);
      std::lock_guard lock(mutex);
      order.push_back(turn);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that it waits
  }
  all.pop_back();  // the only one that goes from thread to thread
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(order, (std::vector<uint64_t>{0, early, early, late, late}));
}

TEST(Processors, AreFreeForOthersInABreak) {
  std::vector<std::unique_ptr<ProcessorSlot>> all;
  for (unsigned i = 0; i < processors(); ++i) all.push_back(std::make_unique<ProcessorSlot>());
  std::thread([] { ProcessorBreak of_none; }).join();
  std::atomic<bool> has_one{false}, done{false};
  std::thread other([&] {
    ProcessorSlot slot;
    has_one = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done = true;
  });
  {
    ProcessorBreak mine;
    while (!has_one) std::this_thread::yield();
  }
  EXPECT_TRUE(done) << "is taken again when one is free";
  other.join();
}

TEST(Processors, AreFreeInAForkedChild) {
  std::vector<std::unique_ptr<ProcessorSlot>> all;
  for (unsigned i = 0; i < processors(); ++i) all.push_back(std::make_unique<ProcessorSlot>());
  std::thread waits([] { ProcessorSlot slot; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(true_in_forked_child([&] {
    all.clear();
    for (unsigned i = 0; i < processors(); ++i) all.push_back(std::make_unique<ProcessorSlot>());
    return true;
  }));
  all.clear();
  waits.join();
}

}  // namespace
}  // namespace tegula
