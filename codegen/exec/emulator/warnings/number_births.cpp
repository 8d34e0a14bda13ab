#include "codegen/exec/emulator/warnings/number_births.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/SSAUpdater.h>

#include "codegen/exec/emulator/warnings/warning_calls.h"

namespace tegula::emulator {

namespace {

using llvm::Instruction;
using llvm::Value;

bool is_number(const Value* x) { return x->getType()->isFPOrFPVectorTy(); }

/// What computes its result from its operands alone.
bool is_pure(const Instruction& i) {
  if (i.isTerminator() || i.mayReadOrWriteMemory()) return false;
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
  return !call || !call->isConvergent();
}

/// Hands on numbers, in place of making some.
bool is_choice(const Instruction& i) {
  return llvm::isa<llvm::SelectInst, llvm::PHINode, llvm::BitCastInst, llvm::ExtractElementInst,
                   llvm::InsertElementInst, llvm::ShuffleVectorInst, llvm::ExtractValueInst, llvm::InsertValueInst,
                   llvm::FreezeInst>(i);
}

/// The pure instruction of the same operation that the value is of; null: it is none. What LLVM has made without a
/// place belongs to what uses it, but for choices between the ways to a block, which may be those of iterations.
Instruction* within(const Instruction& operation, Value* x) {
  auto* i = llvm::dyn_cast<Instruction>(x);
  if (!i || !is_pure(*i)) return nullptr;
  if (i->getDebugLoc() == operation.getDebugLoc()) return i;
  return i->getDebugLoc() || llvm::isa<llvm::PHINode>(i) ? nullptr : i;
}

/// The number whose bits the value is; else the value.
Value* behind_bits(Value* x) {
  auto* cast = llvm::dyn_cast<llvm::BitCastInst>(x);
  return cast && !is_number(cast) && is_number(cast->getOperand(0)) ? cast->getOperand(0) : x;
}

/// Whether others than the operation take the number, or its bits.
bool is_used_outside(const Instruction& operation, const Instruction& i) {
  return std::any_of(i.user_begin(), i.user_end(), [&](const llvm::User* user) {
    const auto& by = *llvm::cast<Instruction>(user);
    if (llvm::isa<llvm::BitCastInst>(by)) return is_used_outside(operation, by);
    return by.getDebugLoc() != operation.getDebugLoc() || !is_pure(by);
  });
}

/// Its operands, but for conditions of choices and for functions.
llvm::SmallVector<Value*, 4> values_of(Instruction& step) {
  if (auto* select = llvm::dyn_cast<llvm::SelectInst>(&step)) return {select->getTrueValue(), select->getFalseValue()};
  if (auto* call = llvm::dyn_cast<llvm::CallInst>(&step)) return {call->arg_begin(), call->arg_end()};
  return {step.op_begin(), step.op_end()};
}

llvm::Type* number_of(Instruction& i, int depth = 0);

/// The same of bits; null: they are of no number.
llvm::Type* number_of_bits(Value* bits, int depth) {
  if (Value* number = behind_bits(bits); number != bits) return number->getType();
  auto* chosen = llvm::dyn_cast<Instruction>(bits);
  return chosen && !is_number(chosen) ? number_of(*chosen, depth) : nullptr;
}

/// Whether the bits are all of a number's sign, or some of them: keys that are sorted are made by these.
bool spreads_sign(const Value* x) {
  const auto* shift = llvm::dyn_cast<llvm::BinaryOperator>(x);
  if (!shift || !llvm::isa<llvm::Constant>(shift->getOperand(1))) return false;
  if (shift->getOpcode() == Instruction::AShr) return true;
  return (shift->getOpcode() == Instruction::LShr || shift->getOpcode() == Instruction::And) &&
         spreads_sign(shift->getOperand(0));
}

/// The type of the number that the instruction gives, also as bits, which LLVM chooses between, and whose signs it
/// changes, in place of numbers; null: it gives none.
llvm::Type* number_of(Instruction& i, int depth) {
  constexpr int kMostDepth = 10;
  if (is_number(&i)) return i.getType();
  const auto* logic = llvm::dyn_cast<llvm::BinaryOperator>(&i);
  const bool of_signs = logic && logic->isBitwiseLogicOp();
  if (depth == kMostDepth || !(llvm::isa<llvm::SelectInst>(i) || of_signs)) return nullptr;
  llvm::Type* found = nullptr;
  for (Value* x : values_of(i))
    if (!found) found = number_of_bits(x, depth + 1);
  const bool is_key = of_signs && (spreads_sign(i.getOperand(0)) || spreads_sign(i.getOperand(1)));
  return is_key ? nullptr : found;
}

/// What an operation computes a number from.
struct Operands {
  llvm::SetVector<Value*> numbers;
  bool has_nan = false, has_infinity = false;  ///< among constants
  size_t steps = 0;                            ///< that compute, in place of choosing

