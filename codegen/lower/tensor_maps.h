// Tensor maps: how a launch makes them, and the kernel parameters that pass them.
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

/// The tensor_map ops of a function, in the order of their parameters, which follow the function's own.
std::vector<const ir::Op*> tensor_maps_in(const ir::Func& func);

/// What a launch needs to make them.
TensorMaps launch_maps(const ir::Func& func);

/// The type of such a parameter, 128 bytes, and its attributes.
llvm::Type* tensor_map_parameter(llvm::LLVMContext& context);
void describe_tensor_map_parameter(llvm::Argument& arg);

}  // namespace tegula::lower
