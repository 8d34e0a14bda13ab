// A GPU in its primary context: what its device and the kernels that are loaded there share.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/device.h"
#include "runtime/driver/driver.h"
#include "runtime/driver/threads.h"

namespace tegula {

class CudaKernel;

inline cuda::Stream as_stream(StreamHandle stream) { return static_cast<cuda::Stream>(stream); }

class CudaContext {
 public:
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const cuda::Driver& driver() const { return driver_; }
  cuda::Context handle() const { return context_; }
  const DeviceInfo& device_info() const { return info_; }
  /// The GPU reaches ordinary host memory by itself.
  bool reads_host_memory() const { return reads_host_memory_; }
  cuda::CurrentContext current() const { return cuda::CurrentContext(driver_, context_); }

  /// The result of `enqueue(stream)` and of a wait, on a stream of its own, which waits for nobody.
  template <class Enqueue>
  cuda::Result on_own_stream(Enqueue enqueue) const {
    cuda::RelaxedCapture relaxed(driver_);
    cuda::Stream stream = nullptr;
    cuda::Result result = driver_.stream_create(&stream, unsigned(cuda::kStreamNonBlocking));
    if (result != cuda::Result::Success) return result;
    result = enqueue(stream);
    if (result == cuda::Result::Success) result = driver_.stream_synchronize(stream);
    driver_.stream_destroy(stream);
    return result;
  }

  /// Runs `release` in the context. What was wrong with the device has been said by the call that met it; giving things
  /// back stays silent.
  template <class Release>
  void quietly(Release release) const noexcept {
    try {
      auto scope = current();
      release();
    } catch (const DeviceError&) {
    }
  }

  // ---- Kernels with asserts. Those that have failed by then are told by each call that waits for the device.

  void add_asserting(CudaKernel* kernel) {
    std::lock_guard lock(asserting_mutex_);
    asserting_.push_back(kernel);
  }
  void remove_asserting(CudaKernel* kernel) {
    std::lock_guard lock(asserting_mutex_);
    std::erase(asserting_, kernel);
  }
  void check_asserts();

 protected:
  explicit CudaContext(cuda::Driver driver) : driver_(std::move(driver)) {}
  ~CudaContext() = default;

  cuda::Driver driver_;
  cuda::Context context_ = nullptr;
  DeviceInfo info_;
  bool reads_host_memory_ = false;

 private:
  std::mutex asserting_mutex_;
  std::vector<CudaKernel*> asserting_;
};

}  // namespace tegula
