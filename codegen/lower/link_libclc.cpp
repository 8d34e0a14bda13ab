// Calls of libclc's functions, and linking what they need into a kernel's module.
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/MemoryBuffer.h>

#include <set>

#include "codegen/lower/libclc.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

llvm::Value* Lowering::libclc(std::string_view name, llvm::ArrayRef<llvm::Value*> args, llvm::Type* result) {
  std::string letters;
  llvm::SmallVector<llvm::Type*> types;
  for (llvm::Value* x : args) {
    letters += x->getType()->isDoubleTy() ? 'd' : x->getType()->isFloatTy() ? 'f' : 'i';
    types.push_back(x->getType());
  }
  auto callee = module.getOrInsertFunction(libclc_name(name, letters),
                                           llvm::FunctionType::get(result ? result : types[0], types, false));
  auto* f = llvm::cast<llvm::Function>(callee.getCallee());
  f->setDoesNotThrow();
  f->setDoesNotAccessMemory();
  f->addFnAttr(llvm::Attribute::WillReturn);
  return b.CreateCall(callee, args);
}

namespace {

// The error that a division or square root of the library may have, in ulp; 0: none beyond rounding. The library's own
// bounds hold with it.
double allowed_error(const llvm::Instruction& op) {
  const llvm::MDNode* node = op.getMetadata(llvm::LLVMContext::MD_fpmath);
  return node ? llvm::mdconst::extract<llvm::ConstantFP>(node->getOperand(0))->getValueAPF().convertToFloat() : 0;
}

// Takes the hardware's fast fp32 forms, which are within 2 ulp, where that is allowed: exact ones are calls of some
// twenty instructions.
void use_fast_forms(llvm::Function& f) {
  llvm::IRBuilder<> b(f.getContext());
  for (llvm::BasicBlock& block : f)
    for (llvm::Instruction& op : llvm::make_early_inc_range(block)) {
      if (!op.getType()->isFloatTy() || allowed_error(op) < 2) continue;
      const char* row = nullptr;
      if (op.getOpcode() == llvm::Instruction::FDiv) row = "div_full_f32";
      if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&op);
          call && call->getIntrinsicID() == llvm::Intrinsic::sqrt)
        row = "sqrt_approx_f32";
      if (!row) continue;
      b.SetInsertPoint(&op);
      llvm::SmallVector<llvm::Value*, 2> args{op.getOperand(0)};
      if (op.getOpcode() == llvm::Instruction::FDiv) args.push_back(op.getOperand(1));
      op.replaceAllUsesWith(b.CreateCall(declare_hw(*f.getParent(), *find_hw(row)), args));
      op.eraseFromParent();
    }
}

}  // namespace

void link_libclc(llvm::Module& module) {
  std::set<std::string> wanted, own;
  for (llvm::Function& f : module) {
    if (!f.isDeclaration())
      own.insert(f.getName().str());
    else if (f.getName().starts_with("_Z"))
      wanted.insert(f.getName().str());
  }
  if (wanted.empty()) return;
  llvm::MemoryBufferRef buffer(libclc_bitcode(), "libclc");
  // Only the bodies that get linked are read.
  auto library = llvm::cantFail(llvm::getLazyBitcodeModule(buffer, module.getContext()));
  library->setTargetTriple(module.getTargetTriple());
  library->setDataLayout(module.getDataLayout());
  bool failed = llvm::Linker::linkModules(module, std::move(library), llvm::Linker::LinkOnlyNeeded);
  TEGULA_CHECK(!failed, "linking libclc failed");
  std::vector<llvm::Function*> linked;
  for (llvm::Function& f : module) {
    if (f.isDeclaration() || own.contains(f.getName().str())) continue;
    f.setLinkage(llvm::GlobalValue::InternalLinkage);
    f.removeFnAttr(llvm::Attribute::OptimizeNone);
    if (wanted.contains(f.getName().str())) {
      f.addFnAttr(llvm::Attribute::NoInline);
      // What the declaration said, which the body has taken the place of.
      f.setDoesNotThrow();
      f.setDoesNotAccessMemory();
      f.addFnAttr(llvm::Attribute::WillReturn);
      f.addFnAttr(llvm::Attribute::Speculatable);
    } else {
      f.removeFnAttr(llvm::Attribute::NoInline);
      f.addFnAttr(llvm::Attribute::AlwaysInline);
    }
    linked.push_back(&f);
  }
  for (llvm::Function* f : linked) use_fast_forms(*f);
}

namespace {

// A function's instructions and blocks, times its calls, above which it stays a function: a tile of thousands of
// elements for a thread has as many calls, and passes over the machine code take the square of the blocks.
constexpr size_t kMostInstructions = 1 << 15, kMostBlocks = 1 << 10;

bool is_inlined(const llvm::Function& f) {
  const size_t calls = f.getNumUses();
  return f.getInstructionCount() * calls <= kMostInstructions && f.size() * calls <= kMostBlocks;
}

}  // namespace

bool inline_libclc_calls(llvm::Module& module) {
  bool found = false;
  for (llvm::Function& f : module) {
    if (f.isDeclaration() || !f.hasInternalLinkage() || !is_inlined(f)) continue;
    f.removeFnAttr(llvm::Attribute::NoInline);
    f.addFnAttr(llvm::Attribute::AlwaysInline);
    found = true;
  }
  return found;
}

}  // namespace tegula::lower
