#include "codegen/exec/emulator/warnings/arithmetic_checks.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <map>

#include "codegen/exec/emulator/code/link_bodies.h"
#include "codegen/exec/emulator/warnings/warning_calls.h"
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

/// Also of bits: `or` joins numbers with zeros, `xor` with -1 turns their order around, as what splits and sorts tiles
/// does.
bool is_arithmetic(const Value* value) {
  const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(value);
  if (!op) return false;
  switch (op->getOpcode()) {
    case Instruction::Add:
    case Instruction::Sub:
    case Instruction::Mul:
    case Instruction::Or:
    case Instruction::Xor:
      return true;
    case Instruction::Shl:
      return llvm::isa<llvm::ConstantInt>(op->getOperand(1));
    default:
      return false;
  }
}

/// What has one result of exact numbers, too: quotients, remainders, shifts to the right, bounds and choices. Those of
/// numbers without a sign wrap around on purpose, as hashes do.
bool hands_on_numbers(const Value* value) {
  if (const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(value))
    return op->getOpcode() == Instruction::SDiv || op->getOpcode() == Instruction::SRem ||
           op->getOpcode() == Instruction::AShr;
  if (const auto* extreme = llvm::dyn_cast<llvm::MinMaxIntrinsic>(value)) return extreme->isSigned();
  return llvm::isa<llvm::SelectInst>(value);
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

/// Whether the choice depends on the distance being in range: by such the lowering gives results beyond the width.
bool bounds(const llvm::SelectInst& choice, const Value& distance) {
  const auto* compared = llvm::dyn_cast<llvm::ICmpInst>(choice.getCondition());
  return compared && compared->isUnsigned() && compared->getOperand(0) == &distance &&
         llvm::isa<llvm::Constant>(compared->getOperand(1));
}

class Checks {
 public:
  Checks(llvm::Module& module, JitKernel& kernel, Taints& taints) : module_(module), calls_(module, kernel, taints) {}

  void run(Function& f) {
    llvm::SmallVector<Instruction*> all;
    for (Instruction& i : llvm::instructions(f)) all.push_back(&i);
    for (Instruction* i : all) visit(*i);
    if (!follows_shared_) return;
    for (Instruction* i : all)
      if (auto* call = llvm::dyn_cast<llvm::CallInst>(i); call && row_of(*call).starts_with("st_shared_"))
        note_stored(*call);
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
      case Instruction::Call:
        if (row_of(i) == "index_within") return check_index(i);
        if (!row_of(i).empty()) check_access(llvm::cast<llvm::CallInst>(i));
        return;
      default:
        return;
    }
  }

  void check_divisor(Instruction& i) {
    Value* divisor = before_clamp(i.getOperand(1));
    if (i.getType()->isVectorTy() || llvm::isa<llvm::Constant>(divisor)) return;
    llvm::IRBuilder<> b(&i);
    calls_.warn_of_result(b, i, b.CreateIsNull(divisor), Warning::DivisionByZero);
  }

  void check_distance(Instruction& i) {
    Value* distance = before_clamp(i.getOperand(1));
    if (i.getType()->isVectorTy() || llvm::isa<llvm::Constant>(distance)) return;
    llvm::IRBuilder<> b(&i);
    Value* bits = llvm::ConstantInt::get(distance->getType(), i.getType()->getIntegerBitWidth());
    Value* wide = b.CreateICmpUGE(distance, bits);
    calls_.warn_of_result(b, i, wide, Warning::WideShift);
    for (llvm::User* user : i.users())
      if (auto* kept_in_range = llvm::dyn_cast<llvm::SelectInst>(user);
          kept_in_range && bounds(*kept_in_range, *distance))
        calls_.warn_of_result(b, *kept_in_range, wide, Warning::WideShift);
  }

  void check_index(Instruction& i) {
    Value *index = i.getOperand(0), *extent = i.getOperand(1);
    llvm::IRBuilder<> b(&i);
    calls_.warn_of_result(b, i, b.CreateICmpUGE(index, extent), Warning::IndexBeyondExtent);
  }

  // ---- Addresses

  /// The same number computed in 64 bits from the values of 32 bits that are neither sums or products nor made of such.
  /// Constants have so many bits, their sign among them: of those that a shift to the left drops LLVM makes zeros.
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
    if (auto* phi = llvm::dyn_cast<llvm::PHINode>(x)) return exact_of_phi(*phi, bits);
    if (hands_on_numbers(x)) {
      Value* handed_on = exact_of_handed_on(b, *op);
      return exact_[{x, bits}] = handed_on;
    }
    if (!is_arithmetic(x)) {
      Value* exchanged = op ? exact_of_exchanged(b, *op) : nullptr;
      return exact_[{x, bits}] = exchanged ? exchanged : b.CreateSExt(x, wide);
    }
    const auto* distance =
        op->getOpcode() == Instruction::Shl ? llvm::cast<llvm::ConstantInt>(op->getOperand(1)) : nullptr;
    const unsigned left_bits = distance ? bits - unsigned(distance->getLimitedValue(bits - 1)) : bits;
    Value *left = exact(op->getOperand(0), left_bits), *right = exact(op->getOperand(1), distance ? 32 : bits);
    if (!left || !right) return nullptr;
    const auto opcode = is_disjoint_sum(op) ? Instruction::Add : llvm::cast<llvm::BinaryOperator>(op)->getOpcode();
    return exact_[{x, bits}] = b.CreateBinOp(opcode, left, right);
  }

  /// What loops and branches hand on.
  Value* exact_of_phi(llvm::PHINode& phi, unsigned bits) {
    llvm::IRBuilder<> b(&phi);
    llvm::PHINode* wide = b.CreatePHI(b.getInt64Ty(), phi.getNumIncomingValues());
    exact_[{&phi, bits}] = wide;
    for (unsigned i = 0; i < phi.getNumIncomingValues(); ++i) {
      Value* from = exact(phi.getIncomingValue(i));
      wide->addIncoming(from ? from : b.getInt64(0), phi.getIncomingBlock(i));
    }
    return wide;
  }

  /// What lanes hand each other, by shuffles and shared memory, and what atomic operations give: null for anything
  /// else, and for what is sure to be exact.
  Value* exact_of_exchanged(llvm::IRBuilder<>& b, Instruction& x) {
    b.SetCurrentDebugLocation(x.getDebugLoc());
    const llvm::StringRef row = row_of(x);
    if (row == "shfl_bfly_b32" || row == "shfl_idx_b32") {
      Value *own = x.getOperand(0), *wide = exact(own);
      if (!wide || is_taken_as_it_is(own, wide)) return nullptr;
      Function* of_64 =
          lower::declare_hw(module_, *lower::find_hw(row == "shfl_bfly_b32" ? "shfl_bfly_b64" : "shfl_idx_b64"));
      return b.CreateCall(of_64, {wide, x.getOperand(1)});
    }
    if (row.starts_with("atom_add_i32"))
      return b.CreateCall(helper(kExactAtomicName, b.getInt64Ty(), {b.getInt32Ty()}), {&x});
    const auto* part = llvm::dyn_cast<llvm::ExtractValueInst>(&x);
    Value& loaded = part ? *part->getOperand(0) : x;
    if (!row_of(loaded).starts_with("ld_shared_") || !x.getType()->isIntegerTy(32)) return nullptr;
    follows_shared_ = true;
    Value* address = llvm::cast<llvm::CallInst>(loaded).getArgOperand(0);
    if (part) address = b.CreateAdd(address, b.getInt32(4 * part->getIndices()[0]));
    return b.CreateCall(helper(kExactSharedName, b.getInt64Ty(), {b.getInt32Ty(), b.getInt32Ty()}), {address, &x});
  }

  static bool is_taken_as_it_is(const Value* x, const Value* wide) {
    const auto* cast = llvm::dyn_cast<llvm::SExtInst>(wide);
    return llvm::isa<llvm::Constant>(x) || (cast && cast->getOperand(0) == x);
  }

  llvm::FunctionCallee helper(const char* name, Type* result, llvm::ArrayRef<Type*> operands) {
    return module_.getOrInsertFunction(name, llvm::FunctionType::get(result, operands, false));
  }

  /// Tells what is stored to shared memory where it may not be the exact number.
  void note_stored(llvm::CallInst& store) {
    llvm::IRBuilder<> b(store.getNextNode());
    Type *i32 = b.getInt32Ty(), *i64 = b.getInt64Ty();
    Value* predicate = nullptr;
    for (Value* argument : store.args())
      if (argument->getType()->isIntegerTy(1)) predicate = b.CreateZExt(argument, i32);
    for (unsigned i = 1; predicate && store.getArgOperand(i)->getType()->isIntegerTy(32); ++i) {
      Value *stored = store.getArgOperand(i), *wide = exact(stored);
      if (!wide || is_taken_as_it_is(stored, wide)) continue;
      b.CreateCall(helper(kNoteExactName, b.getVoidTy(), {i32, i32, i64, i32}),
                   {b.CreateAdd(store.getArgOperand(0), b.getInt32(4 * (i - 1))), stored, wide, predicate});
    }
  }

  /// Divisors and distances are taken as they are.
  Value* exact_of_handed_on(llvm::IRBuilder<>& b, Instruction& op) {
    const bool chooses = llvm::isa<llvm::SelectInst>(op);
    Value* first = exact(op.getOperand(chooses ? 1 : 0));
    Value* by = op.getOperand(chooses ? 2 : 1);
    if (!first) return nullptr;
    if (chooses || llvm::isa<llvm::MinMaxIntrinsic>(op)) {
      Value* second = exact(by);
      if (!second) return nullptr;
      if (chooses) return b.CreateSelect(op.getOperand(0), first, second);
      return b.CreateBinaryIntrinsic(llvm::cast<llvm::MinMaxIntrinsic>(op).getIntrinsicID(), first, second);
    }
    by = b.CreateSExt(by, first->getType());
    if (op.getOpcode() == Instruction::AShr) return b.CreateAShr(first, by);
    // The smallest number by -1 would trap.
    Value *one = b.getInt64(1), *zero = b.getInt64(0), *negates = b.CreateICmpEQ(by, b.getInt64(uint64_t(-1)));
    by = b.CreateSelect(negates, one, by);
    if (op.getOpcode() == Instruction::SDiv)
      return b.CreateSelect(negates, b.CreateSub(zero, first), b.CreateSDiv(first, by));
    return b.CreateSelect(negates, zero, b.CreateSRem(first, by));
  }

  /// Appends whether the parts of 32 bits that an offset of 64 bits consists of are not what they would be in 64.
  void overflows(Value* offset, llvm::SmallVectorImpl<std::pair<Value*, Value*>>& parts) {
    if (auto* cast = llvm::dyn_cast<llvm::CastInst>(offset)) {
      const bool is_signed =
          cast->getOpcode() == Instruction::SExt || (cast->getOpcode() == Instruction::ZExt && cast->hasNonNeg());
      Value* x = cast->getOperand(0);
      if (is_signed && x->getType()->isIntegerTy(32))
        if (Value* wide = exact(x); wide && !is_taken_as_it_is(x, wide)) parts.push_back({cast, wide});
    } else if (is_arithmetic(offset) || hands_on_numbers(offset)) {
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
    const auto place = calls_.place_of(call);
    if (!place) return;
    llvm::IRBuilder<> b(&call);
    Value* any = b.getFalse();
    for (auto [part, wide] : parts) any = b.CreateOr(any, b.CreateICmpNE(part, wide));
    for (Value* predicate : call.args())
      if (predicate->getType()->isIntegerTy(1)) any = b.CreateAnd(predicate, any);
    calls_.warn(b, any, Warning::IndexOverflow, *place);
  }

  llvm::Module& module_;
  WarningCalls calls_;
  std::map<std::pair<Value*, unsigned>, Value*> exact_;
  bool follows_shared_ = false;  ///< addresses follow from what is loaded from shared memory
};

}  // namespace

void check_arithmetic(llvm::Module& module, JitKernel& kernel, Taints& taints) {
  Checks checks(module, kernel, taints);
  for (Function& f : module)
    if (!f.isDeclaration()) checks.run(f);
}

}  // namespace tegula::emulator
