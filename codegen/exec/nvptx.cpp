#include "codegen/exec/nvptx.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Pass.h>
#include <llvm/PassInfo.h>
#include <llvm/PassRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include <algorithm>
#include <cctype>
#include <mutex>

#include "codegen/lower/asm_block.h"
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

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < list.size();) {
    size_t end = std::min(list.find(',', at), list.size());
    parts.emplace_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// A row's assembly with the operands that it names, results first.
struct Assembly {
  std::string text;
  std::vector<std::string> constraints;
  std::vector<llvm::Value*> inputs;
};

// Where the predicate is true there is no need of it, nor of the values that a load gives where it is false: these are
// tied to the results.
void drop_predicate(Assembly& assembly) {
  const size_t results = assembly.constraints.size() - assembly.inputs.size();
  assembly.text.erase(0, assembly.text.find(' ') + 1);
  std::vector<size_t> kept;
  for (size_t i = 0; i < assembly.constraints.size(); ++i)
    if (i < results || (assembly.constraints[i] != "b" && !std::isdigit(assembly.constraints[i][0]))) kept.push_back(i);
  Assembly out;
  for (size_t i = 0; i < assembly.text.size(); ++i) {
    out.text += assembly.text[i];
    if (assembly.text[i] != '$') continue;
    size_t operand = 0;
    for (; i + 1 < assembly.text.size() && std::isdigit(assembly.text[i + 1]); ++i)
      operand = operand * 10 + size_t(assembly.text[i + 1] - '0');
    out.text += std::to_string(std::find(kept.begin(), kept.end(), operand) - kept.begin());
  }
  for (size_t i : kept) {
    out.constraints.push_back(assembly.constraints[i]);
    if (i >= results) out.inputs.push_back(assembly.inputs[i - results]);
  }
  assembly = std::move(out);
}

// An eviction priority counts for the L1 cache alone; for the L2 cache an access takes a policy as its last operand.
void add_cache_policy(std::string& assembly, std::string_view modifiers) {
  for (std::string_view priority : {"evict_first", "evict_last"}) {
    std::string level = fmt::format(".L1::{}", priority);
    if (modifiers != level) continue;
    size_t end = assembly.rfind(';');
    TEGULA_CHECK(end != std::string::npos, "no instruction in '{}'", assembly);
    assembly = fmt::format("{{ .reg .b64 policy; createpolicy.fractional.L2::{}.b64 policy, 1.0; {}, policy; }}",
                           priority, replace_all(assembly.substr(0, end), level, level + ".L2::cache_hint"));
  }
}

// The row's PTX for the target with the modifiers and immediates of a call.
std::string with_modifiers(const HwInfo& row, const Target& target, const std::string& modifiers) {
  std::string text = row.assembly_for(target);
  auto values = lower::immediates(row, modifiers);
  TEGULA_CHECK(values, "'{}' takes {} numbers as modifiers, not '{}'", row.name, row.num_immediates, modifiers);
  constexpr std::string_view kImmediate = "{imm}";
  for (uint32_t value : *values) text.replace(text.find(kImmediate), kImmediate.size(), std::to_string(value));
  bool is_volatile = modifiers == ".volatile";
  text = replace_all(text, "{mod}", is_volatile ? "" : modifiers);
  return replace_all(text, "{order}", is_volatile ? ".volatile" : "");
}

// The row's PTX as inline assembly; `always`: its predicate is true.
llvm::Value* call_assembly(llvm::IRBuilder<>& b, llvm::Function* f, const HwInfo& row, const Target& target,
                           const std::string& modifiers, bool always) {
  bool is_volatile = modifiers == ".volatile";
  Assembly assembly{with_modifiers(row, target, modifiers), split(row.constraints), {}};
  for (size_t i = 0; i < row.args.size(); ++i)
    if (row.args[i] != HwType::Site) assembly.inputs.push_back(f->getArg(unsigned(i)));
  if (always) drop_predicate(assembly);
  add_cache_policy(assembly.text, modifiers);
  bool effects = row.effects & (lower::Write | lower::Read) || is_volatile;
  if (effects) assembly.constraints.push_back("~{memory}");

  llvm::SmallVector<llvm::Type*> types;
  for (llvm::Value* input : assembly.inputs) types.push_back(input->getType());
  bool single = row.result_count == 1;
  llvm::Type* result = single ? f->getReturnType()->getStructElementType(0) : f->getReturnType();
  auto* callee = llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), assembly.text,
                                      fmt::format("{}", fmt::join(assembly.constraints, ",")),
                                      (row.effects & (lower::Write | lower::Convergent)) || is_volatile);
  auto* call = b.CreateCall(callee, assembly.inputs);
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

