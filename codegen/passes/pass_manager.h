// Runs the pipeline of passes.def. Dumps and times every pass; verifies the result (in debug builds after each pass).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "codegen/passes/passes.h"

namespace tegula {

/// Takes a pass's name and the text after it.
using DumpCallback = std::function<void(const std::string& pass, const std::string& text)>;

/// Brings `func` from stage Tile to the last pass's stage and appends the passes' times. False if the input violates a
/// rule or a pass met a user's mistake: context.diags has the reason. An invalid function after the passes is an
/// internal error, which TEGULA_CHECK reports with the function's text.
bool run_passes(ir::Func& func, PassContext& context, const DumpCallback& dump = {},
                std::vector<PassTime>* times = nullptr);

/// The same in two parts: the passes up to stage_operands, and those behind it.
bool run_passes_up_to_staging(ir::Func& func, PassContext& context);
bool run_passes_behind_staging(ir::Func& func, PassContext& context);

/// The dump that TEGULA_DUMP asks for: `all` or names separated by commas, printed to stderr under a line `// ----
/// after NAME`; null if the variable is not set. Unknown names are warned of once a process.
DumpCallback dump_from_environment();

}  // namespace tegula
