// Values from nowhere, shape ops and layout conversions: what moves or makes elements without computing on them.
#include "codegen/layout/makers.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

// ----------------------------------------------------------------------------------------------------- constants

void lower_Constant(Lowering& l, const ir::Op& op) {
  const ir::Type& type = op.result()->type;
  llvm::Type* element = l.element_type(type);
  const ir::Attr& value = op.attrs.at("value");
  llvm::Value* constant = nullptr;
  if (auto* d = std::get_if<double>(&value))
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
void grid_query(Lowering& l, const ir::Op& op, const char* what) {
  l.set_scalar(op.result(), l.hw(fmt::format("{}_{}", what, "xyz"[op.attr_int("axis")]), {}));
}
}  // namespace

void lower_ProgramId(Lowering& l, const ir::Op& op) { grid_query(l, op, "program_id"); }
void lower_NumPrograms(Lowering& l, const ir::Op& op) { grid_query(l, op, "num_programs"); }

void lower_Arange(Lowering& l, const ir::Op& op) {
  const ir::Type& type = op.result()->type;
  llvm::Value* start = l.i32(op.attr_int("start"));
  l.set(op.result(), l.map_registers(type, [&](int r) {
    return l.b.CreateAdd(l.coordinate(*type.layout, Dim::Dim0, r), start, "", false, true);
  }));
}

// --------------------------------------------------------------------------------------------------------- shape

void lower_Splat(Lowering& l, const ir::Op& op) {
  l.set(op.result(), Regs(Lowering::num_registers(op.result()->type), l.scalar(op.operand(0))));
}

namespace {
void move(Lowering& l, const ir::Op& op) {
  const ir::Type& from = op.operand(0)->type;
  if (!from.layout || !op.result()->type.layout) {  // between a scalar and a tile of one element
    l.set(op.result(), Regs(Lowering::num_registers(op.result()->type), l.scalar(op.operand(0))));
    return;
  }
  l.set(op.result(), l.convert(l.get(op.operand(0)), from.element(), *from.layout, operand_view(op), op));
}
}  // namespace

void lower_Broadcast(Lowering& l, const ir::Op& op) { move(l, op); }
void lower_ExpandDims(Lowering& l, const ir::Op& op) { move(l, op); }
void lower_Reshape(Lowering& l, const ir::Op& op) { move(l, op); }
void lower_Trans(Lowering& l, const ir::Op& op) { move(l, op); }
void lower_ConvertLayout(Lowering& l, const ir::Op& op) { move(l, op); }

// --------------------------------------------------------------------------------------------------- conversions

