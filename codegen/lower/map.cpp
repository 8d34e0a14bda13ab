// map_elementwise: the region once for every group of a thread's elements.
#include "codegen/lower/lowering.h"

namespace tegula::lower {

void lower_MapElementwise(Lowering& l, const ir::Op& op) {
  const ir::Type& type = op.operand(0)->type;
  const ir::Block& region = *op.regions[0];
  const size_t pack = size_t(op.get(ir::attr::pack));
  std::vector<int> own;  // registers that hold no copies
  for (int r = 0; r < Lowering::num_registers(type); ++r)
    if (Lowering::canonical_register(type, r) == r) own.push_back(r);
  std::vector<Regs> results(op.results.size(), Regs(Lowering::num_registers(type), nullptr));
  for (size_t first = 0; first < own.size(); first += pack) {
    // If a thread has fewer elements, the last one fills up the group.
    auto register_of = [&](size_t i) { return own[std::min(first + i, own.size() - 1)]; };
    for (size_t i = 0; i < region.args.size(); ++i)
      l.set_scalar(region.args[i].get(), l.get(op.operand(int(i / pack)))[register_of(i % pack)]);
    for (auto& inner : region.ops)
      if (inner->opcode != ir::Opcode::Yield) l.lower_op(*inner);
    const auto& given = region.terminator()->operands;
    for (size_t i = 0; i < given.size(); ++i)
      if (first + i % pack < own.size()) results[i / pack][own[first + i % pack]] = l.scalar(given[i]);
  }
  for (size_t k = 0; k < results.size(); ++k) {
    for (int r = 0; r < int(results[k].size()); ++r) results[k][r] = results[k][Lowering::canonical_register(type, r)];
    l.set(op.result(int(k)), std::move(results[k]));
  }
}

}  // namespace tegula::lower
