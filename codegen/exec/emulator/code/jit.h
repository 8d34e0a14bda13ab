// Code that this process can run from a kernel image's bitcode.
#pragma once

#include <memory>
#include <vector>

#include "codegen/exec/emulator/launch/fault.h"
#include "codegen/exec/emulator/launch/scheduler.h"
#include "codegen/exec/emulator/ptx/ptx.h"
#include "codegen/target/target.h"
#include "runtime/kernel_image.h"
#include "runtime/store/image_cache.h"

namespace tegula::emulator {

/// How code is made: for the interpreter, in next to no time, where it has instructions for all of it, or as machine
/// code at once; or so that it runs fast, which takes several times as long. All compute the same bits, but for those
/// of NaNs and the sign of a zero that is the smaller or the larger one of two.
enum class Tier { Quick, Optimised };

/// A kernel as code of this process.
class JitKernel {
 public:
  virtual ~JitKernel() = default;

  KernelCode code;
  /// Places of the calls that threads do together (Where::place indexes them).
  std::vector<Place> places;
  /// Its blocks of inline PTX (Launch::asm_blocks), by the numbers that its code has.
  std::vector<std::unique_ptr<const ptx::Program>> blocks;
  /// It has atomics or volatile loads, so that programs may wait for each other.
  bool may_spin = false;
  /// It makes pointers of numbers, such as addresses from memory.
  bool makes_pointers = false;
  /// It reads shared memory through the asynchronous proxy.
  bool async_proxy = false;
  /// Stack that its functions' frames take together.
  uint64_t frame_bytes = 0;
  /// What it takes to make it fast, about.
  double optimising_seconds = 0;
};

class Jit {
 public:
  /// `baseline_cpu`: only x86-64's first instruction set.
  /// `checks`: code tells what its atomic operations order (emu_order), and warns of arithmetic, and of `births`.
  /// `kept`: where code is kept for later processes; null: nowhere.
  Jit(bool baseline_cpu, bool checks, Births births, std::shared_ptr<ImageCache> kept);
  ~Jit();

  /// Throws DeviceError if the bitcode is damaged, does not fit the image's parameters, or calls what there is not on
  /// the target, or if LLVM cannot serve this host. The result must not outlive the Jit.
  std::unique_ptr<JitKernel> compile(const KernelImage& image, const Target& target, Tier tier);
  /// The same if it was compiled before and kept; else null.
  std::unique_ptr<JitKernel> find(const KernelImage& image, const Target& target, Tier tier);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tegula::emulator
