// Checks every rule of tile IR and reports all violations.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula::ir {

/// What a function has to satisfy depends on how far it has been compiled.
enum class Stage {
  Tile,     ///< no layouts, no convert_layout
  LaidOut,  ///< every tile has a layout; elementwise operands and results share it
};

/// Reports every violation into `diags`, each with the op's text. True if there is none.
bool verify(const Func& func, Stage stage, Diagnostics& diags);

}  // namespace tegula::ir
