#include "codegen/exec/emulator/warnings/taints.h"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <utility>

#include "codegen/exec/emulator/code/link_bodies.h"
#include "codegen/exec/emulator/warnings/warning_calls.h"
#include "codegen/lower/branch.h"
#include "codegen/lower/hw.h"

namespace tegula::emulator {

namespace {

using llvm::CallInst;
using llvm::Instruction;
using llvm::Value;

bool is_global_load(const Instruction& i) { return row_of(i).starts_with("ld_global_"); }
bool is_shared_load(const Instruction& i) {
  const llvm::StringRef row = row_of(i);
  return row.starts_with("ld_shared_") || row.starts_with("ld_cluster_") || row.starts_with("ldmatrix_");
}
bool is_shared_store(const Instruction& i) {
  const llvm::StringRef row = row_of(i);
  return row.starts_with("st_shared_") || row.starts_with("st_cluster_") || row.starts_with("st_async_") ||
         row.starts_with("stmatrix_");
}
/// Copies from global to shared memory, which hand taints on by themselves.
bool is_copy(const Instruction& i) {
  const llvm::StringRef row = row_of(i);
  return row.starts_with("cp_async_") || row.starts_with("bulk_copy_");
}
bool is_shuffle(const Instruction& i) { return row_of(i).starts_with("shfl_"); }

/// Of a table, by functions that look their results up.
bool is_looked_up(const Instruction& i) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(&i);
  const auto* table =
      load ? llvm::dyn_cast<llvm::GlobalVariable>(llvm::getUnderlyingObject(load->getPointerOperand())) : nullptr;
  return table && table->isConstant();
}

bool is_pure(const Instruction& i) {
  if (is_looked_up(i)) return true;
  if (i.isTerminator() || i.mayReadOrWriteMemory()) return false;
  const auto* call = llvm::dyn_cast<CallInst>(&i);
  return !call || !call->isConvergent();
}

/// An instruction of a product of matrices, or a wait for one.
struct Product {
  unsigned fragment = 0;             ///< how many of its arguments, from the first one on, are A in registers
  unsigned first_sum = 0, sums = 0;  ///< arguments, each of which one of its results replaces
  Value* accumulates = nullptr;      ///< whether they are; null: yes
  bool multiplies = false;           ///< it is no wait
  bool sums_are_packed = false;      ///< two neighbours of a row in 32 bits, or it is not known

