// Bulk copies (cp.async.bulk.tensor): boxes of arrays in global memory, copied to shared memory as tensor maps say. A
// copy counts for the phase of an mbarrier, and is done as late as the waits allow: when that phase ends
// (Worker::end_late_phase). The boxes of a phase come in any order, and with a seed half of them when they are issued.
// Stores to other blocks of a cluster that count for an mbarrier there (st.async) are treated likewise.
//
// A fault ends the launch where
// - a copy takes another map than those of the launch, or one of another rank;
// - it goes to where its box cannot lie, or begins in a row elsewhere than at a multiple of 16 bytes;
// - it reads what was not allocated; what is outside of the array is not read, but if all of the box is, the array's
//   begin has to be memory;
// - shared memory that it writes, or its mbarrier, was stored by threads without a fence_async_shared since;
// - threads, products or other copies touch the bytes that it writes before its phase has ended;
// - it counts for a phase that nobody knows to have begun, or that expects fewer bytes (mbarrier.h);
// - the program ends before the copy does;
// - it goes to a block of the cluster that has ended, or that nobody knows to have begun.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/exec/emulator/hardware/combine.h"
#include "codegen/exec/emulator/launch/fibers.h"
#include "runtime/tensor_map.h"

namespace tegula::emulator {

/// What a kernel's parameter points to: the emulator's own map.
struct alignas(64) TensorMap {
  MappedArray array;
  std::array<int32_t, kMaxMapRank> box = {};  ///< the fastest dimension first
  int32_t rank = 0, element_bytes = 0, swizzle = 0;
  Elem elem = Elem::U8;

  TensorMap() = default;
  TensorMap(const ImageTensorMap& map, const MappedArray& array);
  uint32_t row_bytes() const { return uint32_t(box[0] * element_bytes); }
};

/// Why no device takes such a map, or empty.
std::string why_invalid(const ImageTensorMap& map);

/// A box of an array, and where it lies in shared memory.
struct Box {
  const TensorMap* map;
  std::array<int32_t, kMaxMapRank> coordinates;
  uint32_t offset, bytes;  ///< in shared memory
  uint32_t thread;         ///< that issued the copy
  Where where;

  bool touches(uint32_t other_offset, uint32_t other_bytes) const {
    return offset < other_offset + other_bytes && other_offset < offset + bytes;
  }
};

/// A box under way, or, where there is no map, a store to the shared memory of another block.
struct BulkCopy : Box {
  uint32_t barrier;    ///< the mbarrier's offset
  uint64_t value = 0;  ///< of a store
  bool done = false;   ///< though its phase has not ended
};

struct BulkStore : Box {
  std::optional<Combine> combine;  ///< none: the array's elements are replaced
  uint32_t group;                  ///< the thread's first one is 0
  bool released = false;           ///< a wait has said that shared memory is read
  std::vector<uint8_t> data;       ///< of the box once it is read, row by row
};

/// The body of the rows: coordinates as many as the row says, the fastest dimension first.
void issue_bulk_copy(uint32_t to, uint64_t map, uint32_t barrier, const uint32_t* coordinates, int rank, Where where);

/// The same to the blocks of the cluster that are bits of `blocks`, to the same offset in each, for its own mbarrier.
void issue_multicast(uint32_t to, uint64_t map, uint32_t barrier, const uint32_t* coordinates, int rank,
                     uint32_t blocks, Where where);

/// The body of st_async.
void issue_async_store(uint32_t to, uint64_t value, uint32_t bytes, uint32_t barrier, Where where);

/// Writes the box, or the value.
void perform(Program& program, const BulkCopy& copy);

// Bulk stores (the other way): boxes in shared memory, written to arrays. A box is read, with a seed, when it is
// issued, otherwise as late as the waits allow, and written to the array when a wait says so or the program ends. A
// fault ends the launch where the map, the box's place or the array's memory are not as above, where threads or copies
// write to its place before a wait has released it, and where the program ends before that.
// Bulk reductions (cp.reduce.async.bulk.tensor) are such stores, but combine each element with the array's, atomically.
void issue_bulk_store(uint32_t from, uint64_t map, const uint32_t* coordinates, int rank,
                      std::optional<Combine> combine, Where where);
void commit_bulk_stores();
/// `written`: also until the arrays are.
void wait_for_bulk_stores(uint32_t pending, bool written);
/// That all are released; then those left are written.
void end_bulk_stores(Program& program);

}  // namespace tegula::emulator
