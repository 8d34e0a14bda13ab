#include "codegen/analysis/axis_runs.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "codegen/analysis/axis_facts.h"

namespace tegula {

using ir::Op;
using ir::Opcode;
using ir::Value;
using Run = AxisInfo::Run;
using Runs = std::vector<Run>;

namespace {

constexpr int64_t kMaxStride = int64_t(1) << 40;

int64_t step(const Value* v) { return v->type.pointer ? elem_bytes(v->type.elem) : 1; }

/// Without what tells nothing.
Runs trimmed(Runs runs) {
  for (Run& run : runs)
    if (run.length == 1 || std::abs(run.stride) > kMaxStride) run = {};
  const bool any = std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.length > 1; });
  return any ? runs : Runs{};
}

class Rules {
 public:
  Rules(const Op& op, const AxisInfoOf& info) : op_(op), info_(info) {}

  Runs runs() const {
    switch (op_.opcode) {
      case Opcode::Add:
        return sum(1);
      case Opcode::Sub:
        return sum(-1);
      case Opcode::AddPtr:
        return sum(step(op_.operands[0]));
      case Opcode::Mul:
        if (auto factor = of(1).constant) return scaled(0, *factor);
        if (auto factor = of(0).constant) return scaled(1, *factor);
        return {};
      case Opcode::Shl:
        if (auto bits = of(1).constant; bits && *bits >= 0 && *bits < 40) return scaled(0, int64_t(1) << *bits);
        return {};
      case Opcode::Div:
        if (auto divisor = of(1).constant; divisor && !op_.result()->type.is_float()) return divided(*divisor);
        return {};
      case Opcode::Shr:
        if (auto bits = of(1).constant; bits && *bits >= 0 && *bits < 40) return divided(int64_t(1) << *bits);
        return {};
      case Opcode::Cast:
      case Opcode::Bitcast:
        return is_same_number() ? of(0).strided : Runs{};
      case Opcode::ConvertLayout:
      case Opcode::Hint:
      case Opcode::Broadcast:
        return of(0).strided;
      case Opcode::ExpandDims: {
        Runs runs = of(0).strided;
        if (!runs.empty()) runs.insert(runs.begin() + op_.get(ir::attr::axis), Run{});
        return runs;
      }
      case Opcode::Trans: {
        const Runs from = of(0).strided;
        Runs runs;
        for (int64_t axis : op_.get(ir::attr::order))
          if (!from.empty()) runs.push_back(from[size_t(axis)]);
        return runs;
      }
      case Opcode::Select: {
        Runs runs = common_runs(of(1), of(2), step(op_.result()));
        for (size_t axis = 0; axis < runs.size(); ++axis)
          runs[axis].length = std::min(runs[axis].length, of(0).constancy[axis]);
        return trimmed(std::move(runs));
      }
      default:
        return {};
    }
  }

 private:
  const AxisInfo& of(size_t operand) const { return info_(op_.operands[operand]); }
  Run run(size_t operand, size_t axis) const { return longest_run(of(operand), axis, step(op_.operands[operand])); }
  size_t rank() const { return of(0).contiguity.size(); }

  /// The first operand plus `scale` times the second one.
  Runs sum(int64_t scale) const {
    Runs runs;
    for (size_t axis = 0; axis < rank(); ++axis) {
      const Run l = run(0, axis), r = run(1, axis);
      const bool alike = l.repeats == r.repeats || l.stride == 0 || r.stride == 0;
      const int64_t repeats = l.stride == 0 ? r.repeats : l.repeats;
      runs.push_back(alike ? Run{l.stride + r.stride * scale, std::min(l.length, r.length), repeats} : Run{});
    }
    return trimmed(std::move(runs));
  }
  /// Neighbouring numbers over a power of two, from multiples of it on: as many equal ones after another. Behind what
  /// wraps around, the quotient is not the next one.
  Runs divided(int64_t divisor) const {
    const AxisInfo& x = of(0);
    if (!x.non_negative || divisor <= 1 || !std::has_single_bit(uint64_t(divisor))) return {};
    const bool wraps = axis_facts::may_wrap_around(op_.operands[0]->type);
    Runs runs;
    for (size_t axis = 0; axis < rank(); ++axis) {
      const bool begins = x.divisibility[axis] % divisor == 0;
      const int64_t length = wraps ? std::min(x.contiguity[axis], x.divisibility[axis]) : x.contiguity[axis];
      runs.push_back(begins && length > divisor ? Run{1, length, divisor} : Run{});
    }
    return trimmed(std::move(runs));
  }
  Runs scaled(size_t operand, int64_t factor) const {
    Runs runs;
    for (size_t axis = 0; axis < rank(); ++axis) {
      const Run from = run(operand, axis);
      if (std::abs(factor) > kMaxStride / std::max<int64_t>(1, std::abs(from.stride))) return {};
      runs.push_back({from.stride * factor, from.length, from.repeats});
    }
    return trimmed(std::move(runs));
  }
  bool is_same_number() const {
    const ir::Type &from = op_.operands[0]->type, &to = op_.result()->type;
    if (from.pointer || to.pointer) return from.pointer && to.pointer;
    return from.is_integer() && to.is_integer() && !from.is_bool() && !to.is_bool();
  }

  const Op& op_;
  const AxisInfoOf& info_;
};

}  // namespace

Run longest_run(const AxisInfo& info, size_t axis, int64_t step) {
  Run longest{step, info.contiguity[axis]};
  if (info.constancy[axis] > longest.length) longest = {0, info.constancy[axis]};
  if (!info.strided.empty() && info.strided[axis].length > longest.length) longest = info.strided[axis];
  return longest;
}

Runs strided_runs(const Op& op, const AxisInfoOf& info) {
  return op.result()->type.is_tile() ? Rules(op, info).runs() : Runs{};
}

Runs common_runs(const AxisInfo& a, const AxisInfo& b, int64_t step) {
  Runs runs;
  for (size_t axis = 0; axis < a.contiguity.size(); ++axis) {
    const Run l = longest_run(a, axis, step), r = longest_run(b, axis, step);
    const bool alike = l.stride == r.stride && l.repeats == r.repeats;
    runs.push_back(alike ? Run{l.stride, std::min(l.length, r.length), l.repeats} : Run{});
  }
  return trimmed(std::move(runs));
}

int access_width(const AxisInfo& pointers, int64_t bytes, const AxisInfo* mask, size_t axis) {
  int64_t width = std::min(pointers.contiguity[axis], pointers.divisibility[axis] / bytes);
  width = std::min(width, std::max<int64_t>(1, 16 / bytes));
  if (mask) width = std::min(width, mask->constancy[axis]);
  return int(std::max<int64_t>(1, width));
}

}  // namespace tegula