  /// Of A in shared memory.
  bool reads_rows() const { return multiplies && fragment == 0; }
  /// Which of the lane's two rows a result is of; the registers of A are of each in turn.
  unsigned row_of_sum(unsigned n) const { return n / 2 % 2; }
};

std::optional<Product> product_of(const Instruction& i) {
  if (const llvm::StringRef row = row_of(i); !row.starts_with("mma_") && !row.starts_with("wgmma_")) return {};
  const auto& call = llvm::cast<CallInst>(i);
  const std::string& body = lower::hw_of_function(call.getCalledFunction()->getName().str())->body;
  if (!i.getType()->isStructTy()) return {};  // a fence, a commit
  Product product;
  product.sums = i.getType()->getStructNumElements();
  if (body.starts_with("wgmma_wait_")) return product;
  product.multiplies = true;
  product.sums_are_packed = i.getType()->getStructElementType(0)->isIntegerTy() && body != "mma_i32";
  unsigned first_b = 4;
  if (body.starts_with("wgmma_")) {
    for (first_b = 0; !call.getArgOperand(first_b)->getType()->isIntegerTy(64);) ++first_b;
    for (product.first_sum = first_b; call.getArgOperand(product.first_sum)->getType()->isIntegerTy(64);)
      ++product.first_sum;
    product.accumulates = call.getArgOperand(product.first_sum + product.sums);
  } else {
    product.first_sum = 6;
  }
  if (!body.starts_with("wgmma_ss_")) product.fragment = first_b;
  return product;
}

/// Whether a taint of the operand goes to the instruction's result, if any, and is not used there.
bool hands_on(const llvm::Use& operand) {
  const auto& i = *llvm::cast<Instruction>(operand.getUser());
  if (i.hasMetadata(lower::kSameValues)) return true;
  if (const auto product = product_of(i)) {
    const unsigned n = operand.getOperandNo();
    return n < product->fragment || (n >= product->first_sum && n - product->first_sum < product->sums);
  }
  if (is_global_load(i)) return operand.getOperandNo() > 0 && !operand->getType()->isIntegerTy(1);
  // What a thread looks up with it, alone.
  if (row_of(i).starts_with("ld_shared_")) return true;
  return is_shuffle(i) || is_pure(i);
}

/// Whether a taint of the operand goes to shared memory: behind an address, and ahead of what says whether.
bool is_stored_to_shared(const llvm::Use& operand) {
  const auto& i = *llvm::cast<Instruction>(operand.getUser());
  if (!is_shared_store(i) || operand->getType()->isIntegerTy(1)) return false;
  const unsigned n = operand.getOperandNo(), site = llvm::cast<CallInst>(i).arg_size() - 1;
  return row_of(i).starts_with("st_async_") ? n == 1 : n > 0 && n < site;
}

/// Where both ways from the end of a block meet again, if nothing is done on them but computed: the branch is a choice
/// then. Null: it is none.
llvm::BasicBlock* meeting_behind(const Instruction& end) {
  const auto* branch = llvm::dyn_cast<llvm::BranchInst>(&end);
  if (!branch || !branch->isConditional()) return nullptr;
  auto behind = [&](const llvm::BasicBlock* way) -> const llvm::BasicBlock* {
    const bool computes = way->getSinglePredecessor() == end.getParent() &&
                          std::all_of(way->begin(), std::prev(way->end()), [](const auto& i) { return is_pure(i); });
    return computes ? way->getSingleSuccessor() : nullptr;
  };
  llvm::BasicBlock *first = branch->getSuccessor(0), *second = branch->getSuccessor(1), *meeting = nullptr;
  if (behind(first) && behind(first) == behind(second)) meeting = first->getSingleSuccessor();
  if (behind(first) == second) meeting = second;
  if (behind(second) == first) meeting = first;
  return meeting && meeting->hasNPredecessors(2) ? meeting : nullptr;
}

/// Where an i1 as operand is false, nothing is done.
bool has_predicate(const Instruction& i) {
  const llvm::StringRef row = row_of(i);
  return !row.empty() && !row.starts_with("wgmma_");
}

}  // namespace

Taints::Taints(llvm::Module& module) : module_(module) {
  for (llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    functions_.push_back(&f);
    for (Instruction& i : llvm::instructions(f)) {
      own_.insert(&i);
      const auto product = product_of(i);
      if (is_shared_load(i) || (product && product->reads_rows())) shared_loads_.push_back(&i);
    }
  }
  llvm::Type *i32 = llvm::Type::getInt32Ty(module.getContext()), *none = llvm::Type::getVoidTy(module.getContext());
  loaded_ = module.getOrInsertFunction(kLoadedTaintName, llvm::FunctionType::get(i32, {i32, i32}, false));
  stored_ = module.getOrInsertFunction(kStoredTaintName, llvm::FunctionType::get(none, {i32, i32, i32}, false));
  used_ = module.getOrInsertFunction(kUseTaintName, llvm::FunctionType::get(none, {i32}, false));
}

void Taints::run() {
  find_tainted();
  for (llvm::Function* f : functions_) run(*f);
}

// ---- Which values may have a taint

void Taints::taint(Instruction& i) {
  if (own_.contains(&i) && tainted_.insert(&i).second) pending_.push_back(&i);
}

void Taints::taint_shared() {
  if (std::exchange(shared_is_tainted_, true)) return;
  for (Instruction* load : shared_loads_) taint(*load);
}

