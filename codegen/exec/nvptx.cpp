#include "codegen/exec/nvptx.h"

#include <llvm/Analysis/InstructionSimplify.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Local.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

#include "codegen/exec/llvm/uniform_bytes.h"
#include "codegen/exec/nvptx_intrinsics.h"
#include "codegen/lower/asm_block.h"
#include "codegen/lower/hw.h"
#include "runtime/base/check.h"
#include "runtime/kernel_image.h"

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

// A row's assembly, its constraints (results first) and which arguments of the hardware function are its inputs.
struct Assembly {
  std::string text;
  std::vector<std::string> constraints;
  std::vector<unsigned> inputs;

  size_t num_results() const { return constraints.size() - inputs.size(); }
};

// How a call of a predicated row is written: the predicate is true, or some of the values that a load gives where it
// is false, which are tied to the results, are constants. Bits of these constants by operand.
struct CallForm {
  bool always = false;
  std::map<size_t, uint64_t> constants;
  auto operator<=>(const CallForm&) const = default;
};

// Leaves out inputs, so that the operands after them have lower numbers.
void drop_inputs(Assembly& assembly, const std::function<bool(size_t)>& dropped) {
  const size_t results = assembly.num_results();
  std::vector<size_t> kept;
  for (size_t i = 0; i < assembly.constraints.size(); ++i)
    if (i < results || !dropped(i)) kept.push_back(i);
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

bool is_tied(const std::string& constraint) { return std::isdigit(constraint[0]); }

// Where the predicate is true there is no need of it, nor of the values for where it is false.
void drop_predicate(Assembly& assembly) {
  assembly.text.erase(0, assembly.text.find(' ') + 1);
  drop_inputs(assembly, [&](size_t i) { return assembly.constraints[i] == "b" || is_tied(assembly.constraints[i]); });
}

// As operands, constants are copies of a register that all loads share, and passes over the machine code walk all uses
// of a register for each copy.
void set_constants(Assembly& assembly, const std::map<size_t, uint64_t>& constants) {
  std::string moves;
  for (auto [operand, bits] : constants) {
    const size_t result = size_t(std::stoi(assembly.constraints[operand]));
    std::string& constraint = assembly.constraints[result];
    const int width = constraint.back() == 'h' ? 16 : constraint.back() == 'r' ? 32 : 64;
    moves += fmt::format("mov.b{} ${}, {}; ", width, result, bits);
    constraint.insert(1, "&");
  }
  assembly.text.insert(0, moves);
  drop_inputs(assembly, [&](size_t i) { return constants.contains(i); });
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

// The row's PTX for the target with the modifiers and immediates of a call, which each of its instructions takes.
std::string with_modifiers(const HwInfo& row, const Target& target, const std::string& modifiers) {
  std::string text = row.assembly_for(target);
  auto values = lower::immediates(row, modifiers);
  TEGULA_CHECK(values, "'{}' takes {} numbers as modifiers, not '{}'", row.name, row.num_immediates, modifiers);
  constexpr std::string_view kImmediate = "{imm}";
  for (size_t i = 0, at = 0; (at = text.find(kImmediate, at)) != text.npos; ++i)
    text.replace(at, kImmediate.size(), std::to_string(values->at(i % values->size())));
  bool is_volatile = modifiers == ".volatile";
  text = replace_all(text, "{mod}", is_volatile ? "" : modifiers);
  return replace_all(text, "{order}", is_volatile ? ".volatile" : "");
}

// The calls of a hardware function that have one form, as inline assembly.
class AssemblyCalls {
 public:
  AssemblyCalls(const llvm::Function& f, const HwInfo& row, Assembly assembly, const std::string& modifiers,
                const CallForm& form)
      : single_(row.result_count == 1), convergent_(row.effects & lower::Convergent) {
    bool is_volatile = modifiers == ".volatile";
    if (form.always) drop_predicate(assembly);
    if (!form.constants.empty()) set_constants(assembly, form.constants);
    add_cache_policy(assembly.text, modifiers);
    effects_ = row.effects & (lower::Write | lower::Read) || is_volatile;
    if (effects_) assembly.constraints.push_back("~{memory}");

    llvm::SmallVector<llvm::Type*> types;
    for (unsigned i : assembly.inputs) types.push_back(f.getFunctionType()->getParamType(i));
    llvm::Type* result = single_ ? f.getReturnType()->getStructElementType(0) : f.getReturnType();
    callee_ = llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), assembly.text,
                                   fmt::format("{}", fmt::join(assembly.constraints, ",")),
                                   (row.effects & (lower::Write | lower::Convergent)) || is_volatile);
    inputs_ = std::move(assembly.inputs);
  }

  void replace(llvm::CallInst& call) const {
    llvm::IRBuilder<> b(&call);
    llvm::SmallVector<llvm::Value*> args;
    for (unsigned i : inputs_) args.push_back(call.getArgOperand(i));
    llvm::CallInst* result = b.CreateCall(callee_, args);
    result->setDoesNotThrow();
    if (!effects_ && !convergent_) result->setDoesNotAccessMemory();
    if (convergent_) result->setConvergent();
    if (auto range = call.getRange(); range && !single_) result->addRangeRetAttr(*range);
    if (single_)
      for (llvm::User* user : llvm::make_early_inc_range(call.users()))
        if (auto* element = llvm::dyn_cast<llvm::ExtractValueInst>(user)) {
          element->replaceAllUsesWith(result);
          element->eraseFromParent();
        }
    if (!call.use_empty())
      call.replaceAllUsesWith(single_ ? b.CreateInsertValue(llvm::PoisonValue::get(call.getType()), result, 0)
                                      : result);
    call.eraseFromParent();
  }

 private:
  bool single_, convergent_, effects_;
  llvm::InlineAsm* callee_;
  std::vector<unsigned> inputs_;
};

