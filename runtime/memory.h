// Device memory that frees itself.
#pragma once

#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/device.h"

namespace tegula {

/// Values on the host that lie side by side: std::vector, std::array, std::span, ...
template <class Range>
concept HostData = requires(const Range& range) {
  std::span(range);
}
&&std::is_trivially_copyable_v<typename decltype(std::span(std::declval<const Range&>()))::element_type>;

/// A block of device memory. The device must outlive it.
///
///   Buffer x(device, host);            // as large as host, filled from it
///   Buffer y(device, x.bytes());
///   auto back = y.download<float>();
class Buffer {
 public:
  Buffer() = default;
  /// `bytes` of memory, contents undefined.
  Buffer(Device& device, size_t bytes) : device_(&device), bytes_(bytes), address_(device.allocate(bytes)) {}
  /// A copy of `host`.
  template <HostData Range>
  Buffer(Device& device, const Range& host, StreamHandle stream = nullptr)
      : Buffer(device, std::span(host).size_bytes()) {
    upload(host, stream);
  }
  /// `bytes` of zeros, there when it returns, also while a stream captures.
  static Buffer zeros(Device& device, size_t bytes) { return Buffer(device, bytes, device.allocate_zeros(bytes)); }
  ~Buffer() {
    if (device_) device_->free(address_);
  }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    std::swap(address_, other.address_);
    return *this;
  }

  explicit operator bool() const { return device_; }
  uint64_t address() const { return address_; }
  /// The device address as a typed pointer, for launches; not to be dereferenced on the host.
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(address_);
  }
  size_t bytes() const { return bytes_; }

  /// Copies all of `host` to the start of the buffer; `host` may be reused at once. Throws DeviceError if it is larger.
  template <HostData Range>
  void upload(const Range& host, StreamHandle stream = nullptr) {
    const std::span data(host);
    check_size(data.size_bytes(), "upload");
    if (!data.empty()) device_->copy_to_device(address_, data.data(), data.size_bytes(), stream);
  }

  /// Copies from the start of the buffer until `host` is full. Throws DeviceError if `host` is larger.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void download(std::span<T> host, StreamHandle stream = nullptr) const {
    check_size(host.size_bytes(), "download");
    if (!host.empty()) device_->copy_to_host(host.data(), address_, host.size_bytes(), stream);
  }

  /// The whole buffer as values of T (a rest smaller than T is left out).
  template <class T>
  std::vector<T> download(StreamHandle stream = nullptr) const {
    std::vector<T> host(bytes_ / sizeof(T));
    download(std::span<T>(host), stream);
    return host;
  }

  /// Sets every byte.
  void fill(uint8_t value, StreamHandle stream = nullptr) {
    if (bytes_ > 0) device_->fill(address_, value, bytes_, stream);
  }

 private:
  Buffer(Device& device, size_t bytes, uint64_t address) : device_(&device), bytes_(bytes), address_(address) {}

  void check_size(size_t bytes, const char* what) const {
    if (bytes > bytes_) refuse_size(bytes, what);
  }

  [[noreturn]] void refuse_size(size_t bytes, const char* what) const;

  Device* device_ = nullptr;
  size_t bytes_ = 0;
  uint64_t address_ = 0;
};

}  // namespace tegula
