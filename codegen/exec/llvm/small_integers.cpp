#include "codegen/exec/llvm/small_integers.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <optional>

namespace tegula {

namespace {

// A power of two, or one and a half of it where integers are signed, to whose bits they are added.
struct Bias {
  uint64_t bits;
  double value;
};

// For integers of so many bits, so that the sum is of the same power of two; none where the type is too narrow.
std::optional<Bias> bias_for(const llvm::Type& type, unsigned bits, bool is_signed) {
  if (type.isHalfTy() && bits <= 10) return is_signed ? Bias{0x6600, 0x1.8p10} : Bias{0x6400, 0x1p10};
  if (type.isFloatTy() && bits <= 16) return is_signed ? Bias{0x4B400000, 0x1.8p23} : Bias{0x4B000000, 0x1p23};
  return std::nullopt;
}

void convert(llvm::CastInst& cast, const llvm::DataLayout& layout) {
  llvm::Value* x = cast.getOperand(0);
  if (!x->getType()->isIntegerTy() || x->getType()->isIntegerTy(1) || llvm::isa<llvm::Constant>(x)) return;
  const unsigned width = x->getType()->getIntegerBitWidth();
  const llvm::KnownBits known = llvm::computeKnownBits(x, layout);
  const bool is_signed = llvm::isa<llvm::SIToFPInst>(cast) && !known.isNonNegative();
  const unsigned bits =
      is_signed ? width - llvm::ComputeNumSignBits(x, layout) + 1 : width - known.countMinLeadingZeros();
  llvm::IRBuilder<> b(&cast);
  llvm::Type* type = cast.getType()->isBFloatTy() ? b.getFloatTy() : cast.getType();  // holds them all
  const auto bias = bias_for(*type, bits, is_signed);
  if (!bias) return;
  llvm::Value* sum = b.CreateAdd(b.CreateIntCast(x, b.getInt32Ty(), is_signed), b.getInt32(unsigned(bias->bits)));
  if (type->isHalfTy()) sum = b.CreateTrunc(sum, b.getInt16Ty());
  llvm::Value* number = b.CreateFSub(b.CreateBitCast(sum, type), llvm::ConstantFP::get(type, bias->value));
  cast.replaceAllUsesWith(b.CreateFPTrunc(number, cast.getType()));
  cast.eraseFromParent();
}

}  // namespace

void convert_small_integers(llvm::Function& function) {
  const llvm::DataLayout& layout = function.getParent()->getDataLayout();
  for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::instructions(function)))
    if (llvm::isa<llvm::SIToFPInst>(i) || llvm::isa<llvm::UIToFPInst>(i))
      convert(llvm::cast<llvm::CastInst>(i), layout);
}

}  // namespace tegula
