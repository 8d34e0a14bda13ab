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

// A thread's turn with a workspace, beside others with one launch each or alone.
struct Workspaces::Held {
  Held(std::shared_ptr<Turns> of, WorkspaceUse use)
      : turns(std::move(of)), alone(use == WorkspaceUse::SeveralLaunches) {
    std::lock_guard lock(turns->gate);
    if (alone)
      turns->users.lock();
    else
      turns->users.lock_shared();
  }
  Held(const Held&) = delete;
  ~Held() {
    if (alone)
      turns->users.unlock();
    else
      turns->users.unlock_shared();
  }

  const std::shared_ptr<Turns> turns;
  const bool alone;
  std::shared_ptr<const Memory> memory = nullptr;
};

Workspace Workspaces::of(Device& device, StreamHandle stream, size_t bytes, WorkspaceUse use) {
  // A stream that captures does not tell its number.
  const bool captured = device.is_capturing(stream);
  const uint64_t id = captured ? reinterpret_cast<uint64_t>(stream) : device.stream_id(stream);
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto turns = entry(id, captured).turns;
    lock.unlock();
    auto held = std::make_shared<Held>(turns, use);
    lock.lock();
    Entry& mine = entry(id, captured);
    if (mine.turns != turns) continue;  // the stream's entry has gone meanwhile
    held->memory = memory_of(mine, device, bytes);
    const Memory& memory = *held->memory;
    return {memory.counters.address(), memory.partials.address(), memory.partials.bytes(), std::move(held)};
  }
}

std::shared_ptr<const Workspaces::Memory> Workspaces::memory_of(Entry& entry, Device& device, size_t bytes) {
  auto& memory = entry.memory;
  if (const size_t before = memory.empty() ? 0 : memory.back()->partials.bytes(); memory.empty() || before < bytes) {
    auto larger = std::make_shared<const Memory>(Memory{Buffer::zeros(device, Workspace::kCounters * sizeof(int32_t)),
                                                        Buffer(device, std::max(bytes, 2 * before))});
    if (!entry.captured) memory.clear();
    memory.push_back(std::move(larger));
  }
  return memory.back();
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

Workspace Device::workspace(StreamHandle stream, size_t bytes, WorkspaceUse use) {
  return workspaces_->of(*this, stream, bytes, use);
}

void Device::drop_workspace(StreamHandle stream) noexcept {
  try {
    workspaces_->drop(stream_id(stream));
  } catch (const DeviceError&) {  // the device is lost
  }
}

void Device::reset_counters(std::span<const uint64_t> addresses) { workspaces_->reset_counters(*this, addresses); }

}  // namespace tegula
