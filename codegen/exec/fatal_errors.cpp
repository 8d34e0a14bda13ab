#include "codegen/exec/fatal_errors.h"

#include <llvm/Support/ErrorHandling.h>

#include <mutex>

#include "runtime/base/internal_error.h"

namespace tegula {

// LLVM is built without exceptions but with the tables that they unwind by: they pass through its functions, which
// clean up nothing. A handler that returns would be followed by abort().
void throw_fatal_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_fatal_error_handler(
        [](void*, const char* reason, bool) { throw InternalError("LLVM's code generator", reason); });
  });
}

}  // namespace tegula
