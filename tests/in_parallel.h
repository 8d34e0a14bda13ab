// Work of tests on all cores.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/base/processors.h"

namespace tegula {

/// Calls work(i) for 0 <= i < count on all cores.
inline void in_parallel(size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < processors(); ++t)
    threads.emplace_back([&] {
      for (size_t i; (i = next++) < count;) work(i);
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace tegula
