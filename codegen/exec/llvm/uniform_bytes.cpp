#include "codegen/exec/llvm/uniform_bytes.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/Sequence.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <map>
#include <string>

#include "codegen/lower/asm_block.h"
#include "codegen/lower/hw.h"
#include "runtime/base/float16.h"
#include "runtime/base/float8.h"

namespace tegula {

namespace {

constexpr std::string_view kConversion = "cvt_f16x4_e4m3x4";

// Whether a value may be the same in all threads of a warp, as far as ptxas knows, at least in one iteration of a loop
// that it unrolls. A load's is not, unless it may be left out in all threads together. What threads exchange or choose
// from they share if they share it. Who knows what users' assembly does; if it is pure, its arguments tell.
class SharedValues {
 public:
  bool may_be(const llvm::Value* v) {
    const auto* i = llvm::dyn_cast<llvm::Instruction>(v);
    if (!i) return true;
    const auto [it, is_new] = known_.try_emplace(i, true);  // what a loop computes from itself
    return is_new ? known_[i] = may_be_result(*i) : it->second;
  }

 private:
  template <class Values>
  bool all(const Values& values) {
    return llvm::all_of(values, [&](const llvm::Value* value) { return may_be(value); });
  }

  bool may_be_result(const llvm::Instruction& i) {
    if (const auto* call = llvm::dyn_cast<llvm::CallInst>(&i)) return may_be_result_of_call(*call);
    if (const auto* phi = llvm::dyn_cast<llvm::PHINode>(&i))
      return llvm::any_of(phi->incoming_values(), [&](const llvm::Value* value) { return may_be(value); });
    if (llvm::isa<llvm::SelectInst>(i)) return may_be(i.getOperand(1)) && may_be(i.getOperand(2));
    return !llvm::isa<llvm::LoadInst>(i) && all(i.operands());
  }

  bool may_be_result_of_call(const llvm::CallInst& call) {
    const llvm::Function* callee = call.getCalledFunction();
    if (!callee) return true;
    if (const auto block = lower::asm_of_function(*callee)) return !block->pure || all(call.args());
    const lower::HwInfo* row = lower::hw_of_function(std::string_view(callee->getName()));
    if (!row) return all(call.args());
    if (row->effects == lower::Convergent) return !call.arg_empty() && may_be(call.getArgOperand(0));
    if (row->effects == lower::Read && row->assembly.starts_with('@')) return may_be_left_out(*row, call);
    return row->effects == lower::Pure && row->name != "thread_id" && all(call.args());
  }

  // Of a load under a predicate: what it gives where it is not done stands between the address and the predicate.
  bool may_be_left_out(const lower::HwInfo& row, const llvm::CallInst& call) {
    const auto at = std::find(row.args.begin(), row.args.end(), lower::HwType::I1) - row.args.begin();
    if (llvm::isa<llvm::Constant>(call.getArgOperand(unsigned(at)))) return false;
    return llvm::all_of(llvm::seq<unsigned>(1, unsigned(at) + 1),
                        [&](unsigned n) { return may_be(call.getArgOperand(n)); });
  }

  llvm::DenseMap<const llvm::Instruction*, bool> known_;
};

// Two words of two float16 each.
llvm::Constant* converted(const llvm::ConstantInt& word, llvm::Type* type) {
  auto half = [&](int byte) {
    const auto number = float8e4nv::of_bits(uint8_t(word.getZExtValue() >> (8 * byte)));
    return uint32_t(float16(float(number)).bits);
  };
  llvm::Type* of_pair = word.getType();
  return llvm::ConstantStruct::get(llvm::cast<llvm::StructType>(type),
                                   {llvm::ConstantInt::get(of_pair, half(0) | half(1) << 16),
                                    llvm::ConstantInt::get(of_pair, half(2) | half(3) << 16)});
}

// A zero of a function that ptxas cannot tell from other numbers that differ by the thread.
class HiddenZero {
 public:
  explicit HiddenZero(llvm::Function& function) : function_(function) {}

  // The word itself, in a register of each thread's. No bit of the result follows from the word's, so that ptxas finds
  // no half of it to be constant.
  llvm::Value* hold(llvm::CallInst& before, llvm::Value* word) {
    return llvm::IRBuilder<>(&before).CreateXor(word, zero());
  }

 private:
  // The last bit of t (t + 1), in all bits.
  llvm::Value* zero() {
    if (zero_) return zero_;
    llvm::IRBuilder<> b(&*function_.getEntryBlock().getFirstInsertionPt());
    auto* assembly = llvm::InlineAsm::get(
        llvm::FunctionType::get(b.getInt32Ty(), false),
        "{ .reg .b32 t; mov.u32 t, %tid.x; mad.lo.u32 t, t, t, t; and.b32 t, t, 1; neg.s32 $0, t; }", "=r", false);
    llvm::CallInst* result = b.CreateCall(assembly);
    result->setDoesNotAccessMemory();
    result->setDoesNotThrow();
    return zero_ = result;
  }

  llvm::Function& function_;
  llvm::Value* zero_ = nullptr;
};

// A number of a constant, or of another value that has a register of its own.
void convert(llvm::CallInst& call, HiddenZero& zero) {
  llvm::Value* word = call.getArgOperand(0);
  if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(word)) {
    call.replaceAllUsesWith(converted(*constant, call.getType()));
    call.eraseFromParent();
  } else if (SharedValues().may_be(word)) {
    call.setArgOperand(0, zero.hold(call, word));
  }
}

void multiply(llvm::CallInst& call, HiddenZero& zero) {
  for (llvm::Use& operand : call.args())
    if (operand->getType()->isIntegerTy(32) && SharedValues().may_be(operand)) operand.set(zero.hold(call, operand));
}

bool multiplies_float8(const lower::HwInfo& row) {
  return row.assembly.starts_with("mma.sync") &&
         (row.assembly.find(".e4m3") != row.assembly.npos || row.assembly.find(".e5m2") != row.assembly.npos);
}

}  // namespace

void convert_uniform_bytes(llvm::Module& module) {
  std::map<llvm::Function*, HiddenZero> zeros;
  for (llvm::Function& f : module) {
    const lower::HwInfo* row = lower::hw_of_function(std::string_view(f.getName()));
    if (!row || (row->name != kConversion && !multiplies_float8(*row))) continue;
    for (llvm::User* user : llvm::make_early_inc_range(f.users())) {
      auto& call = *llvm::cast<llvm::CallInst>(user);
      HiddenZero& zero = zeros.try_emplace(call.getFunction(), *call.getFunction()).first->second;
      row->name == kConversion ? convert(call, zero) : multiply(call, zero);
    }
  }
}

}  // namespace tegula