std::unique_ptr<llvm::TargetMachine> nvptx_machine(const Target& target, int ptx) {
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
  // Only what carries the flag `contract` may become one fma: the kernel's own a * b + c, never libclc's arithmetic on
  // values in two parts, which relies on each rounding.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(triple, target.name, fmt::format("+ptx{}", ptx), options, llvm::Reloc::PIC_,
                                   std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

namespace {

// The argument that predicates a row, or -1.
int predicate_of(const HwInfo& row) {
  if (!row.assembly.starts_with('@')) return -1;
  return int(std::find(row.args.begin(), row.args.end(), HwType::I1) - row.args.begin());
}

// The end of a body: it gives the result, and is inlined.
void finish(llvm::Function& f, llvm::IRBuilder<>& b, llvm::Value* result) {
  if (f.getReturnType()->isVoidTy())
    b.CreateRetVoid();
  else
    b.CreateRet(result);
  f.setLinkage(llvm::GlobalValue::InternalLinkage);
  f.addFnAttr(llvm::Attribute::AlwaysInline);
  f.removeFnAttr(llvm::Attribute::Memory);
  f.removeFnAttr(llvm::Attribute::Speculatable);
}

void define(llvm::Function& f, const HwInfo& row, const Target& target, const std::string& modifiers, bool always) {
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(f.getContext(), "", &f));
  llvm::Value* result = row.name == "shared_base" ? shared_array_address(b, *f.getParent())
                                                  : call_assembly(b, &f, row, target, modifiers, always);
  finish(f, b, result);
}

// A block of inline PTX as it stands.
void define(llvm::Function& f, const lower::AsmBlock& block) {
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(f.getContext(), "", &f));
  llvm::SmallVector<llvm::Value*> arguments;
  for (llvm::Argument& argument : f.args()) arguments.push_back(&argument);
  auto* callee = llvm::InlineAsm::get(f.getFunctionType(), block.text,
                                      block.constraints + (block.pure ? "" : ",~{memory}"), !block.pure);
  auto* call = b.CreateCall(callee, arguments);
  call->setDoesNotThrow();
  if (block.pure)
    call->setDoesNotAccessMemory();
  else
    call->setConvergent();
  finish(f, b, call);
}

}  // namespace

int link_ptx_bodies(llvm::Module& module, const Target& target) {
  int ptx = target.ptx;
  for (llvm::Function& f : llvm::make_early_inc_range(module)) {
    if (auto block = lower::asm_of_function(f); block && f.isDeclaration()) define(f, *block);
    std::string modifiers;
    const HwInfo* row = lower::hw_of_function(std::string_view(f.getName()), &modifiers);
    if (!row || !f.isDeclaration() || f.use_empty()) continue;
    TEGULA_CHECK(target.has(row->feature), "{} lacks what '{}' needs", target.name, row->name);
    ptx = std::max(ptx, target.ptx_for(row->feature));
    if (int predicate = predicate_of(*row); predicate >= 0) {
      llvm::SmallVector<llvm::CallInst*> always;
      for (llvm::User* user : f.users())
        if (auto* call = llvm::dyn_cast<llvm::CallInst>(user))
          if (auto* p = llvm::dyn_cast<llvm::ConstantInt>(call->getArgOperand(unsigned(predicate))); p && p->isOne())
            always.push_back(call);
      if (!always.empty()) {
        auto* plain = llvm::Function::Create(f.getFunctionType(), f.getLinkage(), f.getName() + ".always", module);
        plain->copyAttributesFrom(&f);
        for (llvm::CallInst* call : always) call->setCalledFunction(plain);
        define(*plain, *row, target, modifiers, true);
      }
    }
    define(f, *row, target, modifiers, false);
  }
  return ptx;
}

namespace {

// The back end's passes without those that cost more than they give. Straight-line strength reduction compares each
// address with those before it: quadratic in the accesses of a block, two thirds of code generation, and registers and
// machine code are the same without it within a hundredth.
class BackEndPasses : public llvm::legacy::PassManager {
 public:
  void add(llvm::Pass* pass) override {
    const llvm::PassInfo* info = llvm::PassRegistry::getPassRegistry()->getPassInfo(pass->getPassID());
    if (!info || info->getPassArgument() != "slsr") return llvm::legacy::PassManager::add(pass);
    left_out_ = true;
    delete pass;
  }
  /// False if the back end of this LLVM has no such pass, or names it otherwise.
  bool complete() const { return left_out_; }

 private:
  bool left_out_ = false;
};

}  // namespace

std::string emit_ptx(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  BackEndPasses passes;
  bool failed = machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile);
  TEGULA_CHECK(!failed, "the NVPTX back end emits no assembly");
  TEGULA_CHECK(passes.complete(), "the NVPTX back end has no pass 'slsr' to leave out");
  passes.run(module);
  return std::string(text);
}

}  // namespace tegula
