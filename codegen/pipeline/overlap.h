// Loops of two chained products, as attention's: the first product of the next iteration beside the arithmetic of this
// one.
#pragma once

#include <cstdint>

#include "codegen/ir/ir.h"

namespace tegula {

/// A loop with two products that run beside the program, in the order of the loop.
struct ChainedProducts {
  ir::Op *loop, *first, *second;
};

/// Lets the second product run beside what comes between the products of the next iteration; the two are started
/// together, so that nothing is waited for between them:
///
///   for i = lower to upper step d:        if lower < upper:
///     s = mma_wait(mma_start q, k[i])       s = mma_wait(mma_start q, k[lower]);  p = f(s)
///     p = f(s)                        ->    for i = lower to upper - d step d:
///     acc = mma_wait(mma_start p, v[i])       t = mma_start q, k[i + d];  u = mma_start p, v[i]
///                                             s = mma_wait t;  p = f(s);  acc = mma_wait u
///                                           acc = mma_wait(mma_start p, v[last])
///
/// `registers`: how many a thread has. False, with nothing changed: the first product follows from the second one of
/// the iteration before, the loop does something that must stay in its order, or what is under way at a time has no
/// room in registers. Otherwise `products` has those of the new loop.
bool overlap_products(ChainedProducts& products, int64_t registers);

}  // namespace tegula
