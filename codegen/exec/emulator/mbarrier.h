// Memory barriers (mbarrier): objects in a program's shared memory on which threads and asynchronous copies arrive. The
// eight bytes of an object hold a word that follows from its state, by which it is seen when they are written over.
//
// Copies whose end is an arrival are done as late as the waits allow: when no thread can go on otherwise, and threads
// wait for a phase in which nothing else is missing (Worker::end_late_phase). By then no thread can still read what
// they replace, so with a seed half of the copies are done when the arrival is asked for, and the arrival alone is
// late.
//
// A fault ends the launch where
// - an object is used that was not initialised, or was written over; one that is in use is initialised, or given up
//   while threads or copies need it;
// - arrivals come that the phase does not expect, or that may fall into this phase or the next one, because no wait and
//   no barrier has shown that the one before is over;
// - a phase is waited for that never ends (a deadlock). A thread that wakes after the next phase has ended too waits
// on,
//   as it may on a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/exec/emulator/fault.h"

namespace tegula::emulator {

struct MBarrier {
  /// An arrival when the first `copies` of those that the fiber issued are done.
  struct Late {
    Fiber* fiber;
    uint64_t copies;
    uint64_t time;  ///< Worker::tick()
  };

  uint32_t expected = 0;  ///< arrivals in a phase
  uint32_t pending = 0;   ///< those that the current phase still waits for
  uint64_t phase = 0;
  bool end_seen = true;    ///< it was waited for that the phase before ended
  uint32_t last_end = 0;   ///< when that was (SharedWrites)
  uint32_t site = 0;       ///< of the initialisation
  std::vector<Late> late;  ///< the oldest first
  std::vector<Fiber*> waiting;

  uint32_t parity() const { return uint32_t(phase & 1); }
  /// Arrivals that no thread has asked for yet.
  uint32_t missing() const { return pending - uint32_t(late.size()); }
};

/// The bodies of the rows.
void init_mbarrier(uint32_t address, uint32_t count, uint32_t site);
void inval_mbarrier(uint32_t address, uint32_t site);
void arrive_on_mbarrier(uint32_t address, uint32_t site);
void arrive_after_copies(uint32_t address, uint32_t site);
void wait_for_mbarrier(uint32_t address, uint32_t parity, Where where);

/// Its copies have arrivals to make.
bool is_to_arrive(const Fiber& fiber);
/// Does the copies that the current phase waits for, which ends it.
void arrive_late(Program& program, uint32_t offset);
/// What the fiber sleeps for, if that is a phase.
std::optional<Fault::Phase> phase_waited_for(const Fiber& fiber);

}  // namespace tegula::emulator
