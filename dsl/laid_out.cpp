#include "dsl/laid_out.h"

#include <iterator>

namespace tegula::dsl {

LaidOut LaidOutFuncs::get(const std::string& key, const std::function<LaidOut()>& make) {
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    if (auto found = places_.find(key); found != places_.end()) {
      order_.splice(order_.end(), order_, found->second);
    } else {
      auto added = std::make_shared<Entry>();
      added->key = key;
      places_[key] = order_.insert(order_.end(), std::move(added));
      if (order_.size() > kMost) {
        places_.erase(order_.front()->key);
        order_.pop_front();
      }
    }
    entry = order_.back();
  }
  std::call_once(entry->made, [&] { entry->value = make(); });
  return entry->value;
}

}  // namespace tegula::dsl
