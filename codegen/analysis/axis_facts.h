// Arithmetic on the facts that AxisAnalysis keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/analysis/axis_info.h"

namespace tegula::axis_facts {

inline constexpr int64_t kMaxDivisor = int64_t(1) << 40;  ///< of 0, and where products saturate

int64_t power_of_two_divisor(int64_t n);
/// The product of two divisors, limited so that it does not overflow.
int64_t multiply(int64_t a, int64_t b);

/// The largest possible group along each axis: the power of two in the extent; 1 for a scalar.
AxisInfo::PerAxis extents(const ir::Value* v);
/// Distance of consecutive elements: bytes for pointers.
int64_t step(const ir::Value* v);

/// Whether index arithmetic is presumed not to overflow in that type: in few bits it does in plain programs.
bool stays_in_range(const ir::Type& type);
/// Whether a sum of such numbers may be the sum less 2^bits, as programs with small numbers and those that count around
/// zero without a sign rely on. Others are presumed not to overflow.
bool may_wrap_around(const ir::Type& type);
/// Shortens the runs of numbers of a type that does not stay in range to those within which none wraps around: 128 of
/// int8 at most, which begin at a multiple of their length.
void keep_in_range(AxisInfo& info, const ir::Type& type);

AxisInfo unknown(const ir::Value* v);
AxisInfo of_constant(const ir::Value* v, int64_t value);

/// A divisor of the elements at positions that are multiples of `group` along the axis.
int64_t divisor_at(const AxisInfo& info, size_t axis, int64_t group, int64_t step);
/// A divisor of every element.
int64_t divisor_of_all(const AxisInfo& info, int64_t step);

/// Adds the facts that a binary op of integers or pointers implies for its result; `l` and `r` are the facts of its
/// operands. `out` already has the constancy common to both.
void add_binary(const ir::Op& op, const AxisInfo& l, const AxisInfo& r, AxisInfo& out);

/// Stores the runs in `info` if they are longer than contiguity and constancy already imply.
void set_runs(AxisInfo& info, std::vector<AxisInfo::Run> runs);

/// The facts that hold for both (the join of the lattice).
AxisInfo join(const AxisInfo& a, const AxisInfo& b, int64_t step);

}  // namespace tegula::axis_facts
