// Rows of more elements than a program sorts. Not for users.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels::detail {

/// Elements of a row that a program of order.py sorts at most, or twice as many where it has so much shared memory.
constexpr int64_t kLargestRow = 8192;
constexpr int64_t kSharedOfTwice = 163 << 10;

/// Runs a call of sort_rows whose rows are larger, in launches of sort_long_rows.py; false: they are not.
bool sort_long_rows(Device& device, const BoundCall& call, StreamHandle stream);

}  // namespace tegula::kernels::detail
