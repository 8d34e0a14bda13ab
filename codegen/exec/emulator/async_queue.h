// Operations that go on by themselves until they are waited for, each done as late as the waits allow: who reads a
// result without the wait that it needs finds what stood there before.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tegula::emulator {

/// Operations in the order in which they were issued, committed in groups.
template <class Operation>
class AsyncQueue {
 public:
  void issue(Operation operation) { operations_.push_back(std::move(operation)); }
  /// Makes a group of the operations since the last commit; it may be empty.
  void commit() { group_ends_.push_back(operations_.size()); }
  /// Calls `perform` for the operations of all groups but the latest `pending`, the oldest first.
  template <class Perform>
  void wait(size_t pending, Perform&& perform) {
    for (; group_ends_.size() - done_groups_ > pending; ++done_groups_)
      for (; done_ < group_ends_[done_groups_]; ++done_) perform(operations_[done_]);
    if (done_ > 64 && 2 * done_ > operations_.size()) forget_done();
  }
  /// Calls `perform` for all that is left, committed or not.
  template <class Perform>
  void finish(Perform&& perform) {
    for (; done_ < operations_.size(); ++done_) perform(operations_[done_]);
    clear();
  }
  void clear() {
    operations_.clear(), group_ends_.clear();
    done_ = done_groups_ = 0;
  }

 private:
  void forget_done() {
    operations_.erase(operations_.begin(), operations_.begin() + ptrdiff_t(done_));
    group_ends_.erase(group_ends_.begin(), group_ends_.begin() + ptrdiff_t(done_groups_));
    for (size_t& end : group_ends_) end -= done_;
    done_ = done_groups_ = 0;
  }

  std::vector<Operation> operations_;
  std::vector<size_t> group_ends_;  ///< in operations_
  size_t done_ = 0, done_groups_ = 0;
};

}  // namespace tegula::emulator
