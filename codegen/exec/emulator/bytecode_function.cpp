#include "codegen/exec/emulator/bytecode_function.h"

#include <algorithm>

namespace tegula::emulator::bytecode {

using llvm::Type;
using llvm::Value;

bool is_alias(const llvm::Instruction& i) {
  if (llvm::isa<llvm::FreezeInst, llvm::AddrSpaceCastInst>(i)) return true;
  if (!llvm::isa<llvm::CastInst>(i)) return false;
  const Type *from = i.getOperand(0)->getType(), *to = i.getType();
  if (from->isVectorTy() || to->isVectorTy()) {
    return llvm::isa<llvm::BitCastInst>(i) && !from->getScalarType()->isIntegerTy(1) &&
           !to->getScalarType()->isIntegerTy(1);
  }
  switch (i.getOpcode()) {
    case llvm::Instruction::BitCast:
    case llvm::Instruction::PtrToInt:
    case llvm::Instruction::Trunc:
      return bytes_of(kind_of(to)) <= bytes_of(kind_of(from)) && !to->isIntegerTy(1) && !odd_bits(to);
    case llvm::Instruction::IntToPtr:
      return from->isIntegerTy(64);
    case llvm::Instruction::ZExt:
      return bytes_of(kind_of(from)) == bytes_of(kind_of(to));
    default:
      return false;
  }
}

namespace {

/// How many instructions of its block read the value, those behind aliases included; none if others do.
std::optional<uint32_t> uses_in_block(const llvm::Instruction& i) {
  uint32_t uses = 0;
  for (const llvm::User* user : i.users()) {
    const auto* reader = llvm::cast<llvm::Instruction>(user);
    if (reader->getParent() != i.getParent() || llvm::isa<llvm::PHINode>(reader)) return std::nullopt;
    if (!is_alias(*reader)) {
      ++uses;
      continue;
    }
    const auto more = uses_in_block(*reader);
    if (!more) return std::nullopt;
    uses += *more;
  }
  return uses;
}

const Value* root_of(const Value* value) {
  while (const auto* i = llvm::dyn_cast<llvm::Instruction>(value)) {
    if (!is_alias(*i)) break;
    value = i->getOperand(0);
  }
  return value;
}

}  // namespace

FunctionCode::FunctionCode(ModuleMaker& module, const llvm::Function& from) : module_(module), frame_(module) {
  for (const llvm::Argument& argument : from.args()) {
    const int32_t at = frame_.allocate(bytes_of_value(argument.getType()));
    slots_[&argument] = at;
    function_.parameters.push_back(at);
  }
  if (!from.getReturnType()->isVoidTy()) function_.result = frame_.allocate(bytes_of_value(from.getReturnType()));
}

uint32_t FunctionCode::bytes_of_value(const Type* type) const { return bytes_of_type(type, module_.layout); }

Function FunctionCode::finish(uint32_t callees_bytes) {
  frame_.finish(function_);
  function_.most_bytes = uint32_t(function_.constants.bytes.size()) + function_.frame_bytes + callees_bytes;
  return std::move(function_);
}

void FunctionCode::move(int32_t to, int32_t from, uint32_t bytes) {
  switch (bytes) {
    case 1:
      emit({.code = Code::Move8, .to = to, .a = from});
      break;
    case 2:
      emit({.code = Code::Move16, .to = to, .a = from});
      break;
    case 4:
      emit({.code = Code::Move32, .to = to, .a = from});
      break;
    case 8:
      emit({.code = Code::Move64, .to = to, .a = from});
      break;
    default:
      emit({.code = Code::Move, .count = bytes, .to = to, .a = from});
  }
}

void FunctionCode::apply(const Computation& computation, uint32_t count, int32_t to, int32_t a, int32_t b, int32_t c) {
  emit({.code = Code::Apply,
        .function = module_.number_of(computation),
        .count = count,
        .to = to,
        .a = a,
        .b = b,
        .c = c});
}

std::optional<int32_t> FunctionCode::frame_offset(const Value* pointer) {
  if (!pointer->getType()->isPointerTy()) return std::nullopt;
  llvm::APInt offset(64, 0);
  const Value* base = pointer->stripAndAccumulateConstantOffsets(module_.layout, offset, /*AllowNonInbounds=*/true);
  const auto* array = llvm::dyn_cast<llvm::AllocaInst>(base);
  if (!array) return std::nullopt;
  return slot_of_array(*array) + int32_t(offset.getSExtValue());
}

int32_t FunctionCode::slot_of_array(const llvm::AllocaInst& array) {
  const auto [it, is_new] = slots_.try_emplace(&array, 0);
  if (is_new) {
    const auto* count = llvm::dyn_cast<llvm::ConstantInt>(array.getArraySize());
    if (!count || !array.isStaticAlloca()) throw Missing();
    const uint64_t bytes = module_.layout.getTypeAllocSize(array.getAllocatedType()) * count->getZExtValue();
    if (bytes > 1 << 20) throw Missing();
    const int32_t at = frame_.allocate(std::max<uint32_t>(uint32_t(bytes), kAlignment));
    slots_[&array] = at;
    return at;
  }
  return it->second;
}

int32_t FunctionCode::read(const Value* value) {
  value = root_of(value);
  if (const auto offset = frame_offset(value)) {
    const int32_t at = frame_.temporary(8);
    emit({.code = Code::FrameAddress, .to = at, .a = *offset});
    return at;
  }
  if (const auto* known = llvm::dyn_cast<llvm::Constant>(value)) return frame_.constant(*known);
  auto it = slots_.find(value);
  if (it != slots_.end()) return it->second;
  return slots_[value] = frame_.allocate(bytes_of_value(value->getType()));  // of a block that comes later
}

int32_t FunctionCode::result(const llvm::Instruction& i) {
  auto it = slots_.find(&i);
  if (it != slots_.end()) return it->second;
  const uint32_t bytes = bytes_of_value(i.getType());
  const auto uses = uses_in_block(i);
  const int32_t at = slots_[&i] = uses ? frame_.allocate_in_block(bytes) : frame_.allocate(bytes);
  if (uses && *uses == 0)
    frame_.is_temporary(at, bytes);
  else if (uses)
    left_[&i] = *uses;
  return at;
}

void FunctionCode::release_operands(const llvm::Instruction& i) {
  if (!is_alias(i) && !llvm::isa<llvm::PHINode>(i))
    for (const Value* operand : i.operands()) {
      const Value* root = root_of(operand);
      auto it = left_.find(root);
      if (it == left_.end() || --it->second > 0) continue;
      frame_.release(slots_[root], bytes_of_value(root->getType()));
      left_.erase(it);
    }
  frame_.release_temporaries();
}

}  // namespace tegula::emulator::bytecode
