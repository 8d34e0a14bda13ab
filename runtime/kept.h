// What others keep of a device, and what drops it before the device ends.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device.h"

namespace tegula {

class KeptOfDevice {
 public:
  /// Has `drop` called before the device ends, unless `owner` has ended by then. `drop` must not throw.
  void before_end(std::weak_ptr<void> owner, std::function<void()> drop);
  /// Calls what it was given.
  void drop() noexcept;

 private:
  struct Item {
    std::weak_ptr<void> owner;
    std::function<void()> drop;
  };
  std::mutex mutex_;
  std::vector<Item> items_;  ///< guarded by it
};

}  // namespace tegula
