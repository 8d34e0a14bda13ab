#include "codegen/exec/emulator/races/stream_order.h"

#include <algorithm>
#include <utility>

namespace tegula::emulator {

namespace {

void join(StreamClock& into, const StreamClock& other) {
  for (const auto& [stream, number] : other) into[stream] = std::max(into[stream], number);
}

}  // namespace

std::shared_ptr<StreamLaunch> StreamOrder::next(uint64_t stream) {
  StreamClock& own = streams_[stream];
  join(own, host_);
  join(own, stream == kDefault ? now(kDefault) : StreamClock(streams_[kDefault]));
  auto launch = std::make_shared<StreamLaunch>();
  launch->before = own;
  launch->stream = stream;
  launch->number = ++own[stream];
  return launch;
}

std::shared_ptr<const StreamLaunch> StreamOrder::launch(uint64_t stream, const KernelImage& image, Grid grid) {
  auto launch = next(stream);
  launch->kernel = image.kernel;
  launch->sites = image.sites;
  launch->grid = grid;
  return launch;
}

std::shared_ptr<const StreamLaunch> StreamOrder::transfer(uint64_t stream, std::string what) {
  auto transfer = next(stream);
  transfer->transfer = std::move(what);
  return transfer;
}

StreamClock StreamOrder::now(uint64_t stream) const {
  StreamClock clock;
  for (const auto& [other, known] : streams_)
    if (stream == kDefault || other == stream) join(clock, known);
  return clock;
}

void StreamOrder::waited_for(const StreamClock& clock) { join(host_, clock); }

void StreamOrder::waited_for_all() { join(host_, now(kDefault)); }

}  // namespace tegula::emulator
