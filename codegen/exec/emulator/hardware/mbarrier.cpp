#include "codegen/exec/emulator/hardware/mbarrier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "codegen/exec/emulator/hardware/access.h"

namespace tegula::emulator {

namespace {

constexpr uint32_t kMostArrivals = (1 << 20) - 1, kMostBytes = (1 << 20) - 1;

Fault fault_at(uint32_t offset, uint32_t count = 0, uint32_t other_site = Where::kNone) {
  Fault fault;
  fault.address = offset;
  fault.bytes = count;
  fault.other_where.site = other_site;
  return fault;
}

/// What stands in the object's bytes.
uint64_t word_of(const MBarrier& barrier) {
  return ((barrier.phase << 40 | uint64_t(barrier.pending) << 20 | barrier.expected) + 1) * 0x9E3779B97F4A7C15;
}
bool is_intact(const MBarrier& barrier, const void* bytes) {
  const uint64_t word = word_of(barrier);
  return std::memcmp(bytes, &word, sizeof word) == 0;
}
void set_word(const MBarrier& barrier, void* bytes) {
  const uint64_t word = word_of(barrier);
  std::memcpy(bytes, &word, sizeof word);
}

/// The object that the current thread names.
struct Named {
  MBarrier* barrier;
  uint32_t offset;
  void* bytes;
};

Named find(Program& program, uint32_t address, Where where) {
  void* bytes = shared_access(this_worker->fiber(), program, address, sizeof(uint64_t), Access::Atomic, where.site);
  const uint32_t offset = address - program.shared_base;
  auto it = program.mbarriers.find(offset);
  if (it == program.mbarriers.end())
    misuse(
        "the mbarrier at offset {address} of shared memory is used, but not initialised: an mbarrier_init, or a "
        "barrier "
        "after it, is missing before, or an mbarrier_inval came too early",
        where, fault_at(offset));
  if (!is_intact(it->second, bytes))
    misuse(
        "the mbarrier at offset {address} of shared memory, initialised at {other}, was written over; mbarrier_inval "
        "must come before other uses of its bytes",
        where, fault_at(offset, 0, it->second.site));
  if (&program != this_worker->fiber().program && !it->second.published)
    misuse(
        "another block uses the mbarrier at offset {address} of shared memory, and no fence_mbarrier_init of the "
        "thread that initialised it at {other} comes between",
        where, fault_at(offset, 0, it->second.site));
  return {&it->second, offset, bytes};
}

Named find(uint32_t address, Where where) { return find(*this_worker->fiber().program, address, where); }

void end_phase(Program& program, MBarrier& barrier) {
  ++barrier.phase;
  barrier.pending = barrier.expected;
  barrier.expected_bytes = barrier.issued_bytes = 0;
  barrier.first_bulk_copy = 0;
  barrier.end_seen = false;
  barrier.last_end = program.writes.end_phase();
  if (this_worker->races()) barrier.told.join(std::exchange(barrier.arriving, {}));
  this_worker->wake(barrier.waiting);
}

void do_copies(const MBarrier::Late& late) {
  late.fiber->copies.complete(late.copies, [&](const AsyncCopy& copy) { this_worker->perform(*late.fiber, copy); });
}

/// Does the bulk copies that count for the mbarrier, in an order of their own.
void end_bulk_copies(Program& program, uint32_t barrier) {
  auto& copies = program.bulk_copies;
  auto end =
      std::partition(copies.begin(), copies.end(), [&](const BulkCopy& copy) { return copy.barrier != barrier; });
  this_worker->shuffle(end, copies.end());
  std::for_each(end, copies.end(), [&](const BulkCopy& copy) {
    if (!copy.done) perform(program, copy);
  });
  copies.erase(end, copies.end());
}

/// That one arrival more belongs to the current phase.
void check_expected(const Named& named, Where where) {
  const MBarrier& barrier = *named.barrier;
  if (barrier.end_seen && barrier.missing() > 0) return;
  misuse(
      "the mbarrier at offset {address} of shared memory gets more than the {bytes} arrivals that it expects in a "
      "phase; a wait for the phase's end is missing before the next arrival",
      where, fault_at(named.offset, barrier.expected));
}

/// That all arrivals together announced as many bytes as were issued, or more.
void check_bytes(const Named& named, Where where) {
  const MBarrier& barrier = *named.barrier;
  if (barrier.missing() > 0 || barrier.issued_bytes <= barrier.expected_bytes) return;
  misuse(
      "bulk copies bring more than the {bytes} bytes that the phase of the mbarrier at offset {address} of shared "
      "memory "
      "expects",
      where, fault_at(named.offset, barrier.expected_bytes));
}

/// An arrival of the thread itself at an mbarrier of the block `program`.
void arrive(Program& program, const Named& named, Where where) {
  MBarrier& barrier = *named.barrier;
  const Fiber& fiber = this_worker->fiber();
  if (this_worker->races())
    (fiber.program == &program ? Races::arrive : Races::arrive_having_read)(*fiber.program, fiber.thread / kLanes,
                                                                            barrier.arriving);
  --barrier.pending;
  check_bytes(named, where);
  const bool over = barrier.pending == 0 && barrier.expected_bytes == 0;
  if (over) end_phase(program, barrier);
  set_word(barrier, named.bytes);
}

}  // namespace

void init_mbarrier(uint32_t address, uint32_t count, uint32_t site) {
  const Fiber& fiber = this_worker->fiber();
  Program& program = *fiber.program;
  void* bytes = shared_access(fiber, address, sizeof(uint64_t), Access::Atomic, site);
  const uint32_t offset = address - program.shared_base;
  if (count == 0 || count > kMostArrivals)
    misuse("the mbarrier at offset {address} of shared memory is to expect {bytes} arrivals; 1 to 1048575 can be",
           {site}, fault_at(offset, count));
  auto [it, is_new] = program.mbarriers.try_emplace(offset);
  if (!is_new)
    misuse(
        "mbarrier_init of the mbarrier at offset {address} of shared memory, which is in use since it was initialised "
        "at {other}; mbarrier_inval must come between",
        {site}, fault_at(offset, 0, it->second.site));
  it->second.expected = it->second.pending = count;
  it->second.site = site;
  it->second.by = fiber.thread;
  set_word(it->second, bytes);
  if (program.writes.tracks()) program.writes.store(offset, sizeof(uint64_t), fiber.thread, site);
}

void publish_mbarriers() {
  const Fiber& fiber = this_worker->fiber();
  for (auto& [offset, barrier] : fiber.program->mbarriers) barrier.published |= barrier.by == fiber.thread;
}

void inval_mbarrier(uint32_t address, uint32_t site) {
  const Named named = find(address, {site});
  if (!named.barrier->waiting.empty() || !named.barrier->late.empty() || named.barrier->first_bulk_copy)
    misuse(
        "mbarrier_inval of the mbarrier at offset {address} of shared memory, for which threads wait or copies are "
        "under way",
        {site}, fault_at(named.offset));
  this_worker->fiber().program->mbarriers.erase(named.offset);
  std::memset(named.bytes, kPoison, sizeof(uint64_t));
}

void arrive_on_mbarrier(uint32_t address, uint32_t site) {
  const Named named = find(address, {site});
  check_expected(named, {site});
  arrive(*this_worker->fiber().program, named, {site});
}

void arrive_in_cluster(uint32_t address, uint32_t site) {
  Program& program = block_of(address, sizeof(uint64_t), site, kArrival);
  const Named named = find(program, address, {site});
  check_expected(named, {site});
  arrive(program, named, {site});
}

void arrive_expecting(uint32_t address, uint32_t bytes, uint32_t site) {
  const Named named = find(address, {site});
  check_expected(named, {site});
  MBarrier& barrier = *named.barrier;
  if (bytes > kMostBytes - barrier.expected_bytes)
    misuse(
        "the phase of the mbarrier at offset {address} of shared memory is to expect {bytes} bytes more; all in all "
        "1048575 can be",
        {site}, fault_at(named.offset, bytes));
  barrier.expected_bytes += bytes;
  arrive(*this_worker->fiber().program, named, {site});
}

void count_bulk_copy(Program& program, const BulkCopy& copy, uint32_t address) {
  const Named named = find(program, address, copy.where);
  MBarrier& barrier = *named.barrier;
  if (copy.map) check_proxy(program, named.offset, "a bulk copy counts for the mbarrier in", copy.where);
  if (!barrier.end_seen)
    misuse(
        "a bulk copy counts for a phase of the mbarrier at offset {address} of shared memory of which nobody knows "
        "that "
        "it has begun; a wait for the end of the one before is missing",
        copy.where, fault_at(named.offset));
  barrier.issued_bytes += copy.bytes;
  check_bytes(named, copy.where);
  if (!barrier.first_bulk_copy) barrier.first_bulk_copy = this_worker->tick();
  const Fiber& fiber = this_worker->fiber();
  if (!copy.map && this_worker->races())
    Races::arrive_having_read(*fiber.program, fiber.thread / kLanes, barrier.arriving);
}

void arrive_after_copies(uint32_t address, uint32_t site) {
  const Named named = find(address, {site});
  check_expected(named, {site});
  Worker& worker = *this_worker;
  Fiber& fiber = worker.fiber();
  const MBarrier::Late late{&fiber, fiber.copies.issued(), worker.tick()};
  named.barrier->late.push_back(late);
  if (worker.flip()) do_copies(late);
}

void wait_for_mbarrier(uint32_t address, uint32_t parity, Where where) {
  Worker& worker = *this_worker;
  for (;;) {
    const Named named = find(address, where);
    MBarrier& barrier = *named.barrier;
    if (parity > 1)
      misuse("a wait for parity {bytes} of the mbarrier at offset {address} of shared memory; parities are 0 and 1",
             where, fault_at(named.offset, parity));
    if (barrier.parity() != parity) {
      barrier.end_seen = true;
      const Fiber& fiber = worker.fiber();
      fiber.program->writes.acquire(fiber.thread, barrier.last_end);
      if (worker.races()) Races::wait(*fiber.program, fiber.thread / kLanes, barrier.told);
      return;
    }
    // With a seed copies may be quick: then the warps that wait go on while others are far behind.
    if (barrier.waits_for_copies() && worker.flip())
      arrive_late(*worker.fiber().program, named.offset);
    else
      worker.sleep(barrier.waiting, where);
  }
}

bool is_to_arrive(const Fiber& fiber) {
  for (const auto& [offset, barrier] : fiber.program->mbarriers)
    for (const MBarrier::Late& late : barrier.late)
      if (late.fiber == &fiber) return true;
  return false;
}

void arrive_late(Program& program, uint32_t offset) {
  MBarrier& barrier = program.mbarriers.at(offset);
  void* bytes = reinterpret_cast<void*>(uint64_t(program.shared_base + offset));
  for (const MBarrier::Late& late : barrier.late) {
    do_copies(late);
    if (this_worker->races()) Races::arrive(program, late.fiber->thread / kLanes, barrier.arriving);
  }
  end_bulk_copies(program, offset);
  if (this_worker->races()) Races::end_bulk_copies(program, barrier.arriving);
  const bool intact = is_intact(barrier, bytes);  // if not, the next use says so
  barrier.late.clear();
  end_phase(program, barrier);
  if (intact) set_word(barrier, bytes);
}

std::optional<Fault::Phase> phase_waited_for(const Fiber& fiber) {
  for (const auto& [offset, barrier] : fiber.program->mbarriers)
    if (std::find(barrier.waiting.begin(), barrier.waiting.end(), &fiber) != barrier.waiting.end())
      return Fault::Phase{offset,           barrier.parity(),     barrier.expected - barrier.missing(),
                          barrier.expected, barrier.issued_bytes, barrier.expected_bytes};
  return std::nullopt;
}

}  // namespace tegula::emulator
