// Should kernels that run one after another be one kernel? The rules by which one decides before writing it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/explain/traffic.h"
#include "codegen/ir/ir.h"

namespace tegula::explaining {

/// One kernel of the sequence.
struct FusionStep {
  std::string name;
  const ir::Func* func = nullptr;  ///< of stage Tile
  const LaunchFacts* launch = nullptr;
  const Traffic* traffic = nullptr;
  std::string bound;         ///< "memory", "compute", "latency", "launch"
  int64_t shared_bytes = 0;  ///< of a program
  int64_t sums_bytes = 0;    ///< of a program: sums of products, in registers
  double predicted_us = 0;
};

struct FusionRule {
  int number;  ///< in the order in which they are asked
  std::string question;
  bool speaks_for_fusion;
  std::string figures;
};

struct FusionVerdict {
  bool fuse = false;
  std::string text;  ///< one sentence
  std::vector<FusionRule> rules;
  int64_t separate_bytes = 0, fused_bytes = 0;  ///< from and to memory
  double speedup = 1;                           ///< of memory-bound kernels: their ratio
};

/// `kept`: addresses of arrays that somebody reads after the sequence although a kernel of it reads them too. Arrays
/// are told apart by their addresses. `shared_per_program`: of the target.
FusionVerdict judge_fusion(const std::vector<FusionStep>& steps, const std::vector<int64_t>& kept,
                           int64_t shared_per_program);

}  // namespace tegula::explaining
