// Kernels that are written as C++ functions.
//
//   auto softmax = tegula::kernel("softmax", [](Ptr<"out"> out, Ptr<"in"> in, Int<"stride"> stride, Int<"n"> n,
//                                               Const<"BLOCK"> BLOCK) {
//     Tile row = program_id(0);
//     Tile cols = arange(0, BLOCK);
//     Tile x = load(in + row * stride + cols, cols < n, -inf);
//     Tile e = exp(x - max(x, 0));
//     store(out + row * stride + cols, e / sum(e, 0), cols < n);
//   });
//   softmax.launch(*device, {rows}, {.constexprs = {{"BLOCK", 1024}}}, out.as<float>(), in.as<float>(), n, n);
//
// Parameters carry their names, because C++ cannot tell those of a lambda. The function runs once or more for each
// specialisation, perhaps in several threads at a time, and records what it does (dsl/tile.h, dsl/control.h): C++'s own
// loops, conditions, functions and lambdas are at work then. Mistakes are CompileErrors with the line in the C++
// source.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dsl/control.h"
#include "dsl/kernel.h"
#include "dsl/tile.h"

namespace tegula {

/// A string as a template argument: Ptr<"out">, Const<"MODE", std::string, Name("fast")>.
template <size_t N>
struct Name {
  char text[N];
  consteval Name(const char (&literal)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = literal[i];
  }
  operator std::string() const { return text; }
};

namespace detail {

/// A parameter of a C++ kernel's signature.
struct TracedParam {
  KernelParam param;
  enum class Kind { Pointer, Int, Float, Bool, Constant, Descriptor } kind;
  std::optional<Elem> pointee = {};  ///< of a pointer or descriptor that fixes it
};

/// The parameters of a recording, by position.
class TracedArgs {
 public:
  virtual ~TracedArgs() = default;
  virtual Tile tile(size_t index) const = 0;
  /// The value of a Const parameter; null: its default.
  virtual const Constexpr* constant(size_t index) const = 0;
};

Shared<const dsl::KernelSource> traced_source(std::string name, std::vector<TracedParam> params,
                                              Function<void(const TracedArgs&)> body, const char* file, int line);

[[noreturn]] void wrong_constant(const char* name, const char* expected, const Constexpr& found);

}  // namespace detail

/// A pointer parameter. With a type (float, float16, ...) the launch must pass a pointer to it; without, any pointer.
template <Name kName, class Element = void>
struct Ptr : Tile {
  Ptr(const detail::TracedArgs& args, size_t index) : Tile(args.tile(index)) {}
  using Tile::operator=;
  using Pointee = Element;
  static constexpr auto kKind = detail::TracedParam::Kind::Pointer;
  static detail::TracedParam param() { return {{kName.text}, kKind, elem_of<Element>()}; }
};

/// A tensor descriptor: the launch passes a TensorDescriptor, of this element type if one is given.
template <Name kName, class Element = void>
struct Desc : Descriptor {
  Desc(const detail::TracedArgs& args, size_t index) : Descriptor(args.tile(index)) {}
  using Tile::operator=;
  using Pointee = Element;
  static constexpr auto kKind = detail::TracedParam::Kind::Descriptor;
  static detail::TracedParam param() { return {{kName.text}, kKind, elem_of<Element>()}; }
};

/// An integer parameter: int32, or int64 for values that need it; with a type, always that type.
template <Name kName, class Number = void>
struct Int : Tile {
  static_assert(std::is_void_v<Number> || std::is_integral_v<Number>);
  Int(const detail::TracedArgs& args, size_t index) : Tile(args.tile(index)) {}
  using Tile::operator=;
  static constexpr auto kKind = detail::TracedParam::Kind::Int;
  static detail::TracedParam param() { return {{kName.text, false, false, elem_of<Number>()}, kKind}; }
};

/// A floating-point parameter, float32 unless it says otherwise.
template <Name kName, class Number = float>
struct Float : Tile {
  Float(const detail::TracedArgs& args, size_t index) : Tile(args.tile(index)) {}
  using Tile::operator=;
  static constexpr auto kKind = detail::TracedParam::Kind::Float;
  static detail::TracedParam param() { return {{kName.text, false, false, elem_of<Number>()}, kKind}; }
};

template <Name kName>
struct Bool : Tile {
  Bool(const detail::TracedArgs& args, size_t index) : Tile(args.tile(index)) {}
  using Tile::operator=;
  static constexpr auto kKind = detail::TracedParam::Kind::Bool;
  static detail::TracedParam param() { return {{kName.text, false, false, Elem::I1}, kKind}; }
};

/// A compile-time parameter, a plain C++ value in the function: int64_t, bool, double, std::string or Elem. The
/// launch's options give it, or the tuner; `kDefault` makes it optional.
template <Name kName, class T = int64_t, auto... kDefault>
struct Const : detail::ConstValue<T> {
  static_assert(sizeof...(kDefault) <= 1);
  Const(const detail::TracedArgs& args, size_t index) : detail::ConstValue<T>{get(args.constant(index))} {}

