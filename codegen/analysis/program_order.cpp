#include "codegen/analysis/program_order.h"

#include <string>
#include <vector>

#include "codegen/analysis/pointer_base.h"
#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

// Whether assembly may ask for the number of its block: special registers begin with %.
static bool may_name_its_block(const Op& assembly) {
  return assembly.get(attr::assembly).find('%') != std::string::npos;
}

bool programs_have_no_order(const Func& func) {
  std::vector<const Value*> written;
  if (func.num_ctas() > 1 || orders_memory(func.body, written)) return false;
  const auto uses = count_uses(func.body);
  bool free = true;
  walk(func.body, [&](const Op& op) {
    free &= !(op.opcode == Opcode::InlineAsm && may_name_its_block(op)) && op.opcode != Opcode::InlineAsmEffects &&
            !(op.opcode == Opcode::AtomicRmw && uses.contains(op.result()));
  });
  return free;
}

}  // namespace tegula
