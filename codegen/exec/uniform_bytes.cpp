#include "codegen/exec/uniform_bytes.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <string>

#include "codegen/lower/asm_block.h"
#include "codegen/lower/hw.h"
#include "runtime/base/float16.h"
#include "runtime/base/float8.h"

namespace tegula {

namespace {

constexpr std::string_view kConversion = "cvt_f16x4_e4m3x4";

// Whether a value may be the same in all threads of a warp: not if it follows from a load or a thread's number, as far
// as we know. An exchange between threads gives what all share if they give it, which ptxas sees. Who knows what users'
// assembly does; if it is pure, its arguments tell.
class SharedValues {
 public:
  bool may_be(const llvm::Value* v) {
    const auto* i = llvm::dyn_cast<llvm::Instruction>(v);
    if (!i || !visited_.insert(i).second) return true;
    if (const auto* call = llvm::dyn_cast<llvm::CallInst>(i)) return may_be_result(*call);
    return !llvm::isa<llvm::LoadInst>(i) && all(i->operands());
  }

 private:
  template <class Values>
  bool all(const Values& values) {
    return llvm::all_of(values, [&](const llvm::Use& value) { return may_be(value); });
  }

  bool may_be_result(const llvm::CallInst& call) {
    const llvm::Function* callee = call.getCalledFunction();
    if (!callee) return true;
    if (const auto block = lower::asm_of_function(*callee)) return !block->pure || all(call.args());
    const lower::HwInfo* row = lower::hw_of_function(std::string_view(callee->getName()));
    if (!row) return all(call.args());
    if (row->effects == lower::Convergent) return !call.arg_empty() && may_be(call.getArgOperand(0));
    return row->effects == lower::Pure && row->name != "thread_id" && all(call.args());
  }

  llvm::SmallPtrSet<const llvm::Instruction*, 16> visited_;
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

// The word, summed up of its halves: dp2a has no uniform form.
llvm::Value* in_own_register(llvm::IRBuilder<>& b, llvm::Value* word) {
  llvm::Type* type = word->getType();
  auto* assembly =
      llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false),
                           "{ .reg .b32 low, high; dp2a.lo.u32.u32 low, $1, 1, 0; dp2a.lo.u32.u32 high, $1, 256, 0; "
                           "prmt.b32 $0, low, high, 0x5410; }",
                           "=r,r", false);
  llvm::CallInst* result = b.CreateCall(assembly, {word});
  result->setDoesNotAccessMemory();
  result->setDoesNotThrow();
  return result;
}

}  // namespace

void convert_uniform_bytes(llvm::Module& module) {
  llvm::Function* conversion = module.getFunction(std::string(lower::kHwPrefix) + std::string(kConversion));
  if (!conversion) return;
  for (llvm::User* user : llvm::make_early_inc_range(conversion->users())) {
    auto& call = *llvm::cast<llvm::CallInst>(user);
    llvm::Value* word = call.getArgOperand(0);
    if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(word)) {
      call.replaceAllUsesWith(converted(*constant, call.getType()));
      call.eraseFromParent();
    } else if (SharedValues().may_be(word)) {
      llvm::IRBuilder<> b(&call);
      call.setArgOperand(0, in_own_register(b, word));
    }
  }
}

}  // namespace tegula
