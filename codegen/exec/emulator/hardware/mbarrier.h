// Memory barriers (mbarrier): objects in a program's shared memory on which threads and asynchronous copies arrive, and
// for whose phases the bytes of bulk copies count. The eight bytes of an object hold a word that follows from its
// state, by which it is seen when they are written over.
//
// Copies whose end is an arrival are done as late as the waits allow: when no thread can go on otherwise, and threads
// wait for a phase in which nothing else is missing (Worker::end_late_phase). By then no thread can still read what
// they replace, so with a seed half of the copies are done when the arrival is asked for, and half of the phases end as
// soon as a thread waits for copies alone. The same holds for bulk copies.
//
// A fault ends the launch where
// - an object is used that was not initialised, or was written over; one that is in use is initialised, or given up
//   while threads or copies need it;
// - arrivals come that the phase does not expect, or that may fall into this phase or the next one, because no wait and
//   no barrier has shown that the one before is over; the same for bytes of bulk copies;
// - another block uses one that was initialised without a fence for the cluster (fence_mbarrier_init, or an arrival at
//   the cluster's barrier that is not relaxed);
// - a phase is waited for that never ends (a deadlock). A thread that wakes after the next phase has ended too goes on
//   waiting, as it may on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/exec/emulator/hardware/bulk_copy.h"
#include "codegen/exec/emulator/launch/fault.h"
#include "codegen/exec/emulator/races/races.h"

namespace tegula::emulator {

struct MBarrier {
  /// An arrival when the first `copies` of those that the fiber issued are done.
  struct Late {
    Fiber* fiber;
    uint64_t copies;
    uint64_t time;  ///< Worker::tick()
  };

  uint32_t expected = 0;                          ///< arrivals in a phase
  uint32_t pending = 0;                           ///< those that the current phase still waits for
  uint32_t expected_bytes = 0, issued_bytes = 0;  ///< of bulk copies, in the current phase
  uint64_t first_bulk_copy = 0;                   ///< of the current phase: Worker::tick(); 0: none yet
  uint64_t phase = 0;
  bool end_seen = true;    ///< it was waited for that the phase before ended
  uint32_t last_end = 0;   ///< when that was (SharedWrites)
  Told arriving, told;     ///< where races are looked for: of the arrivals of this phase; of the phase before
  uint32_t site = 0;       ///< of the initialisation
  uint32_t by = 0;         ///< the thread that initialised it
  bool published = false;  ///< by a fence of that thread, of which other blocks learn at a barrier of the cluster
  std::vector<Late> late;  ///< the oldest first
  std::vector<Fiber*> waiting;

  uint32_t parity() const { return uint32_t(phase & 1); }
  /// Arrivals that no thread has asked for yet.
  uint32_t missing() const { return pending - uint32_t(late.size()); }
  /// Copies alone keep the phase from ending.
  bool waits_for_copies() const {
    return missing() == 0 && issued_bytes == expected_bytes && (!late.empty() || first_bulk_copy);
  }
  /// When the first one was issued.
  uint64_t since() const {
    if (late.empty()) return first_bulk_copy;
    return first_bulk_copy ? std::min(first_bulk_copy, late.front().time) : late.front().time;
  }
};

/// The bodies of the rows.
void init_mbarrier(uint32_t address, uint32_t count, uint32_t site);
void inval_mbarrier(uint32_t address, uint32_t site);
void arrive_on_mbarrier(uint32_t address, uint32_t site);
/// A fence_mbarrier_init of the current thread, or an arrival that releases at a barrier of the cluster.
void publish_mbarriers();
/// At one in the shared memory of any block of the cluster.
void arrive_in_cluster(uint32_t address, uint32_t site);
void arrive_after_copies(uint32_t address, uint32_t site);
void arrive_expecting(uint32_t address, uint32_t bytes, uint32_t site);
void wait_for_mbarrier(uint32_t address, uint32_t parity, Where where);

/// Has the bulk copy count for the current phase of the mbarrier at the address, which is the program's.
void count_bulk_copy(Program& program, const BulkCopy& copy, uint32_t address);

/// Its copies have arrivals to make.
bool is_to_arrive(const Fiber& fiber);
/// Does the copies that the current phase waits for, which ends it.
void arrive_late(Program& program, uint32_t offset);
/// What the fiber sleeps for, if that is a phase.
std::optional<Fault::Phase> phase_waited_for(const Fiber& fiber);

}  // namespace tegula::emulator
