#include "codegen/exec/emulator/warnings/taint_parts.h"

#include <llvm/IR/Constants.h>

#include <algorithm>

#include "codegen/exec/emulator/warnings/warning_calls.h"

namespace tegula::emulator {

namespace {

using llvm::Instruction;
using llvm::Type;
using llvm::Value;

constexpr unsigned kPartBits = 8;

unsigned count_of(const Type& type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(&type);
  return vector ? vector->getNumElements() : 1;
}

std::optional<int64_t> constant(const Value* x) {
  const auto* number = llvm::dyn_cast<llvm::ConstantInt>(x);
  const bool fits = number && number->getValue().getActiveBits() <= 64;
  return fits ? std::optional(int64_t(number->getZExtValue())) : std::nullopt;
}

/// How far the instruction moves bits to the left; none: it does something else.
std::optional<int64_t> moved_left(const Instruction& i) {
  if (i.getType()->isVectorTy() || !llvm::isa<llvm::BinaryOperator>(i)) return std::nullopt;
  const auto distance = constant(i.getOperand(1));
  if (i.getOpcode() == Instruction::Shl) return distance;
  const bool to_the_right = i.getOpcode() == Instruction::LShr || i.getOpcode() == Instruction::AShr;
  if (to_the_right && distance) return -*distance;
  return std::nullopt;
}

}  // namespace

llvm::SmallVector<unsigned, 4> part_bits(const Type& type) {
  llvm::SmallVector<unsigned, 4> out;
  if (type.isStructTy() || type.isVectorTy()) {
    for (unsigned n = 0; n < (type.isStructTy() ? type.getStructNumElements() : count_of(type)); ++n)
      out.append(part_bits(type.isStructTy() ? *type.getStructElementType(n) : *type.getScalarType()));
    return out;
  }
  const unsigned bits = type.isPointerTy() ? 64 : unsigned(type.getPrimitiveSizeInBits());
  if (!type.isIntegerTy() || bits <= kPartBits) return {bits};
  for (unsigned at = 0; at < bits; at += kPartBits) out.push_back(std::min(kPartBits, bits - at));
  return out;
}

llvm::User::op_range operands_of(Instruction& i) {
  auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
  return call ? call->args() : i.operands();
}

/// The greater number is told: of reads of memory that nobody has written rather than of what was computed.
Value* TaintCode::join(Value* x, Value* y) {
  if (!x || !y || x == y) return x ? x : y;
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, x, y);
}

Value* TaintCode::all_of(llvm::ArrayRef<Value*> parts) {
  llvm::SmallVector<Value*, 4> joined;
  for (Value* part : parts)
    if (part && !llvm::is_contained(joined, part)) joined.push_back(part);
  Value* all = nullptr;
  for (Value* part : joined) all = join(all, part);
  return all;
}

Value* TaintCode::choose(Value* condition, Value* x, Value* y) {
  if (x == y) return x;
  auto number = [&](Value* taint) { return taint ? taint : b_.getInt32(0); };
  return b_.CreateSelect(condition, number(x), number(y));
}

TaintParts TaintCode::computed(Instruction& i, llvm::function_ref<TaintParts(Value*)> of) {
  of_ = of;
  if (auto* select = llvm::dyn_cast<llvm::SelectInst>(&i)) return of_choice(*select);
  if (const auto left = moved_left(i)) {
    const TaintParts from = of(i.getOperand(0));
    TaintParts to = regrouped(from, *i.getType(), *i.getType(), -*left);
    if (i.getOpcode() == Instruction::AShr)  // the sign has the last part's
      for (Value*& part : to) part = part ? part : from.back();
    return to;
  }
  if (auto* op = llvm::dyn_cast<llvm::BinaryOperator>(&i); op && op->isBitwiseLogicOp())
    return i.getType()->isIntOrIntVectorTy(1) ? of_conditions(*op) : of_integers(*op);
  if (auto* cast = llvm::dyn_cast<llvm::CastInst>(&i)) return of_cast(*cast);
  if (row_of(i) == "select_bytes") return of_bytes(llvm::cast<llvm::CallInst>(i));
  if (row_of(i).starts_with("cvt_")) return of_packed(llvm::cast<llvm::CallInst>(i));
  return of_moved(i);
}

