#include "kernels/matrix.h"

#include <fmt/format.h>

namespace tegula::kernels::detail {

void refuse_matrix(int64_t rows, int64_t cols, int64_t stride, size_t element_bytes, size_t buffer_bytes) {
  throw LaunchError(
      fmt::format("a {} x {} matrix with rows {} elements of {} bytes apart does not fit a buffer of {} bytes", rows,
                  cols, stride, element_bytes, buffer_bytes));
}

void refuse_vector(int64_t size, size_t element_bytes, size_t buffer_bytes) {
  throw LaunchError(fmt::format("a vector of {} elements of {} bytes does not fit a buffer of {} bytes", size,
                                element_bytes, buffer_bytes));
}

}  // namespace tegula::kernels::detail