llvm::Value* shared_array_address(llvm::IRBuilder<>& b, llvm::Module& module) {
  auto* type = llvm::ArrayType::get(b.getInt8Ty(), 0);
  constexpr const char* kName = "tegula_shared";
  llvm::GlobalVariable* array = module.getGlobalVariable(kName);
  if (!array) {
    array = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::ExternalLinkage, nullptr, kName, nullptr,
                                     llvm::GlobalValue::NotThreadLocal, 3);
    array->setAlignment(llvm::Align(1024));
  }
  return b.CreateTrunc(b.CreatePtrToInt(array, b.getInt64Ty()), b.getInt32Ty());
}

// The row's PTX for calls with these modifiers.
Assembly assembly_of(const HwInfo& row, const Target& target, const std::string& modifiers) {
  Assembly assembly{with_modifiers(row, target, modifiers), split(row.constraints), {}};
  for (size_t i = 0; i < row.args.size(); ++i)
    if (row.args[i] != HwType::Site) assembly.inputs.push_back(unsigned(i));
  return assembly;
}

// From so many calls on constants are set in the assembly. The assembler allocates registers otherwise for it, not
// better.
constexpr unsigned kManyCalls = 512;

CallForm form_of(const llvm::CallInst& call, const HwInfo& row, const Assembly& assembly, bool many) {
  CallForm form;
  if (!row.assembly.starts_with('@')) return form;
  const auto predicate = std::find(row.args.begin(), row.args.end(), HwType::I1) - row.args.begin();
  if (auto* p = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(unsigned(predicate))); p && p->isOne()) {
    form.always = true;
    return form;
  }
  if (!many) return form;
  for (size_t i = assembly.num_results(); i < assembly.constraints.size(); ++i) {
    if (!is_tied(assembly.constraints[i])) continue;
    const llvm::Value* value = call.getArgOperand(assembly.inputs[i - assembly.num_results()]);
    if (auto* number = llvm::dyn_cast<llvm::ConstantInt>(value)) form.constants[i] = number->getZExtValue();
  }
  return form;
}

// Turns the calls of a block of inline PTX into the block as it stands.
void replace_calls(llvm::Function& f, const lower::AsmBlock& block) {
  auto* assembly = llvm::InlineAsm::get(f.getFunctionType(), block.text,
                                        block.constraints + (block.pure ? "" : ",~{memory}"), !block.pure);
  for (llvm::User* user : llvm::make_early_inc_range(f.users())) {
    auto& call = *llvm::cast<llvm::CallInst>(user);
    llvm::IRBuilder<> b(&call);
    llvm::CallInst* result = b.CreateCall(assembly, llvm::SmallVector<llvm::Value*>(call.args()));
    result->setDoesNotThrow();
    if (block.pure)
      result->setDoesNotAccessMemory();
    else
      result->setConvergent();
    call.replaceAllUsesWith(result);
    call.eraseFromParent();
  }
  f.eraseFromParent();
}

}  // namespace