TaintParts TaintCode::of_choice(llvm::SelectInst& i) {
  Value* condition = i.getCondition();
  const TaintParts by = of_(condition), x = of_(i.getTrueValue()), y = of_(i.getFalseValue());
  const size_t each = x.size() / by.size();
  TaintParts out;
  for (size_t part = 0; part < x.size(); ++part) {
    const size_t n = part / each;
    Value* holds =
        x[part] == y[part] || !condition->getType()->isVectorTy() ? condition : b_.CreateExtractElement(condition, n);
    out.push_back(join(by[n], choose(holds, x[part], y[part])));
  }
  return out;
}

/// Bits that a constant takes away drop what is in them.
TaintParts TaintCode::of_integers(llvm::BinaryOperator& i) {
  const auto mask = i.getOpcode() == Instruction::And ? constant(i.getOperand(1)) : std::nullopt;
  TaintParts out = of_(i.getOperand(0));
  const TaintParts other = of_(i.getOperand(1));
  unsigned at = 0;
  for (size_t part = 0; part < out.size(); ++part) {
    const unsigned bits = part_bits(*i.getType())[part];
    const bool is_kept = !mask || at >= 64 || (uint64_t(*mask) >> at & ((1u << bits) - 1)) != 0;
    out[part] = is_kept ? join(out[part], other[part]) : nullptr;
    at += bits;
  }
  return out;
}

/// One of both decides alone where it is false (And) or true (Or) and means something.
TaintParts TaintCode::of_conditions(llvm::BinaryOperator& i) {
  const TaintParts x = of_(i.getOperand(0)), y = of_(i.getOperand(1));
  TaintParts out;
  for (size_t n = 0; n < x.size(); ++n) {
    auto decides = [&](Value* operand, Value* taint) {
      Value* one = operand->getType()->isVectorTy() ? b_.CreateExtractElement(operand, n) : operand;
      if (i.getOpcode() == Instruction::And) one = b_.CreateNot(one);
      return taint ? b_.CreateAnd(one, b_.CreateIsNull(taint)) : one;
    };
    Value* both = join(x[n], y[n]);
    if (both && i.getOpcode() != Instruction::Xor) {
      Value* decided = b_.getFalse();
      if (y[n]) decided = b_.CreateOr(decided, decides(i.getOperand(0), x[n]));
      if (x[n]) decided = b_.CreateOr(decided, decides(i.getOperand(1), y[n]));
      both = choose(decided, nullptr, both);
    }
    out.push_back(both);
  }
  return out;
}

TaintParts TaintCode::of_cast(llvm::CastInst& i) {
  const Type &from = *i.getSrcTy(), &to = *i.getDestTy();
  switch (i.getOpcode()) {
    case Instruction::BitCast:
      return regrouped(of_(i.getOperand(0)), from, to);
    case Instruction::Trunc:
    case Instruction::ZExt:
      if (!to.isVectorTy()) return regrouped(of_(i.getOperand(0)), from, to);
      [[fallthrough]];
    default:
      return of_elements(i);
  }
}

