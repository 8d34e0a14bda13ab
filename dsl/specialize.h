// From the arguments and options of a launch to what a kernel is compiled for.
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/target/target.h"
#include "dsl/kernel.h"
#include "dsl/kernel_source.h"

namespace tegula::dsl {

/// The options of a launch against the kernel's signature: all mistakes in one LaunchError.
void check_options(const KernelSource& kernel, const LaunchOptions& options);

/// The parameters that take a launch argument; one that the options give a tuple for as often as that has arguments.
/// Throws LaunchError unless `count` arguments fit: those with a default may be missing at the end.
std::vector<const KernelParam*> runtime_params(const KernelSource& kernel, const LaunchOptions& options, size_t count);
/// The parameter that each of the types belongs to, several to one where it is a tensor descriptor.
std::vector<const KernelParam*> runtime_params(const KernelSource& kernel, const LaunchOptions& options,
                                               std::span<const ArgType> types);
/// The tuple that the options give for a parameter that is no tl.constexpr; null if there is none.
const ConstexprTuple* tuple_argument(const KernelParam& param, const LaunchOptions& options);
/// Whether arguments of the launch are items of tuples.
bool has_tuple_arguments(const LaunchOptions& options);

/// The row of targets.def. Throws LaunchError for an unknown name, with the nearest known one.
Target target_named(std::string_view target);

/// A compile-time argument as a value.
Val to_val(const Constexpr& value);

/// What an integer is known to be a multiple of in the code that is compiled for it, the largest of these: 2, 4, 8 and
/// 16, by which the widest accesses to rows of elements of any size follow (8 float16 are 16 bytes, 2 are what an
/// asynchronous copy takes at least); 256, the largest extent that tiles of matrices usually have, so that none of them
/// ends beyond the matrix.
constexpr int64_t divisor_class(uint64_t value) {
  const int twos = std::countr_zero(value | 256);
  return int64_t(1) << (twos == 8 ? twos : std::min(twos, 4));
}

/// Types of launch arguments in parts, and the facts about their values that code is compiled for.
std::vector<ArgType> classify(const KernelSource& kernel, const LaunchOptions& options, std::span<const Arg> args);

Specialization specialization(const KernelSource& kernel, std::span<const ArgType> types, const LaunchOptions& options);

/// Text of everything that a kernel is compiled for, for keys.
std::string types_text(std::span<const ArgType> types);
std::string specialization_text(std::span<const ArgType> types, const LaunchOptions& options);

}  // namespace tegula::dsl
