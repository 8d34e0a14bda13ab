// Configurations of a kernel, and how they are tuned.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/elem.h"
#include "runtime/base/function.h"

namespace tegula {

/// In a tuple that is passed as an argument of a launch: the place of the launch's next argument.
struct NextArg {
  bool operator==(const NextArg&) const;
};
struct ConstexprTuple;
/// A compile-time argument: None, a bool, an integer, a float, a string, an element type, or a tuple of such.
using Constexpr = std::variant<std::monostate, bool, int64_t, double, std::string, Elem, NextArg, ConstexprTuple>;
/// A tuple given among the constexprs may also stand for a parameter of the launch that is no tl.constexpr: each
/// NextArg in it is then an argument of the launch, in order, and the other items are known at compile time.
struct ConstexprTuple {
  std::vector<Constexpr> items;
  std::string type = {};                ///< of a named tuple: the name of its class
  std::vector<std::string> names = {};  ///< of a named tuple: those of its fields

  bool operator==(const ConstexprTuple& other) const;
  /// The number of NextArgs in it, including those of inner tuples.
  size_t num_args() const;
};
/// The value in the syntax of the kernel language; equal values have equal text, different values different text.
std::string to_string(const Constexpr& value);

struct ConstexprArg {
  std::string name;
  Constexpr value;

  ConstexprArg(std::string name, Constexpr value);
  template <class T>
  requires std::is_arithmetic_v<T> ConstexprArg(std::string name, T value)
      : ConstexprArg(std::move(name), constant(Widest<T>(value))) {}
  ConstexprArg(std::string name, const char* value);
  // Defined in a source file, so that programs do not instantiate the variant's in each of their files.
  ConstexprArg(const ConstexprArg&);
  ConstexprArg(ConstexprArg&&) noexcept;
  ConstexprArg& operator=(const ConstexprArg&);
  ConstexprArg& operator=(ConstexprArg&&) noexcept;
  ~ConstexprArg();
  bool operator==(const ConstexprArg&) const;

 private:
  template <class T>
  using Widest =
      std::conditional_t<std::is_same_v<T, bool>, bool, std::conditional_t<std::is_integral_v<T>, int64_t, double>>;
  static Constexpr constant(bool value);
  static Constexpr constant(int64_t value);
  static Constexpr constant(double value);
};

/// A pointer argument, as heuristics and pruning functions see it.
struct PointerArg {
  std::optional<Elem> elem;  ///< what it points to; none if not known
  uint64_t address = 0;      ///< 0 for None
  bool operator==(const PointerArg&) const;
};

/// The arguments of a launch by name, run-time and compile-time ones. An unknown name is a LaunchError with the nearest
/// known one.
class LaunchArgs {
 public:
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string, Elem, ConstexprTuple, PointerArg>;

  const Value* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Value& operator[](std::string_view name) const;
  /// An integer or bool argument. Throws LaunchError if it is something else.
  int64_t integer(std::string_view name) const;
  const PointerArg& pointer(std::string_view name) const;
  /// Adds an argument or replaces its value.
  void set(std::string_view name, Value value);
  void set_constexpr(std::string_view name, const Constexpr& value);

  const std::vector<std::pair<std::string, Value>>& items() const;

  /// Records the names that are asked for in `asked`, which must outlive this; items() asks for all of them.
  void note_asked(std::vector<std::string>* asked) { asked_ = asked; }

 private:
  std::vector<std::pair<std::string, Value>> items_;
  std::vector<std::string>* asked_ = nullptr;
};

class HookedLaunch;  // dsl/hooks.h

/// One configuration of a kernel: values of its constexpr parameters, and options.
struct Config {
  std::vector<ConstexprArg> constexprs;
  std::optional<int> num_warps;        ///< unset: the launch's
  std::optional<int> num_stages;       ///< unset: the launch's
  std::optional<int> maxnreg;          ///< registers a thread at most; unset: the launch's
  std::optional<int> warp_specialize;  ///< as of LaunchOptions; unset: the launch's
  std::optional<int> bulk_copies;      ///< as of LaunchOptions; unset: the launch's
  std::optional<int> program_loop;     ///< as of LaunchOptions; unset: the launch's
  std::optional<int> debug;            ///< as of LaunchOptions; unset: the launch's
  std::optional<int> num_ctas;         ///< as of LaunchOptions; unset: the launch's
  std::optional<int> program_bits;     ///< as of LaunchOptions; unset: the launch's
  /// Called before each launch that runs with this configuration by tuning, and before each timed run. May be null.
  Function<void(HookedLaunch&)> pre_hook = {};

