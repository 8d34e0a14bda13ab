#include "codegen/exec/emulator/jit.h"

#include <llvm/Analysis/CFG.h>
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Verifier.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/SROA.h>

#include <mutex>
#include <set>

#include "codegen/exec/emulator/hw_bodies.h"
#include "codegen/exec/emulator/races.h"
#include "codegen/exec/emulator/soft_float.h"
#include "codegen/exec/fatal_errors.h"
#include "codegen/lower/asm_block.h"
#include "codegen/lower/hw.h"
#include "codegen/lower/llvm_headers.h"
#include "runtime/base/error.h"

namespace tegula::emulator {

namespace {

using llvm::Function;
using llvm::Type;
using llvm::Value;

constexpr const char* kEntryName = "tegula_emulator_entry";
constexpr const char* kYieldName = "emu_yield";
constexpr const char* kBodyPrefix = "emu_";
constexpr const char* kAsmName = "emu_asm";
constexpr const char* kTickName = "emu_tick";
constexpr const char* kOrderName = "emu_order";

[[noreturn]] void fail(const KernelImage& image, const std::string& message) {
  throw DeviceError(fmt::format("kernel '{}' cannot run on the emulator: {}", image.kernel, message));
}

std::string to_text(const Type* type) {
  std::string text;
  llvm::raw_string_ostream(text) << *type;
  return text;
}

/// LLVM's errors as text, and the frame sizes that it tells of; without a handler LLVM prints and may end the process.
struct DiagnosticCollector : llvm::DiagnosticHandler {
  DiagnosticCollector(std::string& errors, uint64_t& frame_bytes) : errors(errors), frame_bytes(frame_bytes) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (auto* frame = llvm::dyn_cast<llvm::DiagnosticInfoStackSize>(&info)) {
      frame_bytes += frame->getStackSize();
    } else if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream stream(errors);
      llvm::DiagnosticPrinterRawOStream printer(stream);
      info.print(printer);
    }
    return true;
  }
  std::string& errors;
  uint64_t& frame_bytes;
};

/// Turns a module that calls hardware functions into one that calls their C++ bodies.
class Bodies {
 public:
  Bodies(llvm::Module& module, const KernelImage& image, const Target& target, JitKernel& kernel, bool tell_order)
      : module_(module),
        image_(image),
        target_(target),
        kernel_(kernel),
        tell_order_(tell_order),
        context_(module.getContext()) {}

  void link() {
    std::vector<Function*> declared;
    for (Function& f : module_)
      if (f.isDeclaration() && !f.isIntrinsic() && !f.use_empty()) declared.push_back(&f);
    for (Function* f : declared) {
      if (f->getName().starts_with(lower::kHwPrefix)) link_one(*f);
      if (auto block = lower::asm_of_function(*f)) link_asm(*f, *block);
    }
  }

  /// Calls emu_tick in each iteration of the kernel's loops, so that an endless one can be ended.
  void count_iterations() {
    Function* kernel = module_.getFunction(image_.kernel);
    if (!kernel || kernel->isDeclaration()) return;
    llvm::SmallVector<std::pair<const llvm::BasicBlock*, const llvm::BasicBlock*>> edges;
    llvm::FindFunctionBackedges(*kernel, edges);
    std::set<const llvm::BasicBlock*> ends;
    for (auto [from, to] : edges) ends.insert(from);
    llvm::FunctionCallee tick = module_.getOrInsertFunction(
        kTickName, llvm::FunctionType::get(Type::getVoidTy(context_), {Type::getInt32Ty(context_)}, false));
    for (llvm::BasicBlock& block : *kernel) {
      if (!ends.contains(&block)) continue;
      llvm::IRBuilder<> b(block.getTerminator());
      b.CreateCall(tick, {b.getInt32(uint32_t(kernel_.places.size()))});
      kernel_.places.push_back({"a loop", loc_of(*block.getTerminator())});
    }
  }

 private:
  // A row's type in the module, and how it travels to the body.
  Type* module_type(char type) {
    switch (type) {
      case 'v':
        return Type::getVoidTy(context_);
      case '1':
        return Type::getInt1Ty(context_);
      case 'h':
        return Type::getInt16Ty(context_);
      case 'l':
        return Type::getInt64Ty(context_);
      case 'H':
        return Type::getHalfTy(context_);
      case 'B':
        return Type::getBFloatTy(context_);
      case 'f':
        return Type::getFloatTy(context_);
      case 'd':
        return Type::getDoubleTy(context_);
      case 'p':
        return llvm::PointerType::get(context_, 1);
      default:
        return Type::getInt32Ty(context_);
    }
  }
  Type* body_type(char type) {
    switch (type) {
      case '1':
      case 'h':
      case 'H':
      case 'B':
        return Type::getInt32Ty(context_);
      case 'p':
        return Type::getInt64Ty(context_);
      default:
        return module_type(type);
    }
  }

