// Loops whose loads, copies and stores are issued iterations ahead of their use.
#pragma once

#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/pipeline/load_stream.h"

namespace tegula {

/// Issues loads to registers `ahead` >= 1 iterations ahead; what is under way is carried by the loop.
///
///   for i = lower to upper step s          q0 = load(a(lower))       where lower < upper
///     x = load(a(i))                       q1 = load(a(lower + s))   where lower + s < upper
///     use(x)                       ->      for i, x = q0, y = q1
///                                            next = load(a(i + 2 s)) where i + 2 s < upper
///                                            use(x); carry y, next
///
/// They are issued where the iteration begins, or after the start of `product`, so that it does not wait for them.
void expand_loads(ir::Op& loop, const std::vector<ir::Op*>& loads, bool never_negative, int ahead,
                  ir::Op* product = nullptr);

/// Copies that were taken out of a loop, and how they are to be issued.
struct CopyStream {
  std::vector<ir::Op*>
      copies;  ///< async_copy or bulk_copy, of one kind, to the one place of an alloc; out of their block
  int ahead;   ///< iterations, of the loop's own number
  int64_t slots;
  bool never_negative;
  ir::Completion completion;         ///< of copies by threads
  OuterIterations* outer = nullptr;  ///< copies run into the next iteration of the loop around
  ir::Op* behind = nullptr;          ///< the op of the body that they are issued after; null: at its begin
};

/// Issues the copies ahead of the loop and in it, waits for them where the place is first read, and gives the place
/// `slots` slots, which are taken round and round:
///
///   place = shared_alloc                   place = shared_alloc {slots = 3}
///   for i = ...                            async_copy a(lower) to slot 0; t0 = async_commit
///     async_copy a(i), place      ->       async_copy a(lower + s) to slot 1; t1 = async_commit
///     use place                            for i, read = 0, write = 2, t0, t1
///                                            async_wait t0; use slot read
///                                            async_copy a(i + 2 s) to slot write; t2 = async_commit
///                                            read, write each move on; carry t1, t2
///                                          async_wait t0, t1
void expand_copies(ir::Op& loop, const CopyStream& stream);

/// Gives the places of the loop's stores two alternating slots, so that one barrier an iteration suffices. Values that
/// follow by pure ops from carried values are stored one iteration ahead, after `product` has started, which runs
/// meanwhile.
void expand_stores(ir::Op& loop, const std::vector<ir::Op*>& stores, ir::Op& product);

/// Keeps the sums of a loop that only accumulates in flight from one iteration to the next: the product of the previous
/// iteration is waited for at the end of this one, or with `waits_at_once` after the start of this iteration's product.
void keep_in_flight(ir::Op& loop, ir::Op& product, bool waits_at_once = false);

/// Makes sums that begin as zeros begin with the first product of the loop, which must run at least one iteration.
void begin_with_product(ir::Op& loop, ir::Op& product);

}  // namespace tegula
