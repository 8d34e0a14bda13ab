// What the fuzzer, and the test that replays its corpus, do with a text: everything up to tile IR.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/ir/printer.h"
#include "codegen/ir/verifier.h"
#include "dsl/language/checker.h"
#include "dsl/language/entry_points.h"
#include "dsl/language/text_source.h"
#include "dsl/specialize.h"
#include "runtime/base/internal_error.h"

namespace tegula::fuzz {

/// A sequence of numbers that a text decides: equal texts are treated equally.
class Choices {
 public:
  explicit Choices(std::string_view text) {
    for (unsigned char c : text) state_ = (state_ ^ c) * 0x100000001B3u;  // FNV-1a
  }
  uint64_t below(uint64_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % n;
  }

 private:
  uint64_t state_ = 0xCBF29CE484222325u;
};

/// The types of one argument: one row, or those of a tensor descriptor's parts.
inline std::vector<ArgType> choose_types(Choices& choices) {
  static const std::vector<std::vector<ArgType>> kinds = {
      {{.elem = Elem::F32, .pointer = true, .divisible_by = 16}},
      {{.elem = Elem::F16, .pointer = true, .divisible_by = 16}},
      {{.elem = Elem::BF16, .pointer = true}},
      {{.elem = Elem::I32, .pointer = true, .divisible_by = 16}},
      {{.elem = Elem::U8, .pointer = true}},
      {{.elem = Elem::F8E4M3, .pointer = true, .divisible_by = 16}},
      {{.elem = Elem::I64, .pointer = true}},
      {{.elem = Elem::I32, .pointer = true, .constant = 0}},  // None
      {{.elem = Elem::I32}},
      {{.elem = Elem::I32, .divisible_by = 16}},
      {{.elem = Elem::I32, .constant = 1}},
      {{.elem = Elem::I64}},
      {{.elem = Elem::F32}},
      {{.elem = Elem::I1}},
      {{.elem = Elem::F16, .pointer = true, .divisible_by = 16, .block_shape = {16, 32}},
       {.elem = Elem::I32},
       {.elem = Elem::I32},
       {.elem = Elem::I64, .divisible_by = 16},
       {.elem = Elem::I64, .constant = 1}},
  };
  // The commonest signature more often: pointers to floats, then numbers.
  return kinds[choices.below(2) ? choices.below(kinds.size()) : choices.below(2) * 8];
}

inline Constexpr choose_constexpr(Choices& choices) {
  static const std::vector<Constexpr> values = {int64_t(16),      int64_t(64), int64_t(1),      int64_t(0),
                                                int64_t(3),       true,        false,           0.5,
                                                std::string("x"), Elem::F16,   std::monostate{}};
  return values[choices.below(2) ? choices.below(values.size()) : 0];
}

/// Calls `f`; mistakes of the text are its errors, mistakes of ours leave it.
template <class F>
void allow_errors(F f) {
  try {
    f();
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
}

/// Evaluates what the decorators of a kernel say for some launch.
inline void run_decorators(const dsl::KernelSource& source, Choices& choices) {
  LaunchArgs args;
  for (const KernelParam& p : source.params()) {
    if (p.is_constexpr)
      args.set_constexpr(p.name, choose_constexpr(choices));
    else if (choices.below(2))
      args.set(p.name, PointerArg{Elem::F32, 4096});
    else
      args.set(p.name, int64_t(choices.below(5000)));
  }
  allow_errors([&] {
    const auto tuning = source.autotune();
    if (tuning && tuning->prune) tuning->prune(tuning->configs, args);
  });
  allow_errors([&] {
    for (const Heuristic& h : source.heuristics()) allow_errors([&] { h.value(args); });
  });
}

/// Makes tile IR of a kernel for arguments of some types, and verifies it.
inline void make_tile_ir(const dsl::KernelSource& source, Choices& choices) {
  std::vector<ArgType> types;
  LaunchOptions options;
  for (const KernelParam& p : source.params()) {
    if (p.is_constexpr) {
      options.constexprs.emplace_back(p.name, choose_constexpr(choices));
    } else {
      for (ArgType& type : choose_types(choices)) types.push_back(std::move(type));
    }
  }
  Diagnostics diags = source.diagnostics();
  std::vector<std::string> prints;
  const auto func = source.build(dsl::specialization(source, types, options), diags, prints);
  diags.render();
  if (!func || diags.has_errors()) return;
  const std::string text = ir::print(*func);
  if (!ir::verify(*func, ir::Stage::Tile, diags))
    throw InternalError("the front end", "its tile IR is not valid:\n" + diags.render() + text);
}

/// Splits, parses and checks a text, evaluates the decorators of its kernels, and makes tile IR of each kernel for
/// arguments of several types. Mistakes of the text are diagnostics; what leaves the function is a mistake of ours.
inline void run_front_end(std::string_view text) {
  Diagnostics diags;
  const auto file = std::make_shared<const language::SourceFile>(std::string(text), "fuzz.py", diags);
  diags.render();
  if (diags.has_errors()) return;
  language::check_all(*file, diags);
  diags.render();
  language::entry_points(file->module());
  Choices choices(text);
  for (const language::Function& function : file->module().functions) {
    const auto source = language::text_source(file, function);
    source->globals();
    run_decorators(*source, choices);
    for (int i = 0; i < 2; ++i) allow_errors([&] { make_tile_ir(*source, choices); });
  }
}

}  // namespace tegula::fuzz