  llvm::FunctionType* module_signature(const HwSignature& s) {
    llvm::SmallVector<Type*> args;
    for (int i = 0; i < s.num_args; ++i)
      if (s.args[i].type != 'm' && s.args[i].type != '#')
        args.append(std::max(s.args[i].count, 1), module_type(s.args[i].type));
    Type* result = module_type(s.result.type);
    if (s.result.count) result = llvm::StructType::get(context_, llvm::SmallVector<Type*>(s.result.count, result));
    return llvm::FunctionType::get(result, args, false);
  }

  llvm::FunctionCallee body_function(const lower::HwInfo& info, const HwSignature& s) {
    bool convergent = info.effects & lower::Convergent, pure = !(info.effects & (lower::Read | lower::Write));
    llvm::SmallVector<Type*> args;
    Type* pointer = llvm::PointerType::get(context_, 0);
    if (s.result.count) args.push_back(pointer);
    for (int i = 0; i < s.num_args; ++i) args.push_back(s.args[i].repeated() ? pointer : body_type(s.args[i].type));
    if (convergent) args.push_back(Type::getInt32Ty(context_));
    Type* result = s.result.count ? Type::getVoidTy(context_) : body_type(s.result.type);
    auto callee = module_.getOrInsertFunction(kBodyPrefix + info.body, llvm::FunctionType::get(result, args, false));
    auto* f = llvm::cast<Function>(callee.getCallee());
    f->setDoesNotThrow();
    if (pure && !convergent) f->setDoesNotAccessMemory(), f->addFnAttr(llvm::Attribute::WillReturn);
    return callee;
  }

  Value* to_body(llvm::IRBuilder<>& b, Value* value, char type) {
    switch (type) {
      case '1':
      case 'h':
        return b.CreateZExt(value, b.getInt32Ty());
      case 'H':
      case 'B':
        return b.CreateZExt(b.CreateBitCast(value, b.getInt16Ty()), b.getInt32Ty());
      case 'p':
        return b.CreatePtrToInt(value, b.getInt64Ty());
      default:
        return value;
    }
  }
  Value* from_body(llvm::IRBuilder<>& b, Value* value, char type) {
    switch (type) {
      case '1':
      case 'h':
        return b.CreateTrunc(value, module_type(type));
      case 'H':
      case 'B':
        return b.CreateBitCast(b.CreateTrunc(value, b.getInt16Ty()), module_type(type));
      case 'p':
        return b.CreateIntToPtr(value, module_type(type));
      default:
        return value;
    }
  }

  /// What an atomic operation with these modifiers orders, or a load that waits: of a volatile one all programs know.
  static MemoryOrder order_of(const std::string& modifiers, bool atomic) {
    auto has = [&](const char* word) { return modifiers.find(word) != modifiers.npos; };
    MemoryOrder order;
    order.strong = true;
    order.acquires = has(".acquire") || has(".acq_rel") || !atomic;
    order.releases = has(".release") || has(".acq_rel");
    order.program_only = has(".cta");
    return order;
  }

