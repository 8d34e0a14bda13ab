// Canonical text of tile IR: generic form, values numbered in order, layouts as aliases above the function.
//
//   #0 = layout {register=[[1],[2]], lane=[[4],[8],[16],[32],[64]], warp=[[128],[256]] -> dim0:512}
//   func @scale(%0: ptr<f32> "x" div 16, %1: i32 "n") {num_stages = 2, num_warps = 4} {
//     %2 = arange {end = 512, start = 0} : tile<512xi32, #0>
//     %3 = splat %1 : tile<512xi32, #0>
//     %4 = lt %2, %3 : tile<512xi1, #0>
//     return
//   }
#pragma once

#include <string>

#include "codegen/ir/ir.h"

namespace tegula::ir {

struct PrintOptions {
  bool locations = false;  ///< `loc("file":line:column)` behind every op; part of an image's key
};

std::string print(const Func& func, const PrintOptions& options = {});
/// One op on one line without its regions, for messages.
std::string print_line(const Op& op);

}  // namespace tegula::ir