namespace {

// The variable that the host sets to the address of what asserts write to; 0: nobody reads that.
llvm::Value* failure_variable(llvm::IRBuilder<>& b, llvm::Module& module) {
  llvm::GlobalVariable* variable = module.getGlobalVariable(kFailureVariable);
  if (!variable) {
    variable = new llvm::GlobalVariable(module, b.getInt64Ty(), false, llvm::GlobalValue::ExternalLinkage,
                                        b.getInt64(0), kFailureVariable, nullptr, llvm::GlobalValue::NotThreadLocal, 1);
    variable->setExternallyInitialized(true);
  }
  return b.CreatePtrToInt(variable, b.getInt64Ty());
}

// What vprintf takes after the format, in order: the program, coordinates, and the value as its kind says.
llvm::SmallVector<llvm::Value*> printed_values(llvm::IRBuilder<>& b, const llvm::CallInst& call, uint32_t rank,
                                               uint32_t kind) {
  constexpr unsigned kCoordinates = 2, kBits = 7;
  llvm::SmallVector<llvm::Value*> values;
  for (llvm::Intrinsic::ID axis :
       {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
        llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z})
    values.push_back(b.CreateIntrinsic(axis, {}));
  for (uint32_t i = 0; i < rank; ++i) values.push_back(call.getArgOperand(kCoordinates + i));
  llvm::Value* bits = call.getArgOperand(kBits);
  if (kind == 0) values.push_back(b.CreateTrunc(bits, b.getInt32Ty()));
  if (kind == 1) values.push_back(bits);
  if (kind == 2) values.push_back(b.CreateBitCast(bits, b.getDoubleTy()));
  return values;
}

// Turns a call of the row `print` into one of the driver's vprintf, whose arguments lie side by side in memory.
void replace_print(llvm::CallInst& call, const std::vector<uint32_t>& immediates) {
  constexpr unsigned kFormat = 0, kPredicate = 8;
  llvm::Module& module = *call.getModule();
  llvm::IRBuilder<> b(llvm::SplitBlockAndInsertIfThen(call.getArgOperand(kPredicate), &call, false));
  llvm::PointerType* pointer = llvm::PointerType::get(module.getContext(), 0);
  const auto values = printed_values(b, call, immediates[1], immediates[2]);
  llvm::SmallVector<llvm::Type*> types;
  for (llvm::Value* value : values) types.push_back(value->getType());
  auto* type = llvm::StructType::get(module.getContext(), types);
  llvm::IRBuilder<> at_entry(&*call.getFunction()->getEntryBlock().getFirstInsertionPt());
  llvm::AllocaInst* room = at_entry.CreateAlloca(type);
  for (unsigned i = 0; i < values.size(); ++i) b.CreateStore(values[i], b.CreateStructGEP(type, room, i));
  llvm::FunctionCallee vprintf =
      module.getOrInsertFunction("vprintf", llvm::FunctionType::get(b.getInt32Ty(), {pointer, pointer}, false));
  b.CreateCall(vprintf, {b.CreateIntToPtr(call.getArgOperand(kFormat), pointer), room});
  call.eraseFromParent();
}

// The text whose address as a number this is; null if it cannot be told.
llvm::GlobalVariable* text_of(llvm::Value* address) {
  auto* number = llvm::dyn_cast<llvm::PtrToIntOperator>(address);
  return number ? llvm::dyn_cast<llvm::GlobalVariable>(number->getPointerOperand()->stripPointerCasts()) : nullptr;
}

// Erases a call that gives nothing, and what only it needs.
void erase_with_operands(llvm::CallInst& call) {
  llvm::SmallVector<llvm::WeakTrackingVH> unused(call.args());
  call.eraseFromParent();
  llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(unused);
}

// Replaces calls of rows whose body is no assembly; false if the row has one.
bool replace_special(llvm::Function& f, const HwInfo& row, const std::string& modifiers) {
  const bool address = row.name == "failure_variable" || row.name == "shared_base";
  if (!address && row.name != "print" && row.name != "failed_element") return false;
  for (llvm::User* user : llvm::make_early_inc_range(f.users())) {
    auto& call = *llvm::cast<llvm::CallInst>(user);
    if (row.name == "print") {
      replace_print(call, *lower::immediates(row, modifiers));
      continue;
    }
    if (!address) {
      llvm::GlobalVariable* text = text_of(call.getArgOperand(0));
      erase_with_operands(call);
      if (!text) continue;
      text->removeDeadConstantUsers();
      if (text->use_empty()) text->eraseFromParent();
      continue;
    }
    llvm::IRBuilder<> b(&call);
    call.replaceAllUsesWith(row.name == "shared_base" ? shared_array_address(b, *f.getParent())
                                                      : failure_variable(b, *f.getParent()));
    call.eraseFromParent();
  }
  f.eraseFromParent();
  return true;
}

// Loads that no thread does give the values that they have where they are not done; stores are gone, with what
// only they need.
void leave_out_absent_accesses(llvm::Function& f, const Target& target) {
  std::string modifiers;
  const HwInfo* row = lower::hw_of_function(std::string_view(f.getName()), &modifiers);
  if (!row || !f.isDeclaration() || f.use_empty() || !row->assembly.starts_with('@')) return;
  const bool is_load = row->effects == lower::Read, is_store = f.getReturnType()->isVoidTy();
  if (!is_load && !is_store) return;
  const Assembly assembly = assembly_of(*row, target, modifiers);
  const size_t results = assembly.num_results();
  const auto predicate = unsigned(std::find(row->args.begin(), row->args.end(), HwType::I1) - row->args.begin());
  for (llvm::User* user : llvm::make_early_inc_range(f.users())) {
    auto& call = *llvm::cast<llvm::CallInst>(user);
    const auto* done = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(predicate));
    if (!done || !done->isZero()) continue;
    if (is_store) {
      erase_with_operands(call);
      continue;
    }
    llvm::IRBuilder<> b(&call);
    llvm::Value* value = llvm::PoisonValue::get(call.getType());
    for (size_t i = results; i < assembly.constraints.size(); ++i) {
      if (!is_tied(assembly.constraints[i])) continue;
      llvm::Value* part = call.getArgOperand(assembly.inputs[i - results]);
      const unsigned at = unsigned(std::stoi(assembly.constraints[i]));
      value = row->result_count ? b.CreateInsertValue(value, part, at) : part;
    }
    llvm::replaceAndRecursivelySimplify(&call, value);
  }
}

}  // namespace

