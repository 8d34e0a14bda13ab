#include "codegen/analysis/equal_elements.h"

#include <map>

#include "codegen/analysis/register_pressure.h"
#include "codegen/layout/linear_layout.h"

namespace tegula {

std::vector<int> first_registers(const ir::Type& type, const ir::Ints& runs) {
  std::map<std::vector<int32_t>, int> firsts;
  std::vector<int> out;
  for (int r = 0; r < type.layout->in_size(Dim::Register); ++r) {
    std::vector<int32_t> at = type.layout->apply({{Dim::Register, r}});
    for (size_t axis = 0; axis < at.size(); ++axis) at[axis] -= at[axis] % int32_t(runs[axis]);
    out.push_back(firsts.try_emplace(std::move(at), r).first->second);
  }
  return out;
}

int64_t count_different(const ir::Type& type, const ir::Ints& runs) {
  const std::vector<int> firsts = first_registers(type, runs);
  int64_t count = 0;
  for (int r = 0; r < int(firsts.size()); ++r) count += firsts[size_t(r)] == r;
  return count;
}

int64_t loaded_elements(const ir::Op& load) {
  const ir::Type& type = load.result()->type;
  const bool repeats = load.opcode == ir::Opcode::Load && load.has(ir::attr::repeats);
  return repeats ? count_different(type, load.get(ir::attr::repeats)) : held_elements(type);
}

}  // namespace tegula
