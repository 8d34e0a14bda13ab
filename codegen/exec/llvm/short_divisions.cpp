#include "codegen/exec/llvm/short_divisions.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/Pass.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/BypassSlowDivision.h>

namespace tegula {

namespace {

using llvm::BasicBlock;
using llvm::BinaryOperator;
using llvm::Instruction;
using llvm::Value;

bool multiplies_by_warpgroups(const llvm::Function& function) {
  return llvm::any_of(llvm::instructions(function), [](const Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
    const auto* text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
    return text && llvm::StringRef(text->getAsmString()).contains("wgmma.mma_async");
  });
}

bool is_long_division(const Instruction& i) {
  return i.isIntDivRem() && i.getType()->isIntegerTy(64) && !llvm::isa<llvm::ConstantInt>(i.getOperand(1));
}

bool divides(const Instruction& i) { return i.getOpcode() == Instruction::SDiv || i.getOpcode() == Instruction::UDiv; }

bool has_sign(const Instruction& i) { return i.getOpcode() == Instruction::SDiv || i.getOpcode() == Instruction::SRem; }

// A divisor, but for choices of 1 where a division by it has no result; null for 1 itself.
Value* number_in(Value* divisor, int depth = 4) {
  if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(divisor); constant && constant->isOne()) return nullptr;
  if (auto* frozen = llvm::dyn_cast<llvm::FreezeInst>(divisor)) divisor = frozen->getOperand(0);
  auto* choice = llvm::dyn_cast<llvm::SelectInst>(divisor);
  if (!choice || depth == 0) return divisor;
  Value *x = number_in(choice->getTrueValue(), depth - 1), *y = number_in(choice->getFalseValue(), depth - 1);
  if (!x || !y || x == y) return x ? x : y;
  return divisor;
}

// Divisions by one number, which follow one another.
using Group = llvm::SmallVector<BinaryOperator*, 8>;

// Larger groups keep too many dividends in registers.
constexpr size_t kLargestGroup = 8;

// Gives the divisions of a group a common branch ahead of `place`; the block in which they stay 64 bits long.
BasicBlock* branch(const Group& group, Instruction* place) {
  llvm::IRBuilder<> builder(place);
  builder.SetCurrentDebugLocation(group.front()->getDebugLoc());
  Value* bits = number_in(group.front()->getOperand(1));
  for (const BinaryOperator* i : group) bits = builder.CreateOr(bits, i->getOperand(0));
  Value* are_short = builder.CreateICmpULE(bits, builder.getInt64(0xffffffff));
  Instruction *in_short = nullptr, *in_long = nullptr;
  llvm::SplitBlockAndInsertIfThenElse(are_short, place, &in_short, &in_long);
  llvm::IRBuilder<> shorter(in_short), joined(place);
  for (BinaryOperator* i : group) {
    shorter.SetCurrentDebugLocation(i->getDebugLoc());
    Value* divisor = shorter.CreateTrunc(i->getOperand(1), shorter.getInt32Ty());
    Value* dividend = shorter.CreateTrunc(i->getOperand(0), shorter.getInt32Ty());
    Value* found = divides(*i) ? shorter.CreateUDiv(dividend, divisor) : shorter.CreateURem(dividend, divisor);
    found = shorter.CreateZExt(found, i->getType());
    llvm::PHINode* result = joined.CreatePHI(i->getType(), 2);
    i->replaceAllUsesWith(result);
    i->moveBefore(in_long->getIterator());
    result->addIncoming(found, in_short->getParent());
    result->addIncoming(i, in_long->getParent());
  }
  return in_long->getParent();
}

// Whether `value`, which is used behind an instruction, can be computed ahead of it; `ahead`: what stands there.
bool can_move(const Value* value, const BasicBlock* block, const llvm::DenseSet<const Instruction*>& ahead, int depth) {
  const auto* i = llvm::dyn_cast<Instruction>(value);
  if (!i || i->getParent() != block || llvm::isa<llvm::PHINode>(i) || ahead.contains(i)) return true;
  if (depth == 0 || i->mayReadOrWriteMemory() || !llvm::isSafeToSpeculativelyExecute(i)) return false;
  return llvm::all_of(i->operands(), [&](const Value* x) { return can_move(x, block, ahead, depth - 1); });
}

// Moves an instruction of the block, with what it needs, ahead of `place`, which goes on where it is one of these.
void move(Instruction* i, Instruction*& place, llvm::DenseSet<const Instruction*>& ahead) {
  for (Value* x : i->operands()) {
    auto* operand = llvm::dyn_cast<Instruction>(x);
    if (operand && operand->getParent() == i->getParent() && !llvm::isa<llvm::PHINode>(operand) &&
        !ahead.contains(operand))
      move(operand, place, ahead);
  }
  if (i == place)
    place = place->getNextNode();
  else
    i->moveBefore(place->getIterator());
  ahead.insert(i);
}

// How many operations behind one another an operand is moved with.
constexpr int kDeepest = 8;

// Finds groups in a block and branches for them; adds the blocks with long divisions to `longs`.
void branch_for_groups(BasicBlock* block, llvm::DenseSet<BasicBlock*>& longs) {
  llvm::MapVector<Value*, llvm::SmallVector<BinaryOperator*>> divisions;  // by their divisors
  for (Instruction& i : *block)
    if (is_long_division(i)) divisions[number_in(i.getOperand(1))].push_back(llvm::cast<BinaryOperator>(&i));
  llvm::DenseSet<const Instruction*> ahead;
  for (Instruction* i = &block->front(); i; i = i->getNextNode()) {
    if (!is_long_division(*i)) {
      ahead.insert(i);
      continue;
    }
    Group group;  // no dividend is the result of another
    for (BinaryOperator* other : divisions[number_in(i->getOperand(1))])
      if (group.size() < kLargestGroup && !ahead.contains(other) &&
          can_move(other->getOperand(0), i->getParent(), ahead, kDeepest) &&
          can_move(other->getOperand(1), i->getParent(), ahead, kDeepest))
        group.push_back(other);
    ahead.insert(i);
    if (group.size() < 2) continue;
    Instruction* place = i->getNextNode();
    for (BinaryOperator* other : llvm::drop_begin(group)) move(other, place, ahead);
    longs.insert(branch(group, place));
    i = place->getPrevNode();
  }
}

// 64-bit divisions without a branch or a call, for numbers of any size.
class Reciprocals {
 public:
  explicit Reciprocals(llvm::LLVMContext& context) : builder_(context) {}

