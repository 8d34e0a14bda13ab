#include "codegen/passes/passes.h"

namespace tegula {

const std::vector<PassInfo>& pass_table() {
  using ir::Stage;
  static const std::vector<PassInfo> table = {
#define TEGULA_PASS(name, before, after, doc) {#name, Stage::before, Stage::after, doc, passes::name},
#include "codegen/passes/passes.def"
  };
  return table;
}

}  // namespace tegula
