#include "codegen/exec/llvm/order_by_use.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include <functional>

#include "codegen/lower/hw.h"

namespace tegula {

namespace {

bool stays(const llvm::Instruction& i) {
  if (llvm::isa<llvm::PHINode>(i) || llvm::isa<llvm::AllocaInst>(i) || i.isTerminator() || i.isEHPad()) return true;
  // A lane exchange stays with the other lanes in any order: they all run the same block.
  if (auto* call = llvm::dyn_cast<llvm::CallBase>(&i)) return !call->doesNotAccessMemory();
  return i.mayReadOrWriteMemory() || i.mayHaveSideEffects();
}

// Barriers, fences, matrix products: what is there before them stays so, as products ask of fragments in registers.
bool separates(const llvm::Instruction& i) {
  auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
  return i.isTerminator() || (call && call->isConvergent() && !call->doesNotAccessMemory());
}

// Brings computations from the results of one wave of a product up to after it, where they need nothing that comes
// later but other computations.
class WaveUsers {
 public:
  WaveUsers(llvm::BasicBlock& block, llvm::Instruction& wave) : block_(block), at_(wave.getNextNode()) {
    unsigned place = 0;
    for (llvm::Instruction& i : block) {
      if (at_ == &i) first_ = place;
      places_[&i] = place++;
    }
    follows_.insert(&wave);
  }

  void bring_up() {
    llvm::SmallVector<llvm::Instruction*> later;
    for (auto it = at_->getIterator(); it != block_.end(); ++it) later.push_back(&*it);
    for (llvm::Instruction* i : later) {
      if (stays(*i)) continue;
      const bool follows = llvm::any_of(i->operand_values(), [&](llvm::Value* v) { return follows_.contains(v); });
      if (follows && may_come_up(*i)) move(*i), follows_.insert(i);
    }
  }

 private:
  bool is_above(const llvm::Value* v) const {
    const auto* i = llvm::dyn_cast<llvm::Instruction>(v);
    if (!i || i->getParent() != &block_) return true;
    return places_.lookup(i) < first_ || moved_.contains(i);
  }
  bool may_come_up(const llvm::Instruction& i) const {
    return llvm::all_of(i.operand_values(), [&](const llvm::Value* v) {
      return is_above(v) ||
             (!stays(*llvm::cast<llvm::Instruction>(v)) && may_come_up(*llvm::cast<llvm::Instruction>(v)));
    });
  }
  void move(llvm::Instruction& i) {
    for (llvm::Value* v : i.operand_values())
      if (!is_above(v)) move(*llvm::cast<llvm::Instruction>(v));
    moved_.insert(&i);
    if (&i == at_)
      at_ = at_->getNextNode();
    else
      i.moveBefore(at_->getIterator());
  }

  llvm::BasicBlock& block_;
  llvm::Instruction* at_;  // they come before it
  unsigned first_ = 0;
  llvm::DenseMap<const llvm::Instruction*, unsigned> places_;  // before anything was moved
  llvm::DenseSet<const llvm::Instruction*> moved_;
  llvm::DenseSet<const llvm::Value*> follows_;
};

void use_up_waves(llvm::BasicBlock& block) {
  llvm::SmallVector<llvm::Instruction*> waves;
  for (llvm::Instruction& i : block)
    if (i.hasMetadata(lower::kWaveMetadata)) waves.push_back(&i);
  for (llvm::Instruction* wave : waves) WaveUsers(block, *wave).bring_up();
}

void order(llvm::BasicBlock& block) {
  llvm::SmallVector<llvm::Instruction*> in_order, path;
  llvm::DenseSet<const llvm::Instruction*> placed;
  // Depth first, operands before their user.
  auto place = [&](llvm::Instruction* root) {
    path.push_back(root);
    while (!path.empty()) {
      llvm::Instruction* top = path.back();
      if (placed.contains(top)) {
        path.pop_back();
        continue;
      }
      const size_t depth = path.size();
      for (llvm::Value* operand : llvm::reverse(top->operand_values()))
        if (auto* i = llvm::dyn_cast<llvm::Instruction>(operand);
            i && i->getParent() == &block && !stays(*i) && !placed.contains(i))
          path.push_back(i);
      if (path.size() != depth) continue;
      path.pop_back();
      placed.insert(top);
      in_order.push_back(top);
    }
  };
  llvm::SmallVector<llvm::Instruction*> waiting;  // since the last that separates
  for (llvm::Instruction& i : block) {
    if (llvm::isa<llvm::PHINode>(i)) continue;
    if (!stays(i)) {
      waiting.push_back(&i);
      continue;
    }
    if (separates(i)) {
      for (llvm::Instruction* other : waiting) place(other);
      waiting.clear();
    }
    place(&i);
  }
  for (llvm::Instruction* i : in_order) i->moveBefore(block, block.end());
}

}  // namespace

void order_by_use(llvm::Function& function) {
  for (llvm::BasicBlock& block : function) {
    use_up_waves(block);
    order(block);
  }
}

namespace {

constexpr unsigned kSeveral = 4;  // uses: what a row's or a thread's elements have in common has more

bool is_wait(const llvm::Instruction& i) {
  const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
  return call && call->getCalledFunction() && call->getCalledFunction()->getName() == "tegula.hw.wait_for_earlier";
}

void sink_behind(llvm::BasicBlock& block, llvm::BasicBlock::iterator wait) {
  llvm::SmallVector<llvm::Instruction*> ahead, in_order;
  llvm::DenseSet<const llvm::Instruction*> early, sunk;
  for (auto i = block.begin(); i != wait; ++i) ahead.push_back(&*i), early.insert(&*i);
  for (llvm::Instruction* i : llvm::reverse(ahead)) {
    const bool goes = llvm::all_of(i->users(), [&](const llvm::User* u) {
      const auto* user = llvm::cast<llvm::Instruction>(u);
      return user->getParent() == &block && !llvm::isa<llvm::PHINode>(user) &&
             (sunk.contains(user) || !early.contains(user));
    });
    if (goes && !stays(*i) && !i->use_empty() && !i->hasNUsesOrMore(kSeveral)) sunk.insert(i);
  }
  if (sunk.empty()) return;
  const std::function<void(llvm::Instruction*)> place = [&](llvm::Instruction* i) {
    for (llvm::Value* operand : i->operand_values())
      if (auto* from = llvm::dyn_cast<llvm::Instruction>(operand); from && sunk.erase(from)) place(from);
    in_order.push_back(i);
  };
  for (auto i = wait; i != block.end(); ++i) place(&*i);
  for (llvm::Instruction* i : in_order) i->moveBefore(block, block.end());
}

}  // namespace

void sink_behind_wait(llvm::Function& function) {
  for (llvm::BasicBlock& block : function)
    if (const auto wait = llvm::find_if(block, is_wait); wait != block.end()) sink_behind(block, wait);
}

}  // namespace tegula
