#include "codegen/exec/whole_words.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/Transforms/Utils/Local.h>

#include <array>

namespace tegula {

namespace {

bool is_half_word(const llvm::Type* type) { return type->isHalfTy() || type->isBFloatTy() || type->isIntegerTy(16); }

// Which half of which word, a vector of two elements, a value is.
struct Half {
  llvm::Value* word = nullptr;
  unsigned index = 0;
};

Half half_of(llvm::Value* x) {
  auto* extract = llvm::dyn_cast<llvm::ExtractElementInst>(x);
  if (!extract) return {};
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(extract->getVectorOperandType());
  auto* index = llvm::dyn_cast<llvm::ConstantInt>(extract->getIndexOperand());
  if (!type || type->getNumElements() != 2 || !is_half_word(type->getElementType()) || !index) return {};
  return {extract->getVectorOperand(), unsigned(index->getZExtValue())};
}

// Phis that become one of words. These get their incoming values when all of them are known.
class WordPhis {
 public:
  explicit WordPhis(llvm::Function& function) {
    for (llvm::BasicBlock& block : function)
      for (llvm::PHINode& phi : block.phis())
        if (is_half_word(phi.getType())) single_.push_back(&phi);
  }

  void join() {
    while (join_some()) {
    }
    for (const Joined& j : joined_)
      for (unsigned e = 0; e < j.phis[0]->getNumIncomingValues(); ++e) {
        llvm::BasicBlock* from = j.phis[0]->getIncomingBlock(e);
        j.word->addIncoming(word_of(j.phis[0]->getIncomingValue(e), j.phis[1]->getIncomingValueForBlock(from), from),
                            from);
      }
    for (const Joined& j : joined_)
      for (int i = 0; i < 2; ++i) {
        j.phis[size_t(i)]->replaceAllUsesWith(j.halves[size_t(i)]);
        j.phis[size_t(i)]->eraseFromParent();
      }
  }

 private:
  struct Joined {
    std::array<llvm::PHINode*, 2> phis;
    std::array<llvm::Value*, 2> halves;  ///< what takes their places
    llvm::PHINode* word;
  };

  Half known_half(llvm::Value* x) const {
    if (auto* phi = llvm::dyn_cast<llvm::PHINode>(x)) return halves_.lookup(phi);
    return half_of(x);
  }

  // Whether it costs nothing to have the two as a word, as far as one can tell.
  bool arrive_together(llvm::Value* low, llvm::Value* high) const {
    const Half l = known_half(low), h = known_half(high);
    if (l.word || h.word) return l.word == h.word && l.index == 0 && h.index == 1;
    auto comes_alone = [](llvm::Value* x) { return !llvm::isa<llvm::Constant>(x) && !llvm::isa<llvm::PHINode>(x); };
    return !comes_alone(low) && !comes_alone(high);
  }

  bool join_some() {
    // By block, number of the edge and word: the phi that takes the lower half.
    llvm::DenseMap<std::pair<std::pair<llvm::BasicBlock*, llvm::BasicBlock*>, llvm::Value*>, llvm::PHINode*> lower;
    auto each_half = [&](unsigned index, auto visit) {
      for (llvm::PHINode* phi : single_)
        for (unsigned e = 0; e < phi->getNumIncomingValues(); ++e)
          if (const Half half = known_half(phi->getIncomingValue(e)); half.word && half.index == index)
            if (visit(phi, {{phi->getParent(), phi->getIncomingBlock(e)}, half.word})) break;
    };
    using Key = decltype(lower)::key_type;
    each_half(0, [&](llvm::PHINode* phi, const Key& key) {
      lower[key] = phi;
      return false;
    });
    const size_t before = joined_.size();
    each_half(1, [&](llvm::PHINode* phi, const Key& key) {
      llvm::PHINode* low = lower.lookup(key);
      if (!low || halves_.count(low) || low->getType() != phi->getType() || !may_join(*low, *phi)) return false;
      join(low, phi);
      return true;
    });
    llvm::erase_if(single_, [&](llvm::PHINode* phi) { return halves_.count(phi) > 0; });
    return joined_.size() > before;
  }

  bool may_join(const llvm::PHINode& low, const llvm::PHINode& high) const {
    for (unsigned e = 0; e < low.getNumIncomingValues(); ++e)
      if (!arrive_together(low.getIncomingValue(e), high.getIncomingValueForBlock(low.getIncomingBlock(e))))
        return false;
    return true;
  }

  void join(llvm::PHINode* low, llvm::PHINode* high) {
    llvm::IRBuilder<> b(low);
    Joined j{.phis = {low, high}, .halves = {}, .word = nullptr};
    j.word = b.CreatePHI(llvm::FixedVectorType::get(low->getType(), 2), low->getNumIncomingValues());
    b.SetInsertPoint(low->getParent(), low->getParent()->getFirstInsertionPt());
    for (unsigned i = 0; i < 2; ++i) {
      j.halves[i] = b.CreateExtractElement(j.word, i);
      halves_[j.phis[i]] = {j.word, i};
    }
    joined_.push_back(j);
  }

  llvm::Value* word_of(llvm::Value* low, llvm::Value* high, llvm::BasicBlock* at_end_of) const {
    const Half l = known_half(low), h = known_half(high);
    if (l.word && l.word == h.word && l.index == 0 && h.index == 1) return l.word;
    llvm::IRBuilder<> b(at_end_of->getTerminator());
    llvm::Value* word = llvm::PoisonValue::get(llvm::FixedVectorType::get(low->getType(), 2));
    return b.CreateInsertElement(b.CreateInsertElement(word, low, uint64_t(0)), high, uint64_t(1));
  }

  std::vector<llvm::PHINode*> single_;
  std::vector<Joined> joined_;
  llvm::DenseMap<llvm::PHINode*, Half> halves_;
};

// A bfloat16 is the upper half of a float.
void widen(llvm::FPExtInst& extension) {
  const Half half = half_of(extension.getOperand(0));
  if (!half.word || !extension.getType()->isFloatTy() || !extension.getOperand(0)->getType()->isBFloatTy()) return;
  llvm::IRBuilder<> b(&extension);
  llvm::Value* word = b.CreateBitCast(half.word, b.getInt32Ty());
  llvm::Value* bits = half.index == 0 ? b.CreateShl(word, 16) : b.CreateAnd(word, 0xffff0000);
  extension.replaceAllUsesWith(b.CreateBitCast(bits, extension.getType()));
  llvm::RecursivelyDeleteTriviallyDeadInstructions(&extension);
}

}  // namespace

void keep_words_whole(llvm::Function& function) {
  WordPhis(function).join();
  std::vector<llvm::FPExtInst*> extensions;
  for (llvm::Instruction& i : llvm::instructions(function))
    if (auto* extension = llvm::dyn_cast<llvm::FPExtInst>(&i)) extensions.push_back(extension);
  for (llvm::FPExtInst* extension : extensions) widen(*extension);
}

}  // namespace tegula
