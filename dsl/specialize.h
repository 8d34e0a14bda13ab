// From the arguments and options of a launch to what a kernel is compiled for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dsl/kernel.h"
#include "dsl/kernel_source.h"

namespace tegula::dsl {

/// The options of a launch against the kernel's signature: all mistakes in one LaunchError.
void check_options(const KernelSource& kernel, const LaunchOptions& options);

/// The parameters that take a launch argument. Throws LaunchError unless `count` arguments fit: those with a default
/// may be missing at the end.
std::vector<const KernelParam*> runtime_params(const KernelSource& kernel, size_t count);
/// The parameter that each of the types belongs to, several to one where it is a tensor descriptor.
std::vector<const KernelParam*> runtime_params(const KernelSource& kernel, std::span<const ArgType> types);

/// Types of launch arguments in parts, and the facts about their values that code is compiled for.
std::vector<ArgType> classify(const KernelSource& kernel, std::span<const Arg> args);

Specialization specialization(const KernelSource& kernel, std::span<const ArgType> types, const LaunchOptions& options);

/// Text of everything that a kernel is compiled for, for keys.
std::string types_text(std::span<const ArgType> types);
std::string specialization_text(std::span<const ArgType> types, const LaunchOptions& options);

}  // namespace tegula::dsl
