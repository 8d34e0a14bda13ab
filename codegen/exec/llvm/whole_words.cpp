#include "codegen/exec/llvm/whole_words.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/Transforms/Utils/Local.h>

namespace tegula {

namespace {

constexpr unsigned kMostParts = 4;

// How many elements of a type make a word; 0: these stay as they are.
unsigned parts_of_word(const llvm::Type* type) {
  if (type->isHalfTy() || type->isBFloatTy() || type->isIntegerTy(16)) return 2;
  return type->isIntegerTy(8) ? 4 : 0;
}

// Which part of which word, a vector of two elements of 16 bits or four of 8, a value is.
struct Part {
  llvm::Value* word = nullptr;
  unsigned index = 0;
};

Part part_of(llvm::Value* x) {
  auto* extract = llvm::dyn_cast<llvm::ExtractElementInst>(x);
  if (!extract) return {};
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(extract->getVectorOperandType());
  auto* index = llvm::dyn_cast<llvm::ConstantInt>(extract->getIndexOperand());
  if (!type || type->getNumElements() != parts_of_word(type->getElementType()) || !index) return {};
  return {extract->getVectorOperand(), unsigned(index->getZExtValue())};
}

// Phis that become one of words. These get their incoming values when all of them are known.
class WordPhis {
 public:
  explicit WordPhis(llvm::Function& function) {
    for (llvm::BasicBlock& block : function)
      for (llvm::PHINode& phi : block.phis())
        if (parts_of_word(phi.getType())) single_.push_back(&phi);
  }

  void join() {
    while (join_some()) {
    }
    for (const Joined& j : joined_)
      for (unsigned e = 0; e < j.phis[0]->getNumIncomingValues(); ++e) {
        llvm::BasicBlock* from = j.phis[0]->getIncomingBlock(e);
        j.word->addIncoming(word_of(incoming(j.phis, from), from), from);
      }
    for (const Joined& j : joined_)
      for (size_t i = 0; i < j.phis.size(); ++i) {
        j.phis[i]->replaceAllUsesWith(j.parts[i]);
        j.phis[i]->eraseFromParent();
      }
  }

 private:
  using Phis = llvm::SmallVector<llvm::PHINode*, kMostParts>;
  using Values = llvm::SmallVector<llvm::Value*, kMostParts>;
  struct Joined {
    Phis phis;
    Values parts;  ///< what takes their places
    llvm::PHINode* word;
  };

  Part known_part(llvm::Value* x) const {
    if (auto* phi = llvm::dyn_cast<llvm::PHINode>(x)) return parts_.lookup(phi);
    return part_of(x);
  }

  static Values incoming(const Phis& phis, llvm::BasicBlock* from) {
    Values values;
    for (llvm::PHINode* phi : phis) values.push_back(phi->getIncomingValueForBlock(from));
    return values;
  }

  // The word that the values are the parts of, in order; null: none.
  llvm::Value* common_word(const Values& values) const {
    llvm::Value* word = known_part(values[0]).word;
    for (unsigned i = 0; i < values.size(); ++i)
      if (const Part part = known_part(values[i]); part.word != word || part.index != i) return nullptr;
    return word;
  }

  // Whether it costs nothing to have them as a word, as far as one can tell.
  bool arrive_together(const Values& values) const {
    if (common_word(values)) return true;
    return llvm::none_of(values, [&](llvm::Value* x) {
      return known_part(x).word || (!llvm::isa<llvm::Constant>(x) && !llvm::isa<llvm::PHINode>(x));
    });
  }

  bool join_some() {
    // By block, edge and word: the phis that take its parts.
    using Key = std::pair<std::pair<llvm::BasicBlock*, llvm::BasicBlock*>, llvm::Value*>;
    llvm::MapVector<Key, Phis> takers;
    for (llvm::PHINode* phi : single_)
      for (unsigned e = 0; e < phi->getNumIncomingValues(); ++e)
        if (const Part part = known_part(phi->getIncomingValue(e)); part.word) {
          Phis& phis = takers[{{phi->getParent(), phi->getIncomingBlock(e)}, part.word}];
          phis.resize(parts_of_word(phi->getType()));
          phis[part.index] = phi;
        }
    const size_t before = joined_.size();
    for (auto& [key, phis] : takers)
      if (may_join(phis)) join(phis);
    llvm::erase_if(single_, [&](llvm::PHINode* phi) { return parts_.count(phi) > 0; });
    return joined_.size() > before;
  }

  bool may_join(const Phis& phis) const {
    for (llvm::PHINode* phi : phis)
      if (!phi || parts_.count(phi) || phi->getType() != phis[0]->getType()) return false;
    return llvm::all_of(phis[0]->blocks(),
                        [&](llvm::BasicBlock* from) { return arrive_together(incoming(phis, from)); });
  }

  void join(const Phis& phis) {
    llvm::IRBuilder<> b(phis[0]);
    const auto count = unsigned(phis.size());
    Joined j{.phis = phis, .parts = {}, .word = nullptr};
    j.word = b.CreatePHI(llvm::FixedVectorType::get(phis[0]->getType(), count), phis[0]->getNumIncomingValues());
    b.SetInsertPoint(phis[0]->getParent(), phis[0]->getParent()->getFirstInsertionPt());
    for (unsigned i = 0; i < count; ++i) {
      j.parts.push_back(b.CreateExtractElement(j.word, i));
      parts_[phis[i]] = {j.word, i};
    }
    joined_.push_back(std::move(j));
  }

  llvm::Value* word_of(const Values& values, llvm::BasicBlock* at_end_of) const {
    if (llvm::Value* word = common_word(values)) return word;
    llvm::IRBuilder<> b(at_end_of->getTerminator());
    llvm::Value* word =
        llvm::PoisonValue::get(llvm::FixedVectorType::get(values[0]->getType(), unsigned(values.size())));
    for (unsigned i = 0; i < values.size(); ++i) word = b.CreateInsertElement(word, values[i], uint64_t(i));
    return word;
  }

  std::vector<llvm::PHINode*> single_;
  std::vector<Joined> joined_;
  llvm::DenseMap<llvm::PHINode*, Part> parts_;
};

// A bfloat16 is the upper half of a float.
void widen(llvm::FPExtInst& extension) {
  const Part half = part_of(extension.getOperand(0));
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
