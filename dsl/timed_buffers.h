// The buffers that timed runs of a kernel modify, and copies of all buffers for other devices.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "dsl/kernel_state.h"
#include "runtime/memory.h"

namespace tegula::dsl {

/// The buffers that the kernel's tuning names: each is zeroed before a run, or set back to what it held, and once more
/// at the end.
class TimedBuffers {
 public:
  /// Throws LaunchError where the size of a buffer is not known.
  TimedBuffers(const detail::KernelState& state, Device& device, const LaunchOptions& options,
               std::span<const Arg> args, StreamHandle stream);
  ~TimedBuffers();
  TimedBuffers(const TimedBuffers&) = delete;
  TimedBuffers& operator=(const TimedBuffers&) = delete;

  void before_run();
  /// Whether a run needs before_run(): buffers are zeroed or restored.
  bool any() const { return !items_.empty(); }

 private:
  struct Item {
    uint64_t address;
    size_t bytes;
    Buffer saved;  ///< what it held; none: it is zeroed
  };

  Device& device_;
  StreamHandle stream_;
  std::vector<Item> items_;
};

/// Copies of the buffers of a launch on other devices; they live as long as this.
class BufferCopies {
 public:
  /// The arguments for `device`, with copies of what lies on `from`. Throws LaunchError where the size of a buffer is
  /// not known.
  std::vector<Arg> on(Device& device, const detail::KernelState& state, Device& from, const LaunchOptions& options,
                      std::span<const Arg> args);

 private:
  std::deque<Buffer> buffers_;
  std::deque<TensorDescriptor> descriptors_;
};

}  // namespace tegula::dsl
