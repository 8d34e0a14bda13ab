// Functions in tile IR that use places in shared memory, for tests of what is found out about these.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "codegen/ir/reader.h"
#include "codegen/ir/verifier.h"

namespace tegula {

/// The function of four warps with that body; null, and a failure of the test, if it breaks a rule. The body may use
/// %0, an i32, %2, 64 x 64 pointers to f16, %3 and %4, zeros of f16 and f32 in that shape, and %5 to %7, the numbers 0
/// to 2.
inline std::unique_ptr<ir::Func> function_on_places(const std::string& body) {
  Diagnostics diags;
  auto func = ir::read(R"(func @f(%0: i32 "n", %1: ptr<f16> "x" div 16) {num_warps = 4} {
  %2 = splat %1 : tile<64x64xptr<f16>>
  %3 = constant {value = 0.0} : tile<64x64xf16>
  %4 = constant {value = 0.0} : tile<64x64xf32>
  %5 = constant {value = 0} : i32
  %6 = constant {value = 1} : i32
  %7 = constant {value = 2} : i32
)" + body + "  return\n}\n",
                       "f.tile", diags);
  const bool valid = func && ir::verify(*func, ir::Stage::Tile, diags);
  EXPECT_TRUE(valid) << diags.render();
  return valid ? std::move(func) : nullptr;
}

}  // namespace tegula
