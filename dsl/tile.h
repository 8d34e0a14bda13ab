// Tiles in C++: the values of a kernel that is written as a C++ function (dsl/cpp_kernel.h).
//
//   Tile cols = arange(0, 1024);
//   Tile x = load(in + row * stride + cols, cols < n, -inf);
//   store(out + row * stride + cols, exp(x - max(x, 0)), cols < n);
//
// Running the function records what it does; nothing is computed. Operators and functions are those of the kernel
// language (docs/language.md): same names, same argument names, same meaning, for they are looked up in the same
// tables. A C++ number is a literal, as in the language: it takes the type of the tile it meets. A Tile made from a
// number (`Tile acc = 0.0f`) is a scalar of the kernel, int32 or float32, that loops and branches may change.
//
// Every program with a kernel includes this header, so what is no template is defined elsewhere (dsl/embedded), and
// what an Operand holds is declared alone here.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/elem.h"
#include "runtime/base/function.h"
#include "runtime/base/shared.h"

namespace tegula {

/// Element types by the names of the kernel language: tl::float32, tl::int1, ...
namespace tl {
#define TEGULA_ELEM(Name, text, tl, bits, kind) inline constexpr Elem tl = Elem::Name;
#include "runtime/base/elem.def"
}  // namespace tl

/// No argument, and a new axis in an index: Python's None.
struct None {};
inline constexpr None none{};
/// A whole axis in an index: `x[{all, none}]` is the language's `x[:, None]`.
struct All {};
inline constexpr All all{};
inline constexpr float inf = std::numeric_limits<float>::infinity();

class Tile;

namespace detail {

class Trace;
struct Slot;          // what a Tile refers to in its trace
struct Access;        // the trace's way into a Tile
struct OperandValue;  // what an Operand holds (dsl/embedded/operand_value.h)

/// An argument that is not there.
struct Absent {};
/// What reduce() combines groups of elements with, and map_elementwise() maps.
using Combine = Function<std::vector<Tile>(const std::vector<Tile>&)>;

template <size_t>
using OneTile = Tile;
/// How many Tiles a function takes, 1 to 8; 0: it takes something else.
template <class F, size_t n = 1>
constexpr size_t tiles_taken() {
  constexpr bool fits = []<size_t... I>(std::index_sequence<I...>) {
    return std::is_invocable_v<const F&, OneTile<I>...>;
  }
  (std::make_index_sequence<n>());
  if constexpr (fits)
    return n;
  else if constexpr (n < 8)
    return tiles_taken<F, n + 1>();
  else
    return 0;
}

/// A compile-time parameter: its value, as C++ has it.
template <class T>
struct ConstValue {
  T value;
  operator const T&() const { return value; }
  friend bool operator==(const ConstValue& a, std::string_view b) requires std::same_as<T, std::string> {
    return a.value == b;
  }
};

template <class T>
concept Number = (std::integral<T> || std::floating_point<T>)&&!std::same_as<T, char>;
template <class>
inline constexpr bool kNever = false;

}  // namespace detail

#define TEGULA_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

/// An argument of an operator or function, with the place of the call: a Tile, a number, a string, an element type,
/// none, all, or a list of these for shapes and indices.
class Operand {
 public:
  using List = std::vector<Operand>;

  Operand(detail::Absent = {}, TEGULA_HERE);
  Operand(const Tile& tile, TEGULA_HERE);
  Operand(None, TEGULA_HERE);
  Operand(All, TEGULA_HERE);
  template <detail::Number T>
  Operand(T value, TEGULA_HERE) : value_(number(Widest<T>(value))), file_(file), line_(line) {}
  template <class T>
  Operand(const detail::ConstValue<T>& constant, TEGULA_HERE) : Operand(constant.value, file, line) {}
  Operand(const char* text, TEGULA_HERE);
  Operand(std::string text, TEGULA_HERE);
  Operand(Elem elem, TEGULA_HERE);
  Operand(std::initializer_list<Operand> items, TEGULA_HERE);
  Operand(List items, TEGULA_HERE);
  /// A combine function of reduce(): `Tile(Tile, Tile)`, or for two inputs `std::array<Tile, 2>(Tile a0, Tile a1, Tile
  /// b0, Tile b1)`; or a function of map_elementwise(), which takes up to 8 Tiles and gives one or an array of them.
  template <class F>
  requires(std::is_class_v<F> && !std::derived_from<F, Operand> && !std::derived_from<F, Tile> &&
           !std::same_as<F, std::string> && detail::tiles_taken<F>() > 0) Operand(const F& f, TEGULA_HERE)
      : value_(combination(combine(f))), file_(file), line_(line) {}
  Operand(const Operand&);
  Operand(Operand&&) noexcept;
  Operand& operator=(const Operand&);
  Operand& operator=(Operand&&) noexcept;
  ~Operand();