  void tell_order(llvm::IRBuilder<>& b, uint32_t bits) {
    auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getInt32Ty()}, false);
    b.CreateCall(module_.getOrInsertFunction(kOrderName, type), {b.getInt32(bits)});
  }

  /// Gives the declared hardware function a body in IR that calls the one in C++.
  void link_one(Function& declared) {
    std::string name = declared.getName().str(), modifiers;
    const lower::HwInfo* info = lower::hw_of_function(name, &modifiers);
    if (!info) fail(image_, fmt::format("it calls '{}', which is not in the hardware table", name));
    if (!target_.has(info->feature))
      fail(image_, fmt::format("it uses {}, which {} does not have", info->name, target_.name));
    const HwSignature signature = parse_hw_signature(info->signature);
    llvm::FunctionType* type = module_signature(signature);
    if (declared.getFunctionType() != type)
      fail(image_, fmt::format("'{}' is declared as {}, expected {}", name, to_text(declared.getFunctionType()),
                               to_text(type)));
    auto immediates = lower::immediates(*info, modifiers);
    if (!immediates)
      fail(image_,
           fmt::format("'{}' names other modifiers than the {} numbers that it takes", name, info->num_immediates));
    bool convergent = info->effects & lower::Convergent;
    bool atomic = info->name.starts_with("atom_");
    bool waits = !atomic && (info->effects & lower::Read) &&
                 (modifiers.find(".volatile") != modifiers.npos || modifiers.find(".acquire") != modifiers.npos ||
                  modifiers.find(".relaxed") != modifiers.npos);
    kernel_.may_spin |= atomic || waits;
    kernel_.async_proxy |= info->feature == Feature::Wgmma || info->feature == Feature::Tma;

    llvm::SmallVector<Type*> params(type->params().begin(), type->params().end());
    if (convergent) params.push_back(Type::getInt32Ty(context_));
    Function* thunk = Function::Create(llvm::FunctionType::get(type->getReturnType(), params, false),
                                       llvm::GlobalValue::InternalLinkage, "thunk." + name, module_);
    thunk->addFnAttr(llvm::Attribute::AlwaysInline);
    thunk->setDoesNotThrow();
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context_, "", thunk));
    if (waits) b.CreateCall(module_.getOrInsertFunction(kYieldName, llvm::FunctionType::get(b.getVoidTy(), false)));
    const uint32_t order = tell_order_ && (atomic || waits) ? order_of(modifiers, atomic).bits() : 0;
    fill(b, *thunk, body_function(*info, signature), signature, *immediates, convergent, order);
    redirect_calls(declared, *thunk, info->name, convergent);
  }

  /// Gives a block of inline PTX a body that has the interpreter run it: operands travel in slots of 64 bits.
  void link_asm(Function& f, const lower::AsmBlock& block) {
    const Loc loc =
        block.site >= 0 && size_t(block.site) < image_.sites.size() ? image_.sites[size_t(block.site)] : Loc{};
    auto parsed = ptx::parse(block.text, block.constraints);
    if (auto* message = std::get_if<std::string>(&parsed))
      fail(image_, fmt::format("{}the interpreter of inline assembly does not know {}",
                               loc ? loc.to_string() + ": " : std::string(), *message));
    kernel_.blocks.push_back(std::make_unique<ptx::Program>(std::get<ptx::Program>(std::move(parsed))));
    const ptx::Program& program = *kernel_.blocks.back();
    kernel_.may_spin |= program.waits;
    const uint32_t place = uint32_t(kernel_.places.size());
    kernel_.places.push_back({"inline assembly", loc});

    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context_, "", &f));
    auto* slots = b.CreateAlloca(llvm::ArrayType::get(b.getInt64Ty(), program.slots));
    auto slot = [&](uint32_t i) { return b.CreateConstInBoundsGEP2_32(slots->getAllocatedType(), slots, 0, i); };
    for (llvm::Argument& argument : f.args()) {
      uint32_t operand = program.results + argument.getArgNo();
      for (auto [tied, result] : program.ties)
        if (tied == operand) operand = result;
      b.CreateStore(b.CreateZExt(as_integer(b, &argument), b.getInt64Ty()), slot(operand));
    }
    Type* pointer = llvm::PointerType::get(context_, 0);
    auto* type = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, b.getInt32Ty(), b.getInt32Ty()}, false);
    Value* address = b.CreateIntToPtr(b.getInt64(reinterpret_cast<uint64_t>(&program)), pointer);
    b.CreateCall(module_.getOrInsertFunction(kAsmName, type),
                 {address, slots, b.getInt32(uint32_t(block.site)), b.getInt32(place)});
    return_slots(b, f, [&](unsigned i) { return b.CreateLoad(b.getInt64Ty(), slot(i)); });
    f.setLinkage(llvm::GlobalValue::InternalLinkage);
  }

  static Value* as_integer(llvm::IRBuilder<>& b, Value* x) {
    if (x->getType()->isPointerTy()) return b.CreatePtrToInt(x, b.getInt64Ty());
    return b.CreateBitCast(x, b.getIntNTy(unsigned(x->getType()->getPrimitiveSizeInBits())));
  }

  template <class Load>
  static void return_slots(llvm::IRBuilder<>& b, Function& f, Load load) {
    auto as = [&](Type* type, unsigned i) -> Value* {
      if (type->isPointerTy()) return b.CreateIntToPtr(load(i), type);
      return b.CreateBitCast(b.CreateTrunc(load(i), b.getIntNTy(unsigned(type->getPrimitiveSizeInBits()))), type);
    };
    Type* type = f.getReturnType();
    if (type->isVoidTy()) {
      b.CreateRetVoid();
    } else if (!type->isStructTy()) {
      b.CreateRet(as(type, 0));
    } else {
      Value* all = llvm::PoisonValue::get(type);
      for (unsigned i = 0; i < type->getStructNumElements(); ++i)
        all = b.CreateInsertValue(all, as(type->getStructElementType(i), i), i);
      b.CreateRet(all);
    }
  }

  void fill(llvm::IRBuilder<>& b, Function& thunk, llvm::FunctionCallee body, const HwSignature& s,
            const std::vector<uint32_t>& immediates, bool convergent, uint32_t order) {
    auto stack_array = [&](HwSlot slot) {
      auto* array = b.CreateAlloca(llvm::ArrayType::get(module_type(slot.type), slot.count));
      array->setAlignment(llvm::Align(16));
      return array;
    };
    auto element = [&](llvm::AllocaInst* array, int i) {
      return b.CreateConstInBoundsGEP2_32(array->getAllocatedType(), array, 0, i);
    };
    llvm::SmallVector<Value*> operands;
    llvm::AllocaInst* out = s.result.count ? stack_array(s.result) : nullptr;
    if (out) operands.push_back(out);
    unsigned next = 0, next_immediate = 0;
    for (int i = 0; i < s.num_args; ++i) {
      HwSlot slot = s.args[i];
      if (slot.type == 'm') {
        operands.push_back(b.getInt32(immediates[next_immediate++]));
        continue;
      }
      if (slot.type == '#') {
        operands.push_back(b.getInt32(uint32_t(slot.count)));
        continue;
      }
      if (!slot.repeated()) {
        operands.push_back(to_body(b, thunk.getArg(next++), slot.type));
        continue;
      }
      auto* array = stack_array(slot);
      for (int k = 0; k < slot.count; ++k) b.CreateStore(thunk.getArg(next++), element(array, k));
      operands.push_back(array);
    }
    if (convergent) operands.push_back(thunk.getArg(next));
    if (order) tell_order(b, order);
    Value* result = b.CreateCall(body, operands);
    if (order) tell_order(b, 0);
    if (s.result.type == 'v') {
      b.CreateRetVoid();
    } else if (!out) {
      b.CreateRet(from_body(b, result, s.result.type));
    } else {
      Value* all = llvm::PoisonValue::get(thunk.getReturnType());
      for (int k = 0; k < s.result.count; ++k)
        all = b.CreateInsertValue(all, b.CreateLoad(module_type(s.result.type), element(out, k)), unsigned(k));
      b.CreateRet(all);
    }
  }

  void redirect_calls(Function& declared, Function& thunk, const std::string& row, bool convergent) {
    for (llvm::User* user : llvm::make_early_inc_range(declared.users())) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(user);
      if (!call || call->getCalledFunction() != &declared)
        fail(image_, fmt::format("it uses '{}' other than by calling it", declared.getName().str()));
      llvm::SmallVector<Value*> operands(call->args());
      if (convergent) {
        operands.push_back(llvm::ConstantInt::get(Type::getInt32Ty(context_), kernel_.places.size()));
        kernel_.places.push_back({row, loc_of(*call)});
      }
      llvm::IRBuilder<> b(call);
      llvm::CallInst* redirected = b.CreateCall(&thunk, operands);
      redirected->takeName(call);
      call->replaceAllUsesWith(redirected);
      call->eraseFromParent();
    }
  }

  static Loc loc_of(const llvm::Instruction& at) {
    const llvm::DILocation* loc = at.getDebugLoc().get();
    if (!loc || !loc->getLine()) return {};
    return {intern_file(loc->getFilename().str()), int(loc->getLine()), int(loc->getColumn()), 0};
  }

  llvm::Module& module_;
  const KernelImage& image_;
  const Target& target_;
  JitKernel& kernel_;
  const bool tell_order_;
  llvm::LLVMContext& context_;
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

