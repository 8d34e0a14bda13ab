// Helpers of the pipeline's steps to insert and to remove ops.
#pragma once

#include <algorithm>
#include <memory>

#include "codegen/ir/builder.h"
#include "runtime/base/check.h"

namespace tegula {

inline ir::Builder before(ir::Op& op, const Loc& loc) {
  ir::Builder build;
  build.set_before(&op);
  build.set_loc(loc);
  return build;
}
inline ir::Builder before(ir::Op& op) { return before(op, op.loc); }

inline ir::Builder behind(ir::Op& op, const Loc& loc) {
  ir::Builder build;
  build.set_after(&op);
  build.set_loc(loc);
  return build;
}
inline ir::Builder behind(ir::Op& op) { return behind(op, op.loc); }

/// An i32.
inline ir::Value* number(ir::Builder& build, int64_t value) {
  return build.constant(ir::Type::scalar(Elem::I32), value);
}

/// An i1.
inline ir::Value* truth(ir::Builder& build, bool value) { return build.constant(ir::Type::scalar(Elem::I1), value); }

/// Whether the op takes the value, or an op within its regions.
inline bool uses(const ir::Op& op, const ir::Value* v) {
  auto takes = [&](const ir::Op& user) { return std::ranges::find(user.operands, v) != user.operands.end(); };
  bool found = takes(op);
  for (const auto& region : op.regions) ir::walk(*region, [&](const ir::Op& inner) { found |= takes(inner); });
  return found;
}

/// Deletes the op, whose results must have no uses.
inline void erase(ir::Op& op) {
  std::erase_if(op.parent->ops, [&](auto& other) { return other.get() == &op; });
}

/// Takes the op out of its block.
inline std::unique_ptr<ir::Op> take(ir::Op& op) {
  auto& ops = op.parent->ops;
  auto at = std::find_if(ops.begin(), ops.end(), [&](auto& other) { return other.get() == &op; });
  std::unique_ptr<ir::Op> taken = std::move(*at);
  ops.erase(at);
  return taken;
}

/// Removes an async_copy or bulk_copy from its block, and deletes its commit and its wait, which follow it until the
/// loop is pipelined.
inline std::unique_ptr<ir::Op> take_copy(ir::Op& copy) {
  auto& ops = copy.parent->ops;
  auto at = std::find_if(ops.begin(), ops.end(), [&](auto& op) { return op.get() == &copy; });
  std::unique_ptr<ir::Op> taken = std::move(*at);
  auto commit = ops.erase(at), wait = std::next(commit);
  TEGULA_CHECK((*commit)->opcode == ir::Opcode::AsyncCommit && (*wait)->opcode == ir::Opcode::AsyncWait,
               "behind a copy stand {} and {}", (*commit)->info().text, (*wait)->info().text);
  ops.erase(commit, std::next(wait));
  return taken;
}

}  // namespace tegula
