#include "codegen/exec/emulator/warnings/unwritten_reads.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>

#include "codegen/exec/emulator/code/link_bodies.h"
#include "codegen/exec/emulator/races/races.h"
#include "codegen/exec/emulator/warnings/warning_calls.h"

namespace tegula::emulator {

namespace {

using llvm::Instruction;
using llvm::Value;

bool is_load(const Instruction& i) { return row_of(i).starts_with("ld_global_"); }

class Reads {
 public:
  Reads(llvm::Module& module, JitKernel& kernel) : calls_(module, kernel) {
    llvm::Type *i32 = llvm::Type::getInt32Ty(module.getContext()), *none = llvm::Type::getVoidTy(module.getContext());
    read_ = module.getOrInsertFunction(kUnwrittenReadName, llvm::FunctionType::get(i32, false));
    used_ = module.getOrInsertFunction(kUnwrittenUsedName, llvm::FunctionType::get(none, i32, false));
  }

  void run(llvm::Function& f) {
    llvm::SmallVector<Instruction*> loads;
    for (Instruction& i : llvm::instructions(f))
      if (is_load(i)) loads.push_back(&i);
    for (Instruction* load : loads) check(*load);
  }

 private:
  static constexpr uint64_t kAllWords = (1 << Races::kWordsOfRead) - 1;

  void check(Instruction& load) {
    const llvm::SmallVector<llvm::User*> users(load.users());
    llvm::IRBuilder<> b(load.getNextNode());
    Value* unwritten = b.CreateCall(read_);
    if (!load.getType()->isStructTy()) return check_words(b, load, kAllWords, unwritten);
    for (llvm::User* user : users) {
      auto* word = llvm::dyn_cast<llvm::ExtractValueInst>(user);
      if (!word) return tell(b, unwritten);
      llvm::IRBuilder<> ahead(word);
      check_words(ahead, *word, uint64_t(1) << word->getIndices()[0], unwritten);
    }
  }

  void check_words(llvm::IRBuilder<>& b, Instruction& loaded, uint64_t words, Value* unwritten) {
    Value* any = b.CreateIsNotNull(b.CreateAnd(unwritten, words));
    calls_.at_uses(b, loaded, b.CreateSelect(any, unwritten, b.getInt32(0)), nullptr,
                   [&](llvm::IRBuilder<>& at, Value* read) { tell(at, read); });
  }

  void tell(llvm::IRBuilder<>& b, Value* read) { b.CreateCall(used_, read); }

  WarningCalls calls_;
  llvm::FunctionCallee read_, used_;
};

}  // namespace

void check_unwritten_reads(llvm::Module& module, JitKernel& kernel) {
  Reads reads(module, kernel);
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) reads.run(f);
}

}  // namespace tegula::emulator