  /// The integer (or bool) value of a constexpr: `config["BLOCK"]`, for grids. Throws LaunchError for other names.
  int64_t operator[](std::string_view name) const;
  const Constexpr* find(std::string_view name) const;
  /// "BLOCK=1024 num_warps=4 num_stages=3": equal configs have equal text, whatever the order of their constexprs.
  std::string to_string() const;
  bool operator==(const Config& other) const;
};

/// An option of a configuration: num_warps(4), num_stages(2), maxnreg(64).
struct ConfigOption {
  std::optional<int> Config::*field;
  int value;
};
inline ConfigOption num_warps(int n) { return {&Config::num_warps, n}; }
inline ConfigOption num_stages(int n) { return {&Config::num_stages, n}; }
inline ConfigOption maxnreg(int n) { return {&Config::maxnreg, n}; }
inline ConfigOption warp_specialize(int n) { return {&Config::warp_specialize, n}; }
inline ConfigOption bulk_copies(int n) { return {&Config::bulk_copies, n}; }
inline ConfigOption program_loop(int n) { return {&Config::program_loop, n}; }
inline ConfigOption num_ctas(int n) { return {&Config::num_ctas, n}; }

namespace detail {
Config config_of(std::vector<ConstexprArg> constexprs, std::initializer_list<ConfigOption> options);
}

/// config({{"BLOCK", 1024}}, num_warps(4), num_stages(2))
template <class... Options>
Config config(std::vector<ConstexprArg> constexprs, Options... options) {
  return detail::config_of(std::move(constexprs), {ConfigOption(options)...});
}

/// The values of one constexpr parameter or option in a search space.
struct SearchAxis {
  std::string name;  ///< of a constexpr parameter, or num_warps, num_stages, maxnreg
  std::vector<Constexpr> values;
};
/// low, 2 * low, ... up to high.
SearchAxis powers_of_two(std::string name, int64_t low, int64_t high);
/// low, low + step, ... up to high.
SearchAxis steps(std::string name, int64_t low, int64_t high, int64_t step = 1);
/// All combinations of the axes' values.
std::vector<Config> search_space(const std::vector<SearchAxis>& axes);

/// How a kernel is tuned: for each new combination of the key arguments' values and of the arguments' types, the
/// configurations are timed, and the best one is used and remembered.
struct Autotune {
  std::vector<Config> configs;             ///< at least one
  std::vector<std::string> key;            ///< names of arguments
  std::vector<std::string> reset_to_zero;  ///< pointer arguments whose buffers are zeroed before each timed run
  std::vector<std::string> restore_value;  ///< pointer arguments whose buffers get their contents back after each run
  double warmup_ms = 5;                    ///< device time of runs before those that count, at most
  double rep_ms = 20;                      ///< device time of runs that count, at most, for a candidate in the running
  /// Selects the configurations to consider for these arguments (early_config_prune). Null: all.
  Function<std::vector<Config>(const std::vector<Config>&, const LaunchArgs&)> prune;
  int top_k = 0;  ///< the configurations that the model ranks highest, as many as are timed; 0: all
  /// Of these the ones that the model has at no more than so many times its best one's time, but three at least; 0:
  /// all.
  double within = 0;
  /// Called by the launching thread around each timed run, in addition to zeroing and restoring buffers: before the
  /// run; after its launch (with the text of the error that the launch threw, or null); and once more, with reset_only,
  /// when the choice is made. May be null. An exception ends the tuning.
  Function<void(HookedLaunch&, bool reset_only)> pre_hook = {};
  Function<void(HookedLaunch&, const char* error)> post_hook = {};
};

/// A constexpr parameter that is computed from the other arguments and from the configuration, as by
/// @triton.heuristics.
struct Heuristic {
  std::string param;
  Function<Constexpr(const LaunchArgs&)> value;
};

}  // namespace tegula
