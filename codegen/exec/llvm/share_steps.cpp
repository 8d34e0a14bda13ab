#include "codegen/exec/llvm/share_steps.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tegula {

namespace {

// Fewer are as many registers either way.
constexpr size_t kManyPointers = 16;
// Where a loop carries fewer sums beside them, registers suffice, and an address that goes on by itself is there
// sooner: a product of 16 x 64 x 64 took 2 to 4 % longer with one pointer (H200), where one of 128 x 256 x 64 took half
// the time.
constexpr size_t kManySums = 32;

// A distance in elements of a type.
using Distance = std::pair<llvm::Value*, llvm::Type*>;

// A pointer that goes on by a step: it begins at a start and distances from there.
struct Pointer {
  llvm::PHINode* phi;
  llvm::GetElementPtrInst* next;
  llvm::Value* start;
  std::vector<Distance> distances;

  Distance step() const { return {next->getOperand(1), next->getSourceElementType()}; }
};

bool has_one_index(const llvm::GetElementPtrInst* gep) {
  return gep && gep->getNumIndices() == 1 && gep->getOperand(1)->getType()->isIntegerTy(64);
}

std::vector<Pointer> pointers_of(const llvm::Loop& loop) {
  std::vector<Pointer> found;
  llvm::BasicBlock *latch = loop.getLoopLatch(), *ahead = loop.getLoopPredecessor();
  const auto is_sum = [](const llvm::PHINode& phi) { return phi.getType()->isFloatingPointTy(); };
  if (!latch || !ahead || llvm::count_if(loop.getHeader()->phis(), is_sum) < long(kManySums)) return found;
  for (llvm::PHINode& phi : loop.getHeader()->phis()) {
    if (!phi.getType()->isPointerTy()) continue;
    auto* next = llvm::dyn_cast<llvm::GetElementPtrInst>(phi.getIncomingValueForBlock(latch));
    if (!has_one_index(next) || next->getPointerOperand() != &phi || !loop.isLoopInvariant(next->getOperand(1)))
      continue;
    Pointer p{&phi, next, phi.getIncomingValueForBlock(ahead), {}};
    while (auto* gep = llvm::dyn_cast<llvm::GetElementPtrInst>(p.start)) {
      if (!has_one_index(gep)) break;
      p.distances.emplace_back(gep->getOperand(1), gep->getSourceElementType());
      p.start = gep->getPointerOperand();
    }
    found.push_back(std::move(p));
  }
  return found;
}

// What all pointers have of distances.
std::vector<Distance> take_common(std::vector<Pointer>& pointers) {
  std::vector<Distance> common;
  const auto place = [](Pointer& p, Distance d) { return std::find(p.distances.begin(), p.distances.end(), d); };
  const std::vector<Distance> candidates = pointers.front().distances;
  for (Distance d : candidates) {
    if (!llvm::all_of(pointers, [&](Pointer& p) { return place(p, d) != p.distances.end(); })) continue;
    for (Pointer& p : pointers) p.distances.erase(place(p, d));
    common.push_back(d);
  }
  return common;
}

// Distances in elements of one type become one, made with `b`.
void add_up(llvm::IRBuilder<>& b, std::vector<Distance>& distances) {
  if (distances.empty()) return;
  std::vector<Distance> sums{distances.front()};
  for (size_t i = 1; i < distances.size(); ++i) {
    auto same = llvm::find_if(sums, [&](const Distance& sum) { return sum.second == distances[i].second; });
    if (same == sums.end())
      sums.push_back(distances[i]);
    else
      same->first = b.CreateAdd(same->first, distances[i].first);
  }
  distances = std::move(sums);
}

// Pointers with a start and a step in common become one that the loop carries.
void share(const llvm::Loop& loop, std::vector<Pointer>& pointers) {
  llvm::BasicBlock *header = loop.getHeader(), *latch = loop.getLoopLatch(), *ahead = loop.getLoopPredecessor();
  llvm::IRBuilder<> b(ahead->getTerminator());
  llvm::Value* first = pointers.front().start;
  for (auto [distance, unit] : take_common(pointers)) first = b.CreateGEP(unit, first, distance);
  for (Pointer& p : pointers) add_up(b, p.distances);
  b.SetInsertPoint(header, header->begin());
  llvm::PHINode* carried = b.CreatePHI(first->getType(), 2);
  carried->addIncoming(first, ahead);
  b.SetInsertPoint(latch->getTerminator());
  const auto [step, step_unit] = pointers.front().step();
  carried->addIncoming(b.CreateGEP(step_unit, carried, step), latch);
  b.SetInsertPoint(header, header->getFirstInsertionPt());
  for (const Pointer& p : pointers) {
    llvm::Value* now = carried;
    for (auto [distance, unit] : p.distances) now = b.CreateGEP(unit, now, distance);
    p.phi->replaceAllUsesWith(now);
  }
  for (const Pointer& p : pointers) {  // which may stand where the code above was added
    p.phi->eraseFromParent();
    if (p.next->use_empty()) p.next->eraseFromParent();
  }
}

bool share_steps(const llvm::Loop& loop) {
  llvm::MapVector<std::pair<llvm::Value*, Distance>, std::vector<Pointer>> alike;
  for (Pointer& p : pointers_of(loop)) alike[{p.start, p.step()}].push_back(std::move(p));
  bool changed = false;
  for (auto& [key, pointers] : alike) {
    if (pointers.size() < kManyPointers) continue;
    share(loop, pointers);
    changed = true;
  }
  return changed;
}

}  // namespace

bool share_steps(llvm::Function& function) {
  if (function.isDeclaration()) return false;
  const llvm::DominatorTree tree(function);
  const llvm::LoopInfo loops(tree);
  bool changed = false;
  for (const llvm::Loop* loop : loops.getLoopsInPreorder()) changed |= share_steps(*loop);
  return changed;
}

}  // namespace tegula
