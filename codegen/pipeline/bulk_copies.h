// Copies that one instruction issues, in place of copies by threads.
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
  /// Replaces all of the laid-out async_copies, or none: then why_not() tells why.
  BulkForm(ir::Func& func, std::vector<ir::Op*>& copies);
  /// Puts the async_copies back.
  void undo(std::vector<ir::Op*>& copies);

  const std::string& why_not() const { return why_not_; }

 private:
  std::vector<std::unique_ptr<ir::Op>> replaced_;
  std::string why_not_;
};

}  // namespace tegula
