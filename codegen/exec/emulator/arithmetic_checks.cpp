#include "codegen/exec/emulator/arithmetic_checks.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <map>
#include <optional>

#include "codegen/exec/emulator/link_bodies.h"
#include "codegen/exec/emulator/result_uses.h"
#include "codegen/lower/hw.h"

namespace tegula::emulator {

namespace {

using llvm::Function;
using llvm::Instruction;
using llvm::Type;
using llvm::Value;

/// An `or` of numbers without common bits, which LLVM makes of their sum.
bool is_disjoint_sum(const Value* value) {
  const auto* op = llvm::dyn_cast<llvm::PossiblyDisjointInst>(value);
  return op && op->isDisjoint();
}

bool is_arithmetic(const Value* value) {
  const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(value);
  return op && (is_disjoint_sum(op) || op->getOpcode() == Instruction::Add || op->getOpcode() == Instruction::Sub ||
                op->getOpcode() == Instruction::Mul ||
                (op->getOpcode() == Instruction::Shl && llvm::isa<llvm::ConstantInt>(op->getOperand(1))));
}

/// The number that a value which is kept in range stands for: the lowering has replaced divisors of 0 and distances
/// beyond the width, by selects or by extremes with a constant.
Value* before_clamp(Value* value) {
  if (auto* select = llvm::dyn_cast<llvm::SelectInst>(value)) {
    if (llvm::isa<llvm::Constant>(select->getTrueValue())) return select->getFalseValue();
    if (llvm::isa<llvm::Constant>(select->getFalseValue())) return select->getTrueValue();
  }
  if (auto* extreme = llvm::dyn_cast<llvm::MinMaxIntrinsic>(value))
    if (llvm::isa<llvm::Constant>(extreme->getRHS())) return extreme->getLHS();
  return value;
}

class Checks {
 public:
  Checks(llvm::Module& module, JitKernel& kernel, bool nans) : kernel_(kernel), nans_(nans) {
    llvm::LLVMContext& context = module.getContext();
    Type* i32 = Type::getInt32Ty(context);
    warn_ = module.getOrInsertFunction(kWarnName,
                                       llvm::FunctionType::get(Type::getVoidTy(context), {i32, i32, i32}, false));
  }

  void run(Function& f) {
    llvm::SmallVector<Instruction*> all;
    for (Instruction& i : llvm::instructions(f)) all.push_back(&i);
    for (Instruction* i : all) visit(*i);
  }

 private:
  void visit(Instruction& i) {
    switch (i.getOpcode()) {
      case Instruction::SDiv:
      case Instruction::UDiv:
      case Instruction::SRem:
      case Instruction::URem:
        return check_divisor(i);
      case Instruction::Shl:
      case Instruction::LShr:
      case Instruction::AShr:
        return check_distance(i);
      case Instruction::FAdd:
      case Instruction::FSub:
      case Instruction::FMul:
      case Instruction::FDiv:
        return check_nan(i);
      case Instruction::Call:
        if (const Function* f = llvm::cast<llvm::CallInst>(i).getCalledFunction())
          if (f->getName().starts_with(lower::kHwPrefix)) check_access(llvm::cast<llvm::CallInst>(i));
        return check_nan(i);
      default:
        return;
    }
  }

  /// The number of the instruction's place among the kernel's; none for what has no place, which is the compiler's own.
  std::optional<uint32_t> place_of(const Instruction& i) {
    const Loc loc = loc_of(i);
    if (!loc) return std::nullopt;
    kernel_.places.push_back({"arithmetic", loc});
    return uint32_t(kernel_.places.size() - 1);
  }

  void warn(llvm::IRBuilder<>& b, Value* condition, Warning what, uint32_t place) {
    b.CreateCall(warn_, {b.CreateZExt(condition, b.getInt32Ty()), b.getInt32(uint32_t(what)), b.getInt32(place)});
  }

  /// Warns wherever the result of the arithmetic is used, if `wrong`, which is known ahead of it.
  void warn_of_result(Instruction& i, Value* wrong, Warning what, const Value* bounded) {
    const auto place = place_of(i);
    if (!place) return;
    for (const ResultUse& use : uses_of_result(i, bounded)) {
      llvm::IRBuilder<> b(use.at);
      Value* condition = wrong;
      for (auto [other, holds] : use.conditions) condition = b.CreateAnd(condition, holds ? other : b.CreateNot(other));
      warn(b, condition, what, *place);
    }
  }

  void check_divisor(Instruction& i) {
    Value* divisor = before_clamp(i.getOperand(1));
    if (i.getType()->isVectorTy() || llvm::isa<llvm::Constant>(divisor)) return;
    llvm::IRBuilder<> b(&i);
    warn_of_result(i, b.CreateIsNull(divisor), Warning::DivisionByZero, nullptr);
  }

  void check_distance(Instruction& i) {
    Value* distance = before_clamp(i.getOperand(1));
    if (i.getType()->isVectorTy() || llvm::isa<llvm::Constant>(distance)) return;
    llvm::IRBuilder<> b(&i);
    Value* bits = llvm::ConstantInt::get(distance->getType(), i.getType()->getIntegerBitWidth());
    warn_of_result(i, b.CreateICmpUGE(distance, bits), Warning::WideShift, distance);
  }