  void add(llvm::Constant* x) {
    if (const auto* number = llvm::dyn_cast<llvm::ConstantFP>(x)) {
      has_nan |= number->isNaN();
      has_infinity |= number->isInfinity();
    } else if (auto* vector = llvm::dyn_cast<llvm::ConstantDataVector>(x)) {
      for (unsigned n = 0; n < vector->getNumElements(); ++n) add(vector->getElementAsConstant(n));
    }
  }
};

class BirthChecks {
 public:
  BirthChecks(llvm::Module& module, JitKernel& kernel, Taints& taints, Births births)
      : calls_(module, kernel, taints), births_(births) {}

  void run(llvm::Function& f) {
    llvm::SetVector<Instruction*> results;
    unsigned number = 0;
    for (Instruction& i : llvm::instructions(f)) {
      places_[&i] = number++;
      if (i.getDebugLoc() && is_pure(i) && number_of(i) && is_used_outside(i, i)) results.insert(&i);
    }
    // Collected first, as checks use the numbers as well; what is cut off of a long operation is a result of its own.
    std::vector<std::pair<Instruction*, Operands>> found;
    for (size_t n = 0; n < results.size(); ++n) found.push_back({results[n], operands_of(*results[n], results)});
    for (auto& [result, operands] : found) check(*result, operands);
  }

 private:
  static constexpr size_t kMostSteps = 4096, kMostNumbers = 64;

  static Operands operands_of(Instruction& result, llvm::SetVector<Instruction*>& results) {
    Operands out;
    llvm::SetVector<Instruction*> steps;
    steps.insert(&result);
    for (size_t n = 0; n < steps.size(); ++n) {
      Instruction& step = *steps[n];
      if (n >= kMostSteps || out.numbers.size() >= kMostNumbers) {
        if (!is_number(&step)) continue;
        out.numbers.insert(&step);
        if (step.getDebugLoc()) results.insert(&step);
        continue;
      }
      if (is_handed_in(result, step)) {
        out.numbers.insert(&step);
        continue;
      }
      out.steps += !is_choice(step);
      for (Value* value : values_of(step)) {
        Value* operand = behind_bits(value);
        auto* constant = llvm::dyn_cast<llvm::Constant>(operand);
        if (constant && !is_choice(step)) out.add(constant);
        if (Instruction* own = within(result, operand))
          steps.insert(own);
        else if (!constant && is_number(operand))
          out.numbers.insert(operand);
      }
    }
    return out;
  }

  /// A number whose bits, or an aggregate that has it, come from elsewhere.
  static bool is_handed_in(const Instruction& result, Instruction& step) {
    if (!llvm::isa<llvm::BitCastInst, llvm::ExtractValueInst>(step) || !is_number(&step)) return false;
    return !is_number(step.getOperand(0)) && comes_from_elsewhere(result, step.getOperand(0));
  }
  static bool comes_from_elsewhere(const Instruction& result, Value* bits) {
    Instruction* step = within(result, bits);
    if (!step) return true;
    const bool moves = llvm::isa<llvm::ExtractValueInst, llvm::CastInst>(step) ||
                       (llvm::isa<llvm::BinaryOperator>(step) && llvm::isa<llvm::Constant>(step->getOperand(1)));
    return moves && !is_number(step->getOperand(0)) && comes_from_elsewhere(result, step->getOperand(0));
  }

