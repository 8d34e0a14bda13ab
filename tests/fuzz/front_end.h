// What the fuzzer, and the test that replays its corpus, do with a text: everything up to tile IR.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/ir/ir.h"
#include "dsl/program.h"

namespace tegula {

/// Splits, parses and checks a text, evaluates the decorators of its kernels and makes tile IR of them, for arguments
/// of one type after the other. Mistakes are CompileErrors; whatever else leaves it is a fault of ours.
inline void run_front_end(std::string_view text) {
  try {
    const Program program = Program::parse(std::string(text), "fuzz.py");
    try {
      program.check();
    } catch (const Error&) {
    }
    for (const std::string& name : program.kernels()) {
      const Kernel kernel = program.kernel(name);
      try {
        kernel.autotuning();
      } catch (const Error&) {
      }
      std::vector<ArgType> types;
      LaunchOptions options;
      for (const KernelParam& p : kernel.params()) {
        if (p.is_constexpr)
          options.constexprs.emplace_back(p.name, 16);
        else
          types.push_back({.elem = Elem::F32, .pointer = types.size() % 3 != 2});
      }
      try {
        kernel.tile_func(types, options);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
}

}  // namespace tegula
