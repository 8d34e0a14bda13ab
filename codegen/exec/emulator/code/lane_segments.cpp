#include "codegen/exec/emulator/code/lane_segments.h"

#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/IR/IntrinsicInst.h>

#include <utility>

#include "codegen/exec/emulator/code/link_bodies.h"
#include "codegen/exec/emulator/launch/scheduler.h"
#include "codegen/lower/hw.h"
#include "codegen/lower/llvm_headers.h"

namespace tegula::emulator {

namespace {

using llvm::CallInst;
using llvm::Instruction;
using llvm::Type;
using llvm::Value;

/// Of a segment: quickly made code keeps the vector of each on the stack of the lane that computes.
constexpr size_t kMostMembers = 64;

const lower::HwInfo* hw_of(const Value* value) {
  const auto* call = llvm::dyn_cast<CallInst>(value);
  const llvm::Function* callee = call ? call->getCalledFunction() : nullptr;
  if (!callee || !callee->getName().starts_with(lower::kHwPrefix)) return nullptr;
  std::string modifiers;
  return lower::hw_of_function(callee->getName().str(), &modifiers);
}

bool is_shuffle(const Value* value) {
  const lower::HwInfo* info = hw_of(value);
  return info && (info->name.starts_with("shfl_bfly_") || info->name.starts_with("shfl_idx_"));
}

/// Types whose values lanes can hand over.
bool travels(const Type* type) {
  if (type->isIntegerTy())
    return type->isIntegerTy(1) || type->isIntegerTy(8) || type->isIntegerTy(16) || type->isIntegerTy(32) ||
           type->isIntegerTy(64);
  return type->isHalfTy() || type->isBFloatTy() || type->isFloatTy() || type->isDoubleTy();
}

/// Bytes of a lane's value among those of its warp; a power of two.
unsigned bytes_of(const Type* type) { return (unsigned(type->getPrimitiveSizeInBits()) + 7) / 8; }

/// Vectors of these are computed as the numbers are; those of 16 bits, and conversions to integers, may not be.
bool exact(const Type* type) { return type->isIntegerTy() || type->isFloatTy() || type->isDoubleTy(); }

/// Its results and operands have one type, of which it exists as vectors.
bool is_plain_intrinsic(const Instruction& i) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
  if (!call || !exact(i.getType())) return false;
  switch (call->getIntrinsicID()) {
    case llvm::Intrinsic::fma:
    case llvm::Intrinsic::fabs:
    case llvm::Intrinsic::minnum:
    case llvm::Intrinsic::maxnum:
    case llvm::Intrinsic::minimum:
    case llvm::Intrinsic::maximum:
    case llvm::Intrinsic::smin:
    case llvm::Intrinsic::smax:
    case llvm::Intrinsic::umin:
    case llvm::Intrinsic::umax:
      return true;
    default:
      return false;
  }
}

/// A function of its operands alone, of which there are vector instructions: what the lane computes another may compute
/// for it.
bool only_computes(const Instruction& i) {
  if (llvm::isa<CallInst>(i)) return is_plain_intrinsic(i);
  if (llvm::isa<llvm::FPToSIInst, llvm::FPToUIInst>(i) || !travels(i.getType()) || !exact(i.getType())) return false;
  if (i.isIntDivRem() || i.getOpcode() == Instruction::FRem) return false;
  for (const Value* operand : i.operands())
    if (!travels(operand->getType()) || !exact(operand->getType())) return false;
  return llvm::isa<llvm::BinaryOperator, llvm::UnaryOperator, llvm::CastInst, llvm::CmpInst, llvm::SelectInst>(i);
}

/// Shuffles of a block, the first of which stands where all of them are to be done, and what they need of each other.
struct Segment {
  llvm::SetVector<Instruction*> members;  ///< shuffles and what is computed between them, operands first
  llvm::SetVector<Value*> inputs;         ///< from before the first shuffle
  /// Of the block, behind the first shuffle. (LLVM numbers a block anew to tell an order after each change of it.)
  llvm::DenseSet<const Instruction*> behind;
  size_t shuffles = 0;

