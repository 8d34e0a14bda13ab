// Bulk copies, which one thread issues as one instruction, in place of copies by all threads.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// The copies of a loop as bulk copies:
///
///   async_copy pointers, place, mask     ->     bulk_copy map, place, _, _, coordinates
///
/// where the pointers and the mask make a tile of an array (AffineTiles) and boxes of the array make up the place. The
/// map stands at the function's begin. What all blocks of a cluster want is marked as a multicast, which needs warps of
/// its own (Partition): where the loop gets none, each block copies for itself. A bulk copy gets its barrier, and slots
/// of the place, when the loop is pipelined.
class BulkForm {
 public:
  /// Replaces all of the laid-out async_copies, or none; why_not() then gives the reason.
  BulkForm(ir::Func& func, std::vector<ir::Op*>& copies);
  /// Restores the async_copies.
  void undo(std::vector<ir::Op*>& copies);

  const std::string& why_not() const { return why_not_; }

 private:
  std::vector<std::unique_ptr<ir::Op>> replaced_;
  std::string why_not_;
};

}  // namespace tegula
