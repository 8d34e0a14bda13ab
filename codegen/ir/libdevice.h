// The functions of libdevice.def: their signatures and their bodies.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/elem.h"

namespace tegula::ir {

struct LibdeviceFunction {
  enum class Body : uint8_t { Libclc, Ptx, Own, Special };

  std::string name;
  Elem result;
  std::vector<Elem> params;
  Body kind;
  std::string body;  ///< libclc's name, the instructions with the types filled in, or the name of a function of ours
  const char* doc;

  /// "float32(float32, int32)": types as the kernel language writes them.
  std::string signature() const;
};

/// All rows, one for each combination of types.
const std::vector<LibdeviceFunction>& libdevice_functions();
/// The rows of that name, none if there is no such function.
std::span<const LibdeviceFunction> libdevice_functions(std::string_view name);
/// The one that takes these types; null if there is none.
const LibdeviceFunction* find_libdevice(std::string_view name, std::span<const Elem> arguments);

}  // namespace tegula::ir
