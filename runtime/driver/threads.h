// What the driver keeps for each thread, and threads that use it when the process ends.
#pragma once

#include <future>

#include "runtime/driver/driver.h"

namespace tegula::cuda {

/// Makes `context` current on this thread for the life of the object. A thread without a context keeps it, so that the
/// next use costs one comparison; another library's context comes back at the end.
class CurrentContext {
 public:
  CurrentContext(const Driver& driver, Context context) : driver_(driver) {
    Context current = nullptr;
    driver.call(driver.ctx_get_current, &current);
    if (current == context) return;
    pushed_ = current != nullptr;
    if (pushed_)
      driver.call(driver.ctx_push_current, context);
    else
      driver.call(driver.ctx_set_current, context);
  }
  ~CurrentContext() {
    Context popped;
    if (pushed_) driver_.ctx_pop_current(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

/// Lets this thread allocate memory and wait for other streams while it, or another thread, captures a stream in one of
/// the stricter modes, as other libraries do.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;

 private:
  void exchange() {
    if (driver_.thread_exchange_capture_mode) driver_.thread_exchange_capture_mode(&mode_);
  }

  const Driver& driver_;
  CaptureMode mode_ = CaptureMode::Relaxed;
};

/// Loads a library for as long as the process lives; false where it is not found.
bool keep_loaded(const std::string& library);

/// The end of the process tears the driver down: it waits for work on threads that uses the driver. Libraries are torn
/// down in the opposite order to that in which they were loaded and this was first called. So those that the work
/// needs are loaded before; one that the work itself loads would go while the work still runs in it.
void finish_before_exit(std::shared_future<void> work);

}  // namespace tegula::cuda
