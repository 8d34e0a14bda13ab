// Writes docs/language.md from the tables of functions, operations and types.
//
//   language_docs FILE           writes the page
//   language_docs --check FILE   exit status 1 if the file is not what would be written

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "codegen/ir/ir.h"
#include "dsl/semantics/sema.h"
#include "runtime/base/elem.h"

namespace {

using namespace tegula;

constexpr char kIntroduction[] =
    R"(<!-- Written by `./dev docs` from the tables of the sources; edit those, not this file. -->
# The kernel language

Kernels are written in the language of Triton: a file is an ordinary Triton `.py` file, and its `@triton.jit` functions
are compiled. Imports, host functions, classes and decorators that Tegula does not know are skipped; Python is not
needed. Arithmetic, type promotion, broadcasting and reductions follow Triton's rules.

## Statements and expressions

- Kernels and helper functions with annotations, defaults and `tl.constexpr` parameters; helpers are inlined and may
  return several values.
- Assignment, also to tuples, and augmented assignment; docstrings; `pass`; `assert` on compile-time conditions.
- `for` over `range`, `tl.range` and `tl.static_range`; `while`; `if`, `elif`, `else`. A condition known at compile time
  chooses a branch; at run time the values that the branches assign are merged and must agree in type.
- `+ - * / // % ** @ & | ^ << >>`, comparisons, `and`, `or`, `not`, the ternary `a if c else b`. On integers `//` and `%`
  are C's: they truncate towards zero.
- `x[:, None]`, `x[None, :]`, tuples and their elements, `None`, strings, numbers, global constants.

## Functions

`tl.name(...)`; functions marked with a dot may also be written as methods, `x.name(...)`.

)";

// A parameter's default, as Python writes it.
std::string spell(const dsl::Val& value) {
  if (value.is<dsl::None>()) return "None";
  if (auto* truth = value.get_if<bool>()) return *truth ? "True" : "False";
  if (auto* number = value.get_if<dsl::Int>()) return fmt::format("{}", *number);
  if (auto* number = value.get_if<double>()) return fmt::format("{}", *number);
  if (auto* text = value.get_if<std::string>()) return fmt::format("\"{}\"", *text);
  if (value.is<dsl::TupleVal>()) return "()";
  return dsl::describe(value);
}

std::string signature(const dsl::FunctionInfo& function) {
  std::vector<std::string> params;
  for (const dsl::FunctionParam& param : function.params) {
    std::string text = (param.rest ? "*" : "") + param.name;
    if (!param.required && !param.rest) text += "=" + spell(param.fallback);
    params.push_back(text);
  }
  return fmt::format("{}({})", function.name, fmt::join(params, ", "));
}

// A cell of a table: a bar would end it.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string page() {
  std::string out = kIntroduction;

  std::vector<dsl::FunctionInfo> functions = dsl::function_table();
  std::stable_sort(functions.begin(), functions.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  out += "| function | | meaning |\n|---|---|---|\n";
  for (const dsl::FunctionInfo& function : functions) {
    out +=
        fmt::format("| `{}` | {} | {} |\n", cell(signature(function)), function.method ? "." : "", cell(function.doc));
  }

  out += "\n## Types\n\n| in kernels | in tile IR and on the command line | bits |\n|---|---|---|\n";
#define TEGULA_ELEM(Name, text, tl, bits, kind) out += fmt::format("| `tl.{}` | `{}` | {} |\n", tl, text, bits);
#include "runtime/base/elem.def"

  out +=
      "\n## Operations of tile IR\n\n"
      "What kernels become, and what `tegula compile --emit=tile` and dumps show. Error bounds are those of fp32; "
      "`?` marks an operand that may be absent, `...` one that repeats.\n\n"
      "| operation | operands | meaning |\n|---|---|---|\n";
  for (const ir::OpInfo& op : ir::op_table()) {
    std::vector<std::string> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      bool last = i + 1 == op.operands.size();
      bool optional = int(i) >= op.required && !(op.variadic && last);
      operands.push_back(op.operands[i] + (op.variadic && last ? "..." : optional ? "?" : ""));
    }
    out += fmt::format("| `{}` | {} | {} |\n", op.text, fmt::join(operands, ", "), cell(op.doc));
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  bool check = !args.empty() && args[0] == "--check";
  if (check) args.erase(args.begin());
  if (args.size() != 1) {
    std::cerr << "usage: language_docs [--check] FILE\n";
    return 2;
  }
  std::string text = page();
  if (!check) {
    std::ofstream out(args[0], std::ios::binary);
    out << text;
    if (out.flush()) return 0;
    std::cerr << "cannot write " << args[0] << "\n";
    return 1;
  }
  std::ifstream in(args[0], std::ios::binary);
  if (std::string(std::istreambuf_iterator<char>(in), {}) == text) return 0;
  std::cerr << args[0] << " does not say what the tables say: run ./dev docs\n";
  return 1;
}
