// How a tile is sorted along its last dimension: by digits (DigitSort), or by a bitonic network, whose
// comparisons are between elements with positions that differ in one bit.
//
// Who holds an element is a matter of bits too: a *slot* is a bit of the
// register, lane or warp number, and stands for a bit of the position (or of a
// coordinate along another dimension). A comparison along a position's bit is
// for free where the bit's slot is a register's: two registers of one thread
// are compared, and the smaller goes into the one whose bit is 0. So the plan
// brings the bits into registers one after the other:
// - from a lane by a *trade*: of each two registers that differ in bit r, a
// thread sends one to the lane that differs in
//   bit t and keeps the other, so that slots r and t change their meanings:
//   half a shuffle an element. The slot that gives way is the one whose bit is
//   needed last (Belady's rule, as for a cache);
// - from a warp by a conversion through shared memory, which sets all slots
// anew, in the order in which their bits are
//   needed: registers first, then lanes, then warps.
// Where an element lies before a sort does not matter: the positions are named
// after the slots that they have.
//
// Runs are sorted upwards and downwards in turns. A thread whose elements
// belong to a run that goes down has them with all bits flipped, so that every
// comparison goes up.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/layout/linear_layout.h"

namespace tegula {

struct SortMove {
  enum class Kind : uint8_t {
    Flip,       ///< flip all bits of the elements for which the bits `parity` of
                ///< register, lane and warp have an odd sum
    Registers,  ///< compare registers that differ in bit `reg`
    Trade,      ///< the same after a trade of bit `reg` with bit `lane`
    Lanes,      ///< compare with the lane that differs in bit `lane`
    Convert,    ///< from the layout `from` to the layout `to`
  };
  Kind kind = Kind::Registers;
  int reg = -1, lane = -1;
  bool keep_smaller = false;  ///< of each pair only the smaller one goes on: bit
                              ///< `reg` is no more, or `lane` means nothing
  int falling = -1;           ///< a register bit: where it is 1, the greater one goes
                              ///< first; -1: nowhere
  std::vector<std::pair<Dim, int>> parity = {};
  LinearLayout from = {}, to = {};
};

struct SortPlan {
  LinearLayout begin;  ///< what the operand is converted to first
  std::vector<SortMove> moves;
  LinearLayout end;  ///< where the elements are then, in order
};

/// The plan for a tile in the layout `operand`, of whose sorted elements the first `kept`, a power of two, are wanted.
/// With `merge` the elements are bitonic already (first ascending and then descending, or the other way round), and all
/// are wanted.
SortPlan plan_sort(const LinearLayout& operand, int64_t kept, bool merge);
/// The plan for a laid-out `sort`.
SortPlan plan_sort(const ir::Op& op);

/// A radix sort, the lowest digit first, which is cheaper for one long row that is wanted as a whole: each pass is
/// stable. The keys lie in shared memory in row order; in each pass, warp w takes `elements / warps` keys from w *
/// elements / warps on, each lane every 32nd of them.
struct DigitSort {
  static constexpr int kDigitBits = 8;
  static constexpr int kRecordWords = 4;
  int64_t elements = 0;
  int warps = 0;
  LinearLayout in_order;  ///< of the keys in shared memory
  int64_t counters = 0,
          records = 0;  ///< where they begin in the op's scratch: a counter a warp and digit, words a warp
  int64_t bytes = 0;    ///< of scratch
};
/// The plan; nullopt if a bitonic network is to sort.
std::optional<DigitSort> plan_digit_sort(const ir::Op& op);

/// A bucket sort of the same rows. A sample of the keys tells how many there are in each of the cells that their upper
/// bits form; each cell gets buckets in proportion, so that most buckets hold one or two keys; and keys that are in the
/// order of their buckets change places with their neighbours. If a bucket holds very many keys, as with equal keys,
/// another sort takes over.
struct BucketSort {
  static constexpr int kMostOfBucket = 32;  ///< keys, a power of two
  int64_t elements = 0;
  int warps = 0;
  bool distinct = false;                   ///< no two keys are equal
  LinearLayout in_order;                   ///< of the keys in shared memory, from the beginning of the op's scratch
  int64_t num_buckets = 0, num_cells = 0;  ///< words of shared memory: counters of keys
  int padded = 0;                          ///< after so many buckets, a thread's, four words stay free; 0: nowhere
  int64_t buckets = 0, cells = 0, records = 0;  ///< where they begin in the op's scratch; records are words of warps
  int64_t bytes = 0;                            ///< of scratch
};
/// nullopt: such a sort does not pay, or the row is not one that each thread holds a part of. Keys of 32 bits that end
/// in their place are spread over buckets where places fill half of their bits, so that equal numbers do not lie
/// together. Otherwise they are sorted by digits, of the other half, as they are in order by this one.
std::optional<BucketSort> plan_bucket_sort(const ir::Op& op);

/// Shared memory that a sort takes, in bytes.
int64_t sort_scratch(const ir::Op& op);

/// Bytes in which sorted elements are held: 4, or 8 for types of 64 bits.
int sort_key_bytes(const ir::Type& type);

}  // namespace tegula
