// What the builder of LLVM IR makes no instruction for.
#pragma once

#include <llvm/IR/ConstantFolder.h>
#include <llvm/IR/Constants.h>

#include <utility>

#include "codegen/lower/llvm_headers.h"

namespace tegula::lower {

/// Operations on constants, and those on integers that leave an operand as it is or give a constant: x + 0, x and
/// true. Nothing is asked of where operands come from, as LLVM's InstSimplifyFolder does: the phis of a loop that is
/// being built lack what the loop gives them, and look like what they begin with.
class Folder final : public llvm::IRBuilderFolder {
 public:
  using Op = llvm::Instruction::BinaryOps;

  llvm::Value* FoldBinOp(Op opcode, llvm::Value* x, llvm::Value* y) const override {
    llvm::Value* folded = fold(opcode, x, y);
    return folded ? folded : constants_.FoldBinOp(opcode, x, y);
  }
  llvm::Value* FoldExactBinOp(Op opcode, llvm::Value* x, llvm::Value* y, bool exact) const override {
    llvm::Value* folded = fold(opcode, x, y);
    return folded ? folded : constants_.FoldExactBinOp(opcode, x, y, exact);
  }
  llvm::Value* FoldNoWrapBinOp(Op opcode, llvm::Value* x, llvm::Value* y, bool nuw, bool nsw) const override {
    llvm::Value* folded = fold(opcode, x, y);
    return folded ? folded : constants_.FoldNoWrapBinOp(opcode, x, y, nuw, nsw);
  }
  llvm::Value* FoldSelect(llvm::Value* condition, llvm::Value* x, llvm::Value* y) const override {
    return x == y ? x : constants_.FoldSelect(condition, x, y);
  }

  llvm::Value* FoldBinOpFMF(Op opcode, llvm::Value* x, llvm::Value* y, llvm::FastMathFlags flags) const override {
    return constants_.FoldBinOpFMF(opcode, x, y, flags);
  }
  llvm::Value* FoldUnOpFMF(llvm::Instruction::UnaryOps opcode, llvm::Value* x,
                           llvm::FastMathFlags flags) const override {
    return constants_.FoldUnOpFMF(opcode, x, flags);
  }
  llvm::Value* FoldCmp(llvm::CmpInst::Predicate predicate, llvm::Value* x, llvm::Value* y) const override {
    return constants_.FoldCmp(predicate, x, y);
  }
  llvm::Value* FoldGEP(llvm::Type* type, llvm::Value* base, llvm::ArrayRef<llvm::Value*> indices,
                       llvm::GEPNoWrapFlags flags) const override {
    return constants_.FoldGEP(type, base, indices, flags);
  }
  llvm::Value* FoldExtractValue(llvm::Value* from, llvm::ArrayRef<unsigned> at) const override {
    return constants_.FoldExtractValue(from, at);
  }
  llvm::Value* FoldInsertValue(llvm::Value* into, llvm::Value* x, llvm::ArrayRef<unsigned> at) const override {
    return constants_.FoldInsertValue(into, x, at);
  }
  llvm::Value* FoldExtractElement(llvm::Value* from, llvm::Value* at) const override {
    return constants_.FoldExtractElement(from, at);
  }
  llvm::Value* FoldInsertElement(llvm::Value* into, llvm::Value* x, llvm::Value* at) const override {
    return constants_.FoldInsertElement(into, x, at);
  }
  llvm::Value* FoldShuffleVector(llvm::Value* x, llvm::Value* y, llvm::ArrayRef<int> mask) const override {
    return constants_.FoldShuffleVector(x, y, mask);
  }
  llvm::Value* FoldCast(llvm::Instruction::CastOps opcode, llvm::Value* x, llvm::Type* to) const override {
    return constants_.FoldCast(opcode, x, to);
  }
  llvm::Value* FoldBinaryIntrinsic(llvm::Intrinsic::ID id, llvm::Value* x, llvm::Value* y, llvm::Type* type,
                                   llvm::Instruction* flags) const override {
    return constants_.FoldBinaryIntrinsic(id, x, y, type, flags);
  }
  llvm::Value* CreatePointerCast(llvm::Constant* x, llvm::Type* to) const override {
    return constants_.CreatePointerCast(x, to);
  }
  llvm::Value* CreatePointerBitCastOrAddrSpaceCast(llvm::Constant* x, llvm::Type* to) const override {
    return constants_.CreatePointerBitCastOrAddrSpaceCast(x, to);
  }

 private:
  static llvm::Value* fold(Op opcode, llvm::Value* x, llvm::Value* y) {
    llvm::Type* type = x->getType();
    if (!type->isIntegerTy()) return nullptr;
    if (llvm::isa<llvm::ConstantInt>(x) && llvm::Instruction::isCommutative(opcode)) std::swap(x, y);
    if (auto* number = llvm::dyn_cast<llvm::ConstantInt>(y)) {
      if (number == llvm::ConstantExpr::getBinOpIdentity(opcode, type, /*AllowRHSConstant=*/true)) return x;
      if (number == llvm::ConstantExpr::getBinOpAbsorber(opcode, type)) return y;
    }
    return x == y && (opcode == llvm::Instruction::And || opcode == llvm::Instruction::Or) ? x : nullptr;
  }

  llvm::ConstantFolder constants_;
};

}  // namespace tegula::lower
