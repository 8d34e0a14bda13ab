#include "codegen/exec/emulator/code/jit.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <mutex>

#include "codegen/compile.h"
#include "codegen/exec/emulator/code/kept_code.h"
#include "codegen/exec/emulator/code/lane_segments.h"
#include "codegen/exec/emulator/code/link_bodies.h"
#include "codegen/exec/emulator/code/soft_float.h"
#include "codegen/exec/emulator/code/to_bytecode.h"
#include "codegen/exec/emulator/hardware/hw_bodies.h"
#include "codegen/exec/emulator/warnings/arithmetic_checks.h"
#include "codegen/exec/emulator/warnings/number_births.h"
#include "codegen/exec/emulator/warnings/pointer_origins.h"
#include "codegen/exec/emulator/warnings/taints.h"
#include "codegen/exec/fatal_errors.h"
#include "codegen/exec/llvm/join_pieces.h"
#include "codegen/exec/llvm/llvm_passes.h"
#include "codegen/exec/module_stash.h"
#include "codegen/ir/verify_steps.h"
#include "codegen/lower/llvm_headers.h"
#include "runtime/base/check.h"
#include "runtime/base/error.h"
#include "runtime/sealing.h"

namespace tegula::emulator {

namespace {

using llvm::Function;
using llvm::Type;
using llvm::Value;

constexpr const char* kEntryName = "tegula_emulator_entry";
constexpr double kOptimising = 5;  ///< takes so many times as long as machine code that is made at once, about
constexpr double kSecondsPerInstruction = 20e-6;  ///< that is optimised, about
constexpr double kLong = 50000;                   ///< instructions; as many more take as long again for each of them
std::string to_text(const Type* type) {
  std::string text;
  llvm::raw_string_ostream(text) << *type;
  return text;
}

/// LLVM's errors as text, and the frame sizes that it tells of; without a handler LLVM prints and may end the process.
struct DiagnosticCollector : llvm::DiagnosticHandler {
  explicit DiagnosticCollector(std::string& errors) : errors(errors) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (auto* frame = llvm::dyn_cast<llvm::DiagnosticInfoStackSize>(&info)) {
      if (frame->getFunction().getName().starts_with(kSegmentName))
        largest_segment = std::max(largest_segment, frame->getStackSize());
      else
        frame_bytes += frame->getStackSize();
    } else if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream stream(errors);
      llvm::DiagnosticPrinterRawOStream printer(stream);
      info.print(printer);
    }
    return true;
  }
  /// At most: one segment runs at a time.
  uint64_t stack_bytes() const { return frame_bytes + largest_segment; }

  std::string& errors;
  uint64_t frame_bytes = 0, largest_segment = 0;
};

/// The type of an argument in the kernel's signature.
bool fits(const Type* type, const ImageParam& param) {
  if (param.pointer) return type->isPointerTy();
  switch (param.elem) {
    case Elem::I1:
      return type->isIntegerTy(8);
    case Elem::F16:
      return type->isHalfTy();
    case Elem::BF16:
      return type->isBFloatTy();
    case Elem::F32:
      return type->isFloatTy();
    case Elem::F64:
      return type->isDoubleTy();
    default:
      return type->isIntegerTy(unsigned(elem_bits(param.elem)));
  }
}

