#include "dsl/listing/grid_steps.h"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <optional>

#include "dsl/language/source_file.h"
#include "dsl/listing/texts.h"
#include "runtime/base/diag.h"

namespace tegula::dsl {

namespace {

using language::Expr;

/// A part of the expression: a number that is known, or a step.
struct Number {
  std::optional<int64_t> known;
  int32_t step = -1;
};

class GridCompiler {
 public:
  GridCompiler(const KernelImage& image, const std::vector<NamedInteger>& constexprs)
      : image_(image), constexprs_(constexprs) {}

  PackagedGrid compile(const std::string& text, const Expr& value) {
    grid_.text = text;
    const bool is_tuple = value.kind == Expr::Kind::Tuple || value.kind == Expr::Kind::List;
    if (is_tuple)
      for (const auto& extent : value.children) grid_.extents.push_back(step_of(compile(*extent)));
    else
      grid_.extents.push_back(step_of(compile(value)));
    if (grid_.extents.empty() || grid_.extents.size() > 3)
      throw TextError(fmt::format("it has {} extents, expected 1 to 3", grid_.extents.size()));
    if (!grid_.is_valid(image_.params.size())) throw TextError("it is too long");
    return std::move(grid_);
  }

 private:
  Number compile(const Expr& e) {
    switch (e.kind) {
      case Expr::Kind::Int:
        return {e.integer.clamped()};
      case Expr::Kind::True:
      case Expr::Kind::False:
        return {e.kind == Expr::Kind::True};
      case Expr::Kind::Name:
        return named(e.text);
      case Expr::Kind::Unary:
        if (e.text == "-") return combine(LaunchStep::Sub, {0}, compile(*e.children[0]));
        if (e.text == "+") return compile(*e.children[0]);
        break;
      case Expr::Kind::Binary:
        return binary(e.text, compile(*e.children[0]), compile(*e.children[1]));
      case Expr::Kind::Call:
        return call(e);
      default:
        break;
    }
    throw TextError(
        "it is more than numbers, names, + - * // %, cdiv, min, max and next_power_of_2: a launch computes it without "
        "the compiler");
  }

  Number named(const std::string& name) {
    std::vector<std::string> known;
    for (const NamedInteger& c : constexprs_) {
      if (c.name == name) return {c.value};
      known.push_back(c.name);
    }
    for (const ImageConstant& c : image_.constants) {
      if (c.name == name && !c.pointer) return {c.value};
      if (!c.pointer) known.push_back(c.name);
    }
    for (size_t i = 0; i < image_.params.size(); ++i) {
      const ImageParam& p = image_.params[i];
      if (p.pointer || is_float(p.elem)) continue;
      known.push_back(p.name);
      if (p.name != name) continue;
      const int32_t argument = add({LaunchStep::Argument, p.elem, {}, int64_t(i)});
      return {{}, add({LaunchStep::Cast, Elem::I64, {argument, argument}, 0})};
    }
    const auto near = nearest_name(name, known);
    throw TextError(
        fmt::format("the kernel has no integer '{}'{}", name, near ? fmt::format(", did you mean '{}'?", *near) : ""));
  }

  Number binary(const std::string& op, Number a, Number b) {
    if (op == "+") return combine(LaunchStep::Add, a, b);
    if (op == "-") return combine(LaunchStep::Sub, a, b);
    if (op == "*") return combine(LaunchStep::Mul, a, b);
    if (op == "%") return modulo(a, b);
    if (op == "//") return floor_divided(a, b);
    throw TextError(fmt::format("the operator '{}' is none of + - * // %{}", op,
                                op == "/" ? ": cdiv(a, b) rounds up, a // b down" : ""));
  }

