// Memory in which the programs of a launch leave partial results for each other.
#pragma once

#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/memory.h"

namespace tegula {

/// What the launches of one stream share, since they run one after another. Each finds the counters at zero and leaves
/// them at zero; the contents of the rest are undefined. Device::workspace() gives it.
struct Workspace {
  static constexpr int64_t kCounters = 1 << 14;

  uint64_t counters;  ///< address of kCounters int32
  uint64_t partials;  ///< address, aligned to 256
  size_t bytes;       ///< of the partials
};

/// The workspaces of a device. Thread-safe.
class Workspaces {
 public:
  Workspace of(Device& device, StreamHandle stream, size_t bytes);

 private:
  struct Entry {
    StreamHandle stream;
    std::thread::id thread;  ///< of a stream that means another one in each thread
    bool captured;
    Buffer counters = {};
    std::vector<Buffer> partials = {};  ///< the last one is in use by new launches, the others by older ones
  };
  Entry& entry(Device& device, StreamHandle stream);

  std::mutex mutex_;
  std::list<Entry> entries_;
};

}  // namespace tegula
