#include "codegen/exec/emulator/code/link_bodies.h"

#include <llvm/Analysis/CFG.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>

#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "codegen/exec/emulator/code/lane_segments.h"
#include "codegen/exec/emulator/hardware/hw_bodies.h"
#include "codegen/exec/emulator/interpreter/thunk.h"
#include "codegen/exec/emulator/races/races.h"
#include "codegen/lower/asm_block.h"
#include "codegen/lower/hw.h"
#include "codegen/lower/llvm_headers.h"
#include "runtime/base/error.h"

namespace tegula::emulator {

namespace {

using llvm::Function;
using llvm::Type;
using llvm::Value;

std::string to_text(const Type* type) {
  std::string text;
  llvm::raw_string_ostream(text) << *type;
  return text;
}

/// Rows that are there for LLVM, and for the checks.
bool gives_its_operand(std::string_view name) {
  return name == "opaque_b32" || name == "copied_b32" || name == "index_within";
}

/// See link_bodies.
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
    for (Function& f : module_)
      for (llvm::Instruction& i : llvm::instructions(f)) {
        kernel_.makes_pointers |= llvm::isa<llvm::IntToPtrInst>(i);
        if (auto* call = llvm::dyn_cast<llvm::CallInst>(&i))
          if (Function* callee = call->getCalledFunction()) calls_[callee].push_back(call);
      }
    for (Function* f : declared) {
      if (f->getName().starts_with(lower::kHwPrefix)) link_one(*f);
      if (auto block = lower::asm_of_function(*f)) link_asm(*f, *block);
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
    // It has read its operands, and written all of its result, when it returns: see stack_array, and CallArrays.
    if (s.result.count) f->addParamAttr(0, llvm::Attribute::WriteOnly);
    for (unsigned i = s.result.count ? 1 : 0; i < args.size(); ++i)
      if (args[i] == pointer) f->addParamAttr(i, llvm::Attribute::ReadOnly);
    if (pure && !convergent) {
      // Of several numbers it takes or gives the places alone.
      const bool by_place = llvm::is_contained(args, pointer);
      by_place ? f->setOnlyAccessesArgMemory() : f->setDoesNotAccessMemory();
      f->addFnAttr(llvm::Attribute::WillReturn);
    }
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

  /// What a call of a declared hardware function becomes.
  struct Row {
    const lower::HwInfo& info;
    HwSignature signature;
    llvm::FunctionCallee body;
    std::vector<uint32_t> immediates;
    bool atomic = false;  ///< on global memory
    bool waits = false;   ///< for what another thread stores
    uint32_t order = 0;   ///< bits of its MemoryOrder, where they are told
    bool convergent() const { return info.effects & lower::Convergent; }
  };

  /// Calls the body in C++ wherever the declared function is called.
  void link_one(Function& declared) {
    std::string name = declared.getName().str(), modifiers;
    const lower::HwInfo* info = lower::hw_of_function(name, &modifiers);
    if (!info) refuse(image_, fmt::format("it calls '{}', which is not in the hardware table", name));
    if (!target_.has(info->feature))
      refuse(image_, fmt::format("it uses {}, which {} does not have", info->name, target_.name));
    const HwSignature signature = parse_hw_signature(info->signature);
    llvm::FunctionType* type = module_signature(signature);
    if (declared.getFunctionType() != type)
      refuse(image_, fmt::format("'{}' is declared as {}, expected {}", name, to_text(declared.getFunctionType()),
                                 to_text(type)));
    auto immediates = lower::immediates(*info, modifiers);
    if (!immediates)
      refuse(image_,
             fmt::format("'{}' names other modifiers than the {} numbers that it takes", name, info->num_immediates));
    const bool atomic = info->name.starts_with("atom_"), atomic_global = atomic && signature.args[0].type == 'p';
    const bool waits = !atomic && (info->effects & lower::Read) &&
                       (modifiers.find(".volatile") != modifiers.npos || modifiers.find(".acquire") != modifiers.npos ||
                        modifiers.find(".relaxed") != modifiers.npos);
    kernel_.may_spin |= atomic || waits;
    kernel_.async_proxy |= info->feature == Feature::Wgmma || info->feature == Feature::Tma;
    const Row row{*info,
                  signature,
                  body_function(*info, signature),
                  std::move(*immediates),
                  atomic_global,
                  waits,
                  tell_order_ && (atomic || waits) ? order_of(modifiers, atomic).bits() : 0};
    for (const llvm::User* user : declared.users()) {
      const auto* call = llvm::dyn_cast<llvm::CallInst>(user);
      if (!call || call->getCalledFunction() != &declared)
        refuse(image_, fmt::format("it uses '{}' other than by calling it", name));
    }
    for (llvm::CallInst* call : calls_[&declared]) call_body(*call, row);
  }

  /// Gives a block of inline PTX a body that has the interpreter run it: operands travel in slots of 64 bits.
  void link_asm(Function& f, const lower::AsmBlock& block) {
    const Loc loc =
        block.site >= 0 && size_t(block.site) < image_.sites.size() ? image_.sites[size_t(block.site)] : Loc{};
    auto parsed = ptx::parse(block.text, block.constraints);
    if (auto* message = std::get_if<std::string>(&parsed))
      refuse(image_, fmt::format("{}the interpreter of inline assembly does not know {}",
                                 loc ? loc.to_string() + ": " : std::string(), *message));
    kernel_.blocks.push_back(std::make_unique<ptx::Program>(std::get<ptx::Program>(std::move(parsed))));
    const ptx::Program& program = *kernel_.blocks.back();
    const uint32_t number = uint32_t(kernel_.blocks.size() - 1);
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
    auto* type =
        llvm::FunctionType::get(b.getVoidTy(), {b.getInt32Ty(), pointer, b.getInt32Ty(), b.getInt32Ty()}, false);
    b.CreateCall(module_.getOrInsertFunction(kAsmName, type),
                 {b.getInt32(number), slots, b.getInt32(uint32_t(block.site)), b.getInt32(place)});
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

  /// Room on the stack for operand `number` (the result: -1) of the calls in a function: a body has read and written it
  /// when it returns, so calls share it.
  llvm::AllocaInst* stack_array(Function& f, HwSlot slot, int number) {
    Type* type = llvm::ArrayType::get(module_type(slot.type), slot.count);
    llvm::AllocaInst*& array = arrays_[{&f, type, number}];
    if (!array) {
      llvm::IRBuilder<> b(&f.getEntryBlock(), f.getEntryBlock().begin());
      array = b.CreateAlloca(type);
      array->setAlignment(llvm::Align(16));
    }
    return array;
  }
  static Value* element(llvm::IRBuilder<>& b, llvm::AllocaInst* array, int i) {
    return b.CreateConstInBoundsGEP2_32(array->getAllocatedType(), array, 0, unsigned(i));
  }

  /// The operands of the body, the place of a convergent one included.
  llvm::SmallVector<Value*> operands_of(llvm::IRBuilder<>& b, llvm::CallInst& call, const Row& row,
                                        llvm::AllocaInst* out) {
    const HwSignature& s = row.signature;
    llvm::SmallVector<Value*> operands;
    if (out) operands.push_back(out);
    unsigned next = 0, next_immediate = 0;
    for (int i = 0; i < s.num_args; ++i) {
      const HwSlot slot = s.args[size_t(i)];
      if (slot.type == 'm') {
        operands.push_back(b.getInt32(row.immediates[next_immediate++]));
      } else if (slot.type == '#') {
        operands.push_back(b.getInt32(uint32_t(slot.count)));
      } else if (!slot.repeated()) {
        operands.push_back(to_body(b, call.getArgOperand(next++), slot.type));
        if (slot.type == 's' && row.atomic && call.use_empty())
          operands.back() = b.CreateOr(operands.back(), b.getInt32(kResultUnused));
      } else {
        llvm::AllocaInst* array = stack_array(*call.getFunction(), slot, i);
        for (int k = 0; k < slot.count; ++k) b.CreateStore(call.getArgOperand(next++), element(b, array, k));
        operands.push_back(array);
      }
    }
    if (row.convergent()) {
      operands.push_back(b.getInt32(uint32_t(kernel_.places.size())));
      kernel_.places.push_back({row.info.name, loc_of(call)});
    }
    return operands;
  }

  void call_body(llvm::CallInst& call, const Row& row) {
    if (gives_its_operand(row.info.name)) {  // LLVM and the checks have done their work
      call.replaceAllUsesWith(call.getArgOperand(0));
      return void(call.eraseFromParent());
    }
    const HwSignature& s = row.signature;
    llvm::IRBuilder<> b(&call);
    if (row.waits) b.CreateCall(module_.getOrInsertFunction(kYieldName, llvm::FunctionType::get(b.getVoidTy(), false)));
    llvm::AllocaInst* out = s.result.count ? stack_array(*call.getFunction(), s.result, -1) : nullptr;
    const llvm::SmallVector<Value*> operands = operands_of(b, call, row, out);
    if (row.order) tell_order(b, row.order);
    Value* result = b.CreateCall(row.body, operands);
    if (row.order) tell_order(b, 0);
    if (out)
      hand_out(b, call, out, s.result);
    else if (s.result.type != 'v')
      call.replaceAllUsesWith(from_body(b, result, s.result.type));
    call.eraseFromParent();
  }

  /// Replaces the parts of a struct, nearly all that is ever used of it.
  void hand_out(llvm::IRBuilder<>& b, llvm::CallInst& call, llvm::AllocaInst* out, HwSlot slot) {
    llvm::SmallVector<Value*> parts;
    for (int k = 0; k < slot.count; ++k) parts.push_back(b.CreateLoad(module_type(slot.type), element(b, out, k)));
    for (llvm::User* user : llvm::make_early_inc_range(call.users()))
      if (auto* extract = llvm::dyn_cast<llvm::ExtractValueInst>(user)) {
        extract->replaceAllUsesWith(parts[extract->getIndices()[0]]);
        extract->eraseFromParent();
      }
    if (call.use_empty()) return;
    Value* all = llvm::PoisonValue::get(call.getType());
    for (unsigned k = 0; k < parts.size(); ++k) all = b.CreateInsertValue(all, parts[k], k);
    call.replaceAllUsesWith(all);
  }

  llvm::Module& module_;
  const KernelImage& image_;
  const Target& target_;
  JitKernel& kernel_;
  const bool tell_order_;
  llvm::LLVMContext& context_;
  std::map<std::tuple<Function*, Type*, int>, llvm::AllocaInst*> arrays_;
  /// By what they call, as they stand in the module: the lists of users may be in another order for each tier.
  std::unordered_map<const Function*, std::vector<llvm::CallInst*>> calls_;
};

}  // namespace

const std::vector<HwBody>& helper_functions() {
  auto helper = [](const char* name, auto* function) {
    return HwBody{name, reinterpret_cast<void*>(function), bytecode::thunk_of(function)};
  };
  static const std::vector<HwBody> functions = {
      helper(kYieldName, &emu_yield),
      helper(kAsmName, &ptx::run_block),
      helper(kOrderName, &emu_order),
      helper(kWarnName, &emu_warn),
      helper(kTickName, &emu_tick),
      helper(kOriginName, &emu_check_origin),
      helper(kNoteExactName, &emu_note_exact),
      helper(kExactSharedName, &emu_exact_of_shared),
      helper(kExactAtomicName, &emu_exact_of_atomic),
      helper(kLoadedTaintName, &emu_loaded_taint),
      helper(kStoredTaintName, &emu_stored_taint),
      helper(kUseTaintName, &emu_use_taint),
      helper(kLaneValuesName, &emu_lane_values),
      helper(kRunSegmentName, &emu_run_segment),
  };
  return functions;
}

const HwBody* find_body(const std::string& name) {
  static const auto bodies = [] {
    std::unordered_map<std::string, const HwBody*> all;
    for (const auto* functions : {&hw_bodies(), &helper_functions()})
      for (const HwBody& function : *functions) all[function.name] = &function;
    return all;
  }();
  auto it = bodies.find(name);
  return it == bodies.end() ? nullptr : it->second;
}

void refuse(const KernelImage& image, const std::string& message) {
  throw DeviceError(fmt::format("kernel '{}' cannot run on the emulator: {}", image.kernel, message));
}

Loc loc_of(const llvm::Instruction& at) {
  const llvm::DILocation* loc = at.getDebugLoc().get();
  if (!loc || !loc->getLine()) return {};
  return {intern_file(loc->getFilename().str()), int(loc->getLine()), int(loc->getColumn()), 0};
}

void link_bodies(llvm::Module& module, const KernelImage& image, const Target& target, JitKernel& kernel,
                 bool tell_order) {
  Bodies(module, image, target, kernel, tell_order).link();
}

void count_iterations(llvm::Module& module, const KernelImage& image, JitKernel& kernel) {
  Function* f = module.getFunction(image.kernel);
  if (!f || f->isDeclaration()) return;
  llvm::SmallVector<std::pair<const llvm::BasicBlock*, const llvm::BasicBlock*>> edges;
  llvm::FindFunctionBackedges(*f, edges);
  std::set<const llvm::BasicBlock*> ends;
  for (auto [from, to] : edges) ends.insert(from);
  llvm::LLVMContext& context = module.getContext();
  llvm::FunctionCallee tick = module.getOrInsertFunction(
      kTickName, llvm::FunctionType::get(Type::getVoidTy(context), {Type::getInt32Ty(context)}, false));
  for (llvm::BasicBlock& block : *f) {
    if (!ends.contains(&block)) continue;
    llvm::IRBuilder<> b(block.getTerminator());
    b.CreateCall(tick, {b.getInt32(uint32_t(kernel.places.size()))});
    kernel.places.push_back({"a loop", loc_of(*block.getTerminator())});
  }
}

}  // namespace tegula::emulator
