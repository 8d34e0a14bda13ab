#include "codegen/analysis/axis_facts.h"

#include <algorithm>

#include "codegen/analysis/axis_runs.h"

namespace tegula::axis_facts {

using ir::Value;

int64_t power_of_two_divisor(int64_t n) {
  return n == 0 ? kMaxDivisor : std::min(kMaxDivisor, int64_t(uint64_t(n) & (~uint64_t(n) + 1)));
}
int64_t multiply(int64_t a, int64_t b) { return a > kMaxDivisor / b ? kMaxDivisor : a * b; }

AxisInfo::PerAxis extents(const Value* v) {
  AxisInfo::PerAxis blocks{1};
  if (v->type.is_tile()) blocks = AxisInfo::PerAxis(v->type.shape);
  for (int64_t& extent : blocks) extent = power_of_two_divisor(extent);
  return blocks;
}
int64_t step(const Value* v) { return v->type.pointer ? elem_bytes(v->type.elem) : 1; }

bool stays_in_range(const ir::Type& type) { return type.pointer || type.bits() >= 32; }

bool may_wrap_around(const ir::Type& type) { return !stays_in_range(type) || !is_signed(type.elem); }

void keep_in_range(AxisInfo& info, const ir::Type& type) {
  const int64_t longest = int64_t(1) << (type.bits() - (is_signed(type.elem) ? 1 : 0));
  for (size_t axis = 0; axis < info.contiguity.size(); ++axis) {
    const int64_t run = std::min({info.contiguity[axis], info.divisibility[axis], longest});
    info.divisibility[axis] = divisor_at(info, axis, run, 1);
    info.contiguity[axis] = run;
  }
}

AxisInfo unknown(const Value* v) {
  const AxisInfo::PerAxis ones(v->type.is_tile() ? v->type.shape.size() : 1, 1);
  return {ones, ones, ones, std::nullopt, v->type.is_integer() && is_unsigned(v->type.elem)};
}

AxisInfo of_constant(const Value* v, int64_t value) {
  const AxisInfo::PerAxis shape = extents(v), ones(shape.size(), 1);
  return {ones, AxisInfo::PerAxis(shape.size(), power_of_two_divisor(value)), shape, value, value >= 0};
}

int64_t divisor_at(const AxisInfo& info, size_t axis, int64_t group, int64_t step) {
  if (group >= info.contiguity[axis]) return info.divisibility[axis];
  return std::min(info.divisibility[axis], multiply(group, step));
}
int64_t divisor_of_all(const AxisInfo& info, int64_t step) {
  int64_t divisor = 1;
  for (size_t axis = 0; axis < info.contiguity.size(); ++axis)
    divisor = std::max(divisor, divisor_at(info, axis, 1, step));
  return divisor;
}

void set_runs(AxisInfo& info, std::vector<AxisInfo::Run> runs) {
  bool longer = false;
  for (size_t i = 0; i < runs.size(); ++i) longer |= runs[i].length > std::max(info.contiguity[i], info.constancy[i]);
  info.strided = longer ? std::move(runs) : std::vector<AxisInfo::Run>{};
}

AxisInfo join(const AxisInfo& a, const AxisInfo& b, int64_t step) {
  AxisInfo r = a;
  for (size_t i = 0; i < a.contiguity.size(); ++i) {
    r.contiguity[i] = std::min(a.contiguity[i], b.contiguity[i]);
    r.divisibility[i] = std::min(divisor_at(a, i, r.contiguity[i], step), divisor_at(b, i, r.contiguity[i], step));
    r.constancy[i] = std::min(a.constancy[i], b.constancy[i]);
  }
  if (a.constant != b.constant) r.constant = std::nullopt;
  r.non_negative = a.non_negative && b.non_negative;
  set_runs(r, common_runs(a, b, step));
  return r;
}

}  // namespace tegula::axis_facts
