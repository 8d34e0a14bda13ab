// Laid-out tile IR to code, through LLVM. This header names no LLVM type.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/compile.h"

namespace tegula {

struct GeneratedCode {
  std::string ptx;               ///< for a GPU
  std::vector<uint8_t> bitcode;  ///< for the emulator
  int64_t shared_bytes = 0;
  bool dependent_launch = false;
  std::vector<Loc> sites;
};

/// Lowers, optimises and emits `func` (stage LaidOut). Null after a diagnostic.
std::optional<GeneratedCode> generate(const ir::Func& func, const CompileOptions& options, Diagnostics& diags);

}  // namespace tegula
