// Numbers in arrays of bytes, as the interpreter finds them.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace tegula::emulator::bytecode {

template <class T>
T get(const char* from, size_t i = 0) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void put(char* to, size_t i, T value) {
  std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}
template <class T>
void put(char* to, T value) {
  put(to, 0, value);
}

/// Numbers of 16 bits are computed as floats, as code generators do.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace tegula::emulator::bytecode
