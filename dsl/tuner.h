// Choosing the configuration of a launch.
#pragma once

#include <span>
#include <vector>

#include "dsl/kernel_state.h"

namespace tegula::dsl {

/// Throw LaunchError for names that the kernel does not have, and for configurations that cannot be.
void check_autotune(const KernelSource& kernel, const Autotune& tuning);
void check_heuristics(const KernelSource& kernel, const std::vector<Heuristic>& heuristics);
/// Positions of the arguments whose values decide on the kernel of a launch: those of the key, and all if heuristics
/// look at them. Constexprs may be in a key as well: they have no position.
std::vector<int> key_positions(const KernelSource& kernel, const Autotune* tuning, bool has_heuristics);

/// Whether the launch leaves it to tuning to give the constexprs of the configurations. Throws LaunchError if it gives
/// some of them, and what was wrong with the source's declaration if constexprs are missing that it might have given.
bool leaves_open(const detail::KernelState& state, const LaunchOptions& options);
/// The options with every constexpr that heuristics make and that the launch does not give. `asked`, if given, receives
/// the names that the heuristics looked at.
LaunchOptions with_heuristics(const detail::KernelState& state, std::span<const Arg> args, const LaunchOptions& options,
                              std::vector<std::string>* asked = nullptr);

/// The arguments of a launch, the constexprs of its options and the options themselves, by name.
LaunchArgs launch_args(const KernelSource& kernel, std::span<const Arg> args, const LaunchOptions& options);

/// Everything that a launch runs with, as a configuration, and back (the stream is that of `launch`).
Config config_of(const LaunchOptions& options);
LaunchOptions options_of(const Config& config, const LaunchOptions& launch);

/// The configuration that was chosen before, for other values of arguments that are no key.
std::optional<Config> chosen_before(detail::KernelState& state, const Device& device, const LaunchOptions& options,
                                    std::span<const Arg> args);

/// The configuration that Kernel::choose() gave.
std::optional<Config> listed_choice(detail::KernelState& state, const Device& device, const LaunchOptions& options,
                                    std::span<const Arg> args);
/// What is tuned for a launch, and where.
TuningProblem problem_of(const detail::KernelState& state, const Device& device, const LaunchOptions& options,
                         std::span<const Arg> args);

/// What launches share a choice by: the name of KernelState::TuningLock.
std::string tuned_alone(const detail::KernelState& state, const Device& device, const LaunchOptions& options,
                        std::span<const Arg> args);

/// With the problem's lock held. Other problems may be tuned at the same time, by other threads: they compile on the
/// same processors, and take turns on the device.
TuneReport tune(detail::KernelState& state, Device& device, detail::GridRef grid, const LaunchOptions& options,
                std::span<const Arg> args, const TuneOptions& tuning);

/// Throws the LaunchError that none of the configurations works, with the reason of each.
[[noreturn]] void fail_as_none_works(const KernelSource& kernel, const std::vector<TuningResult>& failed);

}  // namespace tegula::dsl
