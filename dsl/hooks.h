// The interface that hooks of a tuned kernel get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dsl/config.h"
#include "runtime/device.h"
#include "runtime/launch.h"

namespace tegula {

namespace dsl {
class KernelSource;
}

/// A launch with a configuration, or a timed run of one, for the hooks that are called around it. It lives for the call
/// of the hook.
class HookedLaunch {
 public:
  HookedLaunch(const dsl::KernelSource& kernel, Device& device, StreamHandle stream, std::span<const Arg> args,
               const Config& config);
  HookedLaunch(const HookedLaunch&) = delete;
  HookedLaunch& operator=(const HookedLaunch&) = delete;

  /// The arguments by name, with the constexprs and options of the configuration.
  const LaunchArgs& args() const { return named_; }
  const Config& config() const { return config_; }
  bool is_descriptor(std::string_view argument) const;

  /// Fills the buffer that the argument, a pointer or tensor descriptor, points to with zeros, on the launch's stream;
  /// null pointers are ignored. Throws LaunchError if there is no such argument or the size of its buffer is not known,
  /// and DeviceError.
  void zero(std::string_view argument);
  /// Sets the block shape of the argument, a tensor descriptor, for this launch. Throws LaunchError if there is no such
  /// argument.
  void set_block_shape(std::string_view argument, std::vector<int64_t> shape);

  /// The arguments as the hooks left them.
  std::span<const Arg> values() const;

 private:
  Arg& memory(std::string_view argument);

  const dsl::KernelSource& kernel_;
  Device& device_;
  StreamHandle stream_;
  Config config_;
  LaunchArgs named_;
  std::vector<Arg> values_;
  std::vector<Shared<TensorDescriptor>> changed_;  ///< descriptors among the values
};

}  // namespace tegula