  /// Null: Absent.
  const detail::OperandValue* value() const { return value_.get(); }
  const char* file() const { return file_; }
  int line() const { return line_; }

 private:
  using Value = Shared<const detail::OperandValue>;
  template <class T>
  using Widest = std::conditional_t<
      std::same_as<T, bool>, bool,
      std::conditional_t<std::unsigned_integral<T>, uint64_t, std::conditional_t<std::integral<T>, int64_t, double>>>;
  static Value number(bool value);
  static Value number(int64_t value);
  static Value number(uint64_t value);
  static Value number(double value);
  static Value combination(detail::Combine function);
  template <class F>
  static detail::Combine combine(const F& f);

  Value value_;
  const char* file_;
  int line_;
};

/// An argument by name: `"mask"_a = cols < n`.
struct Keyword {
  std::string name;
  Operand value;
};
struct KeywordName {
  std::string_view name;
  Keyword operator=(Operand value) const;
};
inline namespace literals {
constexpr KeywordName operator""_a(const char* text, size_t size) { return {{text, size}}; }
}  // namespace literals

/// An argument of a function, by position or by name.
struct Argument {
  Argument(Keyword keyword);
  template <class T>
  requires std::convertible_to<const T&, Operand> Argument(const T& value) : value(value) {}

  std::string name;  ///< empty: by position
  Operand value;
};

namespace detail {

template <class T>
concept CanBeArgument = std::convertible_to<const T&, Argument>;
/// Called in templates alone, and with what they know last: the compiler looks at nothing of it before it has to.
template <class... Args>
std::vector<Argument> arguments(const Args&... args) {
  return {Argument(args)...};
}

}  // namespace detail

/// A value of the kernel: a tile, a scalar, a pointer or block pointer, a tensor descriptor, or a tuple of such. Copies
/// have a life of their own, and what was moved from keeps its value; assigning gives this one a new value, also from
/// inside loops and branches. Lives no longer than the recording it was made in.
class Tile {
 public:
  /// No value yet.
  Tile();
  template <detail::Number T>
  Tile(T value, TEGULA_HERE) : Tile(Operand(value, file, line)) {}
  explicit Tile(const Operand& value);
  Tile(const Tile& other);
  Tile(Tile&& other) noexcept;
  Tile& operator=(const Tile& other);
  Tile& operator=(Tile&& other) { return *this = static_cast<const Tile&>(other); }
  ~Tile() = default;

  Tile& operator+=(const Operand& x) { return assign("+", x); }
  Tile& operator-=(const Operand& x) { return assign("-", x); }
  Tile& operator*=(const Operand& x) { return assign("*", x); }
  Tile& operator/=(const Operand& x) { return assign("/", x); }
  Tile& operator%=(const Operand& x) { return assign("%", x); }
  Tile& operator&=(const Operand& x) { return assign("&", x); }
  Tile& operator|=(const Operand& x) { return assign("|", x); }
  Tile& operator^=(const Operand& x) { return assign("^", x); }
  Tile& operator<<=(const Operand& x) { return assign("<<", x); }
  Tile& operator>>=(const Operand& x) { return assign(">>", x); }

