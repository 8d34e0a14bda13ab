// How many groups of asynchronous copies a wait may leave under way.
#pragma once

#include <unordered_map>

#include "codegen/ir/ir.h"

namespace tegula {

/// For each async_wait on tokens of groups: how many groups have certainly been committed since the latest of these, on
/// every way to the wait. The hardware waits for all groups but that many latest ones.
std::unordered_map<const ir::Op*, int64_t> groups_since(const ir::Func& func);

}  // namespace tegula
