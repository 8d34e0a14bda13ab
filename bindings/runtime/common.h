// What the parts of the C interface share: handles, statuses. Not for users.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "bindings/tegula_runtime.h"
#include "runtime/base/elem.h"
#include "runtime/base/error.h"
#include "runtime/device.h"

namespace tegula {
class EmulatorDevice;
}

struct tegula_device {
  std::shared_ptr<tegula::Device> device;
  tegula::EmulatorDevice* emulator = nullptr;
};

namespace tegula::bindings {

/// The interface was not used as its header says.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A grid function failed, having said why.
struct CallbackFailed {
  tegula_status status;
};

/// The status of the exception that is being handled; its text becomes the thread's last error.
tegula_status status_of_exception() noexcept;

/// Runs `work`; what it throws becomes the status and the thread's last error.
template <class Work>
tegula_status guarded(Work work) noexcept {
  try {
    work();
    return TEGULA_OK;
  } catch (...) {
    return status_of_exception();
  }
}

/// Handles and results that must not be null, by name.
template <class T>
T& given(T* pointer, const char* name) {
  if (!pointer) [[unlikely]]
    throw UsageError(fmt::format("'{}' is NULL", name));
  return *pointer;
}

/// The caller's structure may be of a later version, hence longer.
template <class Facts>
void fill(Facts* to, Facts facts) {
  size_t size = given(to, "facts").struct_size;
  if (size < sizeof(Facts)) throw UsageError(fmt::format("struct_size is {}, expected {}", size, sizeof(Facts)));
  facts.struct_size = size;
  *to = facts;
}

/// Throw UsageError for what has no counterpart.
Elem elem_of(tegula_dtype dtype);
tegula_dtype dtype_of(Elem elem);

}  // namespace tegula::bindings
