#include "codegen/exec/emulator/races/races.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "codegen/exec/emulator/hardware/access.h"
#include "codegen/exec/emulator/launch/scheduler.h"

namespace tegula::emulator {

// ---- What orders

void Races::begin(const Launch& launch) {
  launch_ = &launch;
  begin_next(launch.on_stream);
}

void Races::begin_next(std::shared_ptr<const StreamLaunch> launch) {
  // All streams wait for the default one.
  if (last_launch_ && last_launch_->stream != StreamOrder::kDefault && !numbers_.empty())
    earlier_[first_id_] = {last_launch_, std::move(numbers_)};
  if (earlier_.size() > kMostEarlier) earlier_.erase(earlier_.begin());
  last_launch_ = std::move(launch);
  first_id_ = next_id_;
  numbers_.clear();
  released_.clear();
  exact_counters_.clear();
  written_.clear();
}

void Races::begin(Program& program) {
  ProgramClocks& clocks = program.clocks;
  clocks.id = next_id_++;
  shared_[program.shared_base].exact.clear();
  shared_[program.shared_base].taints.clear();
  numbers_[clocks.id] = program.number;
  const size_t warps = program.warps.size();
  clocks.known.assign(warps, {Clock(warps + 1, 0), {}});
  for (size_t w = 0; w < warps; ++w) clocks.known[w].own[w] = 1;
  clocks.bulk_copies = 1;
  clocks.fenced.assign(warps * kLanes, {});
  clocks.unwritten_reads.clear();
  clocks.unwritten = {};
  SharedCells& shared = shared_[program.shared_base];
  const size_t cells = (launch_->shared_bytes + 3) / 4;
  if (shared.cells.count < cells) {  // what programs before did there is over
    shared.cells = {cells, Cells::kLeastBytes, {}, {}};
    shared.written.assign(cells, {});
    shared.copied.clear();
  }
}

void Races::warp_met(Program& program, uint32_t warp) { ++program.clocks.known[warp].own[warp]; }

void Races::threads_met(Program& program, uint32_t first, uint32_t threads) {
  auto& known = program.clocks.known;
  const uint32_t begin = first / kLanes, end = (first + threads) / kLanes;
  Known all;
  for (uint32_t w = begin; w < end; ++w) {
    ++known[w].own[w];
    join(all.own, known[w].own);
    all.programs.join(known[w].programs);
  }
  for (uint32_t w = begin; w < end; ++w) known[w] = all;
}

void Races::arrive(Program& program, uint32_t warp, Told& told) { tell(program, warp, told); }

void Races::arrive_having_read(Program& program, uint32_t warp, Told& told) {
  Known& known = program.clocks.known[warp];
  ++known.own[warp];
  told.reads.join(program.clocks.id, known.own);
  told.reads.join(known.programs.all);
  told.reads.join(known.programs.reads);
}

void Races::end_bulk_copies(Program& program, Told& told) {
  Clock copies(program.warps.size() + 1, 0);
  copies.back() = ++program.clocks.bulk_copies;
  told.all.join(program.clocks.id, copies);
}

void Races::learn(Program& program, uint32_t warp, const Told& told, bool program_only) {
  Known& known = program.clocks.known[warp];
  const uint32_t id = program.clocks.id;
  if (const Clock* own = told.all.of(id)) join(known.own, *own);
  if (!program_only)
    known.programs.join(told);
  else if (const Clock* read = told.reads.of(id))
    known.programs.reads.join(id, *read);
}

void Races::tell(Program& program, uint32_t warp, Told& told) {
  Known& known = program.clocks.known[warp];
  ++known.own[warp];
  told.all.join(program.clocks.id, known.own);
  told.join(known.programs);
}

/// A strong access to the address: what it learns there, and what it leaves for others. What a store replaces, nobody
/// reads any more.
void Races::order(Program& program, uint32_t thread, uint64_t address, MemoryOrder order, Access access) {
  const uint32_t warp = thread / kLanes;
  Fenced& fenced = program.clocks.fenced[thread];
  ProgramClocks& clocks = program.clocks;
  Released& released = released_[address];
  if (access == Access::Write) {
    released = {};
  } else if (order.acquires) {
    learn(program, warp, released.told, order.program_only);
    if (const Clock* own = released.in_program.of(clocks.id)) join(clocks.known[warp].own, *own);
  } else {
    fenced.read.join(released.told);
  }
  if (access == Access::Read) return;
  if (!order.releases)
    released.told.join(fenced.left);
  else if (order.program_only)
    ++clocks.known[warp].own[warp], released.in_program.join(clocks.id, clocks.known[warp].own);
  else
    tell(program, warp, released.told);
}

void Races::fence(Program& program, uint32_t thread) {
  const uint32_t warp = thread / kLanes;
  Fenced& fenced = program.clocks.fenced[thread];
  learn(program, warp, std::exchange(fenced.read, {}), false);
  tell(program, warp, fenced.left);
}

// ---- Exact numbers

void Races::note_exact(const Program& of, uint32_t address, uint64_t exact) {
  shared_cells(of).exact[(address - of.shared_base) / 4] = exact;
}

uint64_t Races::exact_of(const Program& of, uint32_t address, uint32_t value) {
  const std::map<uint32_t, uint64_t>& all = shared_cells(of).exact;
  const auto known = all.empty() ? all.end() : all.find((address - of.shared_base) / 4);
  return known != all.end() && uint32_t(known->second) == value ? known->second : uint64_t(int64_t(int32_t(value)));
}

uint64_t Races::note_sum(uint64_t address, uint32_t old, uint32_t added) {
  const auto wide = [](uint32_t x) { return uint64_t(int64_t(int32_t(x))); };
  const auto known = exact_counters_.find(address);
  const uint64_t before = known != exact_counters_.end() && uint32_t(known->second) == old ? known->second : wide(old);
  const uint64_t sum = before + wide(added);
  if (sum != wide(uint32_t(sum)))
    exact_counters_[address] = sum;
  else if (known != exact_counters_.end())
    exact_counters_.erase(known);
  return before;
}

// ---- Accesses

/// Rows of arrays often lie powers of two apart: the upper bits count, too.
Races::Page& Races::page(uint64_t number) {
  KnownPage& known = known_pages_[(number ^ number / known_pages_.size()) % known_pages_.size()];
  if (known.number != number) known = {number, &pages_[number]};
  return *known.page;
}

WrittenAllocation* Races::written_at(Page& page, uint64_t address) {
  if (page.launch == first_id_ && (page.written ? page.written->contains(address) : page.beside.contains(address, 1)))
    return page.written;
  page.launch = first_id_;
  std::shared_ptr<WrittenAllocation> found = launch_->written->find(address, &page.beside);
  page.written = found.get();
  if (found && (written_.empty() || written_.back() != found)) written_.push_back(std::move(found));
  return page.written;
}

Races::SharedCells& Races::shared_cells(const Program& program) {
  if (!last_shared_ || last_shared_base_ != program.shared_base) {
    last_shared_base_ = program.shared_base;
    last_shared_ = &shared_[program.shared_base];
  }
  return *last_shared_;
}

const Races::EarlierLaunch* Races::beside(uint32_t program) const {
  auto after = earlier_.upper_bound(program);
  if (after == earlier_.begin() || !last_launch_) return nullptr;
  const EarlierLaunch& earlier = std::prev(after)->second;
  if (!earlier.numbers.contains(program)) return nullptr;
  const StreamClock& over = last_launch_->before;
  const auto known = over.find(earlier.launch->stream);
  return known != over.end() && known->second >= earlier.launch->number ? nullptr : &earlier;
}

/// That the id is that of a block of the program's cluster.
bool Races::in_cluster(uint32_t id, const Program& program) {
  return id - (program.clocks.id - program.block) < program.cluster->blocks.size();
}

bool Races::is_ordered(const Slot& before, const Access_& now) const {
  if (before.program < first_id_) return now.is_shared || earlier_.empty() || !beside(before.program);
  const ProgramClocks& clocks = now.program.clocks;
  const Known& known = clocks.known[now.warp];
  auto has_counted = [&](const Clock* clock) { return clock && (*clock)[before.warp] > before.clock; };
  if (before.program == clocks.id) {
    if (before.warp == now.warp && before.clock == known.own[now.warp])
      return before.mixed ? before.lanes >> now.lane & 1 : (before.lanes & ~(1u << now.lane)) == 0;
    if (has_counted(&known.own)) return true;
  } else {
    if (now.is_shared && !in_cluster(before.program, now.program)) return true;  // of a program that is over
    if (has_counted(known.programs.all.of(before.program))) return true;
  }
  const bool by_copies = now.is_shared && before.warp == now.program.warps.size();
  if (before.access != uint32_t(Access::Read) && !by_copies) return false;
  return has_counted(known.programs.reads.of(before.program));
}

bool Races::conflicts(const Slot& before, const Access_& now, uint8_t bytes) const {
  if (!(before.bytes & bytes) || is_ordered(before, now)) return false;
  if (!before.strong || !now.order.strong) return true;
  return before.program != now.program.clocks.id && (before.program_only || now.order.program_only);
}

/// That an access may race with others which a later one at the same place does not race with: a plain one with atomic
/// operations that the program's own atomic operation behind it does not order.
bool Races::lies_beneath(const Slot& before, const Slot& now) { return now.strong && !before.strong; }

/// That whatever races with the access before races with this one, too.
bool Races::is_past(const Slot& before, const Slot& slot, const Access_& now) const {
  return is_ordered(before, now) && !lies_beneath(before, slot);
}

[[gnu::always_inline]] inline void Races::record_write(Cells& cells, size_t cell, const Slot& slot,
                                                       const Access_& now) {
  auto remains = [&](const Slot* other) {
    return other && ((other->bytes & ~slot.bytes) != 0 || (other->bytes && lies_beneath(*other, slot)));
  };
  Slot *first = cells.writes.find(0, cell), *second = cells.writes.find(1, cell);
  int place = 0;
  if (!remains(second)) place = 1;
  if (place == 0 && remains(first) && is_past(*second, slot, now)) place = 1;
  cells.writes.at(place, cell, cells.count) = slot;
  if (Slot* other = place == 0 ? second : first; other && !remains(other)) other->bytes = 0;
  for (int i = 0; i < 2; ++i)
    if (Slot* read = cells.reads.find(i, cell); read && !remains(read)) read->bytes = 0;
}

[[gnu::always_inline]] inline void Races::record_read(Cells& cells, size_t cell, const Slot& slot, const Access_& now) {
  Slot *before = nullptr,
       *beside = nullptr;  // of the warp: in an earlier count; in this one, by other lanes, of other bytes
  for (int i = 0; i < 2; ++i)
    if (Slot* other = cells.reads.find(i, cell);
        other && other->bytes && other->program == slot.program && other->warp == slot.warp) {
      if (lies_beneath(*other, slot)) continue;
      if (other->clock != slot.clock || other->site != slot.site) {
        if (!before) before = other;
      } else if (other->bytes == slot.bytes || other->lanes == slot.lanes) {
        other->lanes |= slot.lanes;
        other->bytes |= slot.bytes;
        return;
      } else {
        beside = other;
      }
    }
  if (before) {
    *before = slot;
    return;
  }
  auto is_free = [&](const Slot* other) {
    return !other || (other != beside && (!other->bytes || is_past(*other, slot, now)));
  };
  const bool first_is_free = is_free(cells.reads.find(0, cell)), second_is_free = is_free(cells.reads.find(1, cell));
  if (beside && !first_is_free && !second_is_free) {
    beside->lanes |= slot.lanes;
    beside->bytes |= slot.bytes;
    beside->mixed = true;
    return;
  }
  cells.reads.at(second_is_free || !first_is_free ? 1 : 0, cell, cells.count) = slot;
}

/// Of the shared memory of the program with the id: that what is read was written while it ran.
void Races::note_written(SharedCells::Written& cell, uint32_t of, const Access_& now, uint64_t address, uint8_t bytes) {
  const uint8_t written = cell.by == of ? cell.bytes : 0;
  if (now.access == Access::Read) {
    const uint32_t missing = bytes & ~uint32_t(written);
    if (missing) note_unwritten(now, address + uint32_t(std::countr_zero(missing)), uint32_t(std::popcount(missing)));
    return;
  }
  cell.by = of;
  cell.bytes = uint8_t(written | bytes);
}

Fault Races::unwritten_read(const Access_& now, uint64_t address, uint32_t bytes) {
  Fault fault;
  fault.kind = now.is_shared ? Fault::SharedUnwritten : Fault::GlobalUnwritten;
  fault.access = now.access;
  fault.thread = now.warp * kLanes + now.lane;
  fault.where = now.where;
  fault.address = address;
  fault.bytes = bytes;
  return fault;
}

/// Told when the program ends: until then a store may show that the read came too early.
void Races::note_unwritten(const Access_& now, uint64_t address, uint32_t bytes) {
  Fault& fault = now.program.clocks.unwritten;
  if (fault.kind == Fault::None) fault = unwritten_read(now, address, bytes);
}

/// Behind so many, reads at one place of the source have one number.
AccessTaints Races::hold_unwritten(const Access_& now, uint64_t address, uint32_t bytes,
                                   const WrittenAllocation& written) {
  constexpr size_t kMostReads = 4096;
  std::vector<Fault>& held = now.program.cluster->blocks.front()->clocks.unwritten_reads;
  const auto at_place = [&](const Fault& read) { return read.where.site == now.where.site; };
  auto read = held.size() < kMostReads ? held.end() : std::find_if(held.rbegin(), held.rend(), at_place).base();
  if (held.size() < kMostReads || read == held.begin())
    held.push_back(unwritten_read(now, address, bytes)), read = held.end();
  const uint32_t taint = uint32_t(read - held.begin() - 1) | kUnwrittenTaint;
  AccessTaints taints;
  const auto most = uint32_t(taints.bytes.size());
  if (bytes > most) taints.add(0, 1, taint);
  for (uint32_t at = 0; at < bytes && bytes <= most; ++at)
    if (!written.all_written(address + at, 1)) taints.add(at, 1, taint);
  return taints;
}

void Races::use_unwritten(Program& program, uint32_t taint) {
  Fault& fault = program.clocks.unwritten;
  if (fault.kind == Fault::None)
    fault = program.cluster->blocks.front()->clocks.unwritten_reads[taint & ~kUnwrittenTaint];
}

[[gnu::always_inline]] inline void Races::check(Cells& cells, size_t cell, const Access_& now, const Slot& slot,
                                                uint64_t address, bool same_value) {
  const uint8_t bytes = slot.bytes;
  for (int i = 0; i < 2; ++i)
    if (const Slot* before = cells.writes.find(i, cell);
        before && conflicts(*before, now, bytes) && !(same_value && before->access == uint32_t(Access::Write)))
      report(*before, now, address, bytes);
  if (now.access == Access::Read) return;
  for (int i = 0; i < 2; ++i)
    if (const Slot* before = cells.reads.find(i, cell); before && conflicts(*before, now, bytes) && !same_value)
      report(*before, now, address, bytes);
}

void Races::access(Cells& cells, size_t first, const Access_& now, uint64_t address, uint32_t bytes, bool same_value) {
  const ProgramClocks& clocks = now.program.clocks;
  Slot slot;
  slot.program = clocks.id;
  slot.clock = clocks.known[now.warp].own[now.warp];
  slot.lanes = 1u << now.lane;
  slot.site = std::min(now.where.site, Slot::kMostSites - 1);
  slot.warp = now.warp & 63;
  slot.access = uint32_t(now.access) & 3;
  slot.strong = now.order.strong;
  slot.program_only = now.order.program_only;
  const uint32_t size = cells.bytes;
  for (uint64_t at = address & -uint64_t(size); at < address + bytes; at += size, ++first) {
    slot.bytes = (size == Cells::kLeastBytes ? bytes_of_cell(at, address, bytes) : ~0u) & 15;
    check(cells, first, now, slot, at, same_value);
    // A store of what stands there is to others what a read is: whatever changes it must be ordered.
    if (now.access == Access::Read || (now.access == Access::Write && same_value))
      record_read(cells, first, slot, now);
    else
      record_write(cells, first, slot, now);
  }
}

void Races::global(Fiber& fiber, uint64_t address, uint32_t bytes, Access access, Where where, const void* stored,
                   bool hands_on) {
  Program& program = *fiber.program;
  const uint32_t warp = fiber.thread / kLanes;
  const MemoryOrder order = MemoryOrder::of_bits(fiber.order);
  if (order.strong) this->order(program, fiber.thread, address, order, access);
  const Access_ now{program, warp, fiber.thread % kLanes, access, order, where, false};
  const bool same = stored && std::memcmp(reinterpret_cast<const void*>(address), stored, bytes) == 0;
  if (WrittenAllocation* written = written_at(page(address / kPageBytes), address)) {
    if (access != Access::Write && !written->all_written(address, bytes)) {
      if (hands_on)
        fiber.loaded = hold_unwritten(now, address, bytes, *written);
      else
        note_unwritten(now, address, bytes);
    }
    if (access != Access::Read) written->mark(address, bytes);
  }
  for (uint64_t from = address, end = address + bytes; from < end;) {
    const uint64_t to = std::min(end, from / kPageBytes * kPageBytes + kPageBytes);
    Cells& cells = page(from / kPageBytes).cells;
    cells.fit(from, to - from);
    this->access(cells, from % kPageBytes / cells.bytes, now, from, uint32_t(to - from), same);
    from = to;
  }
}

void Races::shared(const Fiber& fiber, const Program& of, uint32_t offset, uint32_t bytes, Access access, Where where,
                   const void* stored, AccessTaints* loaded) {
  MemoryOrder order;
  order.strong = access == Access::Atomic;
  const Access_ now{*fiber.program, fiber.thread / kLanes, fiber.thread % kLanes, access, order, where, true};
  const void* at = reinterpret_cast<const void*>(uint64_t(of.shared_base + offset));
  const bool same = stored && std::memcmp(at, stored, bytes) == 0;
  SharedCells& shared = shared_cells(of);
  for (uint32_t cell = offset & ~3u; cell < offset + bytes; cell += 4) {
    if (!shared.copied.empty() && shared.copied[cell / 4].by == of.clocks.id)
      check_copied(shared.copied[cell / 4], now, cell);
    note_written(shared.written[cell / 4], of.clocks.id, now, cell, uint8_t(bytes_of_cell(cell, offset, bytes)));
  }
  this->access(shared.cells, offset / 4, now, offset, bytes, same);
  if (access != Access::Read && !shared.exact.empty())
    shared.exact.erase(shared.exact.lower_bound(offset / 4), shared.exact.lower_bound((offset + bytes + 3) / 4));
  if (shared.taints.empty()) return;
  if (access == Access::Write)
    std::fill_n(shared.taints.begin() + offset, bytes, 0);
  else if (!loaded)
    this_worker->use_taint(*fiber.program, taint(of, offset, bytes));
  for (uint32_t at = 0; loaded && at < std::min<uint32_t>(bytes, loaded->bytes.size()); ++at)
    loaded->add(at, 1, shared.taints[offset + at]);
}

void Races::put_taints(const Program& of, uint32_t offset, uint32_t bytes, const AccessTaints& taints) {
  if (!taints.any) return;
  std::vector<uint32_t>& all = shared_cells(of).taints;
  all.resize(launch_->shared_bytes);
  for (uint32_t at = 0; at < bytes; ++at) all[offset + at] = taints.bytes[at];
}

uint32_t Races::taint(const Program& of, uint32_t offset, uint32_t bytes) {
  const std::vector<uint32_t>& all = shared_cells(of).taints;
  return all.empty() ? 0 : *std::max_element(all.begin() + offset, all.begin() + offset + bytes);
}

/// An access to bytes of that cell while they are copied.
void Races::check_copied(const SharedCells::Copied& copied, const Access_& now, uint64_t address) {
  Fault fault;
  fault.address = address;
  fault.other_where.site = copied.site;
  const bool own = copied.thread == now.warp * kLanes + now.lane, reads = now.access == Access::Read;
  misuse(reads
             ? own ? "a read of shared memory at offset {address}, which a copy of the thread's own, issued at "
                     "{other}, writes; a wait for its group is missing"
                   : "a read of shared memory at offset {address}, which a copy of another thread, issued at {other}, "
                     "writes; a wait of that thread for its group and a barrier behind it are missing"
             : "a write to shared memory at offset {address}, which a copy issued at {other} writes as well; a wait "
               "for its group is missing",
         now.where, fault);
}

void Races::copy_begins(const Program& of, uint32_t offset, uint32_t bytes, Where where) {
  SharedCells& shared = shared_cells(of);
  shared.copied.resize(shared.cells.count);
  for (uint32_t cell = offset / 4; cell < (offset + bytes) / 4; ++cell)
    shared.copied[cell] = {of.clocks.id, this_worker->fiber().thread, where.site};
}

void Races::copy_ends(const Program& of, uint32_t offset, uint32_t bytes) {
  std::vector<SharedCells::Copied>& copied = shared_cells(of).copied;
  for (uint32_t cell = offset / 4; cell < (offset + bytes) / 4; ++cell) copied[cell] = {};
}

// The thread that issues it must know of all that was done there; then the bytes are the copies'.
void Races::bulk_copy(const Program& of, uint32_t offset, uint32_t bytes, Where where) {
  shared(this_worker->fiber(), of, offset, bytes, Access::Write, where, nullptr);
  Slot slot;
  slot.program = of.clocks.id;
  slot.clock = of.clocks.bulk_copies;
  slot.lanes = 1;
  slot.site = std::min(where.site, Slot::kMostSites - 1);
  slot.warp = uint32_t(of.warps.size()) & 63;
  slot.bytes = 15;
  slot.access = uint32_t(Access::Write) & 3;
  Cells& cells = shared_cells(of).cells;
  for (uint32_t cell = offset / 4; cell < (offset + bytes) / 4; ++cell) {
    cells.writes.at(0, cell, cells.count) = slot;
    if (Slot* other = cells.writes.find(1, cell)) *other = {};
  }
}

// ---- Copies and fills

std::optional<Fault> Races::transfer(std::shared_ptr<const StreamLaunch> what, std::span<const Transferred> parts,
                                     bool goes_on) {
  goes_on &= what->stream != StreamOrder::kDefault;  // for which others wait
  begin_next(std::move(what));
  const uint32_t id = next_id_++;
  if (goes_on) numbers_[id] = 0;
  if (earlier_.empty() && !goes_on) return std::nullopt;
  for (const Transferred& part : parts)
    if (std::optional<Fault> fault = transfer(part, id, goes_on)) return fault;
  return std::nullopt;
}

const Slot* Races::beside_transfer(const Cells& cells, size_t cell, const Slot& slot) const {
  for (int i = 0; i < 2; ++i)
    for (const Slots* slots : {&cells.writes, &cells.reads}) {
      if (slots == &cells.reads && slot.access == uint32_t(Access::Read)) continue;
      const Slot* before = slots->find(i, cell);
      if (before && before->bytes & slot.bytes && beside(before->program)) return before;
    }
  return nullptr;
}

/// What it races with; if it has none, and goes on, it is noted down for launches to come.
std::optional<Fault> Races::transfer(const Transferred& part, uint32_t id, bool goes_on) {
  for (uint64_t from = part.address, end = part.address + part.bytes; from < end;) {
    const uint64_t to = std::min(end, from / kPageBytes * kPageBytes + kPageBytes);
    if (goes_on || pages_.contains(from / kPageBytes))
      if (std::optional<Fault> fault =
              transfer(page(from / kPageBytes).cells, {from, to - from, part.access}, id, goes_on))
        return fault;
    from = to;
  }
  return std::nullopt;
}

/// Within a page.
std::optional<Fault> Races::transfer(Cells& cells, const Transferred& part, uint32_t id, bool goes_on) {
  cells.fit(part.address, part.bytes);
  const uint32_t size = cells.bytes;
  for (uint64_t at = part.address & -uint64_t(size); at < part.address + part.bytes; at += size) {
    const size_t cell = at % kPageBytes / size;
    Slot slot;
    slot.program = id;
    slot.lanes = 1;
    slot.bytes = (size == Cells::kLeastBytes ? bytes_of_cell(at, part.address, part.bytes) : ~0u) & 15;
    slot.access = uint32_t(part.access) & 3;
    if (const Slot* before = beside_transfer(cells, cell, slot)) {
      Fault fault = fault_of(*before, at, slot.bytes);
      fault.access = part.access;
      return fault;
    }
    if (!goes_on) continue;
    Slots& slots = part.access == Access::Read ? cells.reads : cells.writes;
    slots.at(0, cell, cells.count) = slot;
    if (part.access == Access::Read) continue;
    // All that stands there is over.
    for (Slot* over : {cells.writes.find(1, cell), cells.reads.find(0, cell), cells.reads.find(1, cell)})
      if (over) over->bytes &= ~slot.bytes & 15;
  }
  return std::nullopt;
}

/// A race with that access, in these bytes of the cell, as far as it is known by the access alone.
Fault Races::fault_of(const Slot& before, uint64_t cell, uint32_t bytes) const {
  const uint32_t common = before.bytes & bytes;
  Fault fault;
  fault.kind = Fault::GlobalRace;
  fault.other_access = Access(before.access);
  fault.address = cell + uint32_t(std::countr_zero(common));
  fault.bytes = uint32_t(std::popcount(common));
  fault.other_thread = before.warp * kLanes + uint32_t(std::countr_zero(before.lanes));
  fault.other_where.site = before.site;
  const EarlierLaunch* earlier = before.program < first_id_ ? beside(before.program) : nullptr;
  if (earlier) fault.other_launch = earlier->launch.get();
  const uint64_t number = (earlier ? earlier->numbers : numbers_).at(before.program);
  const Grid& grid = earlier ? earlier->launch->grid : launch_->grid;
  fault.other_x = uint32_t(number % grid.x);
  fault.other_y = uint32_t(number / grid.x % grid.y);
  fault.other_z = uint32_t(number / grid.x / grid.y);
  return fault;
}

void Races::report(const Slot& before, const Access_& now, uint64_t cell, uint32_t bytes) {
  Fault fault = fault_of(before, cell, bytes);
  if (now.is_shared) fault.kind = Fault::SharedRace;
  fault.access = now.access;
  fault.thread = now.warp * kLanes + now.lane;
  fault.where = now.where;
  const uint32_t lanes = before.lanes & ~(before.warp == now.warp ? 1u << now.lane : 0);
  if (lanes) fault.other_thread = before.warp * kLanes + uint32_t(std::countr_zero(lanes));
  fault.by_bulk_copy = before.warp == now.program.warps.size();
  if (before.program != now.program.clocks.id) {
    if (in_cluster(before.program, now.program))
      fault.other_block = before.program - (now.program.clocks.id - now.program.block);
    else
      fault.between_programs = true;
  }
  fault.by_scope = before.strong && now.order.strong;
  this_worker->abandon(fault);
}

}  // namespace tegula::emulator
