#include "codegen/analysis/equal_elements.h"

#include <algorithm>
#include <map>

#include "codegen/analysis/integer_bounds.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/layout/linear_layout.h"

namespace tegula {

std::vector<int> first_registers(const ir::Type& type, std::span<const int64_t> runs) {
  std::map<LinearLayout::Basis, int> firsts;
  std::vector<int> out;
  for (int r = 0; r < type.layout->in_size(Dim::Register); ++r) {
    LinearLayout::Basis at = type.layout->apply({{Dim::Register, r}});
    for (size_t axis = 0; axis < at.size(); ++axis) at[axis] -= at[axis] % int32_t(runs[axis]);
    out.push_back(firsts.try_emplace(std::move(at), r).first->second);
  }
  return out;
}

int64_t count_different(const ir::Type& type, std::span<const int64_t> runs) {
  const std::vector<int> firsts = first_registers(type, runs);
  int64_t count = 0;
  for (int r = 0; r < int(firsts.size()); ++r) count += firsts[size_t(r)] == r;
  return count;
}

// Elements in registers that the mask lets through in some thread, of so many: a thread's first element is the one of
// least coordinates.
static int64_t let_through(int64_t elements, const ir::Type& type, const ir::Value* mask) {
  const int registers = type.layout->in_size(Dim::Register);
  int reached = 0;
  for (int r = 0; r < registers; ++r) reached += !is_false_from(mask, type.layout->apply({{Dim::Register, r}}));
  return elements * reached / registers;
}

int64_t loaded_elements(const ir::Op& load) {
  const ir::Type& type = load.result()->type;
  if (load.opcode != ir::Opcode::Load) return held_elements(type);
  const bool repeats = load.has(ir::attr::repeats);
  const int64_t elements = repeats ? count_different(type, load.get(ir::attr::repeats)) : held_elements(type);
  const ir::Value* mask = load.operands.size() > 1 ? load.operand(1) : nullptr;
  return mask && type.layout ? let_through(elements, type, mask) : elements;
}

int64_t register_bytes(const ir::Op& load) {
  const int64_t vector = load.get(ir::attr::vector), elem = std::max(1, load.result()->type.bits() / 8);
  return loaded_elements(load) / vector * std::max<int64_t>(vector * elem, 4);
}

}  // namespace tegula