/// void entry(ptr args): loads the arguments, behind which stand pointers to tensor maps, and calls the kernel.
void add_entry(llvm::Module& module, const KernelImage& image) {
  Function* kernel = module.getFunction(image.kernel);
  if (!kernel || kernel->isDeclaration()) fail(image, "its code has no function of that name");
  const size_t num_params = image.params.size(), num_maps = image.tensor_maps.maps.size();
  if (kernel->arg_size() != num_params + num_maps)
    fail(image,
         fmt::format("its code takes {} arguments, its image has {}", kernel->arg_size(), num_params + num_maps));
  if (!kernel->getReturnType()->isVoidTy()) fail(image, "its code returns a value");
  llvm::LLVMContext& context = module.getContext();
  Type* pointer = llvm::PointerType::get(context, 0);
  Function* entry = Function::Create(llvm::FunctionType::get(Type::getVoidTy(context), {pointer}, false),
                                     llvm::GlobalValue::ExternalLinkage, kEntryName, module);
  entry->setDoesNotThrow();
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "", entry));
  llvm::SmallVector<Value*> operands;
  for (llvm::Argument& arg : kernel->args()) {
    Value* slot = b.CreateConstInBoundsGEP1_32(pointer, entry->getArg(0), arg.getArgNo());
    if (arg.getArgNo() >= num_params) {  // a tensor map stays where it is
      arg.removeAttr(llvm::Attribute::ByVal);
      operands.push_back(b.CreateLoad(pointer, slot));
      continue;
    }
    const ImageParam& param = image.params[arg.getArgNo()];
    if (!fits(arg.getType(), param))
      fail(image,
           fmt::format("argument {} '{}' is {}{} in its image, but {} in its code", arg.getArgNo() + 1, param.name,
                       param.pointer ? "*" : "", elem_info(param.elem).text, to_text(arg.getType())));
    operands.push_back(b.CreateAlignedLoad(arg.getType(), b.CreateLoad(pointer, slot), llvm::Align(1)));
  }
  kernel->setLinkage(llvm::GlobalValue::InternalLinkage);
  kernel->addFnAttr(llvm::Attribute::AlwaysInline);
  b.CreateCall(kernel, operands);
  b.CreateRetVoid();
}

