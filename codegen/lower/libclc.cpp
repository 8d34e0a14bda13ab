#include "codegen/lower/libclc.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/MemoryBuffer.h>
#include <zstd.h>

#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

// Itanium-mangled as OpenCL C declares it: _Z3powff.
std::string mangled(std::string_view name, llvm::ArrayRef<llvm::Value*> args) {
  std::string out = fmt::format("_Z{}{}", name.size(), name);
  for (llvm::Value* x : args) out += x->getType()->isDoubleTy() ? "d" : "f";
  return out;
}

const std::string& libclc_bitcode() {
  static const std::string bitcode = [] {
    std::string_view packed = libclc_bitcode_zstd();
    std::string out(ZSTD_getFrameContentSize(packed.data(), packed.size()), '\0');
    size_t size = ZSTD_decompress(out.data(), out.size(), packed.data(), packed.size());
    TEGULA_CHECK(!ZSTD_isError(size), "the embedded libclc is damaged: {}", ZSTD_getErrorName(size));
    return out;
  }();
  return bitcode;
}

bool is_libclc_name(llvm::StringRef name) { return name.starts_with("_Z"); }

}  // namespace

llvm::Value* Lowering::libclc(std::string_view name, llvm::ArrayRef<llvm::Value*> args) {
  llvm::SmallVector<llvm::Type*> types;
  for (llvm::Value* x : args) types.push_back(x->getType());
  auto callee = module.getOrInsertFunction(mangled(name, args), llvm::FunctionType::get(types[0], types, false));
  auto* f = llvm::cast<llvm::Function>(callee.getCallee());
  f->setDoesNotThrow();
  f->setDoesNotAccessMemory();
  f->addFnAttr(llvm::Attribute::WillReturn);
  return b.CreateCall(callee, args);
}

void link_libclc(llvm::Module& module) {
  bool wanted = false;
  for (llvm::Function& f : module) wanted |= f.isDeclaration() && is_libclc_name(f.getName());
  if (!wanted) return;
  llvm::MemoryBufferRef buffer(libclc_bitcode(), "libclc");
  // Only the bodies that get linked are read.
  auto library = llvm::cantFail(llvm::getLazyBitcodeModule(buffer, module.getContext()));
  library->setTargetTriple(module.getTargetTriple());
  library->setDataLayout(module.getDataLayout());
  std::vector<std::string> before;
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) before.push_back(f.getName().str());
  bool failed = llvm::Linker::linkModules(module, std::move(library), llvm::Linker::LinkOnlyNeeded);
  TEGULA_CHECK(!failed, "linking libclc failed");
  for (llvm::Function& f : module) {
    if (f.isDeclaration() || std::find(before.begin(), before.end(), f.getName()) != before.end()) continue;
    f.setLinkage(llvm::GlobalValue::InternalLinkage);
    f.setCallingConv(llvm::CallingConv::C);
    f.addFnAttr(llvm::Attribute::AlwaysInline);
    f.removeFnAttr(llvm::Attribute::NoInline);
    f.removeFnAttr(llvm::Attribute::OptimizeNone);
    f.removeFnAttr("target-cpu");
    f.removeFnAttr("target-features");
    for (llvm::User* u : f.users())
      if (auto* call = llvm::dyn_cast<llvm::CallBase>(u)) call->setCallingConv(llvm::CallingConv::C);
  }
}

}  // namespace tegula::lower