  Number call(const Expr& e) {
    const Expr& callee = *e.children[0];
    const std::string& name = callee.text;  // of triton.cdiv too
    std::vector<Number> args;
    for (size_t i = 1; i < e.children.size(); ++i) args.push_back(compile(*e.children[i]));
    if (!e.keywords.empty()) throw TextError(fmt::format("'{}' takes no keywords here", name));
    if (name == "cdiv" && args.size() == 2)
      return floor_divided(combine(LaunchStep::Add, args[0], combine(LaunchStep::Sub, args[1], {1})), args[1]);
    if ((name == "min" || name == "max") && args.size() >= 2) {
      Number result = args[0];
      for (size_t i = 1; i < args.size(); ++i)
        result = combine(name == "min" ? LaunchStep::Minimum : LaunchStep::Maximum, result, args[i]);
      return result;
    }
    if (name == "next_power_of_2" && args.size() == 1) {
      if (!args[0].known) throw TextError("next_power_of_2 takes what is compiled in alone");
      return {int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(*args[0].known, 1))))};
    }
    throw TextError(
        fmt::format("there is no function '{}' of {} argument{} for grids: cdiv(a, b), min, max and "
                    "next_power_of_2(a) are there",
                    name, args.size(), args.size() == 1 ? "" : "s"));
  }

  // The remainder that has the divisor's sign, which is above 0.
  Number modulo(Number a, Number b) {
    check_divisor(b);
    return combine(LaunchStep::Rem, combine(LaunchStep::Add, combine(LaunchStep::Rem, a, b), b), b);
  }
  Number floor_divided(Number a, Number b) {
    return combine(LaunchStep::Div, combine(LaunchStep::Sub, a, modulo(a, b)), b);
  }
  static void check_divisor(const Number& b) {
    if (!b.known) throw TextError("a divisor is an argument of the launch, expected a number or what is compiled in");
    if (*b.known <= 0) throw TextError(fmt::format("a divisor is {}, expected one above 0", *b.known));
  }

  Number combine(LaunchStep::Kind kind, Number a, Number b) {
    if (!a.known || !b.known) {
      const int32_t left = step_of(a), right = step_of(b);
      return {{}, add({kind, Elem::I64, {left, right}, 0})};
    }
    const int64_t x = *a.known, y = *b.known;
    int64_t result = 0;
    bool overflows = false;
    switch (kind) {
      case LaunchStep::Add:
        overflows = __builtin_add_overflow(x, y, &result);
        break;
      case LaunchStep::Sub:
        overflows = __builtin_sub_overflow(x, y, &result);
        break;
      case LaunchStep::Mul:
        overflows = __builtin_mul_overflow(x, y, &result);
        break;
      case LaunchStep::Div:
        result = x / y;  // above 0
        break;
      case LaunchStep::Rem:
        result = x % y;
        break;
      case LaunchStep::Minimum:
        result = std::min(x, y);
        break;
      default:
        result = std::max(x, y);
    }
    if (overflows) throw TextError("a number in it does not fit 64 bits");
    return {result};
  }

  int32_t step_of(const Number& n) { return n.known ? add({LaunchStep::Constant, Elem::I64, {}, *n.known}) : n.step; }
  int32_t add(LaunchStep step) {
    grid_.steps.push_back(step);
    return int32_t(grid_.steps.size()) - 1;
  }

  const KernelImage& image_;
  const std::vector<NamedInteger>& constexprs_;
  PackagedGrid grid_;
};

}  // namespace

PackagedGrid grid_steps(const std::string& text, const KernelImage& image,
                        const std::vector<NamedInteger>& constexprs) {
  Diagnostics diags;
  const language::SourceFile file(fmt::format("def grid():\n    return ({})\n", text), "<grid>", diags);
  const auto* found = file.host_function("grid");
  const bool parsed = !diags.has_errors() && found && !found->diags.has_errors() && found->function.body.size() == 1 &&
                      found->function.body[0]->value;
  try {
    if (!parsed) throw TextError("expected 1 to 3 integers, such as 64 or cdiv(n, BLOCK) or rows, batch");
    return GridCompiler(image, constexprs).compile(text, *found->function.body[0]->value);
  } catch (const TextError& e) {
    throw TextError(fmt::format("--grid '{}': {}", text, e.what()));
  }
}

}  // namespace tegula::dsl
