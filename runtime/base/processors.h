// How many threads are worth starting.
#pragma once

#include <cstdint>

namespace tegula {

/// The processors that the calling thread may run on, by its affinity: 1 or more. Unlike
/// std::thread::hardware_concurrency() it opens no file, and does not count what taskset or a container's set of
/// processors leaves out.
unsigned processors();

class ProcessorSlots;

/// Held by a thread while it computes for long: no more threads of the process hold one than it had processors when it
/// first asked, so that calls which compile at the same time do not keep what is timed beside them from running. Of the
/// threads that wait those of the least `turn` are next, in the order in which they came: work that shares a turn is
/// then done soon, where all would be done late if they shared the processors evenly. A thread that holds one asks for
/// no other. In a forked child all are free, whoever held them in its parent.
class ProcessorSlot {
 public:
  explicit ProcessorSlot(uint64_t turn = 0);
  ~ProcessorSlot();
  ProcessorSlot(const ProcessorSlot&) = delete;

  /// A turn behind all that were given before; above 0.
  static uint64_t next_turn();

 private:
  friend class ProcessorBreak;
  ProcessorSlots& from_;
  const uint64_t turn_;
};

/// Held by a thread while it waits for another one: its slot, if it has one, is another's meanwhile.
class ProcessorBreak {
 public:
  ProcessorBreak();
  ~ProcessorBreak();
  ProcessorBreak(const ProcessorBreak&) = delete;

 private:
  ProcessorSlot* const slot_;
};

}  // namespace tegula
