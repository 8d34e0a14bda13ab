// The integer arithmetic that leads from the arguments of a launch to numbers that it needs.
#pragma once

#include <span>

#include "runtime/tensor_map.h"

namespace tegula {

/// The number of each step, for arguments as LoadedKernel::launch takes them. `numbers` has room for as many.
void compute_steps(std::span<const LaunchStep> steps, void* const* args, std::span<int64_t> numbers);

}  // namespace tegula
