// Checks every rule of tile IR and reports all violations. The rules stand at the top of verifier.cpp.
#pragma once

#include "codegen/ir/ir.h"

namespace tegula::ir {

/// What a function has to satisfy depends on how far it has been compiled.
enum class Stage {
  Tile,     ///< no layouts, no convert_layout
  Planned,  ///< every dot says what multiplies it
  LaidOut,  ///< every tile has a layout; elementwise operands and results share it
  Ordered,  ///< barriers order what threads do to shared memory
};

/// Reports every violation into `diags`: at the op's source location if it has one, with the op's text as a note. True
/// if there is none.
bool verify(const Func& func, Stage stage, Diagnostics& diags);

}  // namespace tegula::ir
