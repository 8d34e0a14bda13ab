// Loads of a loop that come through places in shared memory, where registers do not hold them iterations ahead.
#pragma once

#include <memory>
#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

/// Laid-out loads of a loop's body that are copied to places and read from there:
///
///   x = load a(i)          ->          async_copy a(i), place; t = async_commit; async_wait t
///                                      x = shared_read place
///
/// What is read comes in the layout that it is converted to, where it is converted to one alone.
class CopiedLoads {
 public:
  /// Those of the loads that threads can copy; small ones are left in registers.
  static std::vector<ir::Op*> copyable(const ir::Func& func, const Target& target, const std::vector<ir::Op*>& loads);

  /// Replaces these loads of `loop`, all of them copyable().
  CopiedLoads(ir::Op& loop, const std::vector<ir::Op*>& loads);

  /// The copies, in the order of the program.
  const std::vector<ir::Op*>& copies() const { return copies_; }
  bool replaced(const ir::Op* load) const;

  /// Reads places in the layouts that are asked for.
  void keep();
  /// Puts the loads back.
  void undo();

 private:
  void replace(ir::Op& loop, ir::Op& load);

  std::vector<ir::Op*> copies_, reads_;
  std::vector<std::unique_ptr<ir::Op>> loads_;
};

}  // namespace tegula