/// Takes away what the module says of the GPU that it was optimised for.
void retarget(llvm::Module& module, const llvm::TargetMachine& machine, const KernelImage& image) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  for (llvm::GlobalVariable& global : module.globals())
    if (global.getAddressSpace() == 3)
      fail(image, fmt::format("it has a shared array '{}' of its own", global.getName().str()));
  for (Function& f : module) {
    f.setCallingConv(llvm::CallingConv::C);
    for (llvm::Instruction& i : llvm::instructions(f))
      if (auto* call = llvm::dyn_cast<llvm::CallBase>(&i)) {
        call->setCallingConv(llvm::CallingConv::C);
        if (call->isInlineAsm()) fail(image, "it has inline PTX, which the emulator does not know");
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
    if (!known) fail(image, fmt::format("it calls '{}', which the emulator does not have", name.str()));
  }
}

void run_passes(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager lam;
  llvm::FunctionAnalysisManager fam;
  llvm::CGSCCAnalysisManager cgam;
  llvm::ModuleAnalysisManager mam;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(mam);
  builder.registerCGSCCAnalyses(cgam);
  builder.registerFunctionAnalyses(fam);
  builder.registerLoopAnalyses(lam);
  builder.crossRegisterProxies(lam, fam, cgam, mam);
  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass(/*InsertLifetimeIntrinsics=*/true));
  llvm::FunctionPassManager functions;
  functions.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  functions.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(functions)));
  passes.run(module, mam);
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

llvm::orc::JITTargetMachineBuilder host_machine(bool baseline_cpu) {
  static const bool initialised = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)initialised;
  llvm::orc::JITTargetMachineBuilder machine{llvm::Triple(llvm::sys::getProcessTriple())};
  machine.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
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

template <class T>
T must(llvm::Expected<T> value, const char* what) {
  if (!value)
    throw DeviceError(fmt::format("the emulator's code generator: {}: {}", what, toString(value.takeError())));
  return static_cast<T&&>(*value);
}
void must(llvm::Error error, const char* what) {
  if (error) throw DeviceError(fmt::format("the emulator's code generator: {}: {}", what, toString(std::move(error))));
}

}  // namespace

