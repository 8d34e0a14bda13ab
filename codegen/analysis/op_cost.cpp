#include "codegen/analysis/op_cost.h"

#include <algorithm>
#include <bit>

#include "codegen/analysis/register_pressure.h"
#include "codegen/analysis/sort_plan.h"
#include "codegen/ir/libdevice.h"

namespace tegula {

using ir::Opcode;

namespace {

// By the kind of its body: a function of libclc is like log, one of instructions like exp.
OpCost libdevice_cost(const ir::Op& op, double wide) {
  std::vector<Elem> elems;
  for (const ir::Value* x : op.operands) elems.push_back(x->type.elem);
  const ir::LibdeviceFunction* f = ir::find_libdevice(op.get(ir::attr::function), elems);
  const bool instructions = f && f->kind == ir::LibdeviceFunction::Body::Ptx;
  return {(instructions ? 2 : 24) * wide * wide, 1, 1};
}

// By a power of two, another constant, few divisors, any: a shift; a product's upper half; that with what corrects it;
// and the reciprocal, by the special function units, before.
OpCost integer_division_cost(const ir::Op& op, bool few_divisors, double wide) {
  const ir::Value* divisor = op.operand(1);
  while (divisor->def && divisor->def->opcode == Opcode::Splat) divisor = divisor->def->operand(0);
  if (divisor->def && divisor->def->opcode == Opcode::Constant) {
    const ir::Attr value = divisor->def->get(ir::attr::value);
    const auto* number = std::get_if<int64_t>(&value);
    return {(number && *number > 0 && std::has_single_bit(uint64_t(*number)) ? 1.5 : 6) * wide, 0};
  }
  return {(few_divisors && wide == 1 ? 12 : 24) * wide, 0};
}

// A tile's layout tells how it is sorted. Without one a network is assumed: of 2^b elements each is compared
// b (b + 1) / 2 times.
OpCost sort_cost(const ir::Op& op, double wide) {
  constexpr double kDigit = 50;    // instructions to move an element by a digit
  constexpr double kBuckets = 70;  // instructions to bring an element into its bucket, and to its place there
  const ir::Type& in = op.operand(0)->type;
  if (in.layout && plan_bucket_sort(op)) return {kBuckets * wide, 0};
  if (in.layout && plan_digit_sort(op)) return {kDigit * std::min(4, in.bits() / 8), 0};
  const double bits = double(std::bit_width(uint64_t(in.shape.back())) - 1);
  return {1.1 * bits * (bits + 1) * wide, 0};
}

OpCost sum_of_costs(const ir::Block& block) {
  OpCost all{0, 0};
  for (const auto& op : block.ops) {
    const OpCost one = op_cost(*op);
    all.slots += one.slots, all.flops += one.flops, all.special += one.special;
  }
  return all;
}

}  // namespace

OpCost op_cost(const ir::Op& op, bool few_divisors) {
  const ir::Type& type = op.results.empty() ? op.operand(0)->type : op.result()->type;
  const ir::Type& in = op.operands.empty() || !op.operand(0) ? type : op.operand(0)->type;
  bool real = in.is_float();
  double wide = in.bits() == 64 ? 2 : 1;
  switch (op.opcode) {
    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::Mul:
    case Opcode::Minimum:
    case Opcode::Maximum:
      return {(real ? 1 : 1.5) * wide, real};
    case Opcode::Fma:
      return {wide, 2};
    case Opcode::Neg:
    case Opcode::Abs:
      return {0.5 * wide, real};
    case Opcode::Div:
    case Opcode::DivRn:
      if (!real) return integer_division_cost(op, few_divisors, wide);
      return op.opcode == Opcode::Div && few_divisors && wide == 1 ? OpCost{1, 1} : OpCost{6 * wide, 1, 1};
    case Opcode::Rem:
      return real ? OpCost{40 * wide, 1, 1} : integer_division_cost(op, few_divisors, wide);
    case Opcode::Exp:
    case Opcode::Exp2:
    case Opcode::FastTanh:
    case Opcode::Rsqrt:
    case Opcode::Sqrt:
    case Opcode::SqrtRn:
      return {2 * wide * wide, 1, 1};
    case Opcode::Log:
    case Opcode::Log2:
    case Opcode::Tanh:
    case Opcode::Erf:
    case Opcode::Sin:
    case Opcode::Cos:
      return {24 * wide * wide, 1, 1};
    case Opcode::Libdevice:
      return libdevice_cost(op, wide);
    case Opcode::Pow:
      return {70 * wide * wide, 1, 2};
    case Opcode::Floor:
    case Opcode::Ceil:
      return {2, 1};
    case Opcode::Cast:
      return {1, 0};
    case Opcode::Sort:
      return sort_cost(op, wide);
    case Opcode::MapElementwise:
      return sum_of_costs(*op.regions[0]);
    case Opcode::Constant:
    case Opcode::Unset:
    case Opcode::Bitcast:
    case Opcode::Hint:
    case Opcode::Splat:
    case Opcode::Broadcast:
    case Opcode::ExpandDims:
    case Opcode::Reshape:
    case Opcode::Trans:
    case Opcode::Arange:
    case Opcode::ProgramId:
    case Opcode::NumPrograms:
    case Opcode::BlockId:
    case Opcode::GroupId:
      return {0, 0};
    default:
      return {wide, 0};
  }
}

double slots_of_element(const ir::Op& op) {
  if (!op.info().combines()) return op.has(ir::Terminator) ? 0 : op_cost(op).slots;
  double slots = 0;
  for (const auto& inner : op.regions[0]->ops) slots += slots_of_element(*inner);
  return slots;
}

const ir::Value* largest_tile(const ir::Op& op) {
  const ir::Value* v = op.operand(0);
  if (!op.results.empty() && (!v || op.result()->type.num_elements() > v->type.num_elements())) v = op.result();
  return v && v->type.is_tile() ? v : nullptr;
}

}  // namespace tegula
