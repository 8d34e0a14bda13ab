// What the text of gemm.py and the kernels of gemm_kernel.h have in common on the host. Not for users.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "dsl/kernel.h"
#include "kernels/entry.h"
#include "kernels/gemm.h"

namespace tegula::kernels::detail {

/// A product's arguments, in the order of gemm.py.
struct GemmCall {
  std::array<Arg, 16> args;
  int64_t rows, cols, depth;
  int num_sms;
  std::shared_ptr<const void> workspace;  ///< the memory of partials and counters

  /// Grid of one program a tile, of PROGRAMS for each multiprocessor (or for each cluster that runs at a time; as many
  /// as tiles at most), or of about as many that divide the tiles: each of these has two K-steps at least.
  Grid operator()(const Config& config) const {
    const int64_t m = config["BLOCK_M"], n = config["BLOCK_N"], k = config["BLOCK_K"];
    const int64_t tiles = (rows + m - 1) / m * ((cols + n - 1) / n);
    const int64_t at_once = config["PROGRAMS"] * clusters_at_once(num_sms, config.num_ctas.value_or(1));
    if (config["PARTS"] > 0)
      return {unsigned(tiles * std::max<int64_t>(1, std::min(at_once / tiles, (depth + k - 1) / k / 2)))};
    return {unsigned(at_once ? std::min(tiles, at_once) : tiles)};
  }
};

/// Stands for M where tuning tells problems apart, as row_class in gemm_tiles.py.
int64_t row_class(int64_t m);

/// An operand of an entry as a matrix with rows of elements side by side: a view whose columns are such is its
/// transpose, and `transposed` changes. Throws LaunchError if neither are.
AnyMatrix operand(const BoundCall& call, const char* name, bool& transposed);

/// What an entry's product is of: its operands `a` and `b`, which of them are transposed, and its bias.
struct GemmOperands {
  AnyMatrix a, b;
  AnyGemmOptions options;
};
GemmOperands gemm_operands(const BoundCall& call);

/// None if there is nothing to do. Throws LaunchError for shapes that do not fit. Operands whose rows are not aligned
/// are copied on the stream first, where that pays.
std::optional<GemmCall> gemm_call(Device& device, const AnyMatrix& c, const AnyMatrix& a, const AnyMatrix& b,
                                  const AnyGemmOptions& options, StreamHandle stream);

}  // namespace tegula::kernels::detail
