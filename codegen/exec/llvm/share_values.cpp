#include "codegen/exec/llvm/share_values.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/Analysis/InstructionSimplify.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Pass.h>
#include <llvm/Transforms/Utils/Local.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "codegen/exec/llvm/join_pieces.h"

namespace tegula {

namespace {

using llvm::Instruction;

bool is_shared(const Instruction& i) {
  if (const auto* call = llvm::dyn_cast<llvm::CallInst>(&i))
    return call->onlyReadsMemory() && call->doesNotThrow() && call->willReturn() && !call->isInlineAsm() &&
           !call->getType()->isVoidTy();
  return i.isUnaryOp() || i.isBinaryOp() || i.isCast() ||
         llvm::isa<llvm::GetElementPtrInst, llvm::CmpInst, llvm::SelectInst, llvm::ExtractElementInst,
                   llvm::InsertElementInst, llvm::ShuffleVectorInst, llvm::ExtractValueInst, llvm::InsertValueInst>(i);
}

uint64_t mixed(uint64_t hash, uint64_t next) {
  hash = (hash ^ next) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

uint64_t mixed(uint64_t hash, const void* next) {
  return mixed(hash, uint64_t(reinterpret_cast<uintptr_t>(next)) >> 4);
}

/// The order of two operands does not matter.
bool commutes(const Instruction& i) { return i.isBinaryOp() && i.isCommutative(); }

uint64_t hash_of(const Instruction& i) {
  uint64_t hash = mixed(i.getOpcode(), i.getType());
  if (commutes(i)) {
    const llvm::Value *first = i.getOperand(0), *second = i.getOperand(1);
    if (std::less<>()(second, first)) std::swap(first, second);
    return mixed(mixed(hash, first), second);
  }
  for (const llvm::Value* operand : i.operand_values()) hash = mixed(hash, operand);
  if (const auto* compared = llvm::dyn_cast<llvm::CmpInst>(&i)) return mixed(hash, uint64_t(compared->getPredicate()));
  const auto mix_all = [&](auto numbers) {
    for (const auto number : numbers) hash = mixed(hash, uint64_t(number));
  };
  if (const auto* part = llvm::dyn_cast<llvm::ExtractValueInst>(&i)) mix_all(part->getIndices());
  if (const auto* part = llvm::dyn_cast<llvm::InsertValueInst>(&i)) mix_all(part->getIndices());
  if (const auto* lanes = llvm::dyn_cast<llvm::ShuffleVectorInst>(&i)) mix_all(lanes->getShuffleMask());
  return hash;
}

bool are_equal(const Instruction& a, const Instruction& b) {
  if (a.isIdenticalToWhenDefined(&b)) return true;
  return commutes(a) && a.getOpcode() == b.getOpcode() && a.getType() == b.getType() &&
         a.getOperand(0) == b.getOperand(1) && a.getOperand(1) == b.getOperand(0);
}

/// The computations of the blocks that dominate the one at hand: a hash table with linear probing. What was added last
/// is taken out first, so that places of others stay right.
class Computations {
 public:
  explicit Computations(size_t most) : places_(llvm::NextPowerOf2(2 * most)) {}

  /// An equal computation that was added for the same scope, or null, with `i` then added.
  Instruction* find_or_add(Instruction& i, size_t scope) {
    const uint64_t hash = mixed(hash_of(i), scope);
    size_t at = hash >> 7 & (places_.size() - 1);
    for (; places_[at].computation; at = (at + 1) & (places_.size() - 1))
      if (places_[at].hash == hash && places_[at].scope == scope && are_equal(*places_[at].computation, i))
        return places_[at].computation;
    places_[at] = {hash, scope, &i};
    added_.push_back(at);
    return nullptr;
  }

  size_t size() const { return added_.size(); }
  void shrink(size_t size) {
    for (; added_.size() > size; added_.pop_back()) places_[added_.back()].computation = nullptr;
  }

 private:
  struct Place {
    uint64_t hash;
    size_t scope;
    Instruction* computation;
  };
  std::vector<Place> places_;
  std::vector<size_t> added_;  ///< places, in order
};

/// Takes the place of an equal one: promises and metadata of both hold.
void replace_by(Instruction& first, Instruction& again) {
  first.andIRFlags(&again);
  if (again.hasMetadataOtherThanDebugLoc() || first.hasMetadataOtherThanDebugLoc())
    llvm::combineMetadataForCSE(&first, &again, false);
  again.replaceAllUsesWith(&first);
  again.eraseFromParent();
}

/// Conditions may follow from one another, and from the ranges of indices.
bool is_condition(const Instruction& i) {
  return i.getType()->isIntegerTy(1) && (llvm::isa<llvm::ICmpInst, llvm::SelectInst>(i) || i.isBinaryOp());
}

/// What the computation gives, where that is known without it: constants may make it an identity, conditions may be
/// known, and words that were made of something are taken apart again. LLVM finds more among other values, and nothing
/// in tile code.
llvm::Value* known_result(Instruction& i, const llvm::SimplifyQuery& query) {
  if (const auto* back = llvm::dyn_cast<llvm::BitCastInst>(&i))
    if (auto* there = llvm::dyn_cast<llvm::BitCastInst>(back->getOperand(0)))
      return there->getSrcTy() == back->getDestTy() ? there->getOperand(0) : nullptr;
  const auto is_constant = [](const llvm::Value* operand) { return llvm::isa<llvm::Constant>(operand); };
  if (llvm::isa<llvm::CallInst>(i) || (!is_condition(i) && llvm::none_of(i.operand_values(), is_constant)))
    return nullptr;
  return llvm::simplifyInstruction(&i, query);
}

/// Where computations that are written alike give the same, by numbers that no other such part has: what reads memory
/// until something may write, what threads do together until then and in one block, all else everywhere.
struct Scopes {
  size_t last = 0;
  size_t memory = 0, block = 0;

  size_t of(const Instruction& i) const {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
    if (call && call->isConvergent()) return block;
    return i.mayReadFromMemory() ? memory : 0;
  }
};

bool share_in(llvm::BasicBlock& block, Computations& known, Scopes& scopes) {
  bool changed = false;
  scopes.block = ++scopes.last;
  const llvm::SimplifyQuery query(block.getDataLayout());
  for (Instruction& i : llvm::make_early_inc_range(block)) {
    if (i.mayWriteToMemory()) scopes.memory = scopes.block = ++scopes.last;
    if (!is_shared(i)) continue;
    if (llvm::Value* result = known_result(i, query)) {
      i.replaceAllUsesWith(result);
      i.eraseFromParent();
    } else if (Instruction* const first = known.find_or_add(i, scopes.of(i))) {
      replace_by(*first, i);
    } else {
      continue;
    }
    changed = true;
  }
  return changed;
}

bool remove_unused(const std::vector<llvm::BasicBlock*>& blocks) {
  bool changed = false;
  for (llvm::BasicBlock* block : llvm::reverse(blocks))
    for (Instruction& i : llvm::make_early_inc_range(llvm::reverse(*block))) {
      if (!i.use_empty() || !llvm::isInstructionTriviallyDead(&i)) continue;
      i.eraseFromParent();
      changed = true;
    }
  return changed;
}

class ShareValuesOfPieces : public llvm::FunctionPass {
 public:
  static char ID;
  ShareValuesOfPieces() : llvm::FunctionPass(ID) {}
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override {
    usage.setPreservesCFG();
    usage.addRequired<llvm::DominatorTreeWrapperPass>();
  }
  bool runOnFunction(llvm::Function& function) override {
    return is_cut(function) && share_values(function, getAnalysis<llvm::DominatorTreeWrapperPass>().getDomTree());
  }
};
char ShareValuesOfPieces::ID = 0;

}  // namespace

bool share_values(llvm::Function& function, const llvm::DominatorTree& dominators) {
  size_t instructions = 0;
  for (const llvm::BasicBlock& block : function) instructions += block.size();
  Computations known(instructions);
  Scopes scopes;
  struct Visit {
    const llvm::DomTreeNode* node;
    size_t known;   ///< computations of what dominates it
    size_t memory;  ///< the scope of reads where the block ends that dominates it
  };
  std::vector<Visit> visits{{dominators.getRootNode(), 0, 0}};
  std::vector<llvm::BasicBlock*> order;
  bool changed = false;
  while (!visits.empty()) {
    const Visit visit = visits.back();
    visits.pop_back();
    known.shrink(visit.known);
    llvm::BasicBlock& block = *visit.node->getBlock();
    order.push_back(&block);
    // On other ways to it something may write.
    scopes.memory = block.getSinglePredecessor() ? visit.memory : ++scopes.last;
    changed |= share_in(block, known, scopes);
    for (const llvm::DomTreeNode* child : visit.node->children())
      visits.push_back({child, known.size(), scopes.memory});
  }
  return remove_unused(order) || changed;
}

llvm::FunctionPass* share_values_of_pieces() { return new ShareValuesOfPieces; }

}  // namespace tegula
