// Tile IR of the configurations that tuning has ranked, which launches with other extents rank again.
#pragma once

#include <memory>
#include <string>

#include "codegen/analysis/axis_info.h"
#include "codegen/ir/ir.h"

namespace tegula::dsl {

/// One configuration as stage_products() leaves it: what a bound of its time follows from.
struct Staged {
  std::shared_ptr<const ir::Func> func;      ///< null: none is made of it
  std::shared_ptr<const AxisAnalysis> axis;  ///< of the function
  std::string unusable;                      ///< why there is none
};

/// One configuration with layouts.
struct LaidOut {
  std::shared_ptr<const ir::Func> func;  ///< null: none is made of it
  std::string code;                      ///< digest of what becomes of it: equal for equal code
  std::string unusable;                  ///< why there is none
};

}  // namespace tegula::dsl
