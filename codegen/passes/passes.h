// The passes of passes.def. Each changes the function in place; a pass that meets a user's mistake reports it.
#pragma once

#include "codegen/ir/ir.h"
#include "codegen/ir/verifier.h"
#include "codegen/target/target.h"
#include "runtime/base/diag.h"
#include "runtime/kernel_image.h"

namespace tegula {

struct PassContext {
  Target target;
  Diagnostics& diags;
  /// How asynchronous copies complete.
  ir::Completion completion = ir::Completion::Group;
  /// Loops that got fewer stages than were asked for.
  std::vector<FewerStages> fewer_stages = {};
  /// How pipelined loops copy their operands, and how the results of products are stored.
  std::vector<Transfer> transfers = {};
};

namespace passes {
#define TEGULA_PASS(name, before, after, doc) void name(ir::Func& func, PassContext& context);
#include "codegen/passes/passes.def"
}  // namespace passes

struct PassInfo {
  const char* name;
  ir::Stage before;
  ir::Stage after;
  const char* doc;
  void (*run)(ir::Func&, PassContext&);
};
/// All passes in pipeline order.
const std::vector<PassInfo>& pass_table();

}  // namespace tegula
