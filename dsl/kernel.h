// Kernels: compiled for the arguments that they are launched with.
//
// A kernel is compiled for the types of its arguments and for a few facts about their values, as Triton does: pointers
// that are multiples of 16, integers that are multiples of 2, 4, 8, 16 or 256, or 1, None. What is compiled is kept in
// memory and on disk. For the hot path take the LaunchHandle that prepare() returns.
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dsl/config.h"
#include "runtime/base/elem.h"
#include "runtime/base/error.h"
#include "runtime/base/function.h"
#include "runtime/base/shared.h"
#include "runtime/device.h"
#include "runtime/launch.h"
#include "runtime/tuning/tuning_result.h"

namespace tegula {

class ImageCache;   // runtime/store/image_cache.h
class TuningStore;  // runtime/tuning/tuning_store.h

namespace ir {
struct Func;
}
namespace dsl {
class KernelSource;
class LaunchKey;
struct ReadyLaunch;
}  // namespace dsl

struct LaunchOptions {
  std::vector<ConstexprArg> constexprs = {};
  int num_warps = 4;   ///< a power of two up to 32
  int num_stages = 3;  ///< of loops around a tl.dot that have no number of their own in tl.range(..., num_stages=)
  int maxnreg = 0;     ///< registers a thread at most; 0: as many as the GPU has
  /// Whether warps of their own issue the copies of loops around a tl.dot (GPUs from sm_90a on): 1 never, 2 wherever it
  /// is possible, 3 too, with two groups of warps that take tiles in turns, 0 where it is expected to pay.
  int warp_specialize = 0;
  /// Whether loops around a tl.dot copy whole boxes of arrays by tensor maps, and results of products are stored so
  /// (GPUs from sm_90 on): 1 never, 2 wherever it is possible, 0 where it is expected to pay. A launch whose arguments
  /// allow no tensor map takes other code.
  int bulk_copies = 0;
  /// Whether a launch starts as many programs as run at a time, which take the grid's programs in turns (GPUs from
  /// sm_90a on, kernels whose products' operands are copied by warps of their own): 1 never, 2 wherever it is possible,
  /// 0 where it is expected to pay. What programs see of the grid does not change.
  int program_loop = 0;
  /// 1: tl.device_assert and assert are carried out; 0: where the environment variable TEGULA_DEBUG, or TRITON_DEBUG,
  /// is set to another value than 0. 2: statements and named values are told to a debugger too, as `tegula debug` asks.
  int debug = 0;
  /// Thread blocks that run a program together, as a cluster (GPUs from sm_90 on): 1, 2, 4, 8 or 16. The program's
  /// tiles are divided over them, so that a row of a matrix may be as wide as the registers of all of them.
  int num_ctas = 1;
  /// Bits of the number of programs of a launch, where that is known (11: 1024 to 2047 programs); 0: any number. Code
  /// that is fast for so many, and right for any number, takes less time to compile than code that is fast for all.
  int program_bits = 0;
  /// The kernel may start while the one ahead of it in the stream ends, and then waits for it before it touches memory
  /// (GPUs from sm_90 on). False: it starts when the one ahead is done.
  bool dependent_launch = true;
  /// All programs run at once, so that they may wait for each other: a cooperative launch, which starts only when the
  /// kernel ahead is done. A grid that does not fit on the device at once is a LaunchError.
  bool cooperative_grid = false;
  /// A product and a sum may become one fma, which rounds once. False: each rounds.
  bool enable_fp_fusion = true;
  /// With debug=1: a sum, difference or product of integers of less than 64 bits that has more bits ends the launch as
  /// a tl.device_assert does. False: only what the kernel asserts.
  bool sanitize_overflow = true;
  StreamHandle stream = nullptr;
};

/// A parameter of a kernel's signature.
struct KernelParam {
  std::string name;
  bool is_constexpr = false;
  bool has_default = false;
  std::optional<Elem> annotated = {};  ///< `n: tl.int64`, `n: int`, ...: the argument has this type whatever its value
  bool specialize = true;              ///< code is compiled for an integer of 1 (do_not_specialize)
  bool specialize_alignment = true;    ///< and for multiples (neither do_not_specialize nor ..._on_alignment)
};

/// An argument of a compilation: the type of the value that a launch will pass, or the value itself.
struct ArgType {
  Elem elem = Elem::I32;
  bool pointer = false;
  int64_t divisible_by = 1;
  /// The value, if it is compiled in: an integer, or 0 for a null pointer (None). Launches must pass exactly this
  /// value.
  std::optional<int64_t> constant = {};
  /// For the pointer of a tensor descriptor, the extents of its blocks; otherwise empty. The types of the array's
  /// extents and then of its strides follow, one a dimension.
  std::vector<int64_t> block_shape = {};
  bool pad_nan = false;
};

namespace detail {
struct KernelState;

/// The grid of a launch: extents, or a function of the configuration. A reference: valid as long as what it was made
/// from.
class GridRef {
 public:
  explicit GridRef(const Grid& grid)
      : object_(&grid), call_([](GridRef r, const Config&) { return *static_cast<const Grid*>(r.object_); }) {}
  template <class F>
  requires std::is_invocable_r_v<Grid, const F&, const Config&>
  explicit GridRef(const F& f)
      : object_(&f), call_([](GridRef r, const Config& c) -> Grid { return (*static_cast<const F*>(r.object_))(c); }) {}
  explicit GridRef(Grid (*f)(const Config&))
      : function_(f), call_([](GridRef r, const Config& c) { return r.function_(c); }) {}

