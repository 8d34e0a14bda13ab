// The signatures of kernels.def, read. Not for users.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels::detail {

/// Reads an entry's signature into its operands and dims; kernels.def has the grammar. A mistake is an InternalError.
void read_signature(Entry& entry);

}  // namespace tegula::kernels::detail
