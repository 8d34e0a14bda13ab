// Kernels: compiled for the arguments that they are launched with.
//
// A kernel is compiled for the types of its arguments and for a few facts about their values, as Triton does: pointers
// and integers that are multiples of 16, integers equal to 1, null pointers. What is compiled is kept in memory and on
// disk. For the hot path take the LaunchHandle that prepare() returns.
#pragma once

#include <array>
#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/config.h"
#include "runtime/base/elem.h"
#include "runtime/base/error.h"
#include "runtime/device.h"
#include "runtime/image_cache.h"
#include "runtime/launch.h"

namespace tegula {

namespace ir {
struct Func;
}
namespace dsl {
class KernelSource;
}

struct LaunchOptions {
  std::vector<ConstexprArg> constexprs = {};
  int num_warps = 4;   ///< a power of two up to 32
  int num_stages = 3;  ///< of loops that do not say their own number in tl.range(..., num_stages=)
  int maxnreg = 0;     ///< registers a thread at most; 0: as many as the GPU has
  /// The kernel may start while the one ahead of it in the stream ends, and then waits for it before it touches memory
  /// (GPUs from sm_90 on). False: it starts when the one ahead is done.
  bool dependent_launch = true;
  StreamHandle stream = nullptr;
};

/// What a kernel's signature says of one parameter.
struct KernelParam {
  std::string name;
  bool is_constexpr = false;
  bool has_default = false;
  std::optional<Elem> annotated = {};  ///< `n: tl.int64`, `n: int`, ...: the argument has this type whatever its value
};

/// An argument of a compilation: the type of what will be passed, or a value known already.
struct ArgType {
  Elem elem = Elem::I32;
  bool pointer = false;
  int64_t divisible_by = 1;
  /// The launch will pass exactly this value, which is compiled in: an integer, or 0 for a null pointer (None).
  std::optional<int64_t> constant = {};
};

namespace detail {
struct KernelState;
}  // namespace detail

/// A kernel, of a text file (Program) or of a C++ function (dsl/embedded). Copies share what has been made ready.
class Kernel {
 public:
  explicit Kernel(std::shared_ptr<const dsl::KernelSource> source);

  const std::string& name() const;
  /// The signature, in order.
  const std::vector<KernelParam>& params() const;

  /// Types of launch arguments in the order of the signature without its constexpr parameters.
  std::vector<ArgType> classify(std::span<const Arg> args, const LaunchOptions& options) const;

  /// Compiles for a target without a device or the cache. Throws CompileError.
  KernelImage compile(std::span<const ArgType> types, const LaunchOptions& options, std::string_view target,
                      bool emulator = false) const;
  /// Canonical text of the kernel's tile IR. Throws CompileError.
  std::string tile_ir(std::span<const ArgType> types, const LaunchOptions& options) const;
  /// The same as the function itself, for tools (codegen/compile.h takes it on). Throws CompileError.
  std::unique_ptr<ir::Func> tile_func(std::span<const ArgType> types, const LaunchOptions& options) const;

  /// The kernel for these types, ready on the device: from memory, from the cache on disk, or compiled now. Throws
  /// CompileError, LaunchError (constexprs that are missing or not known) or DeviceError.
  LaunchHandle prepare(Device& device, std::span<const ArgType> types, const LaunchOptions& options) const;

  /// Prepares for these arguments and launches with them. The device must outlive the kernel, which keeps what it has
  /// prepared. Throws what prepare() and LaunchHandle do.
  void launch(Device& device, Grid grid, const LaunchOptions& options, std::span<const Arg> args) const;
  template <class... Args>
  requires(std::convertible_to<const Args&, Arg>&&...) void launch(Device& device, Grid grid,
                                                                   const LaunchOptions& options,
                                                                   const Args&... values) const {
    const std::array<Arg, sizeof...(Args)> args{Arg(values)...};
    launch(device, grid, options, std::span<const Arg>(args));
  }

  /// The cache that this kernel uses; the process's default one unless set. Null: none.
  void set_cache(std::shared_ptr<ImageCache> cache);

 private:
  std::shared_ptr<detail::KernelState> state_;
};

/// The device to use when the user names none: the first GPU if there is one, else the emulator. The environment's
/// TEGULA_DEVICE = gpu or emulator decides instead; TEGULA_TARGET names the GPU that the emulator stands for. `why`, if
/// not null, receives a sentence that says which and why. The device lives until the process ends.
std::shared_ptr<Device> default_device(std::string* why = nullptr);

}  // namespace tegula
