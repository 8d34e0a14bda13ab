// Code generation: from laid-out tile IR to PTX or bitcode, through LLVM. This header names no LLVM type.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "runtime/tensor_map.h"

namespace tegula {

struct GeneratedCode {
  std::string ptx;               ///< for a GPU
  std::vector<uint8_t> bitcode;  ///< for the emulator
  int num_warps = 0;             ///< of all groups that run the program
  int copy_warps = 0;            ///< beside those of the program
  int64_t shared_bytes = 0;
  bool dependent_launch = false;
  int64_t few_programs = 0;  ///< as KernelImage::few_programs
  bool program_loop = false;
  TensorMaps tensor_maps;
  std::vector<Loc> sites;
  std::vector<ImageAssert> asserts;
};

/// PTX for an LLVM module, text or bitcode, that calls hardware functions; the target must have the features that these
/// need.
std::string ptx_of_module(std::string_view ir, const Target& target);

/// Lowers, optimises and emits `func` (stage LaidOut). Null after a diagnostic.
std::optional<GeneratedCode> generate(const ir::Func& func, const CompileOptions& options, Diagnostics& diags);

/// Makes the image of a function from its code: all that a device needs to load and launch it.
KernelImage image_of(const ir::Func& func, const Target& target, GeneratedCode code);

}  // namespace tegula