void Taints::find_tainted() {
  for (llvm::Function* f : functions_)
    for (Instruction& i : llvm::instructions(*f)) {
      if (is_global_load(i) || sources_.contains(&i)) taint(i);
      if (is_copy(i)) taint_shared();
      if (llvm::BasicBlock* meeting = meeting_behind(i); meeting && !i.hasMetadata(lower::kSameValues))
        choices_[meeting] = &i;
    }
  while (!pending_.empty()) {
    Instruction& i = *pending_.back();
    pending_.pop_back();
    for (const llvm::Use& use : i.uses()) {
      auto& user = *llvm::cast<Instruction>(use.getUser());
      if (is_stored_to_shared(use))
        taint_shared();
      else if (hands_on(use))
        taint(user);
      else if (llvm::BasicBlock* meeting = meeting_behind(user))
        for (llvm::PHINode& phi : meeting->phis()) taint(phi);
    }
  }
}

// ---- Code

void Taints::run(llvm::Function& f) {
  for (llvm::BasicBlock* block : llvm::ReversePostOrderTraversal<llvm::Function*>(&f)) {
    std::vector<Instruction*> all;
    for (Instruction& i : *block)
      if (own_.contains(&i)) all.push_back(&i);
    Instruction* first = *llvm::find_if(all, [](Instruction* i) { return !llvm::isa<llvm::PHINode>(i); });
    for (size_t n = 0; n < all.size(); ++n)
      visit(*all[n], llvm::isa<llvm::PHINode>(all[n]) ? *first : *all[std::min(n + 1, all.size() - 1)]);
  }
  for (llvm::BasicBlock& block : f) {
    Value* chosen = nullptr;
    if (Instruction* choice = choices_.lookup(&block)) {
      llvm::IRBuilder<> b(choice);
      chosen = TaintCode(b).all_of(of(llvm::cast<llvm::BranchInst>(choice)->getCondition()));
    }
    for (llvm::PHINode& phi : block.phis()) end_phi(phi, chosen);
  }
}

/// `next`: the kernel's instruction behind it; checks stand between them.
void Taints::visit(Instruction& i, Instruction& next) {
  const auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
  if (intrinsic && intrinsic->isAssumeLikeIntrinsic()) return;
  use(i);
  if (is_shared_store(i)) store(llvm::cast<CallInst>(i));
  if (product_of(i)) tell_rows(llvm::cast<CallInst>(i));
  if (!tainted_.contains(&i)) return;
  llvm::IRBuilder<> b(&next);
  TaintParts parts = result_of(b, i);
  if (const auto known = sources_.find(&i); known != sources_.end())
    for (Value* taint : known->second)
      for (Value*& part : parts) part = TaintCode(b).join(part, taint);
  parts_[&i] = std::move(parts);
}

TaintParts Taints::of(Value* x) const {
  const auto known = parts_.find(x);
  return known != parts_.end() ? known->second : TaintParts(part_bits(*x->getType()).size(), nullptr);
}

TaintParts Taints::result_of(llvm::IRBuilder<>& b, Instruction& i) {
  if (auto* phi = llvm::dyn_cast<llvm::PHINode>(&i)) return begin_phi(*phi);
  if (is_global_load(i) || is_shared_load(i)) return of_load(b, llvm::cast<CallInst>(i));
  if (is_shuffle(i)) return of_shuffle(b, llvm::cast<CallInst>(i));
  if (product_of(i)) return of_product(b, llvm::cast<CallInst>(i));
  if (is_pure(i)) return TaintCode(b).computed(i, [this](Value* x) { return of(x); });
  return of(&i);  // an atomic operation, whose result a check has named
}

/// Those of the incoming values are added when all are known.
TaintParts Taints::begin_phi(llvm::PHINode& phi) {
  llvm::IRBuilder<> b(&phi);
  TaintParts parts;
  for (size_t n = part_bits(*phi.getType()).size(); n > 0; --n)
    parts.push_back(b.CreatePHI(b.getInt32Ty(), phi.getNumIncomingValues()));
  return phis_[&phi] = parts;
}