  Grid operator()(const Config& config) const { return call_(*this, config); }

 private:
  union {
    const void* object_;
    Grid (*function_)(const Config&);
  };
  Grid (*call_)(GridRef, const Config&);
};

/// std::tuple and std::pair.
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
}
&&!requires { typename T::value_type; };

template <class T>
concept LaunchValue = std::convertible_to<const T&, Arg> || TupleLike<T>;

/// The arguments of a launch with tuples: the items of the tuples in one list, and the structure of the tuples among
/// the options.
class TupleArgs {
 public:
  TupleArgs(const std::vector<KernelParam>& params, const LaunchOptions& options);
  /// A LaunchValue, or an item of a tuple.
  template <class T>
  void add(const T& value) {
    constexpr bool is_text = std::convertible_to<const T&, std::string_view> && !std::is_same_v<T, std::nullptr_t>;
    if constexpr (TupleLike<T>) {
      begin_tuple();
      [&]<size_t... I>(std::index_sequence<I...>) { (add(get<I>(value)), ...); }
      (std::make_index_sequence<std::tuple_size<T>::value>());
      end_tuple();
    } else if constexpr (std::is_same_v<T, std::monostate>) {
      add_none();
    } else if constexpr (std::is_same_v<T, Elem>) {
      add_known(value);
    } else if constexpr (is_text) {
      add_known(std::string_view(value));
    } else {
      add_arg(Arg(value));
    }
  }
  const LaunchOptions& options() const;
  std::span<const Arg> args() const;

 private:
  struct Forms;  ///< of the tuples that are not at their end: of an argument of the launch NextArg, of what is known
                 ///< itself
  void begin_tuple();
  void end_tuple();
  void add_none();
  void add_known(Elem value);
  void add_known(std::string_view text);
  void add_arg(const Arg& arg);

  Shared<Forms> forms_;
};

}  // namespace detail

/// How a kernel is tuned when a launch needs it, or when tune() is called.
struct TuneOptions {
  enum class Mode {
    Normal,   ///< what is not known yet is timed
    Pinned,   ///< nothing is ever timed: the known winner, else the best of what is known, else the model's choice
    Refresh,  ///< everything is timed anew
  };
  Mode mode = Mode::Normal;
  int compile_threads = 0;                 ///< 0: one a core
  std::vector<Device*> more_devices = {};  ///< GPUs of the same kind that share the work of timing
  /// Called when a candidate is finished, with the number of candidates left. May be null.
  Function<void(const TuningResult&, size_t left)> progress = {};
};

