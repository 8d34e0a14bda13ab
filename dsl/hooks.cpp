#include "dsl/hooks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dsl/specialize.h"
#include "dsl/tuner.h"
#include "runtime/base/diag.h"
#include "runtime/base/error.h"

namespace tegula {

HookedLaunch::HookedLaunch(const dsl::KernelSource& kernel, Device& device, StreamHandle stream,
                           std::span<const Arg> args, const Config& config)
    : kernel_(kernel),
      device_(device),
      stream_(stream),
      config_(config),
      named_(dsl::launch_args(kernel, args, dsl::options_of(config, {}))),
      values_(args.begin(), args.end()) {}

std::span<const Arg> HookedLaunch::values() const { return values_; }

Arg& HookedLaunch::memory(std::string_view argument) {
  const auto params = dsl::runtime_params(kernel_, dsl::options_of(config_, {}), values_.size());
  std::vector<std::string> names;
  for (size_t i = 0; i < params.size(); ++i) {
    const bool is_memory = values_[i].kind == Arg::Kind::Pointer || values_[i].kind == Arg::Kind::Descriptor;
    if (is_memory && params[i]->name == argument) return values_[i];
    if (is_memory) names.push_back(params[i]->name);
  }
  throw LaunchError(
      fmt::format("kernel '{}': a hook asks for the memory of '{}', which is no pointer or descriptor of "
                  "the launch\n  hint: it has {}",
                  kernel_.name(), argument, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

bool HookedLaunch::is_descriptor(std::string_view argument) const {
  const auto params = dsl::runtime_params(kernel_, dsl::options_of(config_, {}), values_.size());
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i]->name == argument) return values_[i].kind == Arg::Kind::Descriptor;
  return false;
}

void HookedLaunch::zero(std::string_view argument) {
  const Arg& arg = memory(argument);
  if (arg.u == 0) return;
  const size_t bytes = arg.bytes ? arg.bytes : device_.allocated_bytes(arg.u);
  if (!bytes)
    throw LaunchError(
        fmt::format("kernel '{}': a hook zeroes '{}', but how large its buffer is is not known\n  hint: "
                    "pass a Buffer, or Arg::pointer(address, type, bytes)",
                    kernel_.name(), argument));
  device_.fill(arg.u, 0, bytes, stream_);
}

void HookedLaunch::set_block_shape(std::string_view argument, std::vector<int64_t> shape) {
  Arg& arg = memory(argument);
  if (arg.kind != Arg::Kind::Descriptor)
    throw LaunchError(fmt::format("kernel '{}': a hook gives '{}' a block shape, but it is no tensor descriptor",
                                  kernel_.name(), argument));
  TensorDescriptor& changed = *changed_.emplace_back(std::make_unique<TensorDescriptor>(*arg.descriptor));
  changed.block_shape = std::move(shape);
  arg = Arg(changed);
}

}  // namespace tegula