/// void entry(ptr args): loads the arguments, behind which stand pointers to tensor maps, and calls the kernel. Numbers
/// of programs come last.
void add_entry(llvm::Module& module, const KernelImage& image) {
  Function* kernel = module.getFunction(image.kernel);
  if (!kernel || kernel->isDeclaration()) refuse(image, "its code has no function of that name");
  const size_t num_params = image.params.size(), num_maps = image.tensor_maps.maps.size();
  const size_t num_counts = image.program_loop ? 3 : 0, num_args = num_params + num_maps + num_counts;
  if (kernel->arg_size() != num_args)
    refuse(image, fmt::format("its code takes {} arguments, its image has {}", kernel->arg_size(), num_args));
  if (!kernel->getReturnType()->isVoidTy()) refuse(image, "its code returns a value");
  llvm::LLVMContext& context = module.getContext();
  Type* pointer = llvm::PointerType::get(context, 0);
  Function* entry = Function::Create(llvm::FunctionType::get(Type::getVoidTy(context), {pointer}, false),
                                     llvm::GlobalValue::ExternalLinkage, kEntryName, module);
  entry->setDoesNotThrow();
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "", entry));
  llvm::SmallVector<Value*> operands;
  for (llvm::Argument& arg : kernel->args()) {
    Value* slot = b.CreateConstInBoundsGEP1_32(pointer, entry->getArg(0), arg.getArgNo());
    if (arg.getArgNo() >= num_params + num_maps) {
      operands.push_back(b.CreateLoad(arg.getType(), b.CreateLoad(pointer, slot)));
      continue;
    }
    if (arg.getArgNo() >= num_params) {  // a tensor map stays where it is
      arg.removeAttr(llvm::Attribute::ByVal);
      operands.push_back(b.CreateLoad(pointer, slot));
      continue;
    }
    const ImageParam& param = image.params[arg.getArgNo()];
    if (!fits(arg.getType(), param))
      refuse(image,
             fmt::format("argument {} '{}' is {}{} in its image, but {} in its code", arg.getArgNo() + 1, param.name,
                         param.pointer ? "*" : "", elem_info(param.elem).text, to_text(arg.getType())));
    operands.push_back(b.CreateAlignedLoad(arg.getType(), b.CreateLoad(pointer, slot), llvm::Align(1)));
  }
  kernel->setLinkage(llvm::GlobalValue::InternalLinkage);
  b.CreateCall(kernel, operands);
  b.CreateRetVoid();
}

/// Takes away what the module says of the GPU that it was optimised for.
void retarget(llvm::Module& module, const llvm::Triple& host, const KernelImage& image) {
  module.setTargetTriple(host);
  module.setDataLayout(host.computeDataLayout());
  for (llvm::GlobalVariable& global : module.globals())
    if (global.getAddressSpace() == 3)
      refuse(image, fmt::format("it has a shared array '{}' of its own", global.getName().str()));
  for (Function& f : module) {
    f.setCallingConv(llvm::CallingConv::C);
    for (llvm::Instruction& i : llvm::instructions(f))
      if (auto* call = llvm::dyn_cast<llvm::CallBase>(&i)) {
        call->setCallingConv(llvm::CallingConv::C);
        if (call->isInlineAsm()) refuse(image, "it has inline PTX, which the emulator does not know");
      }
  }
}

/// What holds for every function that is compiled.
void set_attributes(llvm::Module& module, const llvm::TargetMachine& machine) {
  for (Function& f : module) {
    if (f.isDeclaration()) continue;
    f.removeFnAttr("tune-cpu");
    f.removeFnAttr(llvm::Attribute::Memory);  // said of the declared hardware functions; their bodies do more
    f.removeFnAttr(llvm::Attribute::NoInline);
    f.removeFnAttr(llvm::Attribute::OptimizeNone);
    f.addFnAttr("target-cpu", machine.getTargetCPU());
    f.addFnAttr("target-features", machine.getTargetFeatureString());
    f.addFnAttr("probe-stack", "inline-asm");  // no frame steps over the page that guards a stack
    f.addFnAttr("warn-stack-size", "0");       // reports the size of its frame
  }
}

/// Every function left without a body must be one that the emulator supplies.
void check_externals(const llvm::Module& module, const KernelImage& image) {
  for (const Function& f : module) {
    if (!f.isDeclaration() || f.use_empty()) continue;
    llvm::StringRef name = f.getName();
    bool known = f.isIntrinsic() ? !name.starts_with("llvm.nvvm.") : name.starts_with("emu_");
    for (auto& [function, address] : runtime_functions()) known |= name == function;
    if (!known) refuse(image, fmt::format("it calls '{}', which the emulator does not have", name.str()));
  }
}

