// What the text of gemm.py and the kernels of gemm_kernel.h have in common on the host. Not for users.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "dsl/kernel.h"
#include "kernels/gemm.h"

namespace tegula::kernels::detail {

/// A product's arguments, in the order of gemm.py.
struct GemmCall {
  std::array<Arg, 14> args;
  int64_t rows, cols;
  int num_sms;

  /// Grid of one program a tile, or of PROGRAMS for each multiprocessor.
  Grid operator()(const Config& config) const {
    const int64_t m = config["BLOCK_M"], n = config["BLOCK_N"], programs = config["PROGRAMS"];
    const int64_t tiles = (rows + m - 1) / m * ((cols + n - 1) / n);
    return {unsigned(programs ? std::min(tiles, programs * num_sms) : tiles)};
  }
};

/// None if there is nothing to do. Throws LaunchError for shapes that do not fit.
std::optional<GemmCall> gemm_call(Device& device, const AnyMatrix& c, const AnyMatrix& a, const AnyMatrix& b,
                                  const AnyGemmOptions& options);

}  // namespace tegula::kernels::detail
