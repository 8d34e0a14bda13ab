// Constants, ranges and shape ops: they make elements or move them, without computing on them.
#include "codegen/layout/makers.h"
#include "codegen/lower/lowering.h"
#include "runtime/base/float8.h"

namespace tegula::lower {

// ----------------------------------------------------------------------------------------------------- constants

void lower_Unset(Lowering& l, const ir::Op& op) {
  const ir::Type& type = op.result()->type;
  l.set(op.result(), Regs(Lowering::num_registers(type), llvm::PoisonValue::get(l.element_type(type))));
}

void lower_Constant(Lowering& l, const ir::Op& op) {
  const ir::Type& type = op.result()->type;
  llvm::Type* element = l.element_type(type);
  const ir::Attr value = op.get(ir::attr::value);
  llvm::Value* constant = nullptr;
  if (is_float8(type.elem) && !type.pointer)
    constant = llvm::ConstantInt::get(element, float8_bits(float(std::get<double>(value)), type.elem));
  else if (auto* d = std::get_if<double>(&value))
    constant = llvm::ConstantFP::get(element, *d);
  else if (auto* flag = std::get_if<bool>(&value))
    constant = llvm::ConstantInt::get(element, *flag);
  else if (type.is_float())
    constant = llvm::ConstantFP::get(element, double(std::get<int64_t>(value)));
  else if (type.pointer)
    constant = llvm::ConstantExpr::getIntToPtr(l.b.getInt64(uint64_t(std::get<int64_t>(value))), element);
  else
    constant = llvm::ConstantInt::get(
        element, llvm::APInt(unsigned(type.bits()), uint64_t(std::get<int64_t>(value)), false, true));
  l.set(op.result(), Regs(Lowering::num_registers(type), constant));
}

namespace {
// `of_cluster` asks the same of programs that are clusters.
void grid_query(Lowering& l, const ir::Op& op, const char* what, const char* of_cluster) {
  if (l.func.num_ctas() > 1) what = of_cluster;
  l.set_scalar(op.result(), l.hw(fmt::format("{}_{}", what, "xyz"[op.get(ir::attr::axis)]), {}));
}
}  // namespace

void lower_ProgramId(Lowering& l, const ir::Op& op) {
  grid_query(l, op, op.get(ir::attr::reverse) ? "program_id_long_first" : "program_id", "cluster_id");
}
void lower_NumPrograms(Lowering& l, const ir::Op& op) {
  if (op.get(ir::attr::of_launch)) return l.set_scalar(op.result(), l.programs_of_launch(int(op.get(ir::attr::axis))));
  grid_query(l, op, "num_programs", "num_clusters");
}

void lower_BlockId(Lowering& l, const ir::Op& op) { l.set_scalar(op.result(), l.block_of_cluster()); }

void lower_GroupId(Lowering& l, const ir::Op& op) { l.set_scalar(op.result(), l.group()); }

void lower_Arange(Lowering& l, const ir::Op& op) {
  const ir::Type& type = op.result()->type;
  llvm::Value* start = l.i32(op.get(ir::attr::start));
  l.set(op.result(), l.map_registers(type, [&](int r) {
    return l.b.CreateAdd(l.coordinate(*type.layout, Dim::Dim0, r), start, "", false, true);
  }));
}

// --------------------------------------------------------------------------------------------------------- shape

void lower_Splat(Lowering& l, const ir::Op& op) {
  l.set(op.result(), Regs(Lowering::num_registers(op.result()->type), l.scalar(op.operand(0))));
}

namespace {

// The address of register r's element of a tile that lies in the op's scratch in row-major order.
llvm::Value* address_in_order(Lowering& l, const ir::Type& type, int r, const ir::Op& op) {
  const int64_t bytes = std::max(1, type.bits() / 8);
  llvm::Value* offset = l.b.CreateMul(l.linear_index(type, r), l.i32(bytes));
  return l.b.CreateAdd(l.shared_address(l.shared.offset.at(&op)), offset);
}

}  // namespace

void Lowering::store_in_order(const ir::Value* tile, const ir::Op& op) {
  const ir::Type& type = tile->type;
  const Regs& regs = get(tile);
  llvm::Value* owner = exchange_owner(op, type.layout.get());
  before_exchange(op);
  const int width = std::min(type.layout->contiguous_registers(type.rank() - 1), 128 / std::max(8, type.bits()));
  for (int r = 0; r < int(regs.size()); r += width) {
    if (canonical_register(type, r) != r) continue;
    store_for_exchange(op, address_in_order(*this, type, r, op), llvm::ArrayRef(regs).slice(size_t(r), size_t(width)),
                       owner);
  }
  exchange_barrier(op);
}

namespace {

// A tile in another shape, by way of shared memory in row-major order: for layouts that algebra does not relate.
Regs exchange_in_order(Lowering& l, const ir::Op& op) {
  const ir::Type& to = op.result()->type;
  l.store_in_order(op.operand(0), op);
  return l.map_registers(
      to, [&](int r) { return l.load_shared(address_in_order(l, to, r, op), l.element_type(to), 1, op.loc)[0]; });
}

void move(Lowering& l, const ir::Op& op) {
  const ir::Type& from = op.operand(0)->type;
  if (!from.layout || !op.result()->type.layout) {  // between a scalar and a tile of one element
    l.set(op.result(), Regs(Lowering::num_registers(op.result()->type), l.scalar(op.operand(0))));
    return;
  }
  if (auto view = operand_view(op))
    l.set(op.result(), l.convert(l.get(op.operand(0)), from.element(), *from.layout, *view, op));
  else
    l.set(op.result(), exchange_in_order(l, op));
}
}  // namespace

void lower_Broadcast(Lowering& l, const ir::Op& op) { move(l, op); }
void lower_ExpandDims(Lowering& l, const ir::Op& op) { move(l, op); }
void lower_Reshape(Lowering& l, const ir::Op& op) { move(l, op); }
void lower_Trans(Lowering& l, const ir::Op& op) {
  if (op.result()->type.is_place()) return l.set_scalar(op.result(), l.scalar(op.operand(0)));
  move(l, op);
}
void lower_ConvertLayout(Lowering& l, const ir::Op& op) { move(l, op); }

llvm::Value* Lowering::shuffle(llvm::Value* x, llvm::Value* lane_or_mask, bool butterfly) {
  llvm::Type* type = x->getType();
  if (type->isPointerTy())
    return b.CreateIntToPtr(shuffle(b.CreatePtrToInt(x, b.getInt64Ty()), lane_or_mask, butterfly), type);
  const unsigned bits = type->getPrimitiveSizeInBits();
  const bool wide = bits > 32;
  llvm::Value* whole = b.CreateZExt(b.CreateBitCast(x, b.getIntNTy(bits)), wide ? b.getInt64Ty() : b.getInt32Ty());
  const char* row = butterfly ? (wide ? "shfl_bfly_b64" : "shfl_bfly_b32") : (wide ? "shfl_idx_b64" : "shfl_idx_b32");
  return b.CreateBitCast(b.CreateTrunc(hw(row, {whole, lane_or_mask}), b.getIntNTy(bits)), type);
}

}  // namespace tegula::lower
