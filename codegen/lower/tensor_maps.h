// Tensor maps: what a launch makes of them, and the parameters by which a kernel takes them.
#pragma once

#include <vector>

#include "codegen/ir/ir.h"
#include "runtime/tensor_map.h"

namespace llvm {
class Argument;
class LLVMContext;
class Type;
}  // namespace llvm

namespace tegula::lower {

/// The ops tensor_map of a function, in the order of their parameters, which stand behind the function's own.
std::vector<const ir::Op*> tensor_maps_in(const ir::Func& func);

/// How a launch makes them.
TensorMaps launch_maps(const ir::Func& func);

/// The type of such a parameter, and what else is to be said of it: 128 bytes that nobody writes.
llvm::Type* tensor_map_parameter(llvm::LLVMContext& context);
void describe_tensor_map_parameter(llvm::Argument& arg);

}  // namespace tegula::lower
