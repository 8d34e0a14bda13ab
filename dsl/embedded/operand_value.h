// What an Operand of a C++ kernel holds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "dsl/tile.h"

namespace tegula::detail {

struct OperandValue {
  template <class T>
  explicit OperandValue(T value) : held(std::move(value)) {}

  std::variant<None, All, bool, int64_t, uint64_t, double, std::string, Elem, Shared<Slot>, Operand::List, Combine>
      held;
};

}  // namespace tegula::detail
