// Kernels from text: load a file, pick a kernel, launch it.
//
//   auto device = tegula::default_device();
//   auto program = tegula::Program::load("softmax.py");
//   auto softmax = program.kernel("softmax_kernel");
//   softmax.launch(*device, {rows}, {.constexprs = {{"BLOCK", 1024}}, .num_warps = 8}, out.as<float>(), in.as<float>(),
//   n);
//
// A kernel is compiled for the types of its arguments and for a few facts about their values, as Triton does: pointers
// and integers that are multiples of 16, integers equal to 1, null pointers. What is compiled is kept in memory and on
// disk. For the hot path take the LaunchHandle that prepare() returns.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/elem.h"
#include "runtime/base/error.h"
#include "runtime/device.h"
#include "runtime/image_cache.h"
#include "runtime/launch.h"

namespace tegula {

namespace ir {
struct Func;
}

/// A compile-time argument: None, a bool, an integer, a float, a string, or an element type.
using Constexpr = std::variant<std::monostate, bool, int64_t, double, std::string, Elem>;

struct ConstexprArg {
  std::string name;
  Constexpr value;

  ConstexprArg(std::string name, Constexpr value) : name(std::move(name)), value(std::move(value)) {}
  ConstexprArg(std::string name, int value) : ConstexprArg(std::move(name), Constexpr(int64_t(value))) {}
  ConstexprArg(std::string name, const char* value) : ConstexprArg(std::move(name), Constexpr(std::string(value))) {}
};

struct LaunchOptions {
  std::vector<ConstexprArg> constexprs = {};
  int num_warps = 4;   ///< a power of two up to 32
  int num_stages = 3;  ///< iterations that loops with prefetching run ahead, plus one
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
struct ProgramState;
struct KernelState;
}  // namespace detail

class Kernel {
 public:
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

 private:
  friend class Program;
  explicit Kernel(std::shared_ptr<detail::KernelState> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::KernelState> state_;
};

class Program {
 public:
  /// Parses a Triton source file. Throws FileError, or CompileError with all syntax errors.
  static Program load(const std::string& path);
  /// The same from text; `name` stands for the file in messages.
  static Program parse(std::string text, std::string name = "<text>");

  /// Names of the @triton.jit functions, helpers included, in the order of the file.
  std::vector<std::string> kernels() const;
  /// Throws CompileError for an unknown name, with the nearest known one.
  Kernel kernel(std::string_view name) const;
  /// Checks all functions as far as that goes without argument types. Throws CompileError.
  void check() const;

  /// The cache that kernels of this program use; the process's default one unless set. Null: none.
  void set_cache(std::shared_ptr<ImageCache> cache);

 private:
  explicit Program(std::shared_ptr<detail::ProgramState> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::ProgramState> state_;
};

/// The device to use when the user names none: the first GPU if there is one, else the emulator. The environment's
/// TEGULA_DEVICE = gpu or emulator decides instead; TEGULA_TARGET names the GPU that the emulator stands for. `why`, if
/// not null, receives a sentence that says which and why. The device lives until the process ends.
std::shared_ptr<Device> default_device(std::string* why = nullptr);

}  // namespace tegula