int insert_ptx(llvm::Module& module, const Target& target) {
  int ptx = target.ptx;
  for (llvm::Function& f : module) leave_out_absent_accesses(f, target);
  convert_uniform_bytes(module);
  for (llvm::Function& f : llvm::make_early_inc_range(module)) {
    if (auto block = lower::asm_of_function(f); block && f.isDeclaration()) {
      ptx = std::max(ptx, lower::ptx_version_of_asm(block->text));
      replace_calls(f, *block);
      continue;
    }
    std::string modifiers;
    const HwInfo* row = lower::hw_of_function(std::string_view(f.getName()), &modifiers);
    if (!row || !f.isDeclaration()) continue;
    TEGULA_CHECK(f.use_empty() || target.has(row->feature), "{} lacks what '{}' needs", target.name, row->name);
    if (!f.use_empty()) ptx = std::max(ptx, target.ptx_for(row->feature));
    if (replace_special(f, *row, modifiers) || call_intrinsic(f, *row)) continue;
    const Assembly assembly = assembly_of(*row, target, modifiers);
    const bool many = f.hasNUsesOrMore(kManyCalls);
    std::map<CallForm, AssemblyCalls> calls;
    for (llvm::User* user : llvm::make_early_inc_range(f.users())) {
      auto& call = *llvm::cast<llvm::CallInst>(user);
      CallForm form = form_of(call, *row, assembly, many);
      auto it = calls.find(form);
      if (it == calls.end()) it = calls.try_emplace(form, f, *row, assembly, modifiers, form).first;
      it->second.replace(call);
    }
    f.eraseFromParent();
  }
  return ptx;
}

}  // namespace tegula
