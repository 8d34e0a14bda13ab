// Calls of C++ functions by the interpreter, one way for each type of function.
#pragma once

#include <bit>
#include <type_traits>
#include <utility>

#include "codegen/exec/emulator/interpreter/bytecode.h"

namespace tegula::emulator::bytecode {

template <class T>
T operand(char* frame, const Operand& operand) {
  if constexpr (std::is_pointer_v<T>) {
    if (operand.is == Operand::Address) return reinterpret_cast<T>(frame + operand.value);
  } else if constexpr (std::is_integral_v<T>) {
    if (operand.is == Operand::Number) return T(uint32_t(operand.value));
  }
  T value;
  std::memcpy(&value, frame + operand.value, sizeof(T));
  return value;
}

template <class R, class... A, size_t... i>
void invoke(R (*function)(A...), char* frame, const Operand* operands, int32_t result, std::index_sequence<i...>) {
  if constexpr (std::is_void_v<R>) {
    function(operand<A>(frame, operands[i])...);
  } else {
    const R value = function(operand<A>(frame, operands[i])...);
    std::memcpy(frame + result, &value, sizeof(R));
  }
}

template <class F>
struct ThunkOf;
template <class R, class... A>
struct ThunkOf<R (*)(A...)> {
  static void call(void* function, char* frame, const Operand* operands, int32_t result) {
    invoke(reinterpret_cast<R (*)(A...)>(function), frame, operands, result, std::index_sequence_for<A...>());
  }
};

/// How functions of this one's type are called.
template <class R, class... A>
constexpr Thunk thunk_of(R (*)(A...)) {
  return ThunkOf<R (*)(A...)>::call;
}

}  // namespace tegula::emulator::bytecode
