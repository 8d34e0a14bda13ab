#include "runtime/memory.h"

#include <fmt/format.h>

namespace tegula {

void Buffer::refuse_size(size_t bytes, const char* what) const {
  throw DeviceError(fmt::format("{} of {} bytes, but the buffer has {}", what, bytes, bytes_));
}

}  // namespace tegula