  static constexpr auto kKind = detail::TracedParam::Kind::Constant;
  static detail::TracedParam param() { return {{kName.text, true, sizeof...(kDefault) == 1}, kKind}; }

 private:
  static T get(const Constexpr* given) {
    if constexpr (sizeof...(kDefault) == 1)
      if (!given) return T((kDefault, ...));
    if (!given) return T();  // after an error
    if (const T* v = std::get_if<T>(given)) return *v;
    if constexpr (std::same_as<T, double>)
      if (const int64_t* v = std::get_if<int64_t>(given)) return double(*v);
    detail::wrong_constant(kName.text,
                           std::same_as<T, bool>          ? "a bool"
                           : std::same_as<T, int64_t>     ? "an integer"
                           : std::same_as<T, double>      ? "a number"
                           : std::same_as<T, std::string> ? "a string"
                                                          : "an element type",
                           *given);
  }
};

namespace detail {

template <class P, class Arg>
constexpr bool accepts() {
  using A = std::remove_cvref_t<Arg>;
  using Kind = TracedParam::Kind;
  if constexpr (P::kKind == Kind::Pointer) {
    if constexpr (std::is_same_v<A, std::nullptr_t> || std::is_same_v<A, tegula::Arg>) return true;
    if constexpr (std::is_pointer_v<A>)
      return std::is_void_v<typename P::Pointee> ||
             std::is_same_v<std::remove_cv_t<std::remove_pointer_t<A>>, typename P::Pointee>;
    return false;
  } else if constexpr (std::is_same_v<A, tegula::Arg>) {
    return true;
  } else if constexpr (P::kKind == Kind::Descriptor) {
    return std::is_same_v<A, TensorDescriptor>;
  } else if constexpr (P::kKind == Kind::Int) {
    return std::is_integral_v<A> && !std::is_same_v<A, bool>;
  } else if constexpr (P::kKind == Kind::Float) {
    return std::is_floating_point_v<A>;
  } else {
    return std::is_same_v<A, bool>;
  }
}

template <class P, class Arg>
constexpr void check_argument() {
  using Kind = TracedParam::Kind;
  if constexpr (P::kKind == Kind::Pointer)
    static_assert(accepts<P, Arg>(),
                  "this argument of the launch is a Ptr: pass a typed pointer, such as buffer.as<float>(), of the type "
                  "that the parameter fixes, if it does");
  else if constexpr (P::kKind == Kind::Descriptor)
    static_assert(accepts<P, Arg>(), "this argument of the launch is a Desc: pass a TensorDescriptor");
  else if constexpr (P::kKind == Kind::Int)
    static_assert(accepts<P, Arg>(), "this argument of the launch is an Int: pass an integer");
  else if constexpr (P::kKind == Kind::Float)
    static_assert(accepts<P, Arg>(), "this argument of the launch is a Float: pass a float or a double");
  else
    static_assert(accepts<P, Arg>(), "this argument of the launch is a Bool: pass a bool");
}

template <class... Ps>
struct Params {};
/// The parameters for which a launch takes arguments, appended to those found so far.
template <class Taken, class... Rest>
struct RuntimeParams;
template <class... Taken>
struct RuntimeParams<Params<Taken...>> {
  using Type = Params<Taken...>;
};
template <class... Taken, class P, class... Rest>
struct RuntimeParams<Params<Taken...>, P, Rest...>
    : std::conditional_t<P::kKind == TracedParam::Kind::Constant, RuntimeParams<Params<Taken...>, Rest...>,
                         RuntimeParams<Params<Taken..., P>, Rest...>> {};

template <class Runtime, class... Args>
struct CheckArguments;
template <class... Ps, class... Args>
struct CheckArguments<Params<Ps...>, Args...> {
  static constexpr void check() {
    static_assert(
        sizeof...(Ps) == sizeof...(Args),
        "the launch takes one argument for each Ptr, Desc, Int, Float and Bool of the kernel; Const parameters are "
        "given in the options");
    if constexpr (sizeof...(Ps) == sizeof...(Args)) (check_argument<Ps, Args>(), ...);
  }
};

}  // namespace detail

/// A Kernel with typed launches, which the C++ compiler checks. It converts to Kernel for everything else.
template <class... Params>
class TypedKernel {
 public:
  explicit TypedKernel(Kernel kernel) : kernel_(std::move(kernel)) {}