  Instruction* first() const { return members.front(); }

  /// The values that others than members use.
  llvm::SmallVector<Instruction*> results() const {
    auto goes_out = [&](Instruction* member) {
      return llvm::any_of(member->users(),
                          [&](llvm::User* user) { return !members.contains(llvm::cast<Instruction>(user)); });
    };
    llvm::SmallVector<Instruction*> results;
    for (Instruction* member : members)
      if (goes_out(member)) results.push_back(member);
    return results;
  }

  bool fits() const {
    size_t bytes = 0;
    for (const Value* input : inputs) bytes += kLanes * bytes_of(input->getType());
    for (const Instruction* result : results()) bytes += kLanes * bytes_of(result->getType());
    return bytes <= sizeof(Exchange::lanes) && members.size() <= kMostMembers;
  }

  /// Adds what the value is computed from; false if it cannot be had where the first shuffle is.
  bool add_source(Value* value) {
    if (llvm::isa<llvm::Constant>(value)) return true;
    auto* i = llvm::dyn_cast<Instruction>(value);
    if (i && members.contains(i)) return true;
    if (!i || !behind.contains(i)) {
      inputs.insert(value);
      return travels(value->getType());
    }
    if (!only_computes(*i) || members.size() >= kMostMembers) return false;
    auto operands = llvm::isa<CallInst>(i) ? llvm::cast<CallInst>(i)->args() : i->operands();
    for (Value* operand : operands)
      if (!add_source(operand)) return false;
    members.insert(i);
    return true;
  }

  /// False, and all is as it was, if the shuffle cannot be one of them.
  bool add(CallInst& shuffle) {
    const size_t known_members = members.size(), known_inputs = inputs.size();
    if (members.empty()) members.insert(&shuffle);
    bool added = llvm::all_of(shuffle.args(), [&](Value* operand) { return add_source(operand); });
    if (added) members.insert(&shuffle);
    if (added && fits()) return ++shuffles, true;
    while (members.size() > known_members) members.pop_back();
    while (inputs.size() > known_inputs) inputs.pop_back();
    return false;
  }
};

/// Writes the code of one segment.
class SegmentCode {
 public:
  SegmentCode(llvm::Module& module, const Segment& segment)
      : context_(module.getContext()), module_(module), segment_(segment), results_(segment.results()) {
    uint32_t offset = 0;
    auto place = [&](Value* value) {
      offsets_[value] = offset;
      offset += kLanes * bytes_of(value->getType());
    };
    for (Value* input : segment.inputs) place(input);
    for (Instruction* result : results_) place(result);
  }

  /// The lane's part, in place of the members.
  void replace_members(uint32_t place) {
    llvm::Function* all_lanes = function_of_all_lanes();
    llvm::IRBuilder<> b(segment_.first());
    Type* pointer = b.getPtrTy();
    auto function = [&](const char* name, Type* result, llvm::ArrayRef<Type*> args) {
      llvm::FunctionCallee callee = module_.getOrInsertFunction(name, llvm::FunctionType::get(result, args, false));
      llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
      return callee;
    };
    Value* thread = b.CreateCall(function("emu_thread_id", b.getInt32Ty(), {}));
    Value* lane = b.CreateZExt(b.CreateAnd(thread, kLanes - 1), b.getInt64Ty());
    Value* values = b.CreateCall(function(kLaneValuesName, pointer, {}));
    auto own = [&](Value* value) {
      Value* offset =
          b.CreateAdd(b.CreateMul(lane, b.getInt64(bytes_of(value->getType()))), b.getInt64(offsets_[value]));
      return b.CreateGEP(b.getInt8Ty(), values, offset);
    };
    for (Value* input : segment_.inputs) b.CreateStore(input, own(input));
    b.CreateCall(function(kRunSegmentName, b.getVoidTy(), {pointer, b.getInt32Ty()}), {all_lanes, b.getInt32(place)});
    for (Instruction* result : results_) {
      Value* loaded = b.CreateLoad(result->getType(), own(result));
      result->replaceUsesWithIf(loaded, [&](const llvm::Use& use) {
        return !segment_.members.contains(llvm::cast<Instruction>(use.getUser()));
      });
    }
    for (Instruction* member : segment_.members) member->replaceAllUsesWith(llvm::PoisonValue::get(member->getType()));
    for (Instruction* member : segment_.members) member->eraseFromParent();
  }

