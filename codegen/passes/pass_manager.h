// Runs the pipeline of passes.def, dumped and timed pass by pass, verified at its end (debug builds: after each pass).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "codegen/passes/passes.h"

namespace tegula {

/// Takes a pass's name and the text after it.
using DumpCallback = std::function<void(const std::string& pass, const std::string& text)>;

/// Brings `func` from stage Tile to the last pass's stage. False if the function that came in breaks a rule, or if a
/// pass met a user's mistake: context.diags says what. A broken function behind the passes is our bug: TEGULA_CHECK
/// tells of it with the function's text. Times are appended.
bool run_passes(ir::Func& func, PassContext& context, const DumpCallback& dump = {},
                std::vector<PassTime>* times = nullptr);

/// What TEGULA_DUMP asks for: `all` or names with commas between, printed to stderr under a line `// ---- after NAME`;
/// null if the variable is not set. A name that is none is warned of, once a process.
DumpCallback dump_from_environment();

}  // namespace tegula
