// Kernels on whole rows made of a C++ function (docs/cpp.md says how such functions are written): a residual, a norm
// and the quantisation of its result in one launch.
//
//   static const auto chain = row_kernel("norm_quantise", [](const RowTile& row, Tile x, Tile r, Tile weight) {
//     Tile h = x + r;
//     Tile y = h * rsqrt(row.mean(h * h) + 1e-6f) * weight;
//     Tile scale = row.max(abs(y)) / 127.0f;
//     return std::array{y / scale, h, scale};
//   });
//   chain.launch(device, {q, r, scales}, {x, r, weight});   // int8, written back, one a row
#pragma once

#include "kernels/lambda_kernel.h"

namespace tegula::kernels {

namespace detail {
struct RowPass;
}

/// The rows that a program computes: their place, and what sums up whole rows.
class RowTile {
 public:
  Tile index;  ///< int32, ROWS x 1: numbers of the rows, in row-major order of the extents before the last one
  Tile col;    ///< int32, 1 x BLOCK: indices along the rows
  Tile mask;   ///< which elements there are; what else is computed is dropped, and left out of what follows
  Tile cols;   ///< how many elements a row has

  /// One number a row, ROWS x 1: the sum, mean, largest, smallest of x over the row. What these are called with may
  /// follow from others before; they must be called in the same order whatever the configuration.
  Tile sum(const Tile& x) const;
  Tile mean(const Tile& x) const;
  Tile max(const Tile& x) const;
  Tile min(const Tile& x) const;

  enum class Kind { Sum, Max, Min };

 private:
  friend struct detail::RowPass;
  Tile reduced(Kind kind, const Tile& x) const;
  detail::RowPass* pass_ = nullptr;  ///< null: the tile is of whole rows
};

namespace detail {

using RowFunction = std::function<std::vector<Tile>(const RowTile&, const std::vector<Tile>&,
                                                    const tegula::detail::TracedArgs&, size_t)>;
std::shared_ptr<const SpaceKernel> make_rows(const SpaceKernel::Form& form, RowFunction function);

}  // namespace detail

/// Rows of results from rows of inputs. `function` is a lambda Tile(const RowTile& row, Tile x, ...), or
/// std::array<Tile, N>(...) for N outputs; after its Tiles it may take Ptr, Int, Float and Bool parameters, which
/// launches pass.
///
/// Tensors have up to 5 extents and any strides; rows lie along the last one. Inputs are broadcast: a vector of
/// columns, one number a row (last extent 1), one row for each of some rows (batch x 1 x cols beside batch x tokens x
/// cols). Outputs have the shape that all inputs have together, or 1 as last extent: one number a row. Types as for
/// elementwise_kernel(); results for 8 bits are rounded and clamped, not scaled.
///
/// Rows of any width: kept in the registers of a program, from sm_90 on of a cluster of blocks (up to some 262144
/// elements), while the function works on them; else, and where tuning finds it faster, read in pieces again for each
/// reduction. Traffic: each input and output once; rows in pieces come again from a cache mostly.
template <class F>
auto row_kernel(std::string name, F function, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  tegula::detail::refuse_captures<F>();
  using Signature = detail::SignatureOf<RowTile, F>;
  return LambdaKernel<Signature>(
      detail::make_rows(Signature::form(std::move(name), file, line), Signature::function(std::move(function))));
}

}  // namespace tegula::kernels
