// Tuning results for people to read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/tuning/tuning_store.h"

namespace tegula {

/// All candidates, the fastest first: times, what the assembler and the model say, and why a candidate was dropped. The
/// one whose config is `winner` is marked.
std::string tuning_table(std::vector<TuningResult> results, std::string_view winner);

}  // namespace tegula