  void check_nan(Instruction& i) {
    if (!nans_ || !(i.getType()->isFloatTy() || i.getType()->isDoubleTy())) return;
    llvm::IRBuilder<> b(i.getNextNode());
    Value* born = nullptr;
    const unsigned operands = llvm::isa<llvm::CallInst>(i) ? llvm::cast<llvm::CallInst>(i).arg_size() : 2;
    for (unsigned n = 0; n < operands; ++n) {
      Value* x = i.getOperand(n);
      if (!x->getType()->isFloatingPointTy()) continue;
      Value* number = b.CreateFCmpORD(x, x);
      born = born ? b.CreateAnd(born, number) : number;
    }
    if (!born) return;
    if (const auto place = place_of(i)) warn(b, b.CreateAnd(born, b.CreateFCmpUNO(&i, &i)), Warning::NanIsBorn, *place);
  }

  // ---- Addresses

  /// The same number computed in 64 bits from the values of 32 bits that are no sums or products. Constants have so
  /// many bits, their sign among them: of those that a shift to the left drops LLVM makes zeros.
  Value* exact(Value* x, unsigned bits = 32) {
    Value*& found = exact_[{x, bits}];
    if (found) return found;
    Type* wide = Type::getInt64Ty(x->getContext());
    if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(x)) {
      const llvm::APInt& value = constant->getValue();
      return found = llvm::ConstantInt::get(wide, (value.isIntN(bits) ? value.trunc(bits) : value).sext(64));
    }
    auto* op = llvm::dyn_cast<Instruction>(x);
    llvm::IRBuilder<> b(x->getContext());
    if (op) {
      const auto behind = op->getInsertionPointAfterDef();
      if (!behind) return nullptr;
      b.SetInsertPoint(op->getParent(), *behind);
    } else if (auto* argument = llvm::dyn_cast<llvm::Argument>(x)) {
      llvm::BasicBlock& entry = argument->getParent()->getEntryBlock();
      b.SetInsertPoint(&entry, entry.begin());
    } else {
      return nullptr;
    }
    if (!is_arithmetic(x)) return found = b.CreateSExt(x, wide);
    const auto* distance =
        op->getOpcode() == Instruction::Shl ? llvm::cast<llvm::ConstantInt>(op->getOperand(1)) : nullptr;
    const unsigned left_bits = distance ? bits - unsigned(distance->getLimitedValue(bits - 1)) : bits;
    Value *left = exact(op->getOperand(0), left_bits), *right = exact(op->getOperand(1), distance ? 32 : bits);
    if (!left || !right) return nullptr;
    const auto opcode = is_disjoint_sum(op) ? Instruction::Add : llvm::cast<llvm::BinaryOperator>(op)->getOpcode();
    return exact_[{x, bits}] = b.CreateBinOp(opcode, left, right);
  }

  /// Appends whether the parts of 32 bits that an offset of 64 bits consists of are not what they would be in 64.
  void overflows(Value* offset, llvm::SmallVectorImpl<std::pair<Value*, Value*>>& parts) {
    if (auto* cast = llvm::dyn_cast<llvm::CastInst>(offset)) {
      const bool is_signed =
          cast->getOpcode() == Instruction::SExt || (cast->getOpcode() == Instruction::ZExt && cast->hasNonNeg());
      Value* x = cast->getOperand(0);
      if (is_signed && x->getType()->isIntegerTy(32) && is_arithmetic(x))
        if (Value* wide = exact(x)) parts.push_back({cast, wide});
    } else if (is_arithmetic(offset)) {
      for (Value* operand : llvm::cast<Instruction>(offset)->operands()) overflows(operand, parts);
    }
  }

  void check_access(llvm::CallInst& call) {
    Value* pointer = nullptr;
    for (Value* argument : call.args())
      if (argument->getType()->isPointerTy() && !pointer) pointer = argument;
    if (!pointer) return;
    llvm::SmallVector<std::pair<Value*, Value*>> parts;
    for (auto* step = llvm::dyn_cast<llvm::GetElementPtrInst>(pointer); step;
         step = llvm::dyn_cast<llvm::GetElementPtrInst>(step->getPointerOperand()))
      for (Value* index : step->indices()) overflows(index, parts);
    if (parts.empty()) return;
    const auto place = place_of(call);
    if (!place) return;
    llvm::IRBuilder<> b(&call);
    Value* any = b.getFalse();
    for (auto [part, wide] : parts) any = b.CreateOr(any, b.CreateICmpNE(part, wide));
    for (Value* predicate : call.args())
      if (predicate->getType()->isIntegerTy(1)) any = b.CreateAnd(predicate, any);
    warn(b, any, Warning::IndexOverflow, *place);
  }

  JitKernel& kernel_;
  const bool nans_;
  llvm::FunctionCallee warn_;
  std::map<std::pair<Value*, unsigned>, Value*> exact_;
};

}  // namespace

void check_arithmetic(llvm::Module& module, JitKernel& kernel, bool nans) {
  Checks checks(module, kernel, nans);
  for (Function& f : module)
    if (!f.isDeclaration()) checks.run(f);
}

}  // namespace tegula::emulator
