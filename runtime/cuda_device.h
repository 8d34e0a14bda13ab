// A GPU through the CUDA driver API, opened with dlopen.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/device.h"
#include "runtime/driver/driver.h"

namespace tegula {

struct CudaOptions {
  /// Link a trivial kernel on a background thread, so that the driver's PTX compiler is ready when the first kernel
  /// needs it.
  bool warm_assembler = true;
  /// The library that this compiler is in. It is loaded before the thread starts (1.6 ms); where it is not found, there
  /// is no such thread.
  std::string assembler_library = "libnvidia-ptxjitcompiler.so.1";
  /// Told what the driver's PTX compiler reported of a kernel: registers, spills, serialised matrix instructions.
  std::function<void(const std::string& kernel, const std::string& log)> on_assembled;
};

/// Opens GPU `ordinal` in its primary context (shared with other libraries of the process). Throws DeviceError that
/// says what is missing: no driver library, a driver that is too old, no GPU.
std::unique_ptr<Device> open_cuda_device(int ordinal = 0);

/// The same over a driver table that the caller has.
std::unique_ptr<Device> open_cuda_device(cuda::Driver driver, int ordinal = 0, CudaOptions options = {});

}  // namespace tegula
