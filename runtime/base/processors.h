// How many threads are worth starting.
#pragma once

namespace tegula {

/// The processors that the calling thread may run on, by its affinity: 1 or more. Unlike
/// std::thread::hardware_concurrency() it opens no file, and does not count what taskset or a container's set of
/// processors leaves out.
unsigned processors();

/// Held by a thread while it computes for long: no more threads of the process hold one than it had processors when it
/// first asked, so that calls which compile at the same time do not keep what is timed beside them from running. A
/// thread that holds one asks for no other.
class ProcessorSlot {
 public:
  ProcessorSlot();
  ~ProcessorSlot();
  ProcessorSlot(const ProcessorSlot&) = delete;
};

}  // namespace tegula