TaintParts TaintCode::of_moved(Instruction& i) {
  const Type& type = *i.getType();
  auto part_of = [](const TaintParts& parts, size_t first, size_t count) {
    return TaintParts(parts.begin() + ptrdiff_t(first), parts.begin() + ptrdiff_t(first + count));
  };
  auto begin_of = [](const Type& whole, size_t field) {
    size_t begin = 0;
    for (size_t n = 0; n < field; ++n)
      begin += part_bits(whole.isStructTy() ? *whole.getStructElementType(unsigned(n)) : *whole.getScalarType()).size();
    return begin;
  };
  auto replaced = [&](TaintParts whole, const TaintParts& part, size_t begin) {
    std::copy(part.begin(), part.end(), whole.begin() + ptrdiff_t(begin));
    return whole;
  };
  if (llvm::isa<llvm::FreezeInst>(i)) return of_(i.getOperand(0));
  if (const auto* field = llvm::dyn_cast<llvm::ExtractValueInst>(&i); field && field->getNumIndices() == 1)
    return part_of(of_(i.getOperand(0)), begin_of(*i.getOperand(0)->getType(), field->getIndices()[0]),
                   part_bits(type).size());
  if (const auto* field = llvm::dyn_cast<llvm::InsertValueInst>(&i); field && field->getNumIndices() == 1)
    return replaced(of_(i.getOperand(0)), of_(i.getOperand(1)), begin_of(type, field->getIndices()[0]));
  if (llvm::isa<llvm::ExtractElementInst>(i))
    if (const auto n = constant(i.getOperand(1)))
      return part_of(of_(i.getOperand(0)), begin_of(*i.getOperand(0)->getType(), size_t(*n)), part_bits(type).size());
  if (llvm::isa<llvm::InsertElementInst>(i))
    if (const auto n = constant(i.getOperand(2)))
      return replaced(of_(i.getOperand(0)), of_(i.getOperand(1)), begin_of(type, size_t(*n)));
  if (const auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&i)) {
    TaintParts both = of_(i.getOperand(0)), out;
    both.append(of_(i.getOperand(1)));
    const size_t each = part_bits(*type.getScalarType()).size();
    for (int from : shuffle->getShuffleMask())
      for (size_t part = 0; part < each; ++part) out.push_back(from < 0 ? nullptr : both[size_t(from) * each + part]);
    return out;
  }
  return of_elements(i);
}

/// The row select_bytes of hw.def.
TaintParts TaintCode::of_bytes(llvm::CallInst& i) {
  const auto chosen = constant(i.getArgOperand(2));
  if (!chosen) return of_elements(i);
  TaintParts both = of_(i.getArgOperand(0)), out;
  both.append(of_(i.getArgOperand(1)));
  for (int byte = 0; byte < 4; ++byte) out.push_back(both[size_t(*chosen >> 4 * byte & 7)]);
  return out;
}

/// The rows cvt_ of hw.def, whose results have as many numbers as their operands, in their order.
TaintParts TaintCode::of_packed(llvm::CallInst& i) {
  TaintParts from, out;
  for (Value* operand : i.args()) from.append(of_(operand));
  const size_t count = part_bits(*i.getType()).size();
  for (size_t part = 0; part < count; ++part) {
    const size_t begin = part * from.size() / count, end = ((part + 1) * from.size() + count - 1) / count;
    out.push_back(all_of(llvm::ArrayRef(from).slice(begin, end - begin)));
  }
  return out;
}

/// Each element of the result follows from those of the operands, or from all that they have.
TaintParts TaintCode::of_elements(Instruction& i) {
  const Type& type = *i.getType();
  const unsigned count = count_of(type);
  const size_t each = part_bits(type).size() / count;
  TaintParts out;
  for (unsigned n = 0; n < count; ++n) {
    TaintParts from;
    for (Value* operand : operands_of(i)) {
      const TaintParts parts = of_(operand);
      const bool by_elements = count > 1 && count_of(*operand->getType()) == count;
      const size_t own = by_elements ? parts.size() / count : parts.size();
      from.append(parts.begin() + ptrdiff_t(by_elements ? n * own : 0),
                  parts.begin() + ptrdiff_t(by_elements ? (n + 1) * own : own));
    }
    out.append(each, all_of(from));
  }
  return out;
}

TaintParts TaintCode::regrouped(const TaintParts& parts, const Type& from, const Type& to, int64_t first) {
  const auto from_bits = part_bits(from);
  TaintParts out;
  int64_t begin = first;
  for (unsigned bits : part_bits(to)) {
    const int64_t end = begin + bits;
    TaintParts within;
    int64_t at = 0;
    for (size_t part = 0; part < parts.size(); at += from_bits[part++])
      if (at < end && at + from_bits[part] > begin) within.push_back(parts[part]);
    out.push_back(all_of(within));
    begin = end;
  }
  return out;
}

}  // namespace tegula::emulator
