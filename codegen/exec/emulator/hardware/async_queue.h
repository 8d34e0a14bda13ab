// Operations that go on by themselves until they are waited for, each done as late as the waits allow: who reads a
// result without the wait that it needs finds what stood there before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tegula::emulator {

/// Operations in the order in which they were issued, committed in groups.
template <class Operation>
class AsyncQueue {
 public:
  void issue(Operation operation) { operations_.push_back(std::move(operation)); }
  /// How many have been issued.
  uint64_t issued() const { return forgotten_ + operations_.size(); }
  /// Makes a group of the operations since the last commit; it may be empty.
  void commit() { group_ends_.push_back(operations_.size()); }
  /// Calls `perform` for the operations of all groups but the latest `pending`, the oldest first.
  template <class Perform>
  void wait(size_t pending, Perform&& perform) {
    for (; group_ends_.size() - done_groups_ > pending; ++done_groups_)
      for (; done_ < group_ends_[done_groups_]; ++done_) perform(operations_[done_]);
    forget_done();
  }
  /// Calls `perform` for those of the first `count` issued that are not done yet, committed or not.
  template <class Perform>
  void complete(uint64_t count, Perform&& perform) {
    for (; forgotten_ + done_ < count; ++done_) perform(operations_[done_]);
    forget_done();
  }
  /// Calls `visit` for those that no commit has followed.
  template <class Visit>
  void for_uncommitted(Visit&& visit) const {
    for (size_t i = std::max(done_, group_ends_.empty() ? 0 : group_ends_.back()); i < operations_.size(); ++i)
      visit(operations_[i]);
  }
  void clear() {
    operations_.clear(), group_ends_.clear();
    done_ = done_groups_ = forgotten_ = 0;
  }

 private:
  void forget_done() {
    if (done_ <= 64 || 2 * done_ <= operations_.size()) return;
    operations_.erase(operations_.begin(), operations_.begin() + ptrdiff_t(done_));
    group_ends_.erase(group_ends_.begin(), group_ends_.begin() + ptrdiff_t(done_groups_));
    for (size_t& end : group_ends_) end -= std::min(end, done_);
    forgotten_ += done_;
    done_ = done_groups_ = 0;
  }

  std::vector<Operation> operations_;
  std::vector<size_t> group_ends_;  ///< in operations_
  size_t done_ = 0, done_groups_ = 0;
  uint64_t forgotten_ = 0;  ///< done, and no longer in operations_
};

}  // namespace tegula::emulator
