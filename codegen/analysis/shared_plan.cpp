#include "codegen/analysis/shared_plan.h"

#include <algorithm>
#include <vector>

#include "codegen/analysis/conversion.h"

namespace tegula {

namespace {

constexpr int64_t kAlignment = 128;
/// Up to this many bytes in all, every op has its own area; larger ones share.
constexpr int64_t kPrivateBytes = 16 << 10;

int64_t element_bytes(const ir::Type& type) { return std::max(1, type.bits() / 8); }

int64_t reduce_scratch(const ir::Op& op, int num_warps) {
  const ir::Type& in = op.operand(0)->type;
  Dim axis = tile_dim(int(op.attr_int("axis")));
  int64_t partials = in.num_elements() / in.shape[op.attr_int("axis")];
  bool across = false;
  for (int bit = 0; bit < in.layout->in_bits(Dim::Warp); ++bit)
    if (in.layout->basis(Dim::Warp, bit, axis)) partials *= 2, across = true;
  if (!across || num_warps == 1) return 0;
  int64_t bytes = 0;
  for (const ir::Value* x : op.operands) bytes += partials * element_bytes(x->type) + 16;
  return bytes;
}

// Walks the program with the set of areas read since the last barrier.
class BarrierWalk {
 public:
  BarrierWalk(SharedPlan& plan, const std::unordered_map<const ir::Op*, int64_t>& bytes) : plan_(plan), bytes_(bytes) {}

  using Areas = std::vector<std::pair<int64_t, int64_t>>;  // [begin, end)

  Areas block(const ir::Block& block, Areas read) {
    for (auto& op : block.ops) read = visit(*op, std::move(read));
    return read;
  }

 private:
  Areas visit(const ir::Op& op, Areas read) {
    if (op.opcode == ir::Opcode::Barrier) return {};
    if (op.opcode == ir::Opcode::If) {
      Areas a = block(*op.regions[0], read), b = block(*op.regions[1], read);
      a.insert(a.end(), b.begin(), b.end());
      return a;
    }
    if (op.opcode == ir::Opcode::For || op.opcode == ir::Opcode::While) {
      for (int round = 0; round < 2; ++round) {
        Areas after = read;
        for (auto& region : op.regions) after = block(*region, std::move(after));
        read.insert(read.end(), after.begin(), after.end());
      }
      return read;
    }
    auto it = bytes_.find(&op);
    if (it == bytes_.end()) return read;
    std::pair<int64_t, int64_t> area{plan_.offset[&op], plan_.offset[&op] + it->second};
    for (auto& [begin, end] : read)
      if (begin < area.second && area.first < end) plan_.barrier_before.insert(&op);
    return {area};  // the op's own barrier separates it from all earlier reads
  }

  SharedPlan& plan_;
  const std::unordered_map<const ir::Op*, int64_t>& bytes_;
};

}  // namespace

int64_t scratch_bytes(const ir::Op& op, int num_warps) {
  switch (op.opcode) {
    case ir::Opcode::Reduce:
      return op.operand(0)->type.layout ? reduce_scratch(op, num_warps) : 0;
    case ir::Opcode::ExpandDims:
    case ir::Opcode::Broadcast:
    case ir::Opcode::Reshape:
    case ir::Opcode::Trans:
    case ir::Opcode::ConvertLayout: {
      const ir::Type& from = op.operand(0)->type;
      const ir::Type& to = op.result()->type;
      if (!from.layout || !to.layout) return 0;
      if (plan_conversion(*from.layout, operand_view(op)).route != Conversion::Route::Shared) return 0;
      return from.num_elements() * element_bytes(from);
    }
    case ir::Opcode::AtomicRmw: {
      // Owners of an element hand the old value to the threads that hold copies of it.
      const ir::Type& type = op.result()->type;
      return type.num_elements() * element_bytes(type);
    }
    default:
      return 0;
  }
}

SharedPlan plan_shared(const ir::Func& func) {
  SharedPlan plan;
  std::unordered_map<const ir::Op*, int64_t> bytes;
  auto uses = ir::count_uses(func.body);
  int64_t next = 0;
  ir::walk(func.body, [&](const ir::Op& op) {
    if (op.opcode == ir::Opcode::AtomicRmw && !uses.count(op.result())) return;
    int64_t size = scratch_bytes(op, func.num_warps());
    if (size == 0) return;
    size = (size + kAlignment - 1) / kAlignment * kAlignment;
    if (next + size > kPrivateBytes) next = 0;
    bytes[&op] = size;
    plan.offset[&op] = next;
    plan.bytes = std::max(plan.bytes, next + size);
    next += size;
  });
  BarrierWalk(plan, bytes).block(func.body, {});
  return plan;
}

}  // namespace tegula