struct Jit::Impl {
  std::unique_ptr<llvm::TargetMachine> machine;  ///< for the passes; the engine has its own
  std::unique_ptr<llvm::orc::LLJIT> engine;
  llvm::orc::JITDylib* host = nullptr;  ///< the bodies and runtime functions
  std::mutex mutex;
  uint64_t count = 0;
  bool tell_order = false;

  void define_host_functions() {
    llvm::orc::SymbolMap symbols;
    auto define = [&](const std::string& name, void* function) {
      symbols[engine->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                                llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    };
    for (const HwBody& body : hw_bodies()) define(std::string(kBodyPrefix) + body.name, body.function);
    for (auto& [name, function] : runtime_functions()) define(name, function);
    define(kYieldName, reinterpret_cast<void*>(&emu_yield));
    define(kAsmName, reinterpret_cast<void*>(&ptx::run_block));
    define(kOrderName, reinterpret_cast<void*>(&emu_order));
    define(kTickName, reinterpret_cast<void*>(&emu_tick));
    must(host->define(llvm::orc::absoluteSymbols(std::move(symbols))), "host functions");
  }
};

namespace {

class OrcKernel : public JitKernel {
 public:
  explicit OrcKernel(llvm::orc::LLJIT& engine) : engine_(engine) {}
  ~OrcKernel() override {
    if (code) llvm::consumeError(engine_.getExecutionSession().removeJITDylib(*code));
  }
  llvm::orc::JITDylib* code = nullptr;

 private:
  llvm::orc::LLJIT& engine_;
};

}  // namespace

Jit::Jit(bool baseline_cpu, bool tell_order) : impl_(std::make_unique<Impl>()) {
  impl_->tell_order = tell_order;
  throw_fatal_errors();
  llvm::orc::JITTargetMachineBuilder machine = host_machine(baseline_cpu);
  impl_->machine = must(machine.createTargetMachine(), "host");
  llvm::orc::LLJITBuilder builder;
  builder.setJITTargetMachineBuilder(std::move(machine));
  builder.setLinkProcessSymbolsByDefault(false);
  builder.setPlatformSetUp(llvm::orc::setUpInactivePlatform);
  impl_->engine = must(builder.create(), "engine");
  impl_->host = &must(impl_->engine->createJITDylib("host"), "host library");
  impl_->define_host_functions();
}

Jit::~Jit() = default;

std::unique_ptr<JitKernel> Jit::compile(const KernelImage& image, const Target& target) {
  std::lock_guard lock(impl_->mutex);
  auto kernel = std::make_unique<OrcKernel>(*impl_->engine);

  std::string messages;
  uint64_t frame_bytes = 0;
  auto context = std::make_unique<llvm::LLVMContext>();
  context->setDiagnosticHandler(std::make_unique<DiagnosticCollector>(messages, frame_bytes));
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(
      llvm::StringRef(reinterpret_cast<const char*>(image.bitcode.data()), image.bitcode.size()), image.kernel);
  if (image.bitcode.empty()) fail(image, "its image has no code for the emulator");
  llvm::SMDiagnostic parse_error;
  std::unique_ptr<llvm::Module> module = llvm::parseIR(*buffer, parse_error, *context);
  if (!module) fail(image, fmt::format("its code is damaged: {}", parse_error.getMessage().str() + messages));

  retarget(*module, *impl_->machine, image);
  Bodies bodies(*module, image, target, *kernel, impl_->tell_order);
  bodies.link();
  bodies.count_iterations();
  add_entry(*module, image);
  set_attributes(*module, *impl_->machine);
  check_externals(*module, image);
  llvm::StripDebugInfo(*module);
  llvm::raw_string_ostream stream(messages);
  if (llvm::verifyModule(*module, &stream)) fail(image, fmt::format("its code is not valid: {}", messages));
  run_passes(*module, *impl_->machine);
  round_integers_once(*module);

  auto& engine = *impl_->engine;
  kernel->code = &must(engine.createJITDylib(fmt::format("{}.{}", image.kernel, impl_->count++)), "library");
  kernel->code->addToLinkOrder(*impl_->host);
  must(engine.addIRModule(*kernel->code, llvm::orc::ThreadSafeModule(std::move(module), std::move(context))), "module");
  auto entry = must(engine.lookup(*kernel->code, kEntryName), "link");
  if (!messages.empty()) fail(image, messages);
  kernel->frame_bytes = frame_bytes;
  kernel->entry = entry.toPtr<void (*)(void* const*)>();
  return kernel;
}

}  // namespace tegula::emulator