/// The result of tuning.
struct TuneReport {
  TuningProblem problem;
  /// One for each candidate, in the order of timing; on the emulator, which times nothing, only those that do not work.
  std::vector<TuningResult> results;
  Config best;         ///< all constexprs and options of the winner
  Config declared;     ///< the winner as it was given, without what heuristics and the launch add
  std::string winner;  ///< its text in `results`
  int timed = 0;       ///< candidates timed now, the others being known
  double seconds = 0;
};

/// A kernel, from a text file (Program) or a C++ function (dsl/embedded). Copies share what has been made ready.
class Kernel {
 public:
  explicit Kernel(Shared<const dsl::KernelSource> source);

  const std::string& name() const;
  /// The signature, in order.
  const std::vector<KernelParam>& params() const;

  /// The types of launch arguments, in the order of the signature without its constexpr parameters.
  std::vector<ArgType> classify(std::span<const Arg> args, const LaunchOptions& options) const;

  /// Module-level names of its file that stand for constants: `BLOCK = tl.constexpr(64)`.
  std::vector<ConstexprArg> globals() const;

  /// The arguments of a launch by the names of the signature.
  LaunchArgs named(std::span<const Arg> args) const;

  /// Completes the options where nothing can be timed or predicted: with the first configuration that pruning leaves,
  /// and with the values of heuristics, for these arguments. Throws LaunchError, CompileError.
  LaunchOptions with_first_config(std::span<const Arg> args, const LaunchOptions& options) const;

  /// Whether the kernel may write through each of the arguments. Throws LaunchError, CompileError.
  std::vector<bool> written_args(std::span<const Arg> args, const LaunchOptions& options) const;

  /// Compiles for a target without a device or the cache. Throws CompileError.
  KernelImage compile(std::span<const ArgType> types, const LaunchOptions& options, std::string_view target,
                      bool emulator = false) const;
  /// Canonical text of the kernel's tile IR; `target` is what the kernel is told of when it asks. Throws CompileError.
  std::string tile_ir(std::span<const ArgType> types, const LaunchOptions& options,
                      std::string_view target = "sm_90a") const;
  /// The same as the function itself, for tools (codegen/compile.h takes it on). Throws CompileError.
  Shared<ir::Func> tile_func(std::span<const ArgType> types, const LaunchOptions& options,
                             std::string_view target = "sm_90a") const;

  /// The kernel for these types, ready on the device, which must outlive the handle: from memory, from the cache on
  /// disk, or compiled now. Throws CompileError, LaunchError (constexprs that are missing or not known) or DeviceError.
  LaunchHandle prepare(Device& device, std::span<const ArgType> types, const LaunchOptions& options) const;

  /// The same, for all kernels of the same text in this process too, and with the code that launches whose arguments
  /// allow no tensor maps need: after seal() such launches still work.
  void prewarm(Device& device, std::span<const ArgType> types, const LaunchOptions& options) const;
  /// Makes launches with this tuning problem on this GPU run with these options, for all kernels of the same text.
  /// TEGULA_RECORD writes such choices.
  void choose(std::string_view gpu, std::string_view problem, const LaunchOptions& options) const;
  /// The source of its code, for tools.
  const dsl::KernelSource& source() const;

