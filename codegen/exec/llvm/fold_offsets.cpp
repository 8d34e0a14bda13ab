#include "codegen/exec/llvm/fold_offsets.h"

#include <fmt/format.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

#include <cctype>
#include <string>

namespace tegula {

namespace {

// What the offsets of all instructions that access memory hold.
constexpr int64_t kLargest = (1 << 23) - 1;

struct Sum {
  llvm::Value* base = nullptr;
  int64_t offset = 0;
};

// Base and constant of an address. One of shared memory is an integer; none is below its base.
Sum sum_of(const llvm::Instruction& i) {
  Sum sum;
  if (const auto* element = llvm::dyn_cast<llvm::GetElementPtrInst>(&i)) {
    const llvm::DataLayout& layout = i.getModule()->getDataLayout();
    llvm::APInt offset(layout.getIndexTypeSizeInBits(i.getType()), 0);
    if (!i.getType()->isPointerTy() || !element->accumulateConstantOffset(layout, offset)) return {};
    sum = {i.getOperand(0), offset.getSExtValue()};
  } else if (i.getType()->isIntegerTy(32)) {
    const auto* disjoint = llvm::dyn_cast<llvm::PossiblyDisjointInst>(&i);
    if (i.getOpcode() != llvm::Instruction::Add && !(disjoint && disjoint->isDisjoint())) return {};
    const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(i.getOperand(1));
    if (!constant || constant->isNegative()) return {};
    sum = {i.getOperand(0), constant->getSExtValue()};
  }
  const bool fits = sum.offset >= -kLargest && sum.offset <= kLargest;
  return fits && sum.base && !llvm::isa<llvm::Constant>(sum.base) ? sum : Sum();
}

// The operand as the text of the assembly has it: results come first.
std::string name_of(const llvm::InlineAsm& assembly, unsigned argument) {
  const llvm::Type* result = assembly.getFunctionType()->getReturnType();
  const unsigned results = result->isVoidTy() ? 0 : result->isStructTy() ? result->getStructNumElements() : 1;
  return fmt::format("${}", results + argument);
}

// Whether the text has the operand as addresses alone.
bool is_address(const std::string& text, const std::string& name) {
  if (text.find("${") != text.npos) return false;  // where operands have other names
  bool found = false;
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (end < text.size() && std::isdigit(text[end])) continue;
    if (at == 0 || text[at - 1] != '[' || end == text.size() || text[end] != ']') return false;
    found = true;
  }
  return found;
}

const llvm::InlineAsm* assembly_of(const llvm::Use& use) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(use.getUser());
  return call && call->isArgOperand(&use) ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
}

bool is_address(const llvm::Use& use) {
  const llvm::InlineAsm* assembly = assembly_of(use);
  return assembly && is_address(std::string(assembly->getAsmString()), name_of(*assembly, use.getOperandNo()));
}

void fold(llvm::Use& use, const Sum& sum) {
  const llvm::InlineAsm& assembly = *assembly_of(use);
  std::string text(assembly.getAsmString());
  const std::string address = fmt::format("[{}]", name_of(assembly, use.getOperandNo()));
  const std::string by = fmt::format("[{}+{}]", name_of(assembly, use.getOperandNo()), sum.offset);
  for (size_t at = text.find(address); at != text.npos; at = text.find(address, at + by.size()))
    text.replace(at, address.size(), by);
  auto& call = *llvm::cast<llvm::CallInst>(use.getUser());
  use.set(sum.base);
  call.setCalledOperand(llvm::InlineAsm::get(assembly.getFunctionType(), text, assembly.getConstraintString(),
                                             assembly.hasSideEffects(), assembly.isAlignStack(), assembly.getDialect(),
                                             assembly.canThrow()));
}

}  // namespace

void fold_offsets(llvm::Function& function) {
  for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::instructions(function))) {
    const Sum sum = sum_of(i);
    if (!sum.base || i.use_empty() || !llvm::all_of(i.uses(), [](const llvm::Use& use) { return is_address(use); }))
      continue;
    for (llvm::Use& use : llvm::make_early_inc_range(i.uses())) fold(use, sum);
    i.eraseFromParent();
  }
}

}  // namespace tegula
