// The checks that every access of a kernel passes.
#pragma once

#include <utility>

#include "codegen/exec/emulator/launch/scheduler.h"
#include "codegen/lower/hw.h"

namespace tegula::emulator {

/// The host address of a global access; does not return if it is not allowed. `stored`: what a write puts there, where
/// it is at hand. `counts`: the access may race. `hands_on`: Fiber::loaded gets the taints of what it reads.
inline void* global_access(uint64_t address, unsigned bytes, Access access, uint32_t site, const void* stored = nullptr,
                           bool counts = true, bool hands_on = false) {
  Worker& worker = *this_worker;
  bool aligned = (address & (bytes - 1)) == 0;
  if (aligned && worker.may_access(address, bytes)) [[likely]] {
    if (access == Access::Write) worker.note_change();
    if (Races* races = worker.races(); races && counts) [[unlikely]]
      races->global(worker.fiber(), address, bytes, access, {site}, stored, hands_on);
    return reinterpret_cast<void*>(address);
  }
  Fault fault;
  fault.kind = aligned ? Fault::GlobalBounds : Fault::GlobalAlignment;
  fault.access = access;
  fault.thread = worker.fiber().thread;
  fault.where.site = site;
  fault.address = address;
  fault.bytes = bytes;
  worker.abandon(fault);
}

/// The same of a load, whose operand `site` says in which threads its result is used.
inline const void* global_load(uint64_t address, unsigned bytes, uint32_t site) {
  this_worker->fiber().loaded.any = false;
  const bool used = lower::is_load_used(site, this_worker->fiber().thread);
  return global_access(address, bytes, Access::Read, lower::number_of_site(site), nullptr, used, true);
}

/// Ends the launch with this message (Fault::what), whose values `fault` holds.
[[noreturn]] inline void misuse(const char* what, Where where, Fault fault = {}) {
  fault.kind = Fault::Misuse;
  fault.what = what;
  fault.where = where;
  fault.thread = this_worker->fiber().thread;
  this_worker->abandon(fault);
}

/// That no bulk copy under way writes these bytes of shared memory, nor a bulk store reads what is to be written.
inline void check_under_way(const Program& program, uint32_t offset, uint32_t bytes, Access access, Where where) {
  for (const BulkCopy& copy : program.bulk_copies)
    if (copy.touches(offset, bytes)) [[unlikely]] {
      Fault fault;
      fault.address = std::max(offset, copy.offset);
      fault.other_where = copy.where;
      misuse(access == Access::Read
                 ? "a read of shared memory at offset {address}, which a bulk copy issued at {other} "
                   "writes; a wait for its phase is missing"
                 : "a write to shared memory at offset {address}, which a bulk copy issued at {other} "
                   "writes as well; a wait for its phase is missing",
             where, fault);
    }
  if (access == Access::Read) return;
  for (const BulkStore& store : program.bulk_stores)
    if (!store.released && store.touches(offset, bytes)) [[unlikely]] {
      Fault fault;
      fault.address = std::max(offset, store.offset);
      fault.other_where = store.where;
      misuse(
          "a write to shared memory at offset {address}, which a bulk store issued at {other} reads; a wait for it is "
          "missing",
          where, fault);
    }
}

/// That the asynchronous proxy, through which `who` uses shared memory, sees what was stored to these 16 bytes.
inline void check_proxy(const Program& program, uint32_t offset, const char* who, Where where) {
  if (!program.writes.tracks()) return;
  const uint32_t thread = this_worker->fiber().thread;
  const SharedWrites::Write* write = program.writes.unseen(offset, thread);
  if (!write) return;
  Fault fault;
  fault.kind = Fault::Proxy;
  fault.what = who;
  fault.address = offset;
  fault.thread = thread;
  fault.where = where;
  fault.other_thread = write->thread;
  fault.other_where.site = write->site;
  this_worker->abandon(fault);
}

/// The host address of an access by `fiber` (the current one, or a lane for which it acts) to the shared memory of
/// `of`, its program or another block of the cluster. A read uses what it reads, but where it hands on the taints of
/// that to `loaded`.
inline void* shared_access(const Fiber& fiber, Program& of, uint32_t address, unsigned bytes, Access access,
                           uint32_t site, const void* stored = nullptr, AccessTaints* loaded = nullptr) {
  Worker& worker = *this_worker;
  uint32_t offset = address - of.shared_base, size = worker.launch().shared_bytes;
  bool aligned = (address & (bytes - 1)) == 0;
  if (aligned && offset < size && size - offset >= bytes) [[likely]] {
    check_under_way(of, offset, bytes, access, {site});
    if (Races* races = worker.races()) [[unlikely]]
      races->shared(fiber, of, offset, bytes, access, {site}, stored, loaded);
    if (access == Access::Write && of.writes.tracks()) of.writes.store(offset, bytes, fiber.thread, site);
    return reinterpret_cast<void*>(uint64_t(address));
  }
  Fault fault;
  fault.kind = aligned ? Fault::SharedBounds : Fault::SharedAlignment;
  fault.access = access;
  fault.thread = fiber.thread;
  fault.where.site = site;
  fault.address = uint64_t(int64_t(int32_t(offset)));
  fault.bytes = bytes;
  worker.abandon(fault);
}

inline void* shared_access(const Fiber& fiber, uint32_t address, unsigned bytes, Access access, uint32_t site,
                           const void* stored = nullptr, AccessTaints* loaded = nullptr) {
  return shared_access(fiber, *fiber.program, address, bytes, access, site, stored, loaded);
}

/// A load by the current thread, which hands on taints.
inline const void* shared_load(uint32_t address, unsigned bytes, uint32_t site) {
  Fiber& fiber = this_worker->fiber();
  fiber.loaded.any = false;
  return shared_access(fiber, address, bytes, Access::Read, site, nullptr, &fiber.loaded);
}

/// What was just stored at the address has these taints.
inline void put_taints(const Program& of, uint32_t address, unsigned bytes, const AccessTaints& taints) {
  if (Races* races = this_worker->races()) [[unlikely]]
    races->put_taints(of, address - of.shared_base, bytes, taints);
}

/// The address for a store by the current thread, with the taints that it has told.
inline void* shared_store(uint32_t address, unsigned bytes, uint32_t site, const void* stored) {
  Fiber& fiber = this_worker->fiber();
  void* to = shared_access(fiber, address, bytes, Access::Write, site, stored);
  put_taints(*fiber.program, address, bytes, std::exchange(fiber.stored, {}));
  return to;
}

/// What is said of an access to the shared memory of a block of the cluster that may not be accessed.
struct ClusterAccess {
  const char *ended, *unknown, *nowhere;
};
inline constexpr ClusterAccess kStore{
    "a store to shared memory of block {address} of the cluster, which has ended",
    "a store to shared memory of block {address} of the cluster, of which nobody knows that it has begun; a barrier of "
    "the cluster is missing before",
    "a store of {bytes} bytes at address {address}, which lies in no block's shared memory"};
inline constexpr ClusterAccess kLoad{
    "a load from shared memory of block {address} of the cluster, which has ended",
    "a load from shared memory of block {address} of the cluster, of which nobody knows that it has begun; a barrier "
    "of "
    "the cluster is missing before",
    "a load of {bytes} bytes at address {address}, which lies in no block's shared memory"};
inline constexpr ClusterAccess kArrival{"an arrival at an mbarrier of block {address} of the cluster, which has ended",
                                        "an arrival at an mbarrier of block {address} of the cluster, of which nobody "
                                        "knows that it has begun; a barrier of "
                                        "the cluster is missing before",
                                        "an arrival at address {address}, which lies in no block's shared memory"};
inline constexpr ClusterAccess kMulticast{
    "a bulk copy to shared memory of block {address} of the cluster, which has ended",
    "a bulk copy to shared memory of block {address} of the cluster, of which nobody knows that it has begun; a "
    "barrier "
    "of the cluster is missing before",
    "a bulk copy to block {address}, which is none of the cluster"};

/// That other blocks may access the block's shared memory.
inline void check_block(const Program& block, uint32_t site, const ClusterAccess& access) {
  const Program& own = *this_worker->fiber().program;
  Fault fault;
  fault.address = block.block;
  if (block.running == 0) misuse(access.ended, {site}, fault);
  if (&block != &own && own.cluster->barriers == 0) misuse(access.unknown, {site}, fault);
}

/// The block of the cluster in whose shared memory an access goes; does not return if it may not.
inline Program& block_of(uint32_t address, unsigned bytes, uint32_t site, const ClusterAccess& access = kStore) {
  const Fiber& fiber = this_worker->fiber();
  const Cluster& cluster = *fiber.program->cluster;
  for (Program* block : cluster.blocks) {
    if (address - block->shared_base >= SharedArena::kAlignment) continue;
    check_block(*block, site, access);
    return *block;
  }
  Fault fault;
  fault.bytes = bytes;
  fault.address = address;
  misuse(access.nowhere, {site}, fault);
}

/// The same as shared_load() and shared_store(), of any block of the cluster.
inline const void* cluster_load(uint32_t address, unsigned bytes, uint32_t site) {
  Fiber& fiber = this_worker->fiber();
  fiber.loaded.any = false;
  return shared_access(fiber, block_of(address, bytes, site, kLoad), address, bytes, Access::Read, site, nullptr,
                       &fiber.loaded);
}
inline void* cluster_store(uint32_t address, unsigned bytes, uint32_t site) {
  Fiber& fiber = this_worker->fiber();
  Program& block = block_of(address, bytes, site);
  void* to = shared_access(fiber, block, address, bytes, Access::Write, site);
  put_taints(block, address, bytes, std::exchange(fiber.stored, {}));
  return to;
}

}  // namespace tegula::emulator