  /// The same kernel, tuned from now on over the given configurations (which take the place of those in its source): a
  /// launch that leaves the constexprs of the configurations open picks the best one for its arguments' types and for
  /// the values of the key arguments. The first launch for new ones times the configurations on the device, with its
  /// own arguments; what it finds is stored and is not timed again. On the emulator nothing is timed: the model picks.
  /// The environment's TEGULA_TUNING = pinned forbids timing. Throws LaunchError for names the kernel does not have.
  Kernel autotune(Autotune tuning) const;
  /// The same kernel with constexprs that follow from other arguments, in the order of evaluation. A launch may still
  /// give such a constexpr itself.
  Kernel heuristics(std::vector<Heuristic> heuristics) const;
  /// How launches are tuned; null if they are not. Throws CompileError if the source's declaration is not understood.
  const Autotune* autotuning() const;

  /// Tunes for these arguments now. Throws LaunchError if the kernel has no configurations or none of them works.
  TuneReport tune(Device& device, detail::GridRef grid, const LaunchOptions& options, std::span<const Arg> args,
                  const TuneOptions& tuning = {}) const;

  /// What a launch runs; valid as long as the kernel and the device.
  struct Ready {
    const LaunchHandle* handle;
    const Config* config;  ///< everything that it runs with
  };
  /// Makes ready what launch() would run with these arguments, without launching it. Throws what launch() throws before
  /// it starts anything.
  Ready ready(Device& device, detail::GridRef grid, const LaunchOptions& options, std::span<const Arg> args) const;

  /// Launches on options.stream with these arguments what is ready for them, after making it ready if need be: by
  /// prepare(), or by tuning. What was made ready goes with the device. Throws what prepare(), tune() and LaunchHandle
  /// do. Returns everything that it ran with, which is the same object for all launches of what was made ready once,
  /// and lives as long as the kernel.
  const Config& launch(Device& device, detail::GridRef grid, const LaunchOptions& options,
                       std::span<const Arg> args) const;
  void launch(Device& device, Grid grid, const LaunchOptions& options, std::span<const Arg> args) const {
    launch(device, detail::GridRef(grid), options, args);
  }
  /// A std::tuple or std::pair stands for a tuple of the kernel: of arguments of the launch, of further tuples, and of
  /// texts, Elem and std::monostate (None), which are known at compile time.
  template <detail::LaunchValue... Args>
  void launch(Device& device, Grid grid, const LaunchOptions& options, const Args&... values) const {
    launch_values(device, detail::GridRef(grid), options, values...);
  }
  /// The grid as a function of the configuration that the launch runs with:
  /// `[&](const Config& c) { return Grid{unsigned((n + c["BLOCK"] - 1) / c["BLOCK"])}; }`
  template <class F, detail::LaunchValue... Args>
  requires std::is_invocable_r_v<Grid, const F&, const Config&>
  void launch(Device& device, const F& grid, const LaunchOptions& options, const Args&... values) const {
    launch_values(device, detail::GridRef(grid), options, values...);
  }

  /// The cache that this kernel uses; the process's default one unless set. Null: none.
  void set_cache(Shared<ImageCache> cache);
  /// Where this kernel's tuning results are kept; the process's default store unless set. Null: nowhere.
  void set_tuning_store(Shared<TuningStore> store);

 private:
  template <class... Args>
  void launch_values(Device& device, detail::GridRef grid, const LaunchOptions& options, const Args&... values) const {
    if constexpr ((detail::TupleLike<Args> || ...)) {
      detail::TupleArgs args(params(), options);
      (args.add(values), ...);
      launch(device, grid, args.options(), args.args());
    } else {
      const std::array<Arg, sizeof...(Args)> args{Arg(values)...};
      launch(device, grid, options, std::span<const Arg>(args));
    }
  }
  Kernel copy() const;
  Shared<detail::KernelState> state_;
};

/// The device to use when the user names none: the first GPU if there is one, else the emulator. The environment's
/// TEGULA_DEVICE = gpu or emulator decides instead; TEGULA_TARGET names the GPU that the emulator stands for. `why`, if
/// not null, receives a sentence that says which and why. It is the same one at each call and lives until the process
/// ends.
Device* default_device(std::string* why = nullptr);

}  // namespace tegula
