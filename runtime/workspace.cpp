#include "runtime/workspace.h"

#include <algorithm>

namespace tegula {

Workspaces::Entry& Workspaces::entry(uint64_t stream, bool captured) {
  auto found = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& e) { return e.stream == stream && e.captured == captured; });
  if (found != entries_.end()) {
    entries_.splice(entries_.end(), entries_, found);
    return entries_.back();
  }
  auto live = [](const Entry& e) { return !e.captured; };
  if (!captured && size_t(std::count_if(entries_.begin(), entries_.end(), live)) >= kMostStreams)
    entries_.erase(std::find_if(entries_.begin(), entries_.end(), live));
  return entries_.emplace_back(Entry{stream, captured});
}

Workspace Workspaces::of(Device& device, StreamHandle stream, size_t bytes) {
  // A stream that captures does not tell its number.
  const bool captured = device.is_capturing(stream);
  const uint64_t id = captured ? reinterpret_cast<uint64_t>(stream) : device.stream_id(stream);
  std::lock_guard lock(mutex_);
  auto& memory = entry(id, captured).memory;
  if (const size_t before = memory.empty() ? 0 : memory.back()->partials.bytes(); memory.empty() || before < bytes) {
    auto larger = std::make_shared<const Memory>(Memory{Buffer::zeros(device, Workspace::kCounters * sizeof(int32_t)),
                                                        Buffer(device, std::max(bytes, 2 * before))});
    if (!captured) memory.clear();
    memory.push_back(std::move(larger));
  }
  const auto& mine = memory.back();
  return {mine->counters.address(), mine->partials.address(), mine->partials.bytes(), mine};
}

void Workspaces::drop(uint64_t stream) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& e) { return e.stream == stream && !e.captured; });
}

void Workspaces::reset_counters(Device& device, std::span<const uint64_t> addresses) {
  std::lock_guard lock(mutex_);
  for (const Entry& e : entries_)
    for (const auto& memory : e.memory)
      if (std::find(addresses.begin(), addresses.end(), memory->counters.address()) != addresses.end())
        device.fill(memory->counters.address(), 0, memory->counters.bytes());
}

Workspace Device::workspace(StreamHandle stream, size_t bytes) { return workspaces_->of(*this, stream, bytes); }

void Device::drop_workspace(StreamHandle stream) noexcept {
  try {
    workspaces_->drop(stream_id(stream));
  } catch (const DeviceError&) {  // the device is lost
  }
}

void Device::reset_counters(std::span<const uint64_t> addresses) { workspaces_->reset_counters(*this, addresses); }

}  // namespace tegula
