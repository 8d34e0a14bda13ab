#include "codegen/exec/llvm/share_operands.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>

#include <string>

namespace tegula {

namespace {

// Fewer uses take no time to speak of, and code stays as it was.
constexpr unsigned kManyUses = 1024;
constexpr unsigned kUsesOfName = 64;

// The block of assembly that a call stands for, if it takes its operands in registers; else null.
llvm::InlineAsm* assembly_of(const llvm::Instruction& i) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
  auto* assembly = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
  if (!assembly) return nullptr;
  const bool registers = llvm::StringRef(assembly->getConstraintString()).find_first_of("*in") == llvm::StringRef::npos;
  return registers ? assembly : nullptr;
}

// A register for values of the type: its letter in constraints, and what moves it. Nothing where there is none.
struct Register {
  const char* letter = nullptr;
  const char* move = nullptr;
};

Register register_of(const llvm::Type& type) {
  if (type.isPointerTy() && type.getPointerAddressSpace() <= 1) return {"l", "mov.b64 $0, $1;"};
  if (type.isFloatTy()) return {"f", "mov.b32 $0, $1;"};
  if (!type.isIntegerTy()) return {};
  switch (type.getIntegerBitWidth()) {
    case 1:
      return {"b", "mov.pred $0, $1;"};
    case 16:
      return {"h", "mov.b16 $0, $1;"};
    case 32:
      return {"r", "mov.b32 $0, $1;"};
    case 64:
      return {"l", "mov.b64 $0, $1;"};
    default:
      return {};
  }
}

struct Name {
  llvm::Value* value;
  const llvm::BasicBlock* block;  ///< null for the value itself
  unsigned uses = 0;
};

// The names of one value that dominate the instruction at hand, nearest last.
using Names = llvm::SmallVector<Name>;

void add_name(Names& names, llvm::Instruction& before) {
  llvm::Value* last = names.back().value;
  const Register reg = register_of(*last->getType());
  llvm::Type* type = last->getType();
  auto* move = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false), reg.move,
                                    std::string("=") + reg.letter + "," + reg.letter, /*hasSideEffects=*/false);
  llvm::IRBuilder<> b(&before);
  llvm::CallInst* name = b.CreateCall(move, {last});
  name->setDoesNotThrow();
  name->setDoesNotAccessMemory();
  names.push_back({name, before.getParent()});
}

}  // namespace

void bound_shared_operands(llvm::Function& function) {
  if (function.isDeclaration()) return;
  llvm::DenseMap<llvm::Value*, Names> shared;
  const auto look_at = [&](llvm::Value& value) {
    const auto takes_it = [](const llvm::User* user) { return assembly_of(*llvm::cast<llvm::Instruction>(user)); };
    if (value.hasNUsesOrMore(kManyUses) && register_of(*value.getType()).letter &&
        llvm::count_if(value.users(), takes_it) >= kManyUses)
      shared[&value].push_back({&value, nullptr});
  };
  for (llvm::Argument& argument : function.args()) look_at(argument);
  for (llvm::Instruction& i : llvm::instructions(function)) look_at(i);
  if (shared.empty()) return;

  const llvm::DominatorTree dominators(function);
  for (llvm::BasicBlock* block : llvm::ReversePostOrderTraversal<llvm::Function*>(&function)) {
    for (auto& [value, names] : shared)
      while (names.back().block && !dominators.dominates(names.back().block, block)) names.pop_back();
    for (llvm::Instruction& i : *block) {
      if (!assembly_of(i)) continue;
      for (llvm::Use& operand : llvm::cast<llvm::CallInst>(i).args()) {
        auto it = shared.find(operand.get());
        if (it == shared.end()) continue;
        Names& names = it->second;
        if (names.back().uses >= kUsesOfName) add_name(names, i);
        operand.set(names.back().value);
        ++names.back().uses;
      }
    }
  }
}

}  // namespace tegula
