#include "codegen/analysis/mask_runs.h"

#include <algorithm>

#include "codegen/analysis/axis_facts.h"
#include "codegen/analysis/axis_runs.h"

namespace tegula {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {
constexpr int kWideEnough = 8;  // bytes: wider accesses gain less than a branch costs
}  // namespace

bool is_one_run(const Value* mask, size_t axis, int64_t group, const AxisAnalysis& axes) {
  if (axes.info(mask).constancy[axis] >= group) return true;
  if (!mask->def) return false;
  const Op& op = *mask->def;
  auto operand_is = [&](size_t i, size_t along) { return is_one_run(op.operands[i], along, group, axes); };
  switch (op.opcode) {
    case Opcode::BitAnd:
      return operand_is(0, axis) && operand_is(1, axis);
    case Opcode::Broadcast:
    case Opcode::ConvertLayout:
      return operand_is(0, axis);
    case Opcode::ExpandDims:
      return operand_is(0, axis - (int64_t(axis) > op.get(ir::attr::axis) ? 1 : 0));
    case Opcode::Lt:
    case Opcode::Le:
    case Opcode::Gt:
    case Opcode::Ge: {
      const AxisInfo &l = axes.info(op.operands[0]), &r = axes.info(op.operands[1]);
      const ir::Type& type = op.operands[0]->type;
      if (!type.is_integer()) return false;
      // Numbers that may wrap around do so between aligned groups alone.
      const bool wraps = axis_facts::may_wrap_around(type);
      const auto runs_on = [&](const AxisInfo& x) {
        return x.contiguity[axis] >= group && (!wraps || x.divisibility[axis] >= group);
      };
      return (runs_on(l) && r.constancy[axis] >= group) || (runs_on(r) && l.constancy[axis] >= group);
    }
    default:
      return false;
  }
}

int masked_access_width(const KnownOfAccess& known, const KnownOfAccess& without_promises, int64_t bytes,
                        const Value* mask, size_t axis) {
  const int most = access_width(known.pointers, bytes, nullptr, axis);
  if (!mask) return most;
  const int whole = access_width(known.pointers, bytes, &known.axes.info(mask), axis);
  if (whole * bytes >= kWideEnough) return whole;
  const int in_parts = int(std::min<int64_t>(most, without_promises.pointers.contiguity[axis]));
  return in_parts > whole && is_one_run(mask, axis, in_parts, without_promises.axes) ? in_parts : whole;
}

}  // namespace tegula
