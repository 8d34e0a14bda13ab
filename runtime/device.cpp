#include "runtime/device.h"

#include <utility>

namespace tegula {

void Device::before_end(std::weak_ptr<void> owner, std::function<void()> drop) {
  std::lock_guard lock(kept_mutex_);
  std::erase_if(kept_, [](const Kept& kept) { return kept.owner.expired(); });
  kept_.push_back({std::move(owner), std::move(drop)});
}

void Device::drop_kept() noexcept {
  std::vector<Kept> all;
  {
    std::lock_guard lock(kept_mutex_);
    all.swap(kept_);
  }
  for (Kept& kept : all)
    if (auto alive = kept.owner.lock()) kept.drop();
}

}  // namespace tegula