 private:
  static llvm::FixedVectorType* vector_of(Type* type) { return llvm::FixedVectorType::get(type, kLanes); }

  /// void f(ptr values): the members for all lanes.
  llvm::Function* function_of_all_lanes() {
    auto* type = llvm::FunctionType::get(Type::getVoidTy(context_), {llvm::PointerType::get(context_, 0)}, false);
    auto* f = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, kSegmentName, module_);
    f->setDoesNotThrow();
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context_, "", f));
    auto at = [&](Value* value) { return b.CreateConstInBoundsGEP1_32(b.getInt8Ty(), f->getArg(0), offsets_[value]); };
    for (Value* input : segment_.inputs) {
      Value* loaded = b.CreateAlignedLoad(in_memory(input->getType()), at(input), llvm::Align(kLanes));
      vectors_[input] = input->getType()->isIntegerTy(1) ? b.CreateTrunc(loaded, vector_of(input->getType())) : loaded;
    }
    for (Instruction* member : segment_.members)
      vectors_[member] = is_shuffle(member) ? shuffle(b, llvm::cast<CallInst>(*member)) : compute(b, *member);
    for (Instruction* result : results_) {
      Value* all = vectors_[result];
      if (result->getType()->isIntegerTy(1)) all = b.CreateZExt(all, in_memory(result->getType()));
      b.CreateAlignedStore(all, at(result), llvm::Align(kLanes));
    }
    b.CreateRetVoid();
    return f;
  }

  /// A bit is a byte there.
  llvm::FixedVectorType* in_memory(Type* type) {
    return vector_of(type->isIntegerTy(1) ? Type::getInt8Ty(context_) : type);
  }

  Value* vector(llvm::IRBuilder<>& b, Value* value) {
    auto known = vectors_.find(value);
    return known != vectors_.end() ? known->second : b.CreateVectorSplat(kLanes, value);
  }

  Value* shuffle(llvm::IRBuilder<>& b, CallInst& call) {
    const bool butterfly = hw_of(&call)->name.starts_with("shfl_bfly_");
    Value* from = vector(b, call.getArgOperand(0));
    auto source = [&](uint32_t lane, uint32_t operand) { return (butterfly ? lane ^ operand : operand) % kLanes; };
    if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(1))) {
      llvm::SmallVector<int> sources;
      for (uint32_t lane = 0; lane < kLanes; ++lane)
        sources.push_back(int(source(lane, uint32_t(known->getZExtValue()))));
      return b.CreateShuffleVector(from, sources);
    }
    Value* sources = vector(b, call.getArgOperand(1));
    llvm::SmallVector<uint32_t> numbers;
    for (uint32_t lane = 0; lane < kLanes; ++lane) numbers.push_back(lane);
    if (butterfly) sources = b.CreateXor(sources, llvm::ConstantDataVector::get(context_, numbers));
    sources = b.CreateAnd(sources, b.CreateVectorSplat(kLanes, b.getInt32(kLanes - 1)));
    llvm::AllocaInst* array = array_of(b, from->getType());
    b.CreateStore(from, array);
    Value* addresses = b.CreateGEP(call.getType(), array, sources);
    return b.CreateMaskedGather(llvm::cast<llvm::VectorType>(from->getType()), addresses,
                                llvm::Align(bytes_of(call.getType())));
  }

  llvm::AllocaInst* array_of(llvm::IRBuilder<>& b, Type* type) {
    llvm::AllocaInst*& array = arrays_[type];
    if (!array) {
      llvm::BasicBlock& entry = b.GetInsertBlock()->getParent()->getEntryBlock();
      array = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(type);
    }
    return array;
  }

  Value* compute(llvm::IRBuilder<>& b, const Instruction& i) {
    llvm::SmallVector<Value*> operands;
    if (is_plain_intrinsic(i)) {
      for (Value* operand : llvm::cast<CallInst>(i).args()) operands.push_back(vector(b, operand));
      Value* result =
          b.CreateIntrinsic(llvm::cast<llvm::IntrinsicInst>(i).getIntrinsicID(), {vector_of(i.getType())}, operands);
      llvm::cast<Instruction>(result)->copyIRFlags(&i);
      return result;
    }
    for (Value* operand : i.operands()) operands.push_back(vector(b, operand));
    Value* result = nullptr;
    if (auto* cast = llvm::dyn_cast<llvm::CastInst>(&i))
      result = b.CreateCast(cast->getOpcode(), operands[0], vector_of(i.getType()));
    else if (auto* compare = llvm::dyn_cast<llvm::CmpInst>(&i))
      result = b.CreateCmp(compare->getPredicate(), operands[0], operands[1]);
    else if (llvm::isa<llvm::SelectInst>(i))
      result = b.CreateSelect(operands[0], operands[1], operands[2]);
    else if (llvm::isa<llvm::UnaryOperator>(i))
      result = b.CreateUnOp(llvm::Instruction::UnaryOps(i.getOpcode()), operands[0]);
    else
      result = b.CreateBinOp(llvm::Instruction::BinaryOps(i.getOpcode()), operands[0], operands[1]);
    if (auto* made = llvm::dyn_cast<Instruction>(result)) made->copyIRFlags(&i);
    return result;
  }

  llvm::LLVMContext& context_;
  llvm::Module& module_;
  const Segment& segment_;
  const llvm::SmallVector<Instruction*> results_;
  std::unordered_map<Value*, uint32_t> offsets_;  ///< of the first lane's, among the values of the warp
  std::unordered_map<Value*, Value*> vectors_;
  std::unordered_map<Type*, llvm::AllocaInst*> arrays_;  ///< that shuffles by lane numbers read
};

