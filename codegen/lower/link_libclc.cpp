// Calls of mathematical functions, libclc's and our own, and linking what they need into a kernel's module.
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/MemoryBuffer.h>

#include <set>

#include "codegen/lower/libclc.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

void set_pure(llvm::Function& f) {
  f.setDoesNotThrow();
  f.setDoesNotAccessMemory();
  f.addFnAttr(llvm::Attribute::WillReturn);
  f.addFnAttr(llvm::Attribute::Speculatable);
}

}  // namespace

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

llvm::Value* Lowering::own_function(std::string_view name, llvm::Value* x,
                                    const std::function<llvm::Value*(llvm::Value*)>& body) {
  const std::string full = fmt::format("{}{}", kOwnFunctionPrefix, name);
  llvm::Function* f = module.getFunction(full);
  if (!f) {
    llvm::Type* type = x->getType();
    f = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false), llvm::GlobalValue::InternalLinkage, full,
                               module);
    set_pure(*f);
    f->addFnAttr(llvm::Attribute::NoInline);
    Builder::InsertPointGuard point(b);
    Builder::FastMathFlagGuard flags(b);
    b.clearFastMathFlags();  // each rounding counts
    b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", f));
    b.SetCurrentDebugLocation({});
    b.CreateRet(body(f->getArg(0)));
  }
  return b.CreateCall(f, {x});
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
      set_pure(f);  // what the declaration said, which the body has taken the place of
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
// Our own functions are one block of some thirty instructions.
constexpr size_t kMostInstructions = 1 << 15, kMostBlocks = 1 << 10;

bool is_own(const llvm::Function& f) { return f.getName().starts_with(llvm::StringRef(kOwnFunctionPrefix)); }

bool is_inlined(const llvm::Function& f) {
  if (is_own(f)) return true;
  const size_t calls = f.getNumUses();
  return f.getInstructionCount() * calls <= kMostInstructions && f.size() * calls <= kMostBlocks;
}

}  // namespace

Inlined inline_functions(llvm::Module& module, const std::function<bool(llvm::Function&)>& stays) {
  Inlined inlined = Inlined::Nothing;
  for (llvm::Function& f : module) {
    if (f.isDeclaration() || !f.hasInternalLinkage() || !is_inlined(f) || stays(f)) continue;
    f.removeFnAttr(llvm::Attribute::NoInline);
    f.addFnAttr(llvm::Attribute::AlwaysInline);
    inlined = std::max(inlined, is_own(f) ? Inlined::Own : Inlined::Libclc);
  }
  return inlined;
}

}  // namespace tegula::lower