/// The module was optimised for the GPU already; what calls of the bodies add is little.
void combine_instructions(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::InstCombinePass()));
  run_llvm_passes(module, &machine, std::move(passes));
}

/// x * y + z, or with either sign, as one fma if the code allows that; null if not.
Value* contracted(llvm::Instruction& i) {
  const bool adds = i.getOpcode() == llvm::Instruction::FAdd;
  if (!(adds || i.getOpcode() == llvm::Instruction::FSub) || !i.hasAllowContract()) return nullptr;
  const Type* scalar = i.getType()->getScalarType();
  if (!scalar->isFloatTy() && !scalar->isDoubleTy()) return nullptr;
  for (unsigned at : {0u, 1u}) {
    auto* product = llvm::dyn_cast<llvm::BinaryOperator>(i.getOperand(at));
    if (!product || product->getOpcode() != llvm::Instruction::FMul || !product->hasOneUse() ||
        !product->hasAllowContract())
      continue;
    llvm::IRBuilder<> b(&i);
    Value *x = product->getOperand(0), *y = product->getOperand(1), *z = i.getOperand(1 - at);
    if (!adds) (at == 0 ? z : x) = b.CreateFNeg(at == 0 ? z : x);
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {i.getType()}, {x, y, z});
  }
  return nullptr;
}

/// Contracts products and sums here, since code generators differ in where they do.
void contract(llvm::Module& module) {
  for (Function& f : module) {
    llvm::SmallVector<llvm::Instruction*> operations;
    for (llvm::Instruction& i : llvm::instructions(f))
      if (llvm::isa<llvm::BinaryOperator>(i) && llvm::isa<llvm::FPMathOperator>(i)) operations.push_back(&i);
    for (llvm::Instruction* i : operations)
      if (Value* fma = contracted(*i)) i->replaceAllUsesWith(fma);
    for (llvm::Instruction* i : llvm::reverse(operations))
      if (i->use_empty())
        i->eraseFromParent();
      else
        i->setHasAllowContract(false);
  }
}

/// What rounds to odd loses no tie: a number of which a double cannot hold all bits, with the bits that it leaves out
/// seen in the last one that it keeps.
Value* in_reach_of_double(llvm::IRBuilder<>& b, Value* x, bool sign) {
  constexpr uint64_t kOut = (1 << 11) - 1, kExact = uint64_t(1) << 53;
  auto number = [&](uint64_t n) { return llvm::ConstantInt::get(x->getType(), n); };
  Value* left_out = b.CreateICmpNE(b.CreateAnd(x, number(kOut)), number(0));
  Value* odd = b.CreateOr(b.CreateAnd(x, number(~kOut)), b.CreateSelect(left_out, number(kOut + 1), number(0)));
  Value* exact =
      sign ? b.CreateICmpULT(b.CreateAdd(x, number(kExact)), number(2 * kExact)) : b.CreateICmpULT(x, number(kExact));
  return b.CreateSelect(exact, x, odd);
}

/// The host converts integers to bfloat by way of float, which rounds twice; the conversion of targets that have one
/// rounds once. Behind all passes, which would take the two steps for one.
void round_integers_once(llvm::Module& module) {
  for (Function& f : module)
    for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::instructions(f))) {
      const bool sign = i.getOpcode() == llvm::Instruction::SIToFP;
      if (!(sign || i.getOpcode() == llvm::Instruction::UIToFP) || !i.getType()->getScalarType()->isBFloatTy())
        continue;
      llvm::IRBuilder<> b(&i);
      Value* x = i.getOperand(0);
      if (x->getType()->getScalarSizeInBits() == 64) x = in_reach_of_double(b, x, sign);
      Type* wide = i.getType()->getWithNewType(b.getDoubleTy());
      Value* exact = sign ? b.CreateSIToFP(x, wide) : b.CreateUIToFP(x, wide);
      i.replaceAllUsesWith(b.CreateFPTrunc(exact, i.getType()));
      i.eraseFromParent();
    }
}

