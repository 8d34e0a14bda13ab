#include "runtime/driver/threads.h"

#include <dlfcn.h>

#include <chrono>
#include <mutex>
#include <vector>

namespace tegula::cuda {

bool keep_loaded(const std::string& library) { return dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr; }

void finish_before_exit(std::shared_future<void> work) {
  struct Works {
    std::mutex mutex;
    std::vector<std::shared_future<void>> all;
    ~Works() {
      for (const auto& work : all) work.wait();
    }
  };
  static Works works;
  std::lock_guard lock(works.mutex);
  std::erase_if(works.all,
                [](const auto& w) { return w.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  works.all.push_back(std::move(work));
}

}  // namespace tegula::cuda
