// A GPU through the CUDA driver API, opened with dlopen.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace tegula {

/// Opens GPU `ordinal` in its primary context (shared with other libraries of the process). Throws DeviceError that
/// says what is missing: no driver library, a driver that is too old, no GPU.
std::unique_ptr<Device> open_cuda_device(int ordinal = 0);

}  // namespace tegula
