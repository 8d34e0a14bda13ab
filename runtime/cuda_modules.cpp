#include "runtime/cuda_modules.h"

#include "runtime/base/processors.h"

namespace tegula {

CudaModules::Made CudaModules::get(const std::string& key, FunctionRef<Made()> make) {
  {
    std::unique_lock lock(mutex_);
    while (entries_[key].in_the_making) {
      lock.unlock();
      {
        ProcessorBreak others_compute;
        lock.lock();
        made_.wait(lock, [&] { return !entries_[key].in_the_making; });
        lock.unlock();
      }
      lock.lock();
    }
    if (Made there = entries_[key].module.lock()) return there;
    std::erase_if(entries_, [](const auto& e) { return !e.second.in_the_making && e.second.module.expired(); });
    entries_[key].in_the_making = true;
  }
  Made made;
  auto finish = [&] {
    {
      std::lock_guard lock(mutex_);
      entries_[key] = {made, false};
    }
    made_.notify_all();
  };
  try {
    made = make();
  } catch (...) {
    finish();
    throw;
  }
  finish();
  return made;
}

}  // namespace tegula
