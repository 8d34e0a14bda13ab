// CUDA's assembler for tests, which skip where it is not installed.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "codegen/exec/ptxas.h"

namespace tegula {

inline const std::optional<std::filesystem::path>& installed_ptxas() {
  static const auto path = find_ptxas();
  return path;
}

#define SKIP_WITHOUT_PTXAS() \
  if (!installed_ptxas()) GTEST_SKIP() << why_no_ptxas() << ": nothing to assemble with"

inline PtxasRun assemble(const std::string& ptx, const std::string& target) {
  return run_ptxas(*installed_ptxas(), ptx, target);
}

/// Whether this ptxas is older than the target.
inline bool knows_not_the_target(const PtxasRun& run) {
  return run.status && run.log.find("is not defined for option 'gpu-name'") != std::string::npos;
}

/// Whether the code keeps all its values in registers.
inline bool spills(const PtxasRun& run) {
  return run.log.find(" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") == std::string::npos;
}

}  // namespace tegula