void Taints::end_phi(llvm::PHINode& phi, Value* chosen) {
  const auto beside = phis_.find(&phi);
  if (beside == phis_.end()) return;
  for (unsigned n = 0; n < phi.getNumIncomingValues(); ++n) {
    const TaintParts incoming = of(phi.getIncomingValue(n));
    for (size_t part = 0; part < incoming.size(); ++part) {
      llvm::IRBuilder<> b(phi.getIncomingBlock(n)->getTerminator());
      Value* taint = TaintCode(b).join(incoming[part], chosen);
      llvm::cast<llvm::PHINode>(beside->second[part])
          ->addIncoming(taint ? taint : b.getInt32(0), phi.getIncomingBlock(n));
    }
  }
}

/// Whether the mask keeps or drops pairs of bytes.
static bool is_of_halves(uint64_t mask) {
  for (; mask; mask >>= 16)
    if (mask & 0xffff && (mask & 0xffff) != 0xffff) return false;
  return true;
}

/// The bytes that users take of a loaded word together; 0: all.
static unsigned bytes_taken_together(const Value& word) {
  unsigned least = 0;
  auto take = [&](unsigned bits) {
    const unsigned bytes = bits % 16 ? 1 : 2;
    least = least ? std::min(least, bytes) : bytes;
  };
  for (const llvm::User* user : word.users()) {
    const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(user);
    const auto* by = op ? llvm::dyn_cast<llvm::ConstantInt>(op->getOperand(1)) : nullptr;
    if (llvm::isa<llvm::TruncInst, llvm::BitCastInst>(user) && user->getType()->getScalarSizeInBits() < 32)
      take(user->getType()->getScalarSizeInBits());
    else if (by && op->isShift())
      take(unsigned(by->getZExtValue()));
    else if (by && op->getOpcode() == Instruction::And)
      take(is_of_halves(by->getZExtValue()) ? 16 : 8);
    else if (llvm::isa<llvm::PHINode, llvm::SelectInst>(user) || row_of(*user) == "select_bytes")
      take(8);
  }
  return least;
}

TaintParts Taints::of_load(llvm::IRBuilder<>& b, CallInst& load) {
  TaintCode code(b);
  TaintParts parts;
  auto add = [&](const llvm::Type& type, unsigned together) {
    const unsigned first = unsigned(parts.size()), count = unsigned(part_bits(type).size());
    if (!together) together = count;
    for (unsigned n = 0; n < count; ++n)
      parts.push_back(n % together ? parts.back()
                                   : b.CreateCall(loaded_, {b.getInt32(first + n), b.getInt32(together)}));
  };
  if (!load.getType()->isStructTy()) add(*load.getType(), bytes_taken_together(load));
  for (unsigned field = 0; load.getType()->isStructTy() && field < load.getType()->getStructNumElements(); ++field) {
    unsigned together = 0;
    for (const llvm::User* user : load.users())
      if (const auto* word = llvm::dyn_cast<llvm::ExtractValueInst>(user); word && word->getIndices()[0] == field)
        if (const unsigned bytes = bytes_taken_together(*word)) together = together ? std::min(together, bytes) : bytes;
    add(*load.getType()->getStructElementType(field), together);
  }
  if (is_shared_load(load)) {
    Value* address = row_of(load).starts_with("ld_shared_") ? code.all_of(of(load.getArgOperand(0))) : nullptr;
    for (Value*& part : parts) part = code.join(part, address);
    return parts;
  }
  TaintParts other;
  Value* predicate = nullptr;
  for (const llvm::Use& argument : load.args()) {
    if (argument->getType()->isIntegerTy(1)) predicate = argument;
    if (!predicate && hands_on(argument)) other.append(of(argument));
  }
  for (size_t n = 0; n < parts.size(); ++n) parts[n] = code.choose(predicate, parts[n], other[n]);
  return parts;
}