llvm::orc::JITTargetMachineBuilder make_host_machine(bool baseline_cpu) {
  static const bool initialised = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)initialised;
  llvm::orc::JITTargetMachineBuilder machine{llvm::Triple(llvm::sys::getProcessTriple())};
  machine.setRelocationModel(llvm::Reloc::PIC_);
  machine.setCPU(baseline_cpu ? "x86-64" : llvm::sys::getHostCPUName().str());
  if (!baseline_cpu)
    for (auto& feature : llvm::sys::getHostCPUFeatures())
      machine.getFeatures().AddFeature(feature.first(), feature.second);
  // Units for half and bfloat that differ from host to host, and that take denormals for zero.
  for (const char* feature : {"avx512fp16", "avx512bf16", "avxneconvert", "avx10.2"})
    machine.getFeatures().AddFeature(feature, false);
  return machine;
}

/// Made once: virtual machines take long to answer what the processor is. Never destroyed, as devices may be made while
/// the process ends.
const llvm::orc::JITTargetMachineBuilder& host_machine(bool baseline_cpu) {
  using Builder = llvm::orc::JITTargetMachineBuilder;
  if (baseline_cpu) {
    static const Builder* const baseline = new Builder(make_host_machine(true));
    return *baseline;
  }
  static const Builder* const host = new Builder(make_host_machine(false));
  return *host;
}

template <class T>
T must(llvm::Expected<T> value, const char* what) {
  if (!value)
    throw DeviceError(fmt::format("the emulator's code generator: {}: {}", what, toString(value.takeError())));
  return static_cast<T&&>(*value);
}
void must(llvm::Error error, const char* what) {
  if (error) throw DeviceError(fmt::format("the emulator's code generator: {}: {}", what, toString(std::move(error))));
}

class OrcKernel : public JitKernel {
 public:
  ~OrcKernel() override {
    if (library) llvm::consumeError(library->getExecutionSession().removeJITDylib(*library));
  }
  llvm::orc::JITDylib* library = nullptr;  ///< of its machine code, if it has some
};

}  // namespace

/// LLVM's parts are made when the first kernel needs them: those of later processes are kept bytecode, mostly.
struct Jit::Impl {
  llvm::orc::JITTargetMachineBuilder host;
  const bool checks;
  const Births births;
  const std::shared_ptr<ImageCache> kept;
  std::mutex mutex{};
  uint64_t count = 0;
  std::array<std::unique_ptr<llvm::TargetMachine>, 2> machines{};  ///< by Tier
  std::unique_ptr<llvm::orc::LLJIT> engine{};                      ///< links what they compile
  llvm::orc::JITDylib* functions = nullptr;                        ///< the bodies and runtime functions

  llvm::TargetMachine& machine(Tier tier);
  void make_engine();
  std::string make(const KernelImage& image, const Target& target, Tier tier, JitKernel& kernel);
  void link(const KernelImage& image, const std::string& object, OrcKernel& kernel);
  std::string key_of(const KernelImage& image, const Target& target, Tier tier) const;
  std::unique_ptr<JitKernel> find(const KernelImage& image, const std::string& key);

