#include "codegen/exec/emulator/hardware/bulk_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "codegen/exec/emulator/hardware/access.h"
#include "codegen/exec/emulator/races/races.h"

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

/// Calls act(Row) for each row of the box; of those outside of the array, begin and end are 0. Of a row's last 16 bytes
/// in the array, what is `written` goes to all, as seen on an H100.
template <class Act>
void for_each_row(const Box& copy, bool written, const Act& act) {
  const TensorMap& map = *copy.map;
  const MappedArray& array = map.array;
  const int64_t chunk = written ? int64_t(kChunk) / map.element_bytes : 1;
  const int64_t extent = (array.extents[0] + chunk - 1) / chunk * chunk;
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
    const int64_t end = std::clamp<int64_t>(extent - first, begin, map.box[0]);
    address += uint64_t((first + begin) * map.element_bytes);
    act(Row{number, address, inside ? begin : 0, inside ? end : 0});
  }
}

/// That the box begins at a multiple of 16 bytes of a row, and that the array's part of it may be accessed; of a box
/// that lies outside altogether the array's begin, which an H200 looks at then.
void check_array(const Box& copy, Access access) {
  Worker& worker = *this_worker;
  if (int64_t(copy.coordinates[0]) * copy.map->element_bytes % int64_t(kChunk)) {
    Fault start;
    start.address = uint64_t(int64_t(copy.coordinates[0]));
    start.bytes = kChunk / uint32_t(copy.map->element_bytes);
    misuse("a bulk copy from element {address} of rows on, which is not a multiple of {bytes}", copy.where, start);
  }
  bool outside = true;
  for_each_row(copy, access != Access::Read, [&](const Row& row) {
    const uint32_t bytes = uint32_t(row.end - row.begin) * uint32_t(copy.map->element_bytes);
    outside = outside && bytes == 0;
    if (bytes == 0 || worker.may_access(row.address, bytes)) return;
    Fault fault;
    fault.kind = Fault::GlobalBounds;
    fault.access = access;
    fault.thread = worker.fiber().thread;
    fault.where = copy.where;
    fault.address = row.address;
    fault.bytes = bytes;
    worker.abandon(fault);
  });
  Fault array;
  array.address = copy.map->array.base;
  if (outside && !worker.may_access(array.address, kChunk))
    misuse("a bulk copy of a box that lies outside of its array, which begins at {address:#x}, where no memory is",
           copy.where, array);
}

/// That the box may lie there, that nothing else is under way there, and that what was stored there is seen.
void check_place(const Program& program, const Box& copy, Access access, const char* who) {
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
    fault.access = access;
    fault.bytes = copy.bytes;
    fault.where = copy.where;
    fault.thread = this_worker->fiber().thread;
    this_worker->abandon(fault);
  }
  check_under_way(program, copy.offset, copy.bytes, access, copy.where);
  for (uint32_t at = 0; at < copy.bytes; at += kChunk) check_proxy(program, copy.offset + at, who, copy.where);
}

/// The box that a thread names.
Box box_of(uint32_t shared, uint64_t map, const uint32_t* coordinates, int rank, Where where) {
  Worker& worker = *this_worker;
  const TensorMap* of = worker.launch().tensor_map(map);
  if (!of) misuse("a bulk copy takes a tensor map that is none of the launch's", where);
  Fault ranks;
  ranks.bytes = uint32_t(rank), ranks.address = uint64_t(of->rank);
  if (of->rank != rank) misuse("a bulk copy of {bytes} dimensions by a tensor map of {address}", where, ranks);
  Box box{of, {}, shared - worker.fiber().program->shared_base, of->row_bytes(), worker.fiber().thread, where};
  for (int d = 0; d < rank; ++d) box.coordinates[size_t(d)] = int32_t(coordinates[d]);
  for (int d = 1; d < rank; ++d) box.bytes *= uint32_t(of->box[size_t(d)]);
  return box;
}

/// Part of a box, and the taints that come with it.
struct Chunk {
  uint32_t offset;  ///< in shared memory
  AccessTaints taints;
};

/// Those of a row of the array that was just read.
void add_chunks(const Box& box, const Row& row, uint32_t taint, std::vector<Chunk>& chunks) {
  const uint32_t element = uint32_t(box.map->element_bytes);
  for (int64_t n = row.begin; n < row.end; ++n) {
    const uint64_t from = row.address + uint64_t(n - row.begin) * element;
    const auto written = this_worker->launch().written->find(from);
    if (!written || written->all_written(from, element)) continue;
    const uint32_t at = row.number * box.map->row_bytes() + uint32_t(n) * element, in_chunk = at % kChunk;
    const uint32_t offset = swizzled(box.offset + at - in_chunk, uint32_t(box.map->swizzle));
    if (chunks.empty() || chunks.back().offset != offset) chunks.push_back({offset, {}});
    chunks.back().taints.add(in_chunk, element, taint);
  }
}

