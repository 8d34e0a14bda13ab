#include "runtime/workspace.h"

#include <algorithm>

#include "runtime/stream.h"

namespace tegula {

namespace {

// CU_STREAM_PER_THREAD.
const StreamHandle kPerThread = reinterpret_cast<StreamHandle>(uintptr_t(2));

// On a stream of its own: the one that the workspace is for may be capturing.
Buffer zeros(Device& device, size_t bytes) {
  Buffer buffer(device, bytes);
  const Stream stream(device);
  buffer.fill(0, stream);
  stream.synchronize();
  return buffer;
}

}  // namespace

Workspaces::Entry& Workspaces::entry(Device& device, StreamHandle stream) {
  const std::thread::id thread = stream == kPerThread ? std::this_thread::get_id() : std::thread::id();
  const bool captured = device.is_capturing(stream);
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.stream == stream && e.thread == thread && e.captured == captured;
  });
  return found != entries_.end() ? *found : entries_.emplace_back(Entry{stream, thread, captured});
}

Workspace Workspaces::of(Device& device, StreamHandle stream, size_t bytes) {
  std::lock_guard lock(mutex_);
  Entry& mine = entry(device, stream);
  if (!mine.counters) mine.counters = zeros(device, Workspace::kCounters * sizeof(int32_t));
  if (mine.partials.empty())
    mine.partials.emplace_back(device, bytes);
  else if (const size_t before = mine.partials.back().bytes(); before < bytes)
    mine.partials.emplace_back(device, std::max(bytes, 2 * before));
  return {mine.counters.address(), mine.partials.back().address(), mine.partials.back().bytes()};
}

Workspace Device::workspace(StreamHandle stream, size_t bytes) { return workspaces_->of(*this, stream, bytes); }

}  // namespace tegula
