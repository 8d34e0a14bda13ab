// What threads of one process share, and a forked child has none of.
#pragma once

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

namespace tegula {

/// A T of each process. A forked child, which has none of the threads of its parent but all locks as they were held,
/// makes a T of its own when it first asks, and leaves its parent's as it is for good.
template <class T>
class PerProcess {
 public:
  explicit PerProcess(std::function<std::unique_ptr<T>()> make)
      : make_(std::move(make)), current_(new Made{getpid(), make_()}) {}
  ~PerProcess() {
    Made* const made = current_.load();
    if (made->process == getpid()) delete made;
  }
  PerProcess(const PerProcess&) = delete;

  T& get() const {
    Made* made = current_.load(std::memory_order_acquire);
    const pid_t process = getpid();
    while (made->process != process) {
      auto own = std::make_unique<Made>(process, make_());
      if (current_.compare_exchange_strong(made, own.get())) made = own.release();
    }
    return *made->one;
  }

 private:
  struct Made {
    Made(pid_t of, std::unique_ptr<T> it) : process(of), one(std::move(it)) {}
    const pid_t process;
    const std::unique_ptr<T> one;
  };
  const std::function<std::unique_ptr<T>()> make_;
  mutable std::atomic<Made*> current_;
};

}  // namespace tegula
