#include "codegen/exec/emulator/code/bytecode_module.h"

#include <llvm/Analysis/ConstantFolding.h>

#include <algorithm>
#include <utility>

#include "codegen/exec/emulator/interpreter/elementwise.h"

namespace tegula::emulator::bytecode {

using llvm::Type;

uint32_t ModuleMaker::number_of(const llvm::Function& function) {
  constexpr uint32_t kUnderWay = ~0u;
  const auto [it, is_new] = functions_.try_emplace(&function, kUnderWay);
  if (!is_new && it->second == kUnderWay) throw Missing();
  if (!is_new) return it->second;
  Function made = make_function(*this, function);
  const auto number = uint32_t(to_.functions.size());
  to_.functions.push_back(std::move(made));
  return functions_[&function] = number;
}

uint16_t ModuleMaker::number_of(const Computation& computation) {
  if (!function_of(computation)) throw Missing();
  const auto [it, is_new] = computations_.try_emplace(computation, uint16_t(to_.computations.size()));
  if (is_new) to_.computations.push_back(computation);
  return it->second;
}

int32_t ModuleMaker::add(BodyCall call) {
  to_.bodies.push_back(std::move(call));
  return int32_t(to_.bodies.size() - 1);
}
int32_t ModuleMaker::add(FunctionCall call) {
  to_.calls.push_back(std::move(call));
  return int32_t(to_.calls.size() - 1);
}

void ModuleMaker::is_segment(uint32_t number) {
  to_.segment_bytes = std::max(to_.segment_bytes, to_.functions[number].most_bytes);
}

void ModuleMaker::write(const llvm::Constant& constant, Constants& to, size_t at) {
  const Type* type = constant.getType();
  auto put_bytes = [&](const void* from, size_t bytes) { std::memcpy(to.bytes.data() + at, from, bytes); };
  if (llvm::isa<llvm::UndefValue>(constant) || constant.isNullValue()) return;  // zeros
  if (auto* number = llvm::dyn_cast<llvm::ConstantInt>(&constant)) {
    put_bytes(number->getValue().getRawData(), bytes_of(kind_of(type)));
  } else if (auto* real = llvm::dyn_cast<llvm::ConstantFP>(&constant)) {
    const uint64_t bits = real->getValueAPF().bitcastToAPInt().getZExtValue();
    put_bytes(&bits, bytes_of(kind_of(type)));
  } else if (auto* data = llvm::dyn_cast<llvm::ConstantDataSequential>(&constant)) {
    const llvm::StringRef raw = data->getRawDataValues();
    put_bytes(raw.data(), raw.size());
  } else if (auto* vector = llvm::dyn_cast<llvm::ConstantVector>(&constant)) {
    const uint32_t bytes = bytes_of(shape_of(type).kind);
    for (unsigned i = 0; i < vector->getNumOperands(); ++i) write(*vector->getOperand(i), to, at + size_t(i) * bytes);
  } else if (auto* aggregate = llvm::dyn_cast<llvm::ConstantAggregate>(&constant)) {
    auto* structure = llvm::dyn_cast<llvm::StructType>(type);
    for (unsigned i = 0; i < aggregate->getNumOperands(); ++i) {
      const llvm::Constant& part = *aggregate->getOperand(i);
      const uint64_t offset =
          structure ? layout.getStructLayout(const_cast<llvm::StructType*>(structure))->getElementOffset(i)
                    : i * layout.getTypeAllocSize(part.getType());
      write(part, to, at + offset);
    }
  } else if (const llvm::Constant* folded = llvm::ConstantFoldConstant(&constant, layout); folded != &constant) {
    write(*folded, to, at);  // numbers in another type: <2 x half> as i32
  } else {
    const Pointer pointer = pointer_of(constant);
    if (bytes_of(kind_of(type)) != sizeof pointer.offset) throw Missing();
    if (pointer.global)
      to.addresses.push_back({uint32_t(at), *pointer.global, pointer.offset});
    else
      put_bytes(&pointer.offset, sizeof pointer.offset);
  }
}

ModuleMaker::Pointer ModuleMaker::pointer_of(const llvm::Constant& constant) {
  if (constant.isNullValue()) return {};
  if (auto* number = llvm::dyn_cast<llvm::ConstantInt>(&constant)) return {{}, number->getZExtValue()};
  if (auto* variable = llvm::dyn_cast<llvm::GlobalVariable>(&constant)) return {number_of(*variable), 0};
  auto* expression = llvm::dyn_cast<llvm::ConstantExpr>(&constant);
  if (!expression) throw Missing();
  switch (expression->getOpcode()) {
    case llvm::Instruction::IntToPtr:
    case llvm::Instruction::PtrToInt:
    case llvm::Instruction::AddrSpaceCast:
    case llvm::Instruction::BitCast:
      return pointer_of(*expression->getOperand(0));
    case llvm::Instruction::GetElementPtr: {
      llvm::APInt offset(64, 0);
      const auto* base = expression->stripAndAccumulateConstantOffsets(layout, offset, /*AllowNonInbounds=*/true);
      if (base == expression) throw Missing();
      Pointer pointer = pointer_of(*llvm::cast<llvm::Constant>(base));
      pointer.offset += offset.getZExtValue();
      return pointer;
    }
    default:
      throw Missing();
  }
}

uint32_t ModuleMaker::number_of(const llvm::GlobalVariable& variable) {
  if (!variable.isConstant() || !variable.hasInitializer()) throw Missing();
  const auto [it, is_new] = variables_.try_emplace(&variable, uint32_t(to_.globals.size()));
  const uint32_t number = it->second;
  if (!is_new) return number;
  to_.globals.emplace_back();  // which its initialiser may name
  Constants global;
  global.bytes.resize(layout.getTypeAllocSize(variable.getValueType()));
  write(*variable.getInitializer(), global);
  to_.globals[number] = std::move(global);
  return number;
}

}  // namespace tegula::emulator::bytecode