namespace {

// Output `dim` of a (register, lane, warp) -> (register, lane, warp) map for one register, as constant and thread part.
int32_t register_part(const LinearLayout& map, Dim dim, int r) {
  int32_t value = 0;
  for (int bit = 0; bit < map.in_bits(Dim::Register); ++bit)
    if (r >> bit & 1) value ^= map.basis(Dim::Register, bit, dim);
  return value;
}

Regs convert_in_registers(const Regs& regs, const LinearLayout& map, int n) {
  Regs out;
  for (int r = 0; r < n; ++r) out.push_back(regs[register_part(map, Dim::Register, r)]);
  return out;
}

Regs convert_by_shuffles(Lowering& l, const Regs& regs, const LinearLayout& map, int n) {
  // The register to read may depend on one bit of the reader's lane: then both candidates are shuffled.
  int chooser = -1;
  for (int bit = 0; bit < map.in_bits(Dim::Lane); ++bit)
    if (map.basis(Dim::Lane, bit, Dim::Register)) chooser = bit;
  Regs out;
  std::map<std::pair<int, int>, llvm::Value*> done;
  for (int r = 0; r < n; ++r) {
    int lane_constant = register_part(map, Dim::Lane, r), source = register_part(map, Dim::Register, r);
    auto [it, fresh] = done.try_emplace({lane_constant, source}, nullptr);
    if (fresh) {
      llvm::Value* lane = l.b.CreateXor(l.thread_part(map, Dim::Lane), l.i32(lane_constant));
      llvm::Value* x = l.shuffle(regs[source], lane, false);
      if (chooser >= 0) {
        int other = source ^ map.basis(Dim::Lane, chooser, Dim::Register);
        llvm::Value* y = l.shuffle(regs[other], lane, false);
        llvm::Value* bit = l.b.CreateTrunc(l.b.CreateLShr(l.thread(), uint64_t(chooser)), l.b.getInt1Ty());
        x = l.b.CreateSelect(bit, y, x);
      }
      it->second = x;
    }
    out.push_back(it->second);
  }
  return out;
}

// Consecutive elements that registers 0 .. n - 1 (n a power of two) reach at consecutive offsets, everything else
// moving by multiples of n.
int consecutive(const LinearLayout& to_offset, int limit) {
  int n = 1;
  for (int bit = 0; bit < to_offset.in_bits(Dim::Register) && n < limit; ++bit) {
    if (to_offset.basis(Dim::Register, bit, Dim::Offset) != n) break;
    n *= 2;
  }
  for (; n > 1; n /= 2) {
    bool aligned = true;
    for (auto& in : to_offset.ins())
      for (int bit = 0; bit < int(in.bases.size()); ++bit)
        if (in.dim != Dim::Register || (1 << bit) >= n) aligned &= to_offset.basis(in.dim, bit, Dim::Offset) % n == 0;
    if (aligned) break;
  }
  return n;
}

Regs convert_through_shared(Lowering& l, const Regs& regs, const ir::Type& element, const LinearLayout& from,
                            const LinearLayout& to, const ir::Op& op) {
  int bits = std::max(8, element.bits());
  int vector = 1;
  LinearLayout shared = shared_layout_for_conversion(from, to, bits, &vector);
  int64_t base = l.shared.offset.at(&op);
  int limit = 128 / bits;
  auto address = [&](const LinearLayout& to_offset, int r) {
    llvm::Value* offset = l.coordinate(to_offset, Dim::Offset, r);
    return l.b.CreateAdd(l.shared_address(base), l.b.CreateMul(offset, l.i32(bits / 8)));
  };
  if (l.shared.barrier_before.count(&op)) l.barrier(op.loc);
  LinearLayout write = from.invert_and_compose(shared);
  int width = consecutive(write, limit);
  int copies = from.free_mask(Dim::Register);
  llvm::Value* owner = l.is_owner(std::make_shared<LinearLayout>(from));
  for (int r = 0; r < from.in_size(Dim::Register); r += width)
    if (!(r & copies)) l.store_shared(address(write, r), llvm::ArrayRef(regs).slice(r, width), owner, op.loc);
  l.barrier(op.loc);
  LinearLayout read = to.invert_and_compose(shared);
  width = consecutive(read, limit);
  copies = to.free_mask(Dim::Register);
  Regs out(to.in_size(Dim::Register), nullptr);
  for (int r = 0; r < int(out.size()); r += width) {
    if (r & copies) {
      for (int i = 0; i < width; ++i) out[r + i] = out[(r + i) & ~copies];
      continue;
    }
    Regs part = l.load_shared(address(read, r), l.element_type(element), width, op.loc);
    std::copy(part.begin(), part.end(), out.begin() + r);
  }
  return out;
}

}  // namespace

Regs Lowering::convert(const Regs& regs, const ir::Type& element, const LinearLayout& from, const LinearLayout& to,
                       const ir::Op& op) {
  Conversion plan = plan_conversion(from, to);
  int n = to.in_size(Dim::Register);
  switch (plan.route) {
    case Conversion::Route::Registers:
      return convert_in_registers(regs, plan.source_of, n);
    case Conversion::Route::Shuffle:
      return convert_by_shuffles(*this, regs, plan.source_of, n);
    case Conversion::Route::Shared:
      return convert_through_shared(*this, regs, element, from, to, op);
  }
  TEGULA_UNREACHABLE("route");
}

llvm::Value* Lowering::shuffle(llvm::Value* x, llvm::Value* lane_or_mask, bool butterfly) {
  const char* row = butterfly ? "shfl_bfly_b32" : "shfl_idx_b32";
  llvm::Type* type = x->getType();
  if (type->isPointerTy())
    return b.CreateIntToPtr(shuffle(b.CreatePtrToInt(x, b.getInt64Ty()), lane_or_mask, butterfly), type);
  unsigned bits = type->getPrimitiveSizeInBits();
  llvm::Value* whole = b.CreateBitCast(x, b.getIntNTy(bits));
  llvm::Value* moved = nullptr;
  if (bits <= 32) {
    moved = b.CreateTrunc(hw(row, {b.CreateZExt(whole, b.getInt32Ty()), lane_or_mask}), b.getIntNTy(bits));
  } else {
    llvm::Value* low = hw(row, {b.CreateTrunc(whole, b.getInt32Ty()), lane_or_mask});
    llvm::Value* high = hw(row, {b.CreateTrunc(b.CreateLShr(whole, 32), b.getInt32Ty()), lane_or_mask});
    moved = b.CreateOr(b.CreateZExt(low, b.getInt64Ty()), b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), 32));
  }
  return b.CreateBitCast(moved, type);
}

}  // namespace tegula::lower