/// Where races are looked for: the rows of the array, as the thread's own accesses. `stored`: the box's bytes, which it
/// writes; as threads' stores are, they are compared with what stands there by as much as a store takes at most.
/// `chunks`, if not null, gets what the box hands on of what it reads.
void note_rows(Fiber& fiber, const Box& box, Access access, const uint8_t* stored = nullptr,
               std::vector<Chunk>* chunks = nullptr) {
  Races* races = this_worker->races();
  if (!races) return;
  for_each_row(box, access != Access::Read, [&](const Row& row) {
    const uint32_t element = uint32_t(box.map->element_bytes), bytes = uint32_t(row.end - row.begin) * element;
    const uint8_t* from = stored ? stored + row.number * box.map->row_bytes() + uint32_t(row.begin) * element : nullptr;
    const uint32_t step = stored ? kChunk : bytes;
    for (uint32_t at = 0; at < bytes; at += step)
      races->global(fiber, row.address + at, std::min(step, bytes - at), access, box.where, from ? from + at : nullptr,
                    chunks != nullptr);
    if (chunks && fiber.loaded.any) add_chunks(box, row, fiber.loaded.of(0, fiber.loaded.bytes.size()), *chunks);
    fiber.loaded.any = false;
  });
}

}  // namespace

TensorMap::TensorMap(const ImageTensorMap& map, const MappedArray& array)
    : array(array), rank(map.rank()), element_bytes(elem_bytes(map.elem)), swizzle(map.swizzle), elem(map.elem) {
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

namespace {

// Has a copy come to a block's shared memory.
void bring(Program& program, BulkCopy copy, const std::vector<Chunk>& chunks = {}) {
  Worker& worker = *this_worker;
  check_place(program, copy, Access::Write, "a bulk copy writes");
  count_bulk_copy(program, copy, program.shared_base + copy.barrier);
  if (Races* races = worker.races()) races->bulk_copy(program, copy.offset, copy.bytes, copy.where);
  for (const Chunk& chunk : chunks) put_taints(program, program.shared_base + chunk.offset, kChunk, chunk.taints);
  copy.done = worker.flip();
  if (copy.done) perform(program, copy);
  program.bulk_copies.push_back(copy);
}

}  // namespace

void issue_bulk_copy(uint32_t to, uint64_t map, uint32_t barrier, const uint32_t* coordinates, int rank, Where where) {
  Worker& worker = *this_worker;
  Program& program = *worker.fiber().program;
  worker.keep_pace(Fiber::Moved::In);
  const BulkCopy copy{box_of(to, map, coordinates, rank, where), barrier - program.shared_base};
  check_array(copy, Access::Read);
  std::vector<Chunk> chunks;
  note_rows(worker.fiber(), copy, Access::Read, nullptr, &chunks);
  bring(program, copy, chunks);
}

void issue_multicast(uint32_t to, uint64_t map, uint32_t barrier, const uint32_t* coordinates, int rank,
                     uint32_t blocks, Where where) {
  Worker& worker = *this_worker;
  const Program& own = *worker.fiber().program;
  worker.keep_pace(Fiber::Moved::In);
  const std::vector<Program*>& all = own.cluster->blocks;
  auto each = [&](auto f) {
    for (uint32_t block = 0; blocks >> block; ++block)
      if (blocks >> block & 1) f(block);
  };
  each([&](uint32_t block) {
    Fault fault;
    fault.address = block;
    if (block >= all.size()) misuse(kMulticast.nowhere, where, fault);
    check_block(*all[block], where.site, kMulticast);
  });
  const BulkCopy copy{box_of(to, map, coordinates, rank, where), barrier - own.shared_base};
  check_array(copy, Access::Read);
  note_rows(worker.fiber(), copy, Access::Read);
  each([&](uint32_t block) { bring(*all[block], copy); });
}

void issue_async_store(uint32_t to, uint64_t value, uint32_t bytes, uint32_t barrier, Where where) {
  Worker& worker = *this_worker;
  Program& program = block_of(to, bytes, where.site);
  if (&block_of(barrier, sizeof(uint64_t), where.site) != &program)
    misuse("an asynchronous store counts for an mbarrier of another block than that which it writes to", where);
  const Box box{nullptr, {}, to - program.shared_base, bytes, worker.fiber().thread, where};
  if (box.offset + bytes > worker.launch().shared_bytes) {
    Fault fault;
    fault.kind = Fault::SharedBounds;
    fault.access = Access::Write;
    fault.address = box.offset;
    fault.bytes = bytes;
    fault.where = where;
    fault.thread = box.thread;
    worker.abandon(fault);
  }
  check_under_way(program, box.offset, bytes, Access::Write, where);
  BulkCopy store{box, barrier - program.shared_base, value};
  count_bulk_copy(program, store, barrier);
  if (Races* races = worker.races()) races->bulk_copy(program, box.offset, bytes, where);
  put_taints(program, to, bytes, std::exchange(worker.fiber().stored, {}));
  store.done = worker.flip();
  if (store.done) perform(program, store);
  program.bulk_copies.push_back(store);
}

void perform(Program& program, const BulkCopy& copy) {
  auto* shared = reinterpret_cast<uint8_t*>(uint64_t(program.shared_base));
  if (!copy.map) {
    std::memcpy(shared + copy.offset, &copy.value, copy.bytes);
    return;
  }
  const TensorMap& map = *copy.map;
  std::array<uint8_t, kMostBoxExtent * sizeof(uint64_t)> bytes;
  for_each_row(copy, false, [&](const Row& row) {
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

namespace {

void read_box(Program& program, BulkStore& store) {
  const auto* shared = reinterpret_cast<const uint8_t*>(uint64_t(program.shared_base));
  store.data.resize(store.bytes);
  for (uint32_t at = 0; at < store.bytes; at += kChunk)
    std::memcpy(store.data.data() + at, shared + swizzled(store.offset + at, uint32_t(store.map->swizzle)), kChunk);
}

/// Where races are looked for: that the array gets this row of the box.
void use_row(Program& program, const Box& box, const Row& row) {
  const uint32_t element = uint32_t(box.map->element_bytes), first = row.number * box.map->row_bytes();
  for (uint32_t at = uint32_t(row.begin) * element, end = uint32_t(row.end) * element; at < end;) {
    const uint32_t next = std::min(end, (at / kChunk + 1) * kChunk);
    const uint32_t offset = swizzled(box.offset + first + at / kChunk * kChunk, uint32_t(box.map->swizzle));
    this_worker->use_taint(program, this_worker->races()->taint(program, offset + at % kChunk, next - at));
    at = next;
  }
}

void write_array(const Program& program, const BulkStore& store) {
  this_worker->note_change();
  Fiber& fiber = *program.fibers[store.thread];
  MemoryOrder order;
  order.strong = store.combine.has_value();
  fiber.order = order.bits();
  note_rows(fiber, store, store.combine ? Access::Atomic : Access::Write, store.combine ? nullptr : store.data.data());
  fiber.order = 0;
  const int64_t size = store.map->element_bytes;
  for_each_row(store, true, [&](const Row& row) {
    auto* to = reinterpret_cast<uint8_t*>(row.address);
    const uint8_t* from = store.data.data() + row.number * store.map->row_bytes() + row.begin * size;
    const int64_t bytes = (row.end - row.begin) * size;
    if (!store.combine) std::memcpy(to, from, size_t(bytes));
    for (int64_t at = 0; store.combine && at < bytes; at += size)
      combine_element(*store.combine, store.map->elem, to + at, from + at);
  });
}

}  // namespace

void issue_bulk_store(uint32_t from, uint64_t map, const uint32_t* coordinates, int rank,
                      std::optional<Combine> combine, Where where) {
  Worker& worker = *this_worker;
  Program& program = *worker.fiber().program;
  worker.keep_pace(Fiber::Moved::Out);
  BulkStore store{box_of(from, map, coordinates, rank, where), combine, worker.fiber().bulk_groups, false, {}};
  check_place(program, store, Access::Read, "a bulk store reads");
  check_array(store, combine ? Access::Atomic : Access::Write);
  if (Races* races = worker.races()) {
    AccessTaints outside;  // of the array, as what lies within is used
    races->shared(worker.fiber(), program, store.offset, store.bytes, Access::Read, where, nullptr, &outside);
    for_each_row(store, true, [&](const Row& row) { use_row(program, store, row); });
  }
  if (worker.flip()) read_box(program, store);
  program.bulk_stores.push_back(std::move(store));
}

void commit_bulk_stores() { ++this_worker->fiber().bulk_groups; }

void wait_for_bulk_stores(uint32_t pending, bool written) {
  const Fiber& fiber = this_worker->fiber();
  Program& program = *fiber.program;
  std::erase_if(program.bulk_stores, [&](BulkStore& store) {
    if (store.thread != fiber.thread || store.group + pending >= fiber.bulk_groups) return false;
    if (store.data.empty()) read_box(program, store);
    store.released = true;
    if (written) write_array(program, store);
    return written;
  });
}

void end_bulk_stores(Program& program) {
  for (const BulkStore& store : program.bulk_stores) {
    if (store.released) continue;
    Fault fault;
    fault.kind = Fault::Misuse;
    fault.what =
        "a bulk store may still read shared memory at offset {address} when the program ends; a wait for it is missing";
    fault.address = store.offset;
    fault.thread = store.thread;
    fault.where = store.where;
    this_worker->abandon(fault);
  }
  this_worker->shuffle(program.bulk_stores.begin(), program.bulk_stores.end());
  for (const BulkStore& store : program.bulk_stores) write_array(program, store);
  program.bulk_stores.clear();
}

}  // namespace tegula::emulator
