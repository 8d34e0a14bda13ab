#include "codegen/exec/emulator/bulk_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "codegen/exec/emulator/access.h"

namespace tegula::emulator {

namespace {

constexpr uint32_t kChunk = 16;
constexpr int32_t kMostBoxExtent = 256;
constexpr uint32_t kLeastAlignment = 128;
constexpr uint32_t kSwizzledRows = 8;  ///< after so many the pattern repeats

/// Where the swizzle puts 16 bytes of shared memory.
uint32_t swizzled(uint32_t offset, uint32_t swizzle) {
  const uint32_t chunks = swizzle / kChunk;
  return chunks ? offset ^ ((offset >> 7) & (chunks - 1)) << 4 : offset;
}

/// Part of a box's row that lies in the array: elements [begin, end) of the row, the first one at `address`.
struct Row {
  uint32_t number;
  uint64_t address;
  int64_t begin, end;
};

/// Calls act(Row) for each row of the box; of those outside of the array, begin and end are 0.
template <class Act>
void for_each_row(const BulkCopy& copy, const Act& act) {
  const TensorMap& map = *copy.map;
  const MappedArray& array = map.array;
  const int64_t first = copy.coordinates[0];
  const uint32_t rows = copy.bytes / map.row_bytes();
  for (uint32_t number = 0; number < rows; ++number) {
    uint64_t address = array.base;
    bool inside = true;
    uint32_t rest = number;
    for (size_t d = 1; d < size_t(map.rank); ++d) {
      const int64_t at = int64_t(copy.coordinates[d]) + rest % uint32_t(map.box[d]);
      rest /= uint32_t(map.box[d]);
      inside = inside && at >= 0 && at < array.extents[d];
      address += uint64_t(at) * uint64_t(array.strides[d - 1]);
    }
    const int64_t begin = std::clamp<int64_t>(-first, 0, map.box[0]);
    const int64_t end = std::clamp<int64_t>(array.extents[0] - first, begin, map.box[0]);
    address += uint64_t((first + begin) * map.element_bytes);
    act(Row{number, address, inside ? begin : 0, inside ? end : 0});
  }
}

/// That the box begins at a multiple of 16 bytes of a row, and that the array's part of it may be read.
void check_source(const BulkCopy& copy) {
  Worker& worker = *this_worker;
  if (int64_t(copy.coordinates[0]) * copy.map->element_bytes % int64_t(kChunk)) {
    Fault start;
    start.address = uint64_t(int64_t(copy.coordinates[0]));
    start.bytes = kChunk / uint32_t(copy.map->element_bytes);
    misuse("a bulk copy from element {address} of rows on, which is not a multiple of {bytes}", copy.where, start);
  }
  for_each_row(copy, [&](const Row& row) {
    const uint32_t bytes = uint32_t(row.end - row.begin) * uint32_t(copy.map->element_bytes);
    if (bytes == 0 || worker.may_access(row.address, bytes)) return;
    Fault fault;
    fault.kind = Fault::GlobalBounds;
    fault.thread = worker.fiber().thread;
    fault.where = copy.where;
    fault.address = row.address;
    fault.bytes = bytes;
    worker.abandon(fault);
  });
}

/// That the box may lie there, that nothing else is under way there, and that what was stored there is seen.
void check_target(const Program& program, const BulkCopy& copy) {
  const uint32_t swizzle = uint32_t(copy.map->swizzle);
  const uint32_t alignment = std::max(kLeastAlignment, swizzle * kSwizzledRows);
  Fault fault;
  fault.address = copy.offset;
  fault.bytes = alignment;
  if (copy.offset % alignment)
    misuse("a bulk copy to offset {address} of shared memory, which is not a multiple of {bytes}", copy.where, fault);
  const uint32_t size = this_worker->launch().shared_bytes;
  if (copy.offset > size || size - copy.offset < copy.bytes) {
    fault.kind = Fault::SharedBounds;
    fault.access = Access::Write;
    fault.bytes = copy.bytes;
    fault.where = copy.where;
    fault.thread = this_worker->fiber().thread;
    this_worker->abandon(fault);
  }
  check_under_way(program, copy.offset, copy.bytes, Access::Write, copy.where);
  for (uint32_t at = 0; at < copy.bytes; at += kChunk)
    check_proxy(program, copy.offset + at, "a bulk copy writes", copy.where);
}

}  // namespace

TensorMap::TensorMap(const ImageTensorMap& map, const MappedArray& array)
    : array(array), rank(map.rank()), element_bytes(elem_bytes(map.elem)), swizzle(map.swizzle) {
  std::copy(map.box.begin(), map.box.end(), box.begin());
}

std::string why_invalid(const ImageTensorMap& map) {
  for (int32_t extent : map.box)
    if (extent < 1 || extent > kMostBoxExtent)
      return fmt::format("a box has an extent of {}, expected 1 to {}", extent, kMostBoxExtent);
  const int32_t row = map.box[0] * elem_bytes(map.elem);
  if (row % int32_t(kChunk)) return fmt::format("a box has rows of {} bytes, expected a multiple of {}", row, kChunk);
  if (map.swizzle != 0 && map.swizzle != 32 && map.swizzle != 64 && map.swizzle != 128)
    return fmt::format("a swizzle of {} bytes, expected 0, 32, 64 or 128", map.swizzle);
  if (map.swizzle && row > map.swizzle)
    return fmt::format("a box has rows of {} bytes, expected at most the {} of its swizzle", row, map.swizzle);
  return {};
}

void issue_bulk_copy(uint32_t to, uint64_t map, uint32_t barrier, const uint32_t* coordinates, int rank, Where where) {
  Worker& worker = *this_worker;
  Program& program = *worker.fiber().program;
  worker.keep_pace(Fiber::Moved::In);
  const TensorMap* of = worker.launch().tensor_map(map);
  if (!of) misuse("a bulk copy takes a tensor map that is none of the launch's", where);
  Fault ranks;
  ranks.bytes = uint32_t(rank), ranks.address = uint64_t(of->rank);
  if (of->rank != rank) misuse("a bulk copy of {bytes} dimensions by a tensor map of {address}", where, ranks);
  BulkCopy copy{
      of, {}, to - program.shared_base, of->row_bytes(), barrier - program.shared_base, worker.fiber().thread, where};
  for (int d = 0; d < rank; ++d) copy.coordinates[size_t(d)] = int32_t(coordinates[d]);
  for (int d = 1; d < rank; ++d) copy.bytes *= uint32_t(of->box[size_t(d)]);
  check_target(program, copy);
  check_source(copy);
  count_bulk_copy(copy, barrier);
  if (Races* races = worker.races()) races->bulk_copy(program, copy.offset, copy.bytes, where);
  copy.done = worker.flip();
  if (copy.done) perform(program, copy);
  program.bulk_copies.push_back(copy);
}

void perform(Program& program, const BulkCopy& copy) {
  const TensorMap& map = *copy.map;
  auto* shared = reinterpret_cast<uint8_t*>(uint64_t(program.shared_base));
  std::array<uint8_t, kMostBoxExtent * sizeof(uint64_t)> bytes;
  for_each_row(copy, [&](const Row& row) {
    const size_t size = size_t(map.element_bytes);
    std::memset(bytes.data(), 0, map.row_bytes());
    std::memcpy(bytes.data() + size_t(row.begin) * size, reinterpret_cast<const void*>(row.address),
                size_t(row.end - row.begin) * size);
    for (uint32_t at = 0; at < map.row_bytes(); at += kChunk)
      std::memcpy(shared + swizzled(copy.offset + row.number * map.row_bytes() + at, uint32_t(map.swizzle)),
                  bytes.data() + at, kChunk);
  });
  if (program.writes.tracks()) program.writes.forget(copy.offset, copy.bytes);
}

}  // namespace tegula::emulator
