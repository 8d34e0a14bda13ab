#include "codegen/exec/llvm/narrow_offsets.h"

#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/MapVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

#include <map>
#include <optional>
#include <vector>

namespace tegula {

namespace {

// Fewer in a loop leave room for other values.
constexpr size_t kManyOffsets = 24;

// An index of 64 bits as the extension of one of 32 bits and a rest, which may be null.
struct Parts {
  llvm::CastInst* extension;
  llvm::Value* rest;
};

llvm::CastInst* extension_of(llvm::Value* value) {
  auto* cast = llvm::dyn_cast<llvm::CastInst>(value);
  const bool extends = cast && (llvm::isa<llvm::SExtInst>(cast) || llvm::isa<llvm::ZExtInst>(cast));
  return extends && cast->getSrcTy()->isIntegerTy(32) ? cast : nullptr;
}

std::optional<Parts> parts_of(llvm::Value* index) {
  if (llvm::CastInst* cast = extension_of(index)) return Parts{cast, nullptr};
  auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(index);
  if (!sum || sum->getOpcode() != llvm::Instruction::Add) return std::nullopt;
  // Products of a row's number and its distance are one a row; other extensions are the rest.
  for (unsigned i : {0u, 1u}) {
    llvm::CastInst* cast = extension_of(sum->getOperand(i));
    if (cast && !extension_of(sum->getOperand(1 - i))) return Parts{cast, sum->getOperand(1 - i)};
  }
  for (unsigned i : {0u, 1u}) {
    llvm::CastInst* cast = extension_of(sum->getOperand(i));
    auto* product = cast ? llvm::dyn_cast<llvm::BinaryOperator>(cast->getOperand(0)) : nullptr;
    if (product && product->getOpcode() == llvm::Instruction::Mul) return Parts{cast, sum->getOperand(1 - i)};
  }
  return std::nullopt;
}

struct Address {
  llvm::GetElementPtrInst* gep;
  Parts parts;
};

std::vector<Address> addresses_of(const llvm::Loop& loop, const llvm::LoopInfo& loops) {
  std::vector<Address> found;
  for (llvm::BasicBlock* block : loop.blocks()) {
    if (loops.getLoopFor(block) != &loop) continue;
    for (llvm::Instruction& i : *block) {
      auto* gep = llvm::dyn_cast<llvm::GetElementPtrInst>(&i);
      if (!gep || gep->getNumIndices() != 1 || loop.isLoopInvariant(gep->getPointerOperand())) continue;
      llvm::Value* index = gep->getOperand(1);
      if (llvm::isa<llvm::Constant>(index) || !index->getType()->isIntegerTy(64) || !loop.isLoopInvariant(index))
        continue;
      if (auto parts = parts_of(index)) found.push_back({gep, *parts});
    }
  }
  return found;
}

// base + rest, made where the base is.
llvm::Value* sum_of(llvm::GetElementPtrInst& gep, llvm::Value* rest) {
  auto* base = llvm::cast<llvm::Instruction>(gep.getPointerOperand());
  llvm::BasicBlock::iterator at =
      llvm::isa<llvm::PHINode>(base) ? base->getParent()->getFirstInsertionPt() : std::next(base->getIterator());
  llvm::IRBuilder<> b(base->getParent(), at);
  return b.CreateGEP(gep.getSourceElementType(), base, rest);
}

void narrow(const std::vector<Address>& addresses) {
  std::map<std::tuple<llvm::Value*, llvm::Value*, llvm::Type*>, llvm::Value*> sums;
  for (const auto& [gep, parts] : addresses) {
    llvm::Value* base = gep->getPointerOperand();
    if (parts.rest) {
      llvm::Value*& sum = sums[{base, parts.rest, gep->getSourceElementType()}];
      if (!sum) sum = sum_of(*gep, parts.rest);
      base = sum;
    }
    llvm::IRBuilder<> b(gep);
    llvm::Instruction* extension = parts.extension->clone();
    b.Insert(extension);
    llvm::Value* address = b.CreateGEP(gep->getSourceElementType(), base, extension);
    gep->replaceAllUsesWith(address);
    gep->eraseFromParent();
  }
}

}  // namespace

void narrow_offsets(llvm::Function& function) {
  if (function.isDeclaration()) return;
  const llvm::DominatorTree tree(function);
  const llvm::LoopInfo loops(tree);
  for (const llvm::Loop* loop : loops.getLoopsInPreorder()) {
    const std::vector<Address> addresses = addresses_of(*loop, loops);
    llvm::DenseSet<const llvm::Value*> distinct;
    for (const Address& a : addresses) distinct.insert(a.gep->getOperand(1));
    if (distinct.size() < kManyOffsets) continue;
    narrow(addresses);
    function.addFnAttr(kNarrowOffsets);
  }
}

}  // namespace tegula
