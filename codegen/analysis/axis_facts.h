// Arithmetic of the facts that AxisAnalysis keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/analysis/axis_info.h"

namespace tegula::axis_facts {

inline constexpr int64_t kMaxDivisor = int64_t(1) << 40;  ///< of 0, and where products saturate

int64_t power_of_two_divisor(int64_t n);
/// Of divisors.
int64_t multiply(int64_t a, int64_t b);

/// The longest groups that there are along each axis: the powers of two in the extents; 1 for a scalar.
std::vector<int64_t> extents(const ir::Value* v);
/// Distance of consecutive elements: bytes for pointers.
int64_t step(const ir::Value* v);

AxisInfo unknown(const ir::Value* v);
AxisInfo of_constant(const ir::Value* v, int64_t value);

/// What divides the elements at positions that are multiples of `group` along the axis.
int64_t divisor_at(const AxisInfo& info, size_t axis, int64_t group, int64_t step);
/// What divides every element.
int64_t divisor_of_all(const AxisInfo& info, int64_t step);

/// Adds what a binary op of integers or pointers tells, whose operands are known as l and r. The constancy that both of
/// them have is in `out` already.
void add_binary(const ir::Op& op, const AxisInfo& l, const AxisInfo& r, AxisInfo& out);

/// Keeps runs if they are longer than what contiguity and constancy tell of.
void set_runs(AxisInfo& info, std::vector<AxisInfo::Run> runs);

/// What holds for both.
AxisInfo join(const AxisInfo& a, const AxisInfo& b, int64_t step);

}  // namespace tegula::axis_facts
