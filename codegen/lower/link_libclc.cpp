// Calls of libclc's functions, and linking what they need into a kernel's module.
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/MemoryBuffer.h>

#include <set>

#include "codegen/lower/libclc.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

llvm::Value* Lowering::libclc(std::string_view name, llvm::ArrayRef<llvm::Value*> args) {
  bool fp64 = args[0]->getType()->isDoubleTy();
  llvm::SmallVector<llvm::Type*> types(args.size(), args[0]->getType());
  auto callee = module.getOrInsertFunction(libclc_name(name, int(args.size()), fp64),
                                           llvm::FunctionType::get(types[0], types, false));
  auto* f = llvm::cast<llvm::Function>(callee.getCallee());
  f->setDoesNotThrow();
  f->setDoesNotAccessMemory();
  f->addFnAttr(llvm::Attribute::WillReturn);
  return b.CreateCall(callee, args);
}

void link_libclc(llvm::Module& module) {
  bool wanted = false;
  std::set<std::string> own;
  for (llvm::Function& f : module) {
    wanted |= f.isDeclaration() && f.getName().starts_with("_Z");
    if (!f.isDeclaration()) own.insert(f.getName().str());
  }
  if (!wanted) return;
  llvm::MemoryBufferRef buffer(libclc_bitcode(), "libclc");
  // Only the bodies that get linked are read.
  auto library = llvm::cantFail(llvm::getLazyBitcodeModule(buffer, module.getContext()));
  library->setTargetTriple(module.getTargetTriple());
  library->setDataLayout(module.getDataLayout());
  bool failed = llvm::Linker::linkModules(module, std::move(library), llvm::Linker::LinkOnlyNeeded);
  TEGULA_CHECK(!failed, "linking libclc failed");
  for (llvm::Function& f : module) {
    if (f.isDeclaration() || own.count(f.getName().str())) continue;
    f.setLinkage(llvm::GlobalValue::InternalLinkage);
    f.removeFnAttr(llvm::Attribute::NoInline);
    f.removeFnAttr(llvm::Attribute::OptimizeNone);
    f.addFnAttr(llvm::Attribute::AlwaysInline);
  }
}

}  // namespace tegula::lower
