#include "codegen/analysis/late_sums.h"

namespace tegula {

using namespace ir;

namespace {

bool begins_with_zeros(const Op& wait) {
  const Op* start = wait.operand(0)->def;
  return start && start->opcode == Opcode::MmaStart && start->operand(2)->def &&
         start->operand(2)->def->opcode == Opcode::Unset;
}

}  // namespace

std::vector<Op*> late_sums(const ForLoop& loop) {
  const Block& body = loop.body();
  auto uses = count_uses(body);
  std::vector<Op*> found;
  for (size_t r = 0; r < loop.carried(); ++r) {
    Op* wait = loop.next(r)->def;
    if (wait && wait->opcode == Opcode::MmaWait && wait->parent == &body && begins_with_zeros(*wait) &&
        uses[wait->result()] == 1 && uses[loop.arg(r)] > 0)
      found.push_back(wait);
  }
  return found;
}

}  // namespace tegula
