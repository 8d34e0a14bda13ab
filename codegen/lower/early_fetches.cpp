// What a kernel loads first is brought to the L2 cache while it waits for the kernels ahead of it: they may write it
// yet, but all of them do so in that cache.
#include <unordered_set>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/equal_elements.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

constexpr int64_t kBytesOfAccess = 16;
// Bytes a thread. With 128 as many programs as fill a GPU take longer than without (measured on an H200).
constexpr int64_t kBytes = 64;

bool has_products(const ir::Op& loop) {
  bool found = false;
  for (const auto& region : loop.regions) ir::walk(*region, [&](const ir::Op& op) { found |= ir::is_product(op); });
  return found;
}

// The loop of products that the ops from `first` on come ahead of, in the function's body; null: none.
const ir::Op* next_loop(const ir::Func& func, const ir::Op& first) {
  bool begun = false;
  for (const auto& op : func.body.ops) {
    begun |= op.get() == &first;
    if (begun && !op->regions.empty()) return op->opcode == ir::Opcode::For && has_products(*op) ? op.get() : nullptr;
  }
  return nullptr;
}

// What all programs read is in caches soon, and is often what the kernel ahead writes.
bool is_worth_it(const ir::Op& load, const LaunchValues& values) {
  const ir::Type& type = load.result()->type;
  return type.is_tile() && !type.pointer && load.get(ir::attr::vector) * type.bits() >= 8 * kBytesOfAccess &&
         values.depends_on_program(load.operand(0));
}

// Computations of a thread by itself.
bool is_repeatable(const ir::Op& op, const SharedPlan& shared) {
  switch (op.opcode) {
    case ir::Opcode::Constant:
    case ir::Opcode::ProgramId:
    case ir::Opcode::NumPrograms:
    case ir::Opcode::Arange:
    case ir::Opcode::Splat:
    case ir::Opcode::Broadcast:
    case ir::Opcode::ExpandDims:
    case ir::Opcode::Reshape:
    case ir::Opcode::Trans:
      return !shared.offset.contains(&op);
    default:
      return op.has(ir::Pure) && op.has(ir::Elementwise) && !shared.offset.contains(&op);
  }
}

// What has to be computed of the ops between the wait and the loop before the wait already, so that some loads'
// addresses are known.
class EarlyOps {
 public:
  EarlyOps(const SharedPlan& shared, std::unordered_set<const ir::Op*> between)
      : shared_(shared), between_(std::move(between)) {}

  // Has them computed that the load's address and mask follow from; false if these are not known without memory.
  bool add(const ir::Op& load) {
    std::unordered_set<const ir::Op*> more;
    for (int operand : {0, 1})
      if (load.operand(operand) && !add(load.operand(operand), more)) return false;
    computed_.merge(more);
    return true;
  }

  bool computes(const ir::Op& op) const { return computed_.contains(&op); }

 private:
  bool add(const ir::Value* value, std::unordered_set<const ir::Op*>& more) const {
    const ir::Op* op = value->def;
    if (!op || !between_.contains(op) || computes(*op) || more.contains(op)) return true;
    if (!is_repeatable(*op, shared_)) return false;
    for (const ir::Value* operand : op->operands)
      if (operand && !add(operand, more)) return false;
    more.insert(op);
    return true;
  }

  const SharedPlan& shared_;
  const std::unordered_set<const ir::Op*> between_;
  std::unordered_set<const ir::Op*> computed_;
};

}  // namespace

// Addresses are computed once more where they stand, and LLVM takes the two for one.
void Lowering::fetch_early(const ir::Op& first) {
  if (!dependent_launch() || copy_warps_) return;
  const ir::Op* loop = next_loop(func, first);
  if (!loop) return;
  std::vector<const ir::Op*> between;
  for (const auto& op : func.body.ops) {
    if (op.get() == loop) break;
    if (!between.empty() || op.get() == &first) between.push_back(op.get());
  }
  const AxisAnalysis axis(func);
  const CostInputs inputs;
  const LaunchValues values(func, axis, inputs);
  EarlyOps early(shared, {between.begin(), between.end()});
  std::unordered_set<const ir::Op*> loads;
  int64_t left = kBytes;
  for (const ir::Op* op : between) {
    if (op->opcode != ir::Opcode::Load || !is_worth_it(*op, values)) continue;
    left -= register_bytes(*op);
    if (left >= 0 && early.add(*op)) loads.insert(op);
  }
  for (const ir::Op* op : between) {
    if (early.computes(*op)) lower_op(*op);
    if (loads.contains(op)) fetch_load(*this, *op);
  }
}

}  // namespace tegula::lower
