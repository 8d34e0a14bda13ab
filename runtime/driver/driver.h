// The CUDA driver as a table of typed function pointers, filled from libcuda.so.1 at run time or by a test.
//
//   Driver driver = Driver::open();
//   driver.call(driver.mem_alloc, &address, bytes);   // throws DeviceError when the driver refuses
//
// There is no global driver: whoever needs one is given one. A table may be copied and used from many threads.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/driver/cuda_types.h"

namespace tegula::cuda {

/// The lowest CUDA version whose driver is accepted: 12.0, as cuDriverGetVersion counts.
inline constexpr int kLowestCudaVersion = 12000;

/// "12.4" for 12040.
std::string cuda_version_text(int version);

struct Driver {
  /// Address of an exported symbol, or null.
  using Lookup = std::function<void*(const char* symbol)>;

  template <class Signature>
  struct Entry;
  template <class... Params>
  struct Entry<Result(Params...)> {
    const char* symbol;
    Result (*function)(Params...) = nullptr;

    explicit operator bool() const { return function; }
    /// The bare call: the caller looks at the result.
    Result operator()(Params... params) const { return function(params...); }
  };

  /// Loads the driver's library. Throws DeviceError if it is not there, too old, or lacks a required entry.
  static Driver open(const char* library = "libcuda.so.1");
  /// Makes the table from `lookup`, with the same checks.
  static Driver from(const Lookup& lookup);

  /// Calls `entry`; throws what fail() throws unless it succeeds.
  template <class... Params, class... Args>
  void call(const Entry<Result(Params...)>& entry, Args... args) const {
    Result result = entry.function(args...);
    if (result != Result::Success) [[unlikely]]
      fail(entry.symbol, result);
  }

  /// Throws a DeviceError with the call, the error's name and text, `note` (what was asked; may be empty) and what the
  /// user can do. A fault of a kernel that ran earlier throws DeviceLostError.
  [[noreturn]] void fail(std::string_view symbol, Result result, std::string_view note = {}) const;

  /// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  std::string describe(Result result) const;

  int version = 0;  ///< CUDA version the driver supports: 13000 for 13.0

#define TEGULA_DRIVER(need, name, symbol, ...) Entry<Result(__VA_ARGS__)> name{symbol};
#include "runtime/driver/driver.def"
};

/// True for the results that an earlier kernel's fault leaves behind: the context is lost for good.
bool is_device_lost(Result result);

}  // namespace tegula::cuda
