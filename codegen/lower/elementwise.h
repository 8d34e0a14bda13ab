// What lowerings of elementwise ops share.
#pragma once

#include <vector>

#include "codegen/lower/branch.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

/// Applies `make` to the operands' elements, register by register.
template <class Make>
void elementwise(Lowering& l, const ir::Op& op, Make make) {
  llvm::SmallVector<const Regs*, 3> operands;
  for (const ir::Value* x : op.operands) operands.push_back(&l.get(x));
  l.set(op.result(), l.map_registers(op.result()->type, [&](int r) {
    llvm::SmallVector<llvm::Value*, 3> x;
    for (const Regs* regs : operands) x.push_back((*regs)[r]);
    return make(x);
  }));
}

/// fp16 and bf16 arithmetic that LLVM would widen anyway is done in fp32 and rounded once.
template <class Make>
llvm::Value* in_f32(Lowering& l, llvm::ArrayRef<llvm::Value*> x, Make make) {
  llvm::Type* type = x[0]->getType();
  if (!type->isHalfTy() && !type->isBFloatTy()) return make(x);
  llvm::SmallVector<llvm::Value*, 3> wide;
  for (llvm::Value* v : x) wide.push_back(l.b.CreateFPExt(v, l.b.getFloatTy()));
  return l.b.CreateFPTrunc(make(wide), type);
}

/// Few registers are not worth a branch.
inline constexpr int kBranchFrom = 4;

/// The registers of a type that differ, lowest first.
inline std::vector<int> distinct_registers(const ir::Type& type) {
  std::vector<int> out;
  for (int r = 0; r < Lowering::num_registers(type); ++r)
    if (Lowering::canonical_register(type, r) == r) out.push_back(r);
  return out;
}

/// Registers of a type, made one by one.
template <class Fast, class Slow>
Regs branch(Lowering& l, const ir::Type& type, llvm::Value* condition, Fast fast, Slow slow) {
  return branch(
      l, condition, [&] { return l.map_registers(type, fast); }, [&] { return l.map_registers(type, slow); });
}

}  // namespace tegula::lower