  const Kernel& kernel() const { return kernel_; }
  operator const Kernel&() const { return kernel_; }

  /// As Kernel's; arguments are those of the function without its Const parameters.
  template <class... Args>
  void launch(Device& device, Grid grid, const LaunchOptions& options, const Args&... args) const {
    detail::CheckArguments<Runtime, Args...>::check();
    kernel_.launch(device, grid, options, args...);
  }
  template <class F, class... Args>
  requires std::is_invocable_r_v<Grid, const F&, const Config&>
  void launch(Device& device, const F& grid, const LaunchOptions& options, const Args&... args) const {
    detail::CheckArguments<Runtime, Args...>::check();
    kernel_.launch(device, grid, options, args...);
  }

  TypedKernel autotune(Autotune tuning) const { return TypedKernel(kernel_.autotune(std::move(tuning))); }
  TypedKernel heuristics(std::vector<Heuristic> h) const { return TypedKernel(kernel_.heuristics(std::move(h))); }

 private:
  using Runtime = typename detail::RuntimeParams<detail::Params<>, Params...>::Type;
  Kernel kernel_;
};

namespace detail {

template <class Call>
struct Signature {
  static_assert(kNever<Call>, "a kernel is a lambda that returns nothing and is not mutable");
};
template <class F, class... Params>
struct Signature<void (F::*)(Params...) const noexcept> : Signature<void (F::*)(Params...) const> {};
template <class F, class... Params>
struct Signature<void (F::*)(Params...) const> {
  static_assert((requires { std::remove_cvref_t<Params>::kKind; } && ...),
                "the parameters of a kernel are Ptr, Desc, Int, Float, Bool and Const");
  static TypedKernel<std::remove_cvref_t<Params>...> make(std::string name, F function, const char* file, int line) {
    auto body = [function = std::move(function)](const TracedArgs& args) {
      run(function, args, std::index_sequence_for<Params...>());
    };
    return TypedKernel<std::remove_cvref_t<Params>...>(
        Kernel(traced_source(std::move(name), {std::remove_cvref_t<Params>::param()...}, std::move(body), file, line)));
  }
  template <size_t... I>
  static void run(const F& function, const TracedArgs& args, std::index_sequence<I...>) {
    Call{function, std::remove_cvref_t<Params>(args, I)...};  // in braces, so that parameters are made in order
  }
  struct Call {
    template <class... Made>
    explicit Call(const F& function, Made&&... made) {
      function(made...);
    }
  };
};

}  // namespace detail

namespace detail {

/// Rejects functions that capture values: a compiled kernel would keep those of its first launch, and later launches
/// would silently use them.
template <class F>
constexpr void refuse_captures() {
  static_assert(
      std::is_empty_v<F>,
      "the function of a kernel captures values, which the compiled kernel would keep: pass what changes from "
      "launch to launch as an argument, what is known at compile time as a Const or a template argument");
}

}  // namespace detail

/// Makes a kernel of a C++ function object (a lambda that is not generic) whose parameters are Ptr, Desc, Int, Float,
/// Bool and Const. It must capture nothing and be callable from several threads.
template <class F>
auto kernel(std::string name, F function, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(
      requires { &F::operator(); },
      "a kernel is a lambda with written-out parameter types: Ptr<\"x\"> x, Int<\"n\"> n, ...; not auto, and no "
      "plain function");
  detail::refuse_captures<F>();
  if constexpr (requires { &F::operator(); })
    return detail::Signature<decltype(&F::operator())>::make(std::move(name), std::move(function), file, line);
}

}  // namespace tegula
