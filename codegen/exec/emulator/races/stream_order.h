// Which launches are sure to be over when another one begins: those before it on its stream, those that the host has
// waited for, and, of the default stream, those of all streams before it, as streams other than it wait for its own.
// Copies and fills are launches as well.
// The emulator runs launches one after another; a GPU may run others at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/kernel_image.h"

namespace tegula::emulator {

/// By streams: how many of its launches are over.
using StreamClock = std::map<uint64_t, uint64_t>;

/// A launch as later ones see it.
struct StreamLaunch {
  uint64_t stream = 0, number = 0;  ///< the how manieth of its stream
  StreamClock before;               ///< what is over when it begins
  std::string transfer;             ///< "copy to the host" and the like; empty: a kernel
  std::string kernel;
  std::vector<Loc> sites;  ///< KernelImage::sites
  Grid grid;
};

class StreamOrder {
 public:
  static constexpr uint64_t kDefault = 0;

  std::shared_ptr<const StreamLaunch> launch(uint64_t stream, const KernelImage& image, Grid grid);
  std::shared_ptr<const StreamLaunch> transfer(uint64_t stream, std::string what);
  /// What has been launched on a stream so far: of an event.
  StreamClock now(uint64_t stream) const;
  /// The host has waited for that, or for all streams.
  void waited_for(const StreamClock& clock);
  void waited_for_all();

 private:
  std::shared_ptr<StreamLaunch> next(uint64_t stream);

  std::map<uint64_t, StreamClock> streams_;  ///< what is over when the last launch of each is
  StreamClock host_;
};

}  // namespace tegula::emulator
