// Memory in which the programs of a launch leave partial results for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
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
  /// Keeps the memory until it goes; held until the last launch is made, and let go by the thread that asked.
  std::shared_ptr<const void> owner;
};

/// What a workspace is for: a launch, whose programs alone use it, or several that leave data there for each other. Of
/// these no other launch may come in between: while a thread holds such a workspace, others wait for it.
enum class WorkspaceUse { OneLaunch, SeveralLaunches };

/// The workspaces of a device. Thread-safe. Streams are told apart by Device::stream_id(), but for those that capture.
class Workspaces {
 public:
  Workspace of(Device& device, StreamHandle stream, size_t bytes, WorkspaceUse use);
  /// The stream ends. Launches under way on it go on: whoever frees memory of a GPU waits for them.
  void drop(uint64_t stream);
  void reset_counters(Device& device, std::span<const uint64_t> addresses);

 private:
  /// Streams that keep a workspace beside the captured ones.
  static constexpr size_t kMostStreams = 64;

  struct Memory {
    Buffer counters, partials;
  };
  /// Who comes next passes the gate, also ahead of those who would go on without end.
  struct Turns {
    std::mutex gate;
    std::shared_mutex users;
  };
  struct Held;
  struct Entry {
    uint64_t stream;  ///< its number; of captured launches the stream's handle
    bool captured;
    std::vector<std::shared_ptr<const Memory>> memory = {};  ///< the last one for new launches, others for older graphs
    std::shared_ptr<Turns> turns = std::make_shared<Turns>();
  };
  Entry& entry(uint64_t stream, bool captured);
  std::shared_ptr<const Memory> memory_of(Entry& entry, Device& device, size_t bytes);

  std::mutex mutex_;
  std::list<Entry> entries_;  ///< the one used last stands last
};

}  // namespace tegula