  void expand(BinaryOperator* division) {
    builder_.SetInsertPoint(division);
    Value *dividend = division->getOperand(0), *divisor = division->getOperand(1);
    auto [quotient, rest] = divide(size_of(dividend, *division), divisor_of(division));
    Value* found = divides(*division) ? quotient : rest;
    if (has_sign(*division)) {
      Value* sign = builder_.CreateAShr(divides(*division) ? builder_.CreateXor(dividend, divisor) : dividend, 63);
      found = builder_.CreateSub(builder_.CreateXor(found, sign), sign);
    }
    division->replaceAllUsesWith(found);
    division->eraseFromParent();
  }

 private:
  // A divisor without its sign; never more than its reciprocal, and less by 2^-48 of it at most.
  struct Divisor {
    Value *size, *reciprocal;
  };

  Value* number(double x) { return llvm::ConstantFP::get(builder_.getDoubleTy(), x); }

  Value* fma(Value* x, Value* y, Value* z) {
    return builder_.CreateIntrinsic(llvm::Intrinsic::fma, {builder_.getDoubleTy()}, {x, y, z});
  }

  Value* size_of(Value* x, const BinaryOperator& division) {
    return has_sign(division) ? builder_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, builder_.getFalse()) : x;
  }

  // Divisions of a block by one number share what this makes.
  Divisor divisor_of(BinaryOperator* division) {
    Value* divisor = division->getOperand(1);
    Divisor& found = divisors_[{{division->getParent(), divisor}, has_sign(*division)}];
    if (found.size) return found;
    found.size = size_of(divisor, *division);
    Value* d = builder_.CreateUIToFP(found.size, builder_.getDoubleTy());
    Value* r = builder_.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_d, {}, {d});
    for (int bits = 20; bits < 53; bits *= 2)  // that are right
      r = fma(r, fma(builder_.CreateFNeg(d), r, number(1)), r);
    found.reciprocal = builder_.CreateFMul(r, number(1 - 0x1p-49));
    return found;
  }

  // The quotient and the remainder. The first product lacks up to 2^16 + 1 of the quotient, the second up to 1.
  std::pair<Value*, Value*> divide(Value* dividend, Divisor by) {
    Value *quotient = builder_.getInt64(0), *rest = dividend;
    for (int times = 0; times < 2; ++times) {
      Value* product = builder_.CreateFMul(builder_.CreateUIToFP(rest, builder_.getDoubleTy()), by.reciprocal);
      Value* part = builder_.CreateFPToUI(product, builder_.getInt64Ty());
      rest = builder_.CreateSub(rest, builder_.CreateMul(part, by.size));
      quotient = builder_.CreateAdd(quotient, part);
    }
    Value* lacks_one = builder_.CreateICmpUGE(rest, by.size);
    quotient = builder_.CreateAdd(quotient, builder_.CreateZExt(lacks_one, builder_.getInt64Ty()));
    return {quotient, builder_.CreateSelect(lacks_one, builder_.CreateSub(rest, by.size), rest)};
  }

  llvm::IRBuilder<> builder_;
  llvm::DenseMap<std::pair<std::pair<BasicBlock*, Value*>, unsigned>, Divisor> divisors_;
};

bool expand_long_divisions(llvm::Function& function) {
  llvm::SmallVector<BinaryOperator*> divisions;
  for (Instruction& i : llvm::instructions(function))
    if (is_long_division(i)) divisions.push_back(llvm::cast<BinaryOperator>(&i));
  Reciprocals reciprocals(function.getContext());
  for (BinaryOperator* i : divisions) reciprocals.expand(i);
  return !divisions.empty();
}

class ShortDivisions : public llvm::FunctionPass {
 public:
  static char ID;
  ShortDivisions() : llvm::FunctionPass(ID) {}
  bool runOnFunction(llvm::Function& function) override {
    llvm::DenseSet<BasicBlock*> longs;
    // What is split off a block is walked with it.
    for (BasicBlock* block = &function.front(); block;) {
      BasicBlock* next = block->getNextNode();
      branch_for_groups(block, longs);
      block = next;
    }
    bool changed = !longs.empty();
    const llvm::DenseMap<unsigned, unsigned> shorter = {{64, 32}};
    for (BasicBlock* block = &function.front(); block;) {
      BasicBlock* next = block->getNextNode();
      if (!longs.contains(block)) changed |= llvm::bypassSlowDivision(block, shorter);
      block = next;
    }
    if (multiplies_by_warpgroups(function)) changed |= expand_long_divisions(function);
    return changed;
  }
};
char ShortDivisions::ID = 0;

}  // namespace

llvm::FunctionPass* short_divisions() { return new ShortDivisions; }

}  // namespace tegula
