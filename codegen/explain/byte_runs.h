// The bytes of one access as intervals.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "codegen/explain/access_trace.h"

namespace tegula::explaining {

using Interval = std::pair<int64_t, int64_t>;  ///< [begin, end) of bytes

/// The bytes where the mask holds, as ascending intervals that do not touch; `useful` receives how many bytes elements
/// ask for, repeated ones counted once. Addresses must be known.
std::vector<Interval> byte_runs(const Access& access, int64_t& useful);

/// The intervals in whole units of so many bytes, joined where they touch.
std::vector<Interval> in_units(const std::vector<Interval>& runs, int64_t unit);
int64_t total(const std::vector<Interval>& runs);

/// A set of bytes that grows by intervals.
class ByteSet {
 public:
  /// Bytes that were not there before.
  int64_t insert(Interval interval);
  int64_t size() const { return size_; }
  bool intersects(Interval interval) const;
  std::vector<Interval> intervals() const;

 private:
  std::map<int64_t, int64_t> ends_;  ///< by begin; apart
  int64_t size_ = 0;
};

}  // namespace tegula::explaining
