#include "codegen/exec/emulator/bytecode_module.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "codegen/exec/emulator/hw_bodies.h"
#include "codegen/exec/emulator/link_bodies.h"

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

uint16_t ModuleMaker::number_of(Elementwise function) {
  const auto [it, is_new] = elementwise_.try_emplace(function, uint16_t(to_.elementwise.size()));
  if (is_new) to_.elementwise.push_back(function);
  return it->second;
}

const std::pair<Thunk, void*>* ModuleMaker::find_body(llvm::StringRef name) {
  static const auto bodies = [] {
    std::unordered_map<std::string, std::pair<Thunk, void*>> all;
    for (const HwBody& body : hw_bodies()) all[std::string(kBodyPrefix) + body.name] = {body.thunk, body.function};
    for (const HwBody& helper : helper_functions()) all[helper.name] = {helper.thunk, helper.function};
    return all;
  }();
  auto it = bodies.find(name.str());
  return it == bodies.end() ? nullptr : &it->second;
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

void ModuleMaker::write(const llvm::Constant& constant, char* at) {
  const Type* type = constant.getType();
  if (llvm::isa<llvm::UndefValue>(constant) || constant.isNullValue()) return;  // zeros
  if (auto* number = llvm::dyn_cast<llvm::ConstantInt>(&constant)) {
    const uint64_t bits = number->getValue().getRawData()[0];
    std::memcpy(at, &bits, bytes_of(kind_of(type)));
  } else if (auto* real = llvm::dyn_cast<llvm::ConstantFP>(&constant)) {
    const uint64_t bits = real->getValueAPF().bitcastToAPInt().getZExtValue();
    std::memcpy(at, &bits, bytes_of(kind_of(type)));
  } else if (auto* data = llvm::dyn_cast<llvm::ConstantDataSequential>(&constant)) {
    const llvm::StringRef raw = data->getRawDataValues();
    std::memcpy(at, raw.data(), raw.size());
  } else if (auto* vector = llvm::dyn_cast<llvm::ConstantVector>(&constant)) {
    const uint32_t bytes = bytes_of(shape_of(type).kind);
    for (unsigned i = 0; i < vector->getNumOperands(); ++i) write(*vector->getOperand(i), at + size_t(i) * bytes);
  } else if (auto* aggregate = llvm::dyn_cast<llvm::ConstantAggregate>(&constant)) {
    auto* structure = llvm::dyn_cast<llvm::StructType>(type);
    for (unsigned i = 0; i < aggregate->getNumOperands(); ++i) {
      const llvm::Constant& part = *aggregate->getOperand(i);
      const uint64_t offset =
          structure ? layout.getStructLayout(const_cast<llvm::StructType*>(structure))->getElementOffset(i)
                    : i * layout.getTypeAllocSize(part.getType());
      write(part, at + offset);
    }
  } else {
    const uint64_t address = address_of(constant);
    std::memcpy(at, &address, bytes_of(kind_of(type)));
  }
}

uint64_t ModuleMaker::address_of(const llvm::Constant& constant) {
  if (auto* variable = llvm::dyn_cast<llvm::GlobalVariable>(&constant)) return address_of_variable(*variable);
  auto* expression = llvm::dyn_cast<llvm::ConstantExpr>(&constant);
  if (!expression) throw Missing();
  switch (expression->getOpcode()) {
    case llvm::Instruction::IntToPtr:
    case llvm::Instruction::PtrToInt:
    case llvm::Instruction::AddrSpaceCast:
    case llvm::Instruction::BitCast: {
      const auto& inner = *expression->getOperand(0);
      if (auto* number = llvm::dyn_cast<llvm::ConstantInt>(&inner)) return number->getZExtValue();
      return inner.isNullValue() ? 0 : address_of(inner);
    }
    case llvm::Instruction::GetElementPtr: {
      llvm::APInt offset(64, 0);
      const auto* base = expression->stripAndAccumulateConstantOffsets(layout, offset, /*AllowNonInbounds=*/true);
      if (base == expression) throw Missing();
      const auto& known = *llvm::cast<llvm::Constant>(base);
      return (known.isNullValue() ? 0 : address_of(known)) + offset.getZExtValue();
    }
    default:
      throw Missing();
  }
}

uint64_t ModuleMaker::address_of_variable(const llvm::GlobalVariable& variable) {
  if (!variable.isConstant() || !variable.hasInitializer()) throw Missing();
  char*& memory = variables_[&variable];
  if (!memory) {
    const uint64_t bytes = layout.getTypeAllocSize(variable.getValueType());
    to_.globals.push_back(std::make_unique<char[]>(bytes));
    memory = to_.globals.back().get();
    write(*variable.getInitializer(), memory);
  }
  return reinterpret_cast<uint64_t>(memory);
}

}  // namespace tegula::emulator::bytecode
