#include "codegen/exec/emulator/code/bytecode_function.h"

#include <algorithm>
#include <utility>

namespace tegula::emulator::bytecode {

using llvm::Type;
using llvm::Value;

namespace {

/// Its result has the very bits of its operand, or the first of them.
bool has_first_bits(const llvm::Instruction& i) {
  if (llvm::isa<llvm::FreezeInst, llvm::AddrSpaceCastInst>(i)) return true;
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

}  // namespace

std::optional<int32_t> alias_offset(const llvm::Instruction& i) {
  if (!i.isCast() && !llvm::isa<llvm::ExtractElementInst, llvm::FreezeInst>(i)) return std::nullopt;  // nearly all
  if (const auto* element = llvm::dyn_cast<llvm::ExtractElementInst>(&i)) {
    const auto* number = llvm::dyn_cast<llvm::ConstantInt>(element->getIndexOperand());
    const Shape shape = shape_of(element->getVectorOperandType());
    if (!number || number->getZExtValue() >= shape.count) return std::nullopt;
    return int32_t(number->getZExtValue() * bytes_of(shape.kind));
  }
  return has_first_bits(i) ? std::optional(0) : std::nullopt;
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

/// What the value is some of the bits of, and how many bytes behind its begin.
std::pair<const Value*, int32_t> root_of(const Value* value) {
  int32_t offset = 0;
  while (const auto* i = llvm::dyn_cast<llvm::Instruction>(value)) {
    const auto more = alias_offset(*i);
    if (!more) break;
    offset += *more;
    value = i->getOperand(0);
  }
  return {value, offset};
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

namespace {

struct MoveOf {
  uint32_t bytes;
  Code code;
};
constexpr MoveOf kMoves[] = {
    {1, Code::Move8}, {2, Code::Move16}, {4, Code::Move32}, {8, Code::Move64}, {16, Code::Move128}};

}  // namespace

void FunctionCode::move(int32_t to, int32_t from, uint32_t bytes) {
  const MoveOf* row = std::ranges::find(kMoves, bytes, &MoveOf::bytes);
  const bool is_short = row != std::end(kMoves);
  if (is_short && bytes < 16 && position() > sequence_) {
    const Instruction last = function_.code.back();
    const int32_t more = int32_t(bytes);
    const bool goes_on = last.code == row->code && to == last.to + more && from == last.a + more;
    const bool reads_moved = last.to < from + more && from < last.to + more;
    if (goes_on && !reads_moved) {
      function_.code.pop_back();
      return move(last.to, last.a, 2 * bytes);
    }
  }
  emit({.code = is_short ? row->code : Code::Move, .count = bytes, .to = to, .a = from});
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

const llvm::AllocaInst* FunctionCode::array_of(const Value* pointer, int32_t* offset) const {
  if (!pointer->getType()->isPointerTy()) return nullptr;
  llvm::APInt bytes(64, 0);
  const Value* base = pointer->stripAndAccumulateConstantOffsets(module_.layout, bytes, /*AllowNonInbounds=*/true);
  if (offset) *offset = int32_t(bytes.getSExtValue());
  return llvm::dyn_cast<llvm::AllocaInst>(base);
}

std::optional<int32_t> FunctionCode::frame_offset(const Value* pointer) {
  int32_t offset = 0;
  const llvm::AllocaInst* array = array_of(pointer, &offset);
  if (!array) return std::nullopt;
  return slot_of_array(*array) + offset;
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

int32_t FunctionCode::read(const Value* of) {
  const auto [value, behind] = root_of(of);
  if (const auto offset = frame_offset(value)) {
    const int32_t at = frame_.temporary(8);
    emit({.code = Code::FrameAddress, .to = at, .a = *offset});
    return at;
  }
  if (const auto* known = llvm::dyn_cast<llvm::Constant>(value)) return frame_.constant(*known) + behind;
  const auto [it, is_new] = slots_.try_emplace(value, 0);
  if (is_new) it->second = frame_.allocate(bytes_of_value(value->getType()));  // of a block that comes later
  return it->second + behind;
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

int32_t FunctionCode::results(llvm::ArrayRef<std::pair<const llvm::LoadInst*, int32_t>> parts, uint32_t bytes) {
  Room room{0, bytes, 0};
  bool in_block = true;
  for (const auto& [part, offset] : parts) {
    const auto uses = uses_in_block(*part);
    in_block &= uses.has_value();
    if (!uses || *uses == 0) continue;
    left_[part] = *uses;
    room_of_[part] = rooms_.size();
    ++room.values;
  }
  room.at = in_block ? frame_.allocate_in_block(bytes) : frame_.allocate(bytes);
  for (const auto& [part, offset] : parts) {
    const auto [slot, is_new] = slots_.try_emplace(part, room.at + offset);
    if (!is_new) read_ahead_.push_back({slot->second, room.at + offset, bytes_of_value(part->getType())});
    if (!in_block) left_.erase(part);
  }
  if (in_block && room.values == 0) frame_.is_temporary(room.at, bytes);
  rooms_.push_back(room);
  return room.at;
}

void FunctionCode::hand_results_ahead() {
  for (const auto& [to, from, bytes] : std::exchange(read_ahead_, {})) move(to, from, bytes);
}

int32_t FunctionCode::result_in_place(const llvm::InsertElementInst& i) {
  const Value* whole = i.getOperand(0);
  const auto left = left_.find(whole);
  const auto uses =
      left != left_.end() && left->second == 1 && !room_of_.contains(whole) ? uses_in_block(i) : std::nullopt;
  if (!uses || *uses == 0) return result(i);
  left_.erase(left);
  left_[&i] = *uses;  // all in this block, so that no block ahead of it has given the result a place
  return slots_[&i] = slots_[whole];
}

void FunctionCode::release_operands(const llvm::Instruction& i) {
  if (!is_alias(i) && !llvm::isa<llvm::PHINode>(i))
    for (const Value* operand : i.operands()) {
      const Value* root = root_of(operand).first;
      auto it = left_.find(root);
      if (it == left_.end() || --it->second > 0) continue;
      left_.erase(it);
      if (const auto shared = room_of_.find(root); shared == room_of_.end())
        frame_.release(slots_[root], bytes_of_value(root->getType()));
      else if (Room& room = rooms_[shared->second]; --room.values == 0)
        frame_.release(room.at, room.bytes);
    }
  frame_.release_temporaries();
}

}  // namespace tegula::emulator::bytecode
