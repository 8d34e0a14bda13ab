// The exception for mistakes of Tegula itself.
#pragma once

#include <string>

#include "runtime/base/error.h"

namespace tegula {

/// A mistake of Tegula itself, found by a check of its own. what() says where, what it was doing, and what a report of
/// it should hold. What was under way has no result; the library works on.
class InternalError : public Error {
 public:
  /// `place`: the file and line of the check. `doing`: "compiling kernel 'softmax'"; may be empty.
  InternalError(std::string place, std::string problem, std::string doing = {});
  const std::string& place() const { return place_; }
  const std::string& problem() const { return problem_; }
  const std::string& doing() const { return doing_; }

 private:
  std::string place_, problem_, doing_;
};

}  // namespace tegula
