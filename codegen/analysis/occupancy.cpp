#include "codegen/analysis/occupancy.h"

#include <algorithm>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/product/plan.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kThreadsPerWarp = 32;
constexpr int64_t kMostRegisters = 255;
constexpr int64_t kSharedBeside = 1024;  // that a program takes beside its own

bool has_chained_products(const Func& func) {
  bool found = false;
  walk(func.body, [&](const Op& op) {
    if (op.opcode != Opcode::For) return;
    const auto& ops = op.regions[0]->ops;
    found |= std::count_if(ops.begin(), ops.end(), [](auto& o) { return o->opcode == Opcode::MmaStart; }) > 1;
  });
  return found;
}

}  // namespace

int64_t programs_by_room(const Func& func, const Target& target, int64_t shared_bytes) {
  return std::min<int64_t>(target.warps_per_sm / func.num_warps(),
                           target.shared_per_sm / (shared_bytes + kSharedBeside));
}

int64_t expected_registers(const Func& func) {
  const AxisAnalysis axes(func);
  const CostInputs inputs;
  const LaunchValues values(func, axes, inputs);
  return RegisterPressure(func, axes, values).peak().words * 2 / 3;
}

bool products_fit(const Func& func, int64_t registers) {
  constexpr int64_t kBesideSums = 32;  // operands, addresses
  bool fit = true;
  walk(func.body, [&](const Op& op) {
    if (is_product(op)) fit &= family_of(op).registers(plan_of(op)) + kBesideSums <= registers;
  });
  return fit;
}

int64_t programs_to_fit(const Func& func, const Target& target, int64_t shared_bytes) {
  constexpr int64_t kPrograms = 2;
  const int64_t limit = target.registers_per_sm / kPrograms / (kThreadsPerWarp * func.num_warps());
  if (func.maxnreg() || limit > kMostRegisters || programs_by_room(func, target, shared_bytes) < kPrograms) return 1;
  if (!has_chained_products(func) || !products_fit(func, limit)) return 1;
  const int64_t registers = expected_registers(func);
  return 10 * registers >= 9 * limit && 10 * registers <= 11 * limit ? kPrograms : 1;
}

}  // namespace tegula
