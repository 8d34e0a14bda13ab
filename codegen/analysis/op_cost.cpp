#include "codegen/analysis/op_cost.h"

#include <bit>

#include "codegen/analysis/register_pressure.h"
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

}  // namespace

OpCost op_cost(const ir::Op& op) {
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
      return real ? OpCost{6 * wide, 1, 1} : OpCost{24 * wide, 0};
    case Opcode::Rem:
      return {(real ? 40 : 24) * wide, real, real};
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
    case Opcode::Sort: {
      const double bits = double(std::bit_width(uint64_t(in.shape.back())) - 1);
      return {1.1 * bits * (bits + 1) * wide, 0};
    }
    case Opcode::MapElementwise: {
      OpCost all{0, 0};
      for (const auto& inner : op.regions[0]->ops) {
        const OpCost one = op_cost(*inner);
        all.slots += one.slots, all.flops += one.flops, all.special += one.special;
      }
      return all;
    }
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
      return {0, 0};
    default:
      return {wide, 0};
  }
}

namespace {

// What mma.sync reaches of wgmma's rate where there are both: docs/benchmarks.md.
constexpr double kSyncRate = 0.5;

double x_bytes(const ir::Op& dot) { return dot.operand(1)->type.bits() / 8.0; }

double filled_up(int64_t extent, int64_t step) { return double((extent + step - 1) / step * step); }

}  // namespace

DotCost dot_cost(const ir::Op& dot, const Target& target) {
  const ir::Type& sums = dot.result()->type;
  const int64_t m = sums.shape[sums.rank() - 2], n = sums.shape.back(), k = dot.operand(0)->type.shape.back();
  const MmaPath path = dot.opcode == Opcode::MmaStart ? MmaPath::Warpgroup : MmaPath::Sync;
  DotCost cost{find_mma(dot, path, target), 2.0 * double(sums.num_elements()) * double(k)};
  if (!cost.instruction) {
    cost.fmas = double(held_elements(sums)) * double(k) * (sums.bits() == 64 ? 2 : 1);
    return cost;
  }
  const MmaInstruction& x = *cost.instruction;
  const bool in_parts = x.a == Elem::F32 && precision_of(dot) == MmaPrecision::Tf32x3;
  const double products = double(sums.num_elements() / (m * n)) * filled_up(m, x.m()) * filled_up(n, 8) *
                          filled_up(k, x.k) * (in_parts ? 3 : 1);
  if (path == MmaPath::Sync) cost.steps = products / (16.0 * 8 * x.k);
  // Each instruction reads its rows of A, if they are in shared memory, and its columns of B.
  if (path == MmaPath::Warpgroup) {
    const double columns = double(dot.get(ir::attr::columns)), rows = dot.operand(0)->type.is_place() ? x.m() : 0;
    const double instructions = double(m * n) / (x.m() * columns);
    cost.shared_bytes = instructions * (rows + columns) * double(k) * x_bytes(dot);
    cost.steps = instructions * double(k) / x.k;
  }
  // Instructions take the same time whatever their types: fp16's have a K of 16.
  cost.tensor_flops = 2 * products * 16 / x.k;
  if (path == MmaPath::Sync && target.has(Feature::Wgmma)) cost.tensor_flops /= kSyncRate;
  return cost;
}

}  // namespace tegula
