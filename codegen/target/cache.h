// Sizes of a GPU's caches.
#pragma once

#include <cstdint>

#include "codegen/target/target.h"

namespace tegula {

/// Bytes of the L2 cache of an architecture's usual device.
int64_t l2_bytes(const Target& target);

}  // namespace tegula