TaintParts Taints::of_shuffle(llvm::IRBuilder<>& b, CallInst& shuffle) {
  b.SetCurrentDebugLocation(shuffle.getDebugLoc());
  const bool by_lane = row_of(shuffle).starts_with("shfl_idx_");
  llvm::Function* row = lower::declare_hw(module_, *lower::find_hw(by_lane ? "shfl_idx_b32" : "shfl_bfly_b32"));
  TaintCode code(b);
  Value* lane = code.all_of(of(shuffle.getArgOperand(1)));
  TaintParts parts = of(shuffle.getArgOperand(0));
  llvm::DenseMap<Value*, Value*> handed;
  for (Value*& part : parts) {
    if (part && !handed.contains(part)) handed[part] = b.CreateCall(row, {part, shuffle.getArgOperand(1)});
    part = code.join(part ? handed[part] : nullptr, lane);
  }
  return parts;
}

/// Of what the product takes in registers: bytes 0 and 1 of a store stand for the lane's two rows (row_taints.h).
void Taints::tell_rows(CallInst& call) {
  llvm::IRBuilder<> b(&call);
  for (unsigned row = 0; row < 2; ++row) {
    TaintParts parts;
    for (unsigned n = row; n < product_of(call)->fragment; n += 2) parts.append(of(call.getArgOperand(n)));
    if (Value* taint = TaintCode(b).all_of(parts)) b.CreateCall(stored_, {b.getInt32(row), b.getInt32(1), taint});
  }
}

/// A row of the sums follows from the same row of A, and each sum from what it was. B is used.
TaintParts Taints::of_product(llvm::IRBuilder<>& b, CallInst& call) {
  const Product product = *product_of(call);
  TaintCode code(b);
  bool is_told = product.reads_rows() && shared_is_tainted_;
  for (unsigned n = 0; n < product.fragment; ++n)
    is_told |= llvm::any_of(of(call.getArgOperand(n)), [](Value* part) { return part != nullptr; });
  Value* rows[2] = {};
  for (unsigned row = 0; row < 2 && is_told; ++row) rows[row] = b.CreateCall(loaded_, {b.getInt32(row), b.getInt32(1)});
  if (product.sums_are_packed) rows[0] = rows[1] = code.join(rows[0], rows[1]);
  TaintParts out;
  for (unsigned n = 0; n < product.sums; ++n)
    for (Value* part : of(call.getArgOperand(product.first_sum + n))) {
      if (part && product.accumulates) part = code.choose(product.accumulates, part, nullptr);
      out.push_back(code.join(part, rows[product.row_of_sum(n)]));
    }
  return out;
}

void Taints::use(Instruction& i) {
  if (meeting_behind(i)) return;
  llvm::IRBuilder<> b(&i);
  TaintCode code(b);
  const bool predicated = has_predicate(i);
  const llvm::User::op_range operands = operands_of(i);
  TaintParts values, predicates;
  for (const llvm::Use& operand : operands) {
    if (hands_on(operand) || is_stored_to_shared(operand)) continue;
    (predicated && operand->getType()->isIntegerTy(1) ? predicates : values).append(of(operand));
  }
  Value* used = code.all_of(values);
  for (const llvm::Use& operand : operands)
    if (used && predicated && operand->getType()->isIntegerTy(1)) used = code.choose(operand, used, nullptr);
  predicates.push_back(used);
  if (Value* any = code.all_of(predicates)) b.CreateCall(used_, {any});
}

/// By each byte of what is stored.
void Taints::store(CallInst& i) {
  TaintParts parts;
  Value* predicate = nullptr;
  for (const llvm::Use& argument : i.args()) {
    if (argument->getType()->isIntegerTy(1)) predicate = argument;
    if (is_stored_to_shared(argument)) parts.append(of(argument));
  }
  llvm::IRBuilder<> b(&i);
  for (size_t n = 0; n < parts.size();) {
    size_t end = n + 1;
    while (end < parts.size() && parts[end] == parts[n]) ++end;
    if (parts[n]) {
      Value* taint = predicate ? TaintCode(b).choose(predicate, parts[n], nullptr) : parts[n];
      b.CreateCall(stored_, {b.getInt32(unsigned(n)), b.getInt32(unsigned(end - n)), taint});
    }
    n = end;
  }
}

}  // namespace tegula::emulator
