// The code of a kernel, made quickly at first, mostly for the interpreter: most kernels run for less time than LLVM
// takes to optimise them. One that runs for longer is compiled, optimised.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "codegen/exec/emulator/code/jit.h"

namespace tegula::emulator {

/// Its members may be called from any thread. It must not outlive the Jit.
class TieredCode {
 public:
  /// Throws DeviceError as Jit::compile does, and if a thread would need more stack than any has. `at_once`: it is
  /// optimised before it first runs.
  TieredCode(Jit& jit, const KernelImage& image, const Target& target, bool at_once);

  /// The best code there is: all of it may run at a time, on behalf of one program too.
  const KernelCode* code() const { return code_.load(std::memory_order_acquire); }
  /// What holds for all of it.
  const JitKernel& facts() const { return *first_; }
  /// Stack that a thread needs, whichever code it runs.
  uint64_t stack_bytes() const { return stack_bytes_; }

  /// Notes that a worker has computed for that long in an earlier launch, or so far in this one.
  void add_seconds(double seconds);
  void optimise_if_due(double seconds_of_launch);

 private:
  Jit& jit_;
  const KernelImage& image_;
  const Target target_;
  uint64_t stack_bytes_ = 0;
  std::unique_ptr<JitKernel> first_, optimised_;
  std::atomic<const KernelCode*> code_ = nullptr;
  std::mutex mutex_;  ///< of what follows
  double seconds_ = 0;
  bool settled_ = false;  ///< `first_` stays, or there is something better
};

}  // namespace tegula::emulator
