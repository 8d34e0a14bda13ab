#include "codegen/analysis/occupancy.h"

#include <algorithm>
#include <map>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/equal_elements.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/analysis/op_cost.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/product/plan.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kThreadsPerWarp = 32;
constexpr int64_t kMostRegisters = 255;
constexpr int64_t kSharedBeside = 1024;  // that a program takes beside its own

// Instructions for an element of what the function computes, `floats_alone`: of its arithmetic on floating point.
double slots_of_elements(const Func& func, bool floats_alone = false) {
  double slots = 0;
  for (const auto& op : func.body.ops) {
    const Value* tile = largest_tile(*op);
    if (!tile || !tile->type.is_tile()) continue;
    const bool is_float = op->has(Elementwise) && op->result()->type.is_float();
    if (is_float || !floats_alone) slots += slots_of_element(*op);
  }
  return slots;
}

bool is_scalar_or_vector(const Op& access) {
  return !access.operand(0)->type.is_tile() || access.get(attr::vector) > 1;
}

// Conversions that the GPU has no instruction for are long.
bool converts_by_hand(const Op& op, const Target& target) {
  auto is_float8 = [](const Value* v) { return v->type.is_float() && v->type.bits() == 8; };
  return op.opcode == Opcode::Cast && !target.has(Feature::CvtFloat8) &&
         (is_float8(op.operand(0)) || is_float8(op.result()));
}

// Whether threads do nothing but load vectors, compute and store, one op after the other. Long computations, as of
// random numbers, hold more than what is loaded, and are not held up by loads.
bool is_stream(const Func& func, const Target& target) {
  constexpr double kMostSlots = 80;
  return slots_of_elements(func) <= kMostSlots &&
         std::all_of(func.body.ops.begin(), func.body.ops.end(), [&](auto& op) {
           if (op->opcode == Opcode::Return) return true;
           if (op->opcode == Opcode::Load || op->opcode == Opcode::Store) return is_scalar_or_vector(*op);
           return op->regions.empty() && op->has(Pure) && scratch_bytes(*op) == 0 && !converts_by_hand(*op, target);
         });
}

// Registers of a thread of a stream that has all it loads on its way at once: what is loaded, the addresses, and what
// it computes with, more where it computes long.
int64_t registers_of_stream(const Func& func) {
  constexpr int64_t kBesideLoads = 16, kInLongOnes = 8, kWord = 4, kWordsOfAddress = 2;
  constexpr double kLongSlots = 36;
  const AxisAnalysis axes(func);
  const CostInputs inputs;
  const LaunchValues values(func, axes, inputs);
  RegisterPressure pressure(func, axes, values);
  int64_t words = kBesideLoads + (slots_of_elements(func, true) > kLongSlots ? kInLongOnes : 0);
  std::map<const Value*, int64_t> addresses;
  for (const auto& op : func.body.ops) {
    if (op->opcode == Opcode::Load) words += register_bytes(*op) / kWord;
    if (op->opcode != Opcode::Load && op->opcode != Opcode::Store) continue;
    const Value* pointer = op->operand(0);
    const int64_t accesses = std::max<int64_t>(1, held_elements(pointer->type) / op->get(attr::vector));
    addresses[pointer] = std::min(pressure.distinct_registers(pointer), accesses);
  }
  for (const auto& [pointer, different] : addresses) words += kWordsOfAddress * different;
  return words;
}

// As many programs as have registers for all that they load. If it is free to, the assembler takes so few that it puts
// loads off until those before have been used: then few bytes are on their way, or few programs run. Of 120 kernels
// that read 1 to 4 arrays, with 8 to 64 elements a thread and 4 to 16 warps, 22 take 0.95 to 0.5 of the time by this on
// an H200, and none more than 1.02.
int64_t programs_of_stream(const Func& func, const Target& target, int64_t shared_bytes) {
  constexpr int64_t kUnit = 8;  // of the registers that a thread gets
  const int64_t registers = (registers_of_stream(func) + kUnit - 1) / kUnit * kUnit;
  const int64_t by_registers = programs_by_registers(func, target, registers);
  return std::max<int64_t>(1, std::min(by_registers, programs_by_room(func, target, shared_bytes)));
}

}  // namespace

int64_t programs_by_room(const Func& func, const Target& target, int64_t shared_bytes) {
  return std::min<int64_t>(target.programs_of(func.num_warps()), target.shared_per_sm / (shared_bytes + kSharedBeside));
}

int64_t programs_by_registers(const Func& func, const Target& target, int64_t registers) {
  return target.registers_per_sm / (kThreadsPerWarp * func.num_warps() * std::max<int64_t>(1, registers));
}

int64_t live_registers(const Func& func) {
  const AxisAnalysis axes(func);
  const CostInputs inputs;
  const LaunchValues values(func, axes, inputs);
  return RegisterPressure(func, axes, values).peak().words;
}

int64_t expected_registers(const Func& func) { return live_registers(func) * 2 / 3; }

bool has_chained_products(const Func& func) {
  bool found = false;
  walk(func.body, [&](const Op& op) {
    if (op.opcode != Opcode::For) return;
    const auto& ops = op.regions[0]->ops;
    found |= std::count_if(ops.begin(), ops.end(), [](auto& o) { return o->opcode == Opcode::MmaStart; }) > 1;
  });
  return found;
}

bool products_fit(const Func& func, int64_t registers) {
  bool fit = true;
  walk(func.body, [&](const Op& op) {
    if (is_product(op)) fit &= family_of(op).registers(plan_of(op)) + kBesideSums <= registers;
  });
  return fit;
}

int64_t programs_to_fit(const Func& func, const Target& target, int64_t shared_bytes) {
  if (!func.maxnreg() && is_stream(func, target)) return programs_of_stream(func, target, shared_bytes);
  constexpr int64_t kPrograms = 2;
  const int64_t limit = target.registers_per_sm / kPrograms / (kThreadsPerWarp * func.num_warps());
  if (func.maxnreg() || limit > kMostRegisters || programs_by_room(func, target, shared_bytes) < kPrograms) return 1;
  if (!has_chained_products(func) || !products_fit(func, limit)) return 1;
  const int64_t registers = expected_registers(func);
  return 10 * registers >= 9 * limit && 10 * registers <= 11 * limit ? kPrograms : 1;
}

}  // namespace tegula