  void define_functions() {
    llvm::orc::SymbolMap symbols;
    auto define = [&](const std::string& name, void* function) {
      symbols[engine->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                                llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    };
    for (const auto* named : {&hw_bodies(), &helper_functions()})
      for (const HwBody& body : *named) define(body.name, body.function);
    for (auto& [name, function] : runtime_functions()) define(name, function);
    must(functions->define(llvm::orc::absoluteSymbols(std::move(symbols))), "host functions");
  }
};

namespace {

/// `of` has a context, and a module if that was made just now.
llvm::Module& read_module(const KernelImage& image, StashedModule& of, const std::string& messages) {
  if (of.module) return *of.module;
  if (image.bitcode.empty()) refuse(image, "its image has no code for the emulator");
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(
      llvm::StringRef(reinterpret_cast<const char*>(image.bitcode.data()), image.bitcode.size()), image.kernel);
  llvm::SMDiagnostic parse_error;
  of.module = llvm::parseIR(*buffer, parse_error, *of.context);
  if (!of.module) refuse(image, fmt::format("its code is damaged: {}", parse_error.getMessage().str() + messages));
  return *of.module;
}

}  // namespace

Jit::Jit(bool baseline_cpu, bool checks, Births births, std::shared_ptr<ImageCache> kept)
    : impl_(new Impl{.host = host_machine(baseline_cpu), .checks = checks, .births = births, .kept = std::move(kept)}) {
  throw_fatal_errors();
}

llvm::TargetMachine& Jit::Impl::machine(Tier tier) {
  std::unique_ptr<llvm::TargetMachine>& one = machines[size_t(tier)];
  if (!one) {
    host.setCodeGenOptLevel(tier == Tier::Quick ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default);
    one = must(host.createTargetMachine(), "host");
  }
  return *one;
}

void Jit::Impl::make_engine() {
  llvm::orc::LLJITBuilder builder;
  builder.setJITTargetMachineBuilder(host);
  builder.setLinkProcessSymbolsByDefault(false);
  builder.setPlatformSetUp(llvm::orc::setUpInactivePlatform);
  engine = must(builder.create(), "engine");
  functions = &must(engine->createJITDylib("host"), "host library");
  define_functions();
}

Jit::~Jit() = default;

namespace {

/// Processor time of the calling thread.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

/// The passes of a machine. Where a block is huge they take minutes to select its instructions: it is cut, behind
/// codegenprepare, which joins blocks.
class Passes : public llvm::legacy::PassManager {
 public:
  void add(llvm::Pass* pass) override {
    const llvm::PassInfo* info = llvm::PassRegistry::getPassRegistry()->getPassInfo(pass->getPassID());
    const bool joins = info && info->getPassArgument() == "codegenprepare";
    llvm::legacy::PassManager::add(pass);
    if (joins) llvm::legacy::PassManager::add(cut_huge_blocks());
  }
};

std::string object_code(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  Passes passes;
  llvm::MCContext* context = nullptr;
  TEGULA_CHECK(!machine.addPassesToEmitMC(passes, context, stream), "LLVM makes no object code for this host");
  passes.run(module);
  return std::string(text);
}

/// LLVM's own count asks of each instruction whether it is a debugger's.
size_t instructions_of(const llvm::Module& module) {
  size_t count = 0;
  for (const Function& f : module)
    for (const llvm::BasicBlock& block : f) count += block.size();
  return count;
}

}  // namespace

/// Notes what is known of the kernel, and its bytecode; else returns LLVM's object code for the host.
std::string Jit::Impl::make(const KernelImage& image, const Target& target, Tier tier, JitKernel& kernel) {
  const double begin = thread_seconds();
  std::string messages;
  StashedModule taken = take_module(image.bitcode);
  const bool just_made = taken.module != nullptr;  // so it is valid
  if (!taken.context) taken.context = std::make_unique<llvm::LLVMContext>();
  auto collector = std::make_unique<DiagnosticCollector>(messages);
  const DiagnosticCollector& told = *collector;
  taken.context->setDiagnosticHandler(std::move(collector));
  llvm::Module* const module = &read_module(image, taken, messages);
  retarget(*module, host.getTargetTriple(), image);
  contract(*module);  // ahead of checks, which use numbers as well: a product with another use stays one
  if (checks) {
    Taints taints(*module);
    check_arithmetic(*module, kernel, taints);
    if (births.nans || births.infinities) check_births(*module, kernel, taints, births);
    taints.run();
    check_origins(*module, image);
  }
  form_lane_segments(*module, kernel);
  link_bodies(*module, image, target, kernel, checks);
  count_iterations(*module, image, kernel);
  add_entry(*module, image);
  check_externals(*module, image);
  llvm::raw_string_ostream stream(messages);
  if ((!just_made || checks || ir::kVerifyEachStep) && llvm::verifyModule(*module, &stream))
    refuse(image, fmt::format("its code is not valid: {}", messages));
  if (tier == Tier::Quick) {
    round_integers_once(*module);
    kernel.code.bytecode = to_bytecode(*module, kEntryName);
    if (kernel.code.bytecode) {
      const auto count = double(instructions_of(*module));
      kernel.optimising_seconds = kSecondsPerInstruction * count * (1 + count / kLong);
      kernel.frame_bytes = kernel.code.bytecode->functions[kernel.code.bytecode->entry].most_bytes;
      return {};
    }
  }
  llvm::TargetMachine& machine = this->machine(tier);
  set_attributes(*module, machine);
  llvm::StripDebugInfo(*module);
  if (tier == Tier::Optimised) combine_instructions(*module, machine);
  round_integers_once(*module);

  std::string object = object_code(*module, machine);
  if (!messages.empty()) refuse(image, messages);
  kernel.frame_bytes = told.stack_bytes();
  kernel.optimising_seconds = kOptimising * (thread_seconds() - begin);
  return object;
}

void Jit::Impl::link(const KernelImage& image, const std::string& object, OrcKernel& kernel) {
  if (!engine) make_engine();
  kernel.library = &must(engine->createJITDylib(fmt::format("{}.{}", image.kernel, count++)), "library");
  kernel.library->addToLinkOrder(*functions);
  must(engine->addObjectFile(*kernel.library, llvm::MemoryBuffer::getMemBufferCopy(object, image.kernel)), "module");
  kernel.code.entry = must(engine->lookup(*kernel.library, kEntryName), "link").toPtr<void (*)(void* const*)>();
}

/// Of all that the code follows from: the library's build stands for the passes and the bodies.
std::string Jit::Impl::key_of(const KernelImage& image, const Target& target, Tier tier) const {
  std::string params;
  for (const ImageParam& param : image.params)
    params += fmt::format("{}{}", param.pointer ? '*' : ' ', int(param.elem));
  const std::string options = fmt::format("{} {} {} {} {} {}", int(tier), checks, births.nans, births.infinities,
                                          image.tensor_maps.maps.size(), target.name);
  return content_key({"emulator", compiler_version(), host.getCPU(), host.getFeatures().getString(), options,
                      image.kernel, params,
                      std::string_view(reinterpret_cast<const char*>(image.bitcode.data()), image.bitcode.size())});
}

std::unique_ptr<JitKernel> Jit::Impl::find(const KernelImage& image, const std::string& key) {
  const auto bytes = kept->find_code(key);
  if (!bytes) return nullptr;
  auto kernel = std::make_unique<OrcKernel>();
  const auto object = read_code(*bytes, *kernel);
  if (!object) return nullptr;
  if (!object->empty()) link(image, *object, *kernel);
  return kernel;
}

std::unique_ptr<JitKernel> Jit::find(const KernelImage& image, const Target& target, Tier tier) {
  std::lock_guard lock(impl_->mutex);
  const bool looks = impl_->kept && !sealed() && !has_module(image.bitcode);
  return looks ? impl_->find(image, impl_->key_of(image, target, tier)) : nullptr;
}

std::unique_ptr<JitKernel> Jit::compile(const KernelImage& image, const Target& target, Tier tier) {
  std::lock_guard lock(impl_->mutex);
  const bool keeps = impl_->kept && !sealed();  // a sealed process opens no files
  const std::string key = keeps ? impl_->key_of(image, target, tier) : "";
  if (keeps && !has_module(image.bitcode))
    if (auto kernel = impl_->find(image, key)) return kernel;
  auto kernel = std::make_unique<OrcKernel>();
  const std::string object = impl_->make(image, target, tier, *kernel);
  if (!object.empty()) impl_->link(image, object, *kernel);
  if (keeps) impl_->kept->store_code(key, to_bytes(object, *kernel));
  return kernel;
}

}  // namespace tegula::emulator
