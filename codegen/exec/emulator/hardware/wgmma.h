// Matrix instructions of a warpgroup (wgmma). Each warp does its quarter, 16 of the 64 rows, when it waits: then the
// operands in shared memory are read and the sums computed. Until then the accumulators hold NaNs of a kind of their
// own (integers, the smallest ones), each of which names the instruction and register that it stands for; the next
// instruction takes them as its accumulators, a wait that covers the instruction replaces them, and anything else sees
// a NaN.
//
// A fault ends the launch where
// - a warp waits for an instruction that another warp of the four never issues (a deadlock);
// - the warps issue different instructions, or their threads give different descriptors;
// - an operand in shared memory was stored by threads without a fence_async_shared since (shared_writes.h);
// - an operand in shared memory changes between issue and wait: a copy or a barrier before is missing, or a wait
//   behind;
// - a wait hands on the sums of an instruction that was not committed, and which no wait covers therefore;
// - accumulators or a fragment of A come from registers, and there was no wgmma_fence since the warp's last wait.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "codegen/exec/emulator/hardware/async_queue.h"
#include "codegen/exec/emulator/launch/fibers.h"
#include "codegen/product/instruction.h"

namespace tegula::emulator {

class Worker;

/// Where an operand lies in shared memory: the descriptor's fields, offsets in bytes.
struct MatrixDescriptor {
  uint32_t start;    ///< bits 0-13, in 16 bytes
  uint32_t leading;  ///< bits 16-29, in 16 bytes
  uint32_t stride;   ///< bits 32-45, in 16 bytes
  uint32_t base;     ///< bits 49-51: the row of 128 bytes in which the swizzle pattern starts
  uint32_t width;    ///< bits 62-63 as bytes / 16 over which chunks are permuted: 1 (none), 8, 4, 2

  explicit MatrixDescriptor(uint64_t bits);
  /// Offset of 16 bytes in shared memory, whose first byte is a multiple of 256 KiB. K-major: bytes 16 * chunk to
  /// 16 * chunk + 15 of row (of A) or column (of B) `line`.
  uint32_t k_major(uint32_t line, uint32_t chunk) const;
  /// MN-major, elements of 16 bits: rows or columns 8 * chunk to 8 * chunk + 7 at depth `k`.
  uint32_t mn_major(uint32_t k, uint32_t chunk) const;
  /// Offsets from the first to behind the last, between which all of so many lines lie.
  std::pair<uint32_t, uint32_t> extent(bool mn_major, uint32_t lines) const;

 private:
  uint32_t swizzled(uint32_t offset) const;
};

/// One instruction as it was issued by a warp.
struct MatrixProduct {
  const MmaInstruction* instruction = nullptr;
  uint32_t n = 0;
  bool a_in_registers = false;
  bool transposed_a = false, transposed_b = false;  ///< MN-major
  bool accumulate = true;
  uint64_t a = 0, b = 0;  ///< descriptors
  Where where;
  uint64_t number = 0;                  ///< of the warp's instructions
  uint32_t tag = 0;                     ///< the upper bits of what stands for its results
  std::vector<uint32_t> values;         ///< [lane][register]: accumulators before, results afterwards
  std::vector<uint8_t> a_seen, b_seen;  ///< the lines of the operands when it was issued
};

/// A warp's instructions.
struct WarpProducts {
  AsyncQueue<MatrixProduct> queue;
  MatrixProduct next;                  ///< being issued
  std::vector<MatrixProduct> results;  ///< done, and not yet the accumulators of another one
  uint64_t issued = 0;
  bool fenced = false;
  void clear();
};

/// What the four warps of a warpgroup have issued.
struct Warpgroup {
  struct Issue {
    Where where;
    uint32_t thread;
    uint64_t a, b;
  };
  std::deque<Issue> log;  ///< of the instructions that not all four warps have issued
  uint64_t complete = 0;  ///< how many all four have issued
  uint64_t issued[4] = {};
  std::vector<Fiber*> waiting;
  void clear();
};

/// The upper ten bits of what stands for a register of sums that are not there yet: of a NaN with sign (of f16 the
/// upper one of two), or of an integer next to the smallest one, where sums of products come only by wrapping around.
inline constexpr uint32_t kFloatMark = 0xFFC00000, kIntegerMark = 0x80000000;

/// The bodies of the rows. Registers are those of the calling lane.
struct ProductArguments {
  const MmaInstruction* instruction;
  uint64_t a, b;             ///< descriptors
  const uint32_t* fragment;  ///< A in registers; null: a descriptor
  const void* accumulators;
  bool accumulate, transposed_a, transposed_b;
  uint32_t n;
  bool further;  ///< a further step of the same operation
};
/// multiply_warp, which tells of NaNs and infinities that it makes, where that is asked for. `place`: of the
/// instruction.
void multiply_told(const MmaInstruction& instruction, uint32_t n, const uint8_t* a, const uint8_t* b,
                   std::span<uint32_t> sums, bool accumulate, uint32_t place);
void issue_product(void* result, const ProductArguments& arguments, Where where);
void fence_products(Where where);
void commit_products(Where where);
/// `mark`: that of the values' type.
void wait_for_products(void* result, const void* values, uint32_t count, uint32_t pending, uint32_t mark, Where where);

}  // namespace tegula::emulator