  /// Its elements, of a type that all hosts compare.
  static llvm::SmallVector<Value*, 4> scalars_of(llvm::IRBuilder<>& b, Value* x) {
    llvm::SmallVector<Value*, 4> out;
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
    for (unsigned n = 0; n < (vector ? vector->getNumElements() : 1); ++n) {
      Value* scalar = vector ? b.CreateExtractElement(x, uint64_t(n)) : x;
      out.push_back(scalar->getType()->getPrimitiveSizeInBits() < 32 ? b.CreateFPExt(scalar, b.getFloatTy()) : scalar);
    }
    return out;
  }
  static Value* is_finite(llvm::IRBuilder<>& b, Value* x) {
    return b.CreateFCmpONE(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x),
                           llvm::ConstantFP::getInfinity(x->getType()));
  }
  static Value* is_infinite(llvm::IRBuilder<>& b, Value* x) {
    return b.CreateFCmpOEQ(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x),
                           llvm::ConstantFP::getInfinity(x->getType()));
  }

  void check(Instruction& result, const Operands& operands) {
    if (operands.steps == 0 || operands.numbers.empty()) return;
    const bool function = operands.steps > 2;      // whose constants are its own
    if (!function && !is_number(&result)) return;  // bits that somebody computes with
    if (births_.nans && (function || !operands.has_nan))
      warn(
          result, operands, Warning::NanIsBorn, [](llvm::IRBuilder<>& b, Value* x) { return b.CreateFCmpORD(x, x); },
          [](llvm::IRBuilder<>& b, Value* x) { return b.CreateFCmpUNO(x, x); });
    if (births_.infinities && (function || !operands.has_infinity))
      warn(result, operands, Warning::InfinityIsBorn, is_finite, is_infinite);
  }

  /// Whether every way to the result computes it first. Checks between them do not change places_: to ask LLVM would
  /// number the instructions of the block again for each of them.
  bool is_ahead(Instruction& operand, Instruction& result) {
    llvm::BasicBlock *from = operand.getParent(), *to = result.getParent();
    if (from == to) return places_.lookup(&operand) < places_.lookup(&result);
    return calls_.order_of(*to->getParent()).dominates(from, to);
  }

  /// `b` stands behind the result.
  template <class Sound>
  Value* is_sound(llvm::IRBuilder<>& b, Instruction& result, Value* operand, Sound sound) {
    auto all = [&](llvm::IRBuilder<>& at) {
      Value* sound_so_far = at.getTrue();
      for (Value* x : scalars_of(at, operand)) sound_so_far = at.CreateAnd(sound_so_far, sound(at, x));
      return sound_so_far;
    };
    auto* def = llvm::dyn_cast<Instruction>(operand);
    if (!def || is_ahead(*def, result)) return all(b);
    // Only some of the ways there compute it.
    llvm::IRBuilder<> behind(def->getParent(), *def->getInsertionPointAfterDef());
    llvm::SSAUpdater on_each_way;
    on_each_way.Initialize(b.getInt1Ty(), "sound");
    on_each_way.AddAvailableValue(&def->getFunction()->getEntryBlock(), b.getTrue());
    on_each_way.AddAvailableValue(def->getParent(), all(behind));
    return on_each_way.GetValueInMiddleOfBlock(b.GetInsertBlock());
  }

  template <class Sound, class Born>
  void warn(Instruction& result, const Operands& operands, Warning what, Sound sound, Born born) {
    llvm::BasicBlock& block = *result.getParent();
    llvm::IRBuilder<> b(&block, *result.getInsertionPointAfterDef());
    Value* all_sound = b.getTrue();
    for (Value* operand : operands.numbers) all_sound = b.CreateAnd(all_sound, is_sound(b, result, operand, sound));
    Value* any_born = b.getFalse();
    Value* number = is_number(&result) ? &result : b.CreateBitCast(&result, number_of(result));
    for (Value* x : scalars_of(b, number)) any_born = b.CreateOr(any_born, born(b, x));
    Value* wrong = b.CreateAnd(all_sound, any_born);
    calls_.warn_of_result(b, result, wrong, what);
  }

  WarningCalls calls_;
  const Births births_;
  llvm::DenseMap<const Instruction*, unsigned> places_;  ///< of the function's own, ahead of all checks
};

}  // namespace

void check_births(llvm::Module& module, JitKernel& kernel, Taints& taints, Births births) {
  BirthChecks checks(module, kernel, taints, births);
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) checks.run(f);
}

}  // namespace tegula::emulator