  /// x[{all, none}] inserts an axis; x[i] of a tuple is its element i.
  Tile operator[](const Operand& indices) const;
  /// An attribute of the language: x.attribute("dtype"), "shape", "T", "element_ty", ...
  Tile attribute(const char* name, TEGULA_HERE) const;
  Tile dtype(TEGULA_HERE) const { return attribute("dtype", file, line); }
  /// Of a pointer's dtype, what it points to: `store(p, x.to(p.dtype().element_ty()))`.
  Tile element_ty(TEGULA_HERE) const { return attribute("element_ty", file, line); }
  Tile T(TEGULA_HERE) const { return attribute("T", file, line); }

// Functions that the language has as methods.
#define TEGULA_METHOD_false(name)
#define TEGULA_METHOD_true(name)                                           \
  template <detail::CanBeArgument... Args>                                 \
  Tile name(const Operand& first = Operand(), const Args&... rest) const { \
    return call_method(#name, detail::arguments(first, rest...));          \
  }
#define TEGULA_FN(name, params, method, doc) TEGULA_METHOD_##method(name)
#include "dsl/semantics/functions.def"
#define TEGULA_OP(...)
#define TEGULA_UNARY(...)
#define TEGULA_BINARY(...)
#define TEGULA_TERNARY(...)
#define TEGULA_FUNCTION_UNARY(Name, text, rule, traits, doc) TEGULA_METHOD_true(text)
#define TEGULA_FUNCTION_BINARY(...)
#define TEGULA_FUNCTION_TERNARY(...)
#include "codegen/ir/ops.def"
#undef TEGULA_METHOD_false
#undef TEGULA_METHOD_true

  template <class B>
  requires std::same_as<B, bool>
  explicit operator B() const {
    static_assert(detail::kNever<B>,
                  "a Tile is known only when the kernel runs: write if_(condition, [&] { ... }) or while_(...) instead "
                  "of if and while, or where(condition, a, b) for a choice by element");
    return false;
  }

 protected:
  Tile call_method(const char* name, std::vector<Argument> args) const;

 private:
  friend struct detail::Access;
  Tile& assign(const char* op, const Operand& x);

  Shared<detail::Slot> slot_;
};

/// A tensor descriptor with its methods, of which make_tensor_descriptor() makes one:
/// `Descriptor rows = make_tensor_descriptor(p, list({m, n}), list({n, 1}), list({16, 64})); rows.load({i, 0});`
class Descriptor : public Tile {
 public:
  Descriptor(const Tile& descriptor) : Tile(descriptor) {}
  using Tile::operator=;

#define TEGULA_DESCRIPTOR_METHOD(name, params, doc)               \
  template <detail::CanBeArgument... Args>                        \
  Tile name(const Operand& first, const Args&... rest) const {    \
    return call_method(#name, detail::arguments(first, rest...)); \
  }
#include "dsl/semantics/functions.def"
};

template <class F>
detail::Combine Operand::combine(const F& f) {
  return [f](const std::vector<Tile>& x) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      auto results = f(x.at(I)...);
      if constexpr (std::convertible_to<decltype(results), Tile>)
        return std::vector<Tile>{results};
      else
        return std::vector<Tile>(results.begin(), results.end());
    }
    (std::make_index_sequence<detail::tiles_taken<F>()>());
  };
}

namespace detail {

/// Records a call of the tables' function `name`. The place of the call is that of the first argument.
Tile call(const char* name, const std::vector<Argument>& args);
Tile binary(const char* op, const Operand& lhs, const Operand& rhs);
Tile compare(const char* op, const Operand& lhs, const Operand& rhs);
Tile logical(const char* op, const Operand& lhs, const Operand& rhs);
Tile unary(const char* op, const Operand& x);

/// Operands of operators, of which one at least is a Tile: C++ numbers keep their own operators.
struct TileOperand : Operand {
  TileOperand(const Tile& tile, TEGULA_HERE) : Operand(tile, file, line) {}
};
struct NumberOperand : Operand {
  template <class T>
  requires(!std::derived_from<T, Tile> && std::convertible_to<const T&, Operand>)
      NumberOperand(const T& value, TEGULA_HERE)
      : Operand(value, file, line) {}
};

}  // namespace detail

#define TEGULA_OPERATOR(op, kind)                                                         \
  inline Tile operator op(const detail::TileOperand& a, const detail::TileOperand& b) {   \
    return detail::kind(#op, a, b);                                                       \
  }                                                                                       \
  inline Tile operator op(const detail::TileOperand& a, const detail::NumberOperand& b) { \
    return detail::kind(#op, a, b);                                                       \
  }                                                                                       \
  inline Tile operator op(const detail::NumberOperand& a, const detail::TileOperand& b) { \
    return detail::kind(#op, a, b);                                                       \
  }
TEGULA_OPERATOR(+, binary)
TEGULA_OPERATOR(-, binary)
TEGULA_OPERATOR(*, binary)
TEGULA_OPERATOR(/, binary)
TEGULA_OPERATOR(%, binary)
TEGULA_OPERATOR(&, binary)
TEGULA_OPERATOR(|, binary)
TEGULA_OPERATOR(^, binary)
TEGULA_OPERATOR(<<, binary)
TEGULA_OPERATOR(>>, binary)
TEGULA_OPERATOR(==, compare)
TEGULA_OPERATOR(!=, compare)
TEGULA_OPERATOR(<, compare)
TEGULA_OPERATOR(<=, compare)
TEGULA_OPERATOR(>, compare)
TEGULA_OPERATOR(>=, compare)
#undef TEGULA_OPERATOR

inline Tile operator-(const detail::TileOperand& x) { return detail::unary("-", x); }
inline Tile operator+(const detail::TileOperand& x) { return detail::unary("+", x); }
inline Tile operator~(const detail::TileOperand& x) { return detail::unary("~", x); }

template <class A, class B>
requires(std::derived_from<A, Tile> || std::derived_from<B, Tile>) Tile operator&&(const A&, const B&) {
  static_assert(detail::kNever<A>, "&& of Tiles cannot be recorded: write & for conditions, or logical_and(a, b)");
  return {};
}
template <class A, class B>
requires(std::derived_from<A, Tile> || std::derived_from<B, Tile>) Tile operator||(const A&, const B&) {
  static_assert(detail::kNever<A>, "|| of Tiles cannot be recorded: write | for conditions, or logical_or(a, b)");
  return {};
}

template <std::derived_from<Tile> A>
Tile operator!(const A&) {
  static_assert(detail::kNever<A>, "! of a Tile cannot be recorded: write ~ for conditions, or logical_not(x)");
  return {};
}

/// The language's a // b: of integers the quotient truncated towards zero. (`/` gives a float, as in the language.)
inline Tile floordiv(const Operand& a, const Operand& b) { return detail::binary("//", a, b); }
/// The language's a ** b.
inline Tile power(const Operand& a, const Operand& b) { return detail::binary("**", a, b); }
/// The language's `a and b`, `a or b`, `not x`.
inline Tile logical_and(const Operand& a, const Operand& b) { return detail::logical("and", a, b); }
inline Tile logical_or(const Operand& a, const Operand& b) { return detail::logical("or", a, b); }
inline Tile logical_not(const Operand& x) { return detail::unary("not", x); }

/// The first N values of a tuple: `auto [value, index] = unpack<2>(max(x, 0, "return_indices"_a = true));`
template <size_t N>
std::array<Tile, N> unpack(const Tile& tuple, TEGULA_HERE) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::array<Tile, N>{tuple[Operand(int64_t(I), file, line)]...};
  }
  (std::make_index_sequence<N>());
}

// Functions of the kernel language, by the rows of its tables. Arguments by position and by name, as there; `tl.` and
// `tl.math.` are left out, and a shape after the first argument is written as list({16, 32}).
#define TEGULA_DSL_FUNCTION(name)                                  \
  template <detail::CanBeArgument... Args>                         \
  Tile name(const Operand& first, const Args&... rest) {           \
    return detail::call(#name, detail::arguments(first, rest...)); \
  }
#define TEGULA_FN(name, params, method, doc) TEGULA_DSL_FUNCTION(name)
#include "dsl/semantics/functions.def"
#define TEGULA_OP(...)
#define TEGULA_UNARY(...)
#define TEGULA_BINARY(...)
#define TEGULA_TERNARY(...)
#define TEGULA_FUNCTION_UNARY(Name, text, rule, traits, doc) TEGULA_DSL_FUNCTION(text)
#define TEGULA_FUNCTION_BINARY(Name, text, rule, traits, doc) TEGULA_DSL_FUNCTION(text)
#define TEGULA_FUNCTION_TERNARY(Name, text, names, rule, traits, doc) TEGULA_DSL_FUNCTION(text)
#include "codegen/ir/ops.def"
#undef TEGULA_DSL_FUNCTION

/// The functions of libdevice: `libdevice::round(x)`.
namespace libdevice {
#define TEGULA_LIBDEVICE(name, signature, body, doc)                            \
  template <detail::CanBeArgument... Args>                                      \
  Tile name(const Operand& first, const Args&... rest) {                        \
    return detail::call("libdevice." #name, detail::arguments(first, rest...)); \
  }
#define TEGULA_LIBDEVICE_TOO(...)
#include "codegen/ir/libdevice.def"
}  // namespace libdevice

// Those without arguments.
Tile debug_barrier(TEGULA_HERE);
Tile extra_cuda_globaltimer(TEGULA_HERE);
Tile extra_cuda_smid(TEGULA_HERE);
Tile extra_cuda_gdc_wait(TEGULA_HERE);
Tile extra_cuda_gdc_launch_dependents(TEGULA_HERE);

/// A list as an argument after the first: `reshape(x, list({4, 8}))`.
Operand list(std::initializer_list<Operand> items, TEGULA_HERE);

#undef TEGULA_HERE

}  // namespace tegula
