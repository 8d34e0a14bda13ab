#include "codegen/exec/nvptx.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include <mutex>

#include "codegen/lower/hw.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

using lower::HwInfo;
using lower::HwType;

std::string replace_all(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// The row's PTX as inline assembly.
llvm::Value* call_assembly(llvm::IRBuilder<>& b, llvm::Function* f, const HwInfo& row, const std::string& modifiers) {
  bool is_volatile = modifiers == ".volatile";
  std::string text = replace_all(row.assembly, "{mod}", is_volatile ? "" : modifiers);
  text = replace_all(text, "{order}", is_volatile ? ".volatile" : "");
  llvm::SmallVector<llvm::Value*> args;
  llvm::SmallVector<llvm::Type*> types;
  for (size_t i = 0; i < row.args.size(); ++i) {
    if (row.args[i] == HwType::Site) continue;
    args.push_back(f->getArg(unsigned(i)));
    types.push_back(args.back()->getType());
  }
  bool single = row.result_count == 1;
  llvm::Type* result = single ? f->getReturnType()->getStructElementType(0) : f->getReturnType();
  std::string constraints = row.constraints;
  bool effects = row.effects & (lower::Write | lower::Read) || is_volatile;
  if (effects) constraints += constraints.empty() ? "~{memory}" : ",~{memory}";
  auto* assembly = llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text, constraints,
                                        (row.effects & (lower::Write | lower::Convergent)) || is_volatile);
  auto* call = b.CreateCall(assembly, args);
  call->setDoesNotThrow();
  if (!effects && !(row.effects & lower::Convergent)) call->setDoesNotAccessMemory();
  if (row.effects & lower::Convergent) call->setConvergent();
  if (single) return b.CreateInsertValue(llvm::PoisonValue::get(f->getReturnType()), call, 0);
  return call;
}

llvm::Value* shared_array_address(llvm::IRBuilder<>& b, llvm::Module& module) {
  auto* type = llvm::ArrayType::get(b.getInt8Ty(), 0);
  auto* array = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                         "tegula_shared", nullptr, llvm::GlobalValue::NotThreadLocal, 3);
  array->setAlignment(llvm::Align(1024));
  return b.CreateTrunc(b.CreatePtrToInt(array, b.getInt64Ty()), b.getInt32Ty());
}

}  // namespace

std::unique_ptr<llvm::TargetMachine> nvptx_machine(const Target& target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, error);
  TEGULA_CHECK(backend, "{}", error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;  // a * b + c may become one fma, as in Triton
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(triple, target.name, fmt::format("+ptx{}", target.ptx), options, llvm::Reloc::PIC_,
                                   std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

void link_ptx_bodies(llvm::Module& module, const Target& target) {
  for (llvm::Function& f : llvm::make_early_inc_range(module)) {
    std::string modifiers;
    const HwInfo* row = lower::hw_of_function(std::string_view(f.getName()), &modifiers);
    if (!row || !f.isDeclaration()) continue;
    TEGULA_CHECK(target.has(row->feature), "{} lacks what '{}' needs", target.name, row->name);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(module.getContext(), "", &f));
    llvm::Value* result =
        row->name == "shared_base" ? shared_array_address(b, module) : call_assembly(b, &f, *row, modifiers);
    if (f.getReturnType()->isVoidTy())
      b.CreateRetVoid();
    else
      b.CreateRet(result);
    f.setLinkage(llvm::GlobalValue::InternalLinkage);
    f.addFnAttr(llvm::Attribute::AlwaysInline);
    f.removeFnAttr(llvm::Attribute::Memory);
    f.removeFnAttr(llvm::Attribute::Speculatable);
  }
}

std::string emit_ptx(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  bool failed = machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile);
  TEGULA_CHECK(!failed, "the NVPTX back end emits no assembly");
  passes.run(module);
  return std::string(text);
}

}  // namespace tegula
