// Tile IR with layouts of the configurations that tuning has ranked, which launches with other extents rank again.
#pragma once

#include <memory>
#include <string>

#include "codegen/ir/ir.h"

namespace tegula::dsl {

/// Of one configuration.
struct LaidOut {
  std::shared_ptr<const ir::Func> func;  ///< null: none is made of it
  std::string code;                      ///< digest of what becomes of it: equal for equal code
  std::string unusable;                  ///< why there is none
};

}  // namespace tegula::dsl
