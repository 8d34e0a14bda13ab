// Which iterations a loop has.
#pragma once

#include "codegen/ir/builder.h"

namespace tegula {

/// An integer in 64 bits, which hold what a narrower induction variable would overflow.
ir::Value* wide(ir::Builder& build, ir::Value* x);

/// Whether the iterations of `loop`, a For, are known to go up.
bool goes_up(const ir::Op& loop);

/// Whether `loop`, a For, gets to the iteration with the induction variable `at`, of any width, which is some steps on
/// from its first one.
ir::Value* within_loop(ir::Builder& build, const ir::Op& loop, ir::Value* at);
/// The same for `at` of the loop's own type, which is asked without 64 bits where the iterations go up.
ir::Value* gets_to(ir::Builder& build, const ir::Op& loop, ir::Value* at);

}  // namespace tegula
