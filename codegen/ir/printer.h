// Canonical text of tile IR: generic form, values numbered in order.
//
//   #0 = layout {register=[[1],[2]], lane=[[4],[8],[16],[32],[64]], warp=[[128],[256]] -> dim0:512}
//   func @count(%0: ptr<f32> "x" div 16, %1: i32 "n") {num_stages = 2, num_warps = 4} {
//     %2 = arange {end = 512, start = 0} : tile<512xi32, #0>
//     %3 = splat %1 : tile<512xi32, #0>
//     %4 = lt %2, %3 : tile<512xi1, #0>
//     %5 = cast %4 : tile<512xi32, #0>
//     %6 = reduce %5 {axis = 0} : i32 { ^(%7: i32, %8: i32):
//       %9 = add %7, %8 : i32
//       yield %9
//     }
//     return
//   }
//
// Layouts are aliases above the function, numbered by first use and equal ones merged. An optional operand that is
// absent is `_`; absent ones at the end of the list are left out. Attributes are sorted by name; floating-point ones
// have a point, an exponent or are inf or nan, and read back bit for bit. Only the parameters keep the user's names.
#pragma once

#include <string>

#include "codegen/ir/ir.h"

namespace tegula::ir {

struct PrintOptions {
  bool locations = false;  ///< `loc("file":line:column)` after every op; part of an image's key
};

std::string print(const Func& func, const PrintOptions& options = {});
/// One op on one line without its regions, for messages. Numbers and layout aliases are those of print().
std::string print_line(const Op& op);

}  // namespace tegula::ir
