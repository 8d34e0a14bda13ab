// Streams, events and graphs that release themselves. The device must outlive them.
#pragma once

#include <utility>

#include "runtime/device.h"

namespace tegula {

/// Owner of one device handle; moves, does not copy.
template <class Handle, void (Device::*Destroy)(Handle) noexcept>
class DeviceHandle {
 public:
  DeviceHandle() = default;
  DeviceHandle(Device& device, Handle handle) : device_(&device), handle_(handle) {}
  ~DeviceHandle() {
    if (device_) (device_->*Destroy)(handle_);
  }
  DeviceHandle(DeviceHandle&& other) noexcept { *this = std::move(other); }
  DeviceHandle& operator=(DeviceHandle&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }

  explicit operator bool() const { return device_; }
  Handle get() const { return handle_; }

 protected:
  Device* device_ = nullptr;
  Handle handle_ = nullptr;
};

/// A queue of work of its own.
class Stream : public DeviceHandle<StreamHandle, &Device::destroy_stream> {
 public:
  Stream() = default;
  explicit Stream(Device& device) : DeviceHandle(device, device.create_stream()) {}
  operator StreamHandle() const { return handle_; }
  /// Waits until everything on the stream is done; throws DeviceError if a kernel failed.
  void synchronize() const { device_->synchronize(handle_); }
};

/// A mark in a stream that knows when it was passed.
class Event : public DeviceHandle<EventHandle, &Device::destroy_event> {
 public:
  Event() = default;
  explicit Event(Device& device) : DeviceHandle(device, device.create_event()) {}
  void record(StreamHandle stream = nullptr) { device_->record(handle_, stream); }
  /// Milliseconds from `start` to this event; waits for this one. Both must have been recorded.
  double ms_since(const Event& start) const { return device_->elapsed_ms(start.handle_, handle_); }
};

/// Launches that were captured, to be run again as one.
class Graph : public DeviceHandle<GraphHandle, &Device::destroy_graph> {
 public:
  using DeviceHandle::DeviceHandle;
  void launch(StreamHandle stream = nullptr) { device_->launch_graph(handle_, stream); }
};

/// The launches that `fn()` makes on `stream`, as a graph; they do not run now. If `fn` throws, the capture is dropped.
/// `stream` must not be the default one.
template <class Fn>
Graph capture(Device& device, StreamHandle stream, Fn&& fn) {
  device.begin_capture(stream);
  try {
    std::forward<Fn>(fn)();
  } catch (...) {
    try {
      device.destroy_graph(device.end_capture(stream));
    } catch (const DeviceError&) {  // the first error counts
    }
    throw;
  }
  return Graph(device, device.end_capture(stream));
}

}  // namespace tegula
