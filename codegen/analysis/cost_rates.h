// What the cost model (analysis/cost) and its bound ahead of layouts (analysis/cost_bound) take of a launch alike.
#pragma once

#include <algorithm>

#include "codegen/analysis/cost.h"
#include "codegen/target/target.h"
#include "runtime/device.h"

namespace tegula {

// Rates in bytes, times in seconds, as those in cost.cpp.
inline constexpr double kOperandReuse = 5;  // how often the L2 cache gives what is read of operands, if that is unknown
inline constexpr double kProductMemory = 0.82;     // what products reach of the maker's rate of memory
inline constexpr double kHandedOver = 0.3;         // of what programs write for each other that leaves the L2 cache
inline constexpr double kProductLaunch = 1.03e-6;  // of a launch, which overlaps the one before it

/// The GPU of the launch; null where the target's usual one stands for it.
inline const DeviceInfo* gpu_of(const CostInputs& inputs) {
  return inputs.device && !inputs.device->emulator ? inputs.device : nullptr;
}

inline int multiprocessors(const Target& target, const DeviceInfo* gpu) {
  return std::max(1, gpu ? gpu->num_sms : target.rates.num_sms);
}

/// Those of so many that clusters of so many blocks find place on.
inline double multiprocessors_of_clusters(int multiprocessors, int blocks) {
  return double(clusters_at_once(multiprocessors, blocks) * blocks);
}

inline double blocks_of_launch(const CostInputs& inputs, int blocks_of_program) {
  return double(std::max<int64_t>(inputs.programs, 1)) * blocks_of_program;
}

/// Of a multiprocessor's tensor cores, at the maker's rate.
inline double tensor_clocks(double flops, const Target& target) {
  const Rates& rates = target.rates;
  return flops * rates.num_sms * rates.clock_mhz * 1e6 / (rates.tensor_tflop_s * 1e12);
}

inline double memory_bytes_per_second(const Target& target, const DeviceInfo* gpu) {
  return memory_rate(gpu ? gpu->name : "").value_or(target.rates.memory_gb_s) * 1e9;
}

}  // namespace tegula
