#include "codegen/exec/emulator/warnings/result_uses.h"

#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PatternMatch.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "codegen/exec/emulator/code/link_bodies.h"
#include "codegen/lower/hw.h"

namespace tegula::emulator {

namespace {

using llvm::Instruction;
using llvm::Value;
using Conditions = decltype(ResultUse::conditions);

class Uses {
 public:
  Uses(Instruction& result, const Value* bounded, const llvm::DominatorTree& order)
      : result_(result), bounded_(bounded), order_(order) {}

  // Under few conditions first: what is reached under more of them by another way is no use of its own then.
  std::vector<ResultUse> all() {
    follow(result_, {});
    while (!certain_ && !pending_.empty()) {
      auto fewest = pending_.begin();
      const Reached next = std::move(fewest->second.back());
      fewest->second.pop_back();
      if (fewest->second.empty()) pending_.erase(fewest);
      visit_uses(next);
    }
    if (certain_) return {{&result_, {}}};
    return std::move(uses_);
  }

 private:
  static constexpr int kMostSteps = 512;
  static constexpr size_t kMostUses = 64;

  /// A value that follows from the result, and under which conditions.
  struct Reached {
    Instruction* value;
    Conditions conditions;
  };

  void follow(Instruction& value, const Conditions& conditions) {
    pending_[conditions.size()].push_back({&value, conditions});
  }

  void visit_uses(const Reached& reached) {
    std::vector<Conditions>& known = visited_[reached.value];
    if (std::any_of(known.begin(), known.end(), [&](const Conditions& fewer) {
          return std::all_of(fewer.begin(), fewer.end(),
                             [&](const auto& condition) { return llvm::is_contained(reached.conditions, condition); });
        }))
      return;
    known.push_back(reached.conditions);
    for (const llvm::Use& use : reached.value->uses()) {
      if (certain_) return;
      if (++steps_ > kMostSteps) return void(certain_ = true);
      visit(use, reached.conditions);
    }
  }

  void visit(const llvm::Use& use, const Conditions& conditions) {
    auto& user = *llvm::cast<Instruction>(use.getUser());
    if (auto* phi = llvm::dyn_cast<llvm::PHINode>(&user)) return visit_phi(*phi, use, conditions);
    if (auto* select = llvm::dyn_cast<llvm::SelectInst>(&user)) {
      Conditions more = conditions;
      if (use.getOperandNo() > 0) require(more, select->getCondition(), use.getOperandNo() == 1);
      return follow(user, more);
    }
    if (const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(&user); op && user.getType()->isIntegerTy(1)) {
      Conditions more = conditions;
      Value* other = op->getOperand(1 - use.getOperandNo());
      if (op->getOpcode() == Instruction::And) require(more, other, true);
      if (op->getOpcode() == Instruction::Or) require(more, other, false);
      return follow(user, more);
    }
    if (auto* call = llvm::dyn_cast<llvm::CallInst>(&user)) return visit_call(*call, use, conditions);
    if (user.isTerminator() || user.mayReadOrWriteMemory()) return add(user, conditions);
    follow(user, conditions);
  }

  /// It is handed on where the block's end goes that way, and of what a loop carries where an iteration begins.
  void visit_phi(llvm::PHINode& phi, const llvm::Use& use, const Conditions& conditions) {
    if (phi.use_empty()) return;
    llvm::BasicBlock* from = phi.getIncomingBlock(use);
    Instruction& end = *from->getTerminator();
    Conditions more = conditions;
    if (const auto* branch = as_choice(end))
      require(more, branch->getCondition(), branch->getSuccessor(0) == phi.getParent());
    llvm::BasicBlock* way = only_way_to_users(phi);
    if (way && uses_.size() < kMostUses)
      uses_.push_back({&*way->getFirstInsertionPt(), more, &phi, from});
    else
      add(end, more);
  }

