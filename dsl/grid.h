// Grids written as text, for command lines and other languages.
#pragma once

#include <string>

#include "dsl/config.h"
#include "runtime/device.h"

namespace tegula {

/// A grid in the kernel language, over the names of a launch's arguments and constexprs: "64", "cdiv(n, BLOCK)",
/// "cdiv(M, BM) * cdiv(N, BN), batch". One to three integers; cdiv, next_power_of_2, min and max are there.
class GridExpression {
 public:
  /// Throws CompileError if the text is no expression.
  explicit GridExpression(std::string text);
  /// Throws CompileError for names that `args` lacks, and if the value is no grid.
  Grid operator()(const LaunchArgs& args) const;

 private:
  std::string text_;
};

}  // namespace tegula
