// What was made last, for all who ask for it.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/function.h"
#include "runtime/base/processors.h"

namespace tegula::dsl {

/// The last so many values that were asked for, by key. Thread-safe: of threads that ask for the same one, one makes
/// it, and the others wait without the processors that they may hold.
template <class Value>
class LastMade {
 public:
  explicit LastMade(size_t most) : most_(most) {}

  /// What `make` gives, now or before under the same key. What it throws is not kept.
  Value get(const std::string& key, tegula::FunctionRef<Value()> make) {
    const std::shared_ptr<Entry> entry = entry_of(key);
    std::unique_lock lock(entry->mutex);
    while (entry->state == State::InTheMaking) {
      lock.unlock();
      wait(*entry);
      lock.lock();
    }
    if (entry->state == State::Made) return entry->value;
    entry->state = State::InTheMaking;
    lock.unlock();
    try {
      Value made = make();
      lock.lock();
      entry->value = std::move(made);
      entry->state = State::Made;
    } catch (...) {
      if (!lock) lock.lock();
      entry->state = State::Open;
      entry->changed.notify_all();
      throw;
    }
    entry->changed.notify_all();
    return entry->value;
  }

 private:
  enum class State { Open, InTheMaking, Made };
  struct Entry {
    std::string key;
    std::mutex mutex;  ///< guards what follows
    std::condition_variable changed;
    State state = State::Open;
    Value value;
  };

  static void wait(Entry& entry) {
    ProcessorBreak others_compute;
    std::unique_lock lock(entry.mutex);
    entry.changed.wait(lock, [&] { return entry.state != State::InTheMaking; });
  }

  std::shared_ptr<Entry> entry_of(const std::string& key) {
    std::lock_guard lock(mutex_);
    if (auto found = places_.find(key); found != places_.end()) {
      order_.splice(order_.end(), order_, found->second);
    } else {
      auto added = std::make_shared<Entry>();
      added->key = key;
      places_[key] = order_.insert(order_.end(), std::move(added));
      if (order_.size() > most_) {
        places_.erase(order_.front()->key);
        order_.pop_front();
      }
    }
    return order_.back();
  }

  const size_t most_;
  std::mutex mutex_;                         ///< guards what follows
  std::list<std::shared_ptr<Entry>> order_;  ///< the last used one at the end
  std::map<std::string, typename std::list<std::shared_ptr<Entry>>::iterator> places_;
};

}  // namespace tegula::dsl
