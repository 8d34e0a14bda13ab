// Sums of the rows that share an index, for tables of few rows. Not for users.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels::detail {

/// table[i] = the sum of all x[t] with index[t] = i, or with `accumulate` this added to what stands there.
struct SumsByIndex {
  const Tensor &table, &x, &index;
  bool accumulate;
};

/// Rows that share an index, if all are named as often.
int64_t rows_of_a_key(const SumsByIndex& of);

/// Whether the table is small enough for add_listed(), whose programs look at all indices.
bool is_for_lists(const SumsByIndex& of);

/// Runs it in the one launch of listed_sums.py.
void add_listed(Device& device, const SumsByIndex& of, StreamHandle stream);

}  // namespace tegula::kernels::detail