/// Whether segments end there: what lanes do to memory, and other rendezvous, keep their order beside shuffles.
bool parts_segments(const Instruction& i) {
  if (const lower::HwInfo* info = hw_of(&i)) return info->effects != lower::Pure && !is_shuffle(&i);
  return i.mayReadOrWriteMemory() || i.mayThrow();
}

}  // namespace

void form_lane_segments(llvm::Module& module, JitKernel& kernel) {
  Segment now;
  auto end = [&] {
    const Segment segment = std::exchange(now, {});
    if (segment.shuffles < 2) return;
    const uint32_t place = uint32_t(kernel.places.size());
    kernel.places.push_back({hw_of(segment.first())->name, loc_of(*segment.first())});
    SegmentCode(module, segment).replace_members(place);
  };
  llvm::SmallVector<llvm::BasicBlock*> blocks;
  for (llvm::Function& f : module)
    for (llvm::BasicBlock& block : f) blocks.push_back(&block);
  for (llvm::BasicBlock* block : blocks) {
    for (Instruction& i : *block) {
      if (parts_segments(i)) end();
      if (!now.members.empty()) now.behind.insert(&i);
      if (!is_shuffle(&i)) continue;
      auto& shuffle = llvm::cast<CallInst>(i);
      if (now.add(shuffle)) continue;
      end();
      now.add(shuffle);
    }
    end();
  }
}

}  // namespace tegula::emulator