  static llvm::BranchInst* as_choice(Instruction& end) {
    auto* branch = llvm::dyn_cast<llvm::BranchInst>(&end);
    const bool chooses = branch && branch->isConditional() && branch->getSuccessor(0) != branch->getSuccessor(1);
    return chooses ? branch : nullptr;
  }

  /// The block behind that of the number which all its users lie behind; null: there is none.
  llvm::BasicBlock* only_way_to_users(llvm::PHINode& phi) const {
    llvm::BranchInst* branch = as_choice(*phi.getParent()->getTerminator());
    if (!branch) return nullptr;
    for (llvm::BasicBlock* way : branch->successors()) {
      const bool leads_only_there = way->getSinglePredecessor() == phi.getParent();
      if (leads_only_there && std::all_of(phi.use_begin(), phi.use_end(), [&](const llvm::Use& use) {
            const auto* to = llvm::dyn_cast<llvm::PHINode>(use.getUser());
            return order_.dominates(
                way, to ? to->getIncomingBlock(use) : llvm::cast<Instruction>(use.getUser())->getParent());
          }))
        return way;
    }
    return nullptr;
  }

  void visit_call(llvm::CallInst& call, const llvm::Use& use, const Conditions& conditions) {
    const llvm::Function* callee = call.getCalledFunction();
    if (callee && callee->getName().starts_with(kBodyPrefix)) return;  // a check
    if (!call.mayReadOrWriteMemory() && !call.isConvergent()) return follow(call, conditions);
    if (!callee || !callee->getName().starts_with(lower::kHwPrefix)) return add(call, conditions);
    const llvm::StringRef row = callee->getName().drop_front(lower::kHwPrefix.size());
    // What a thread looks up with it, alone.
    const bool is_place =
        row.starts_with("ld_shared") ? use.getOperandNo() == 0 : row.starts_with("shfl_idx") && use.getOperandNo() == 1;
    if (is_place) return follow(call, conditions);
    // A load gives the operands between its pointer and its predicate where that does not hold.
    const bool other = row.starts_with("ld_global") && use.getOperandNo() > 0 && !use->getType()->isIntegerTy(1);
    Conditions more = conditions;
    for (Value* predicate : call.args())
      if (predicate->getType()->isIntegerTy(1) && predicate != use.get()) require(more, predicate, !other);
    if (other) return follow(call, more);
    add(call, more);
  }

  /// Adds that `condition`, or each of those that it joins, is so.
  void require(Conditions& conditions, Value* condition, bool holds) {
    using namespace llvm::PatternMatch;
    Value *left, *right;
    if (holds ? match(condition, m_LogicalAnd(m_Value(left), m_Value(right)))
              : match(condition, m_LogicalOr(m_Value(left), m_Value(right)))) {
      require(conditions, left, holds);
      return require(conditions, right, holds);
    }
    if (condition->getType()->isVectorTy() || match(condition, m_SpecificInt(holds))) return;
    if (const auto* compared = llvm::dyn_cast<llvm::ICmpInst>(condition))
      if (compared->isUnsigned() && compared->getOperand(0) == bounded_ &&
          llvm::isa<llvm::Constant>(compared->getOperand(1)))
        return;
    conditions.push_back({condition, holds});
  }

  void add(Instruction& at, const Conditions& conditions) {
    if ((conditions.empty() && at.getParent() == result_.getParent()) || uses_.size() == kMostUses)
      certain_ = true;
    else
      uses_.push_back({&at, conditions});
  }

  Instruction& result_;
  const Value* bounded_;
  const llvm::DominatorTree& order_;
  int steps_ = 0;
  bool certain_ = false;
  std::map<size_t, std::vector<Reached>> pending_;  ///< by how many conditions
  std::unordered_map<const Instruction*, std::vector<Conditions>> visited_;
  std::vector<ResultUse> uses_;
};

}  // namespace

std::vector<ResultUse> uses_of_result(Instruction& result, const Value* bounded, const llvm::DominatorTree& order) {
  return Uses(result, bounded, order).all();
}

}  // namespace tegula::emulator
