#include "codegen/layout/byte_transpose.h"

#include <algorithm>
#include <bit>

#include "codegen/layout/layout_builder.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

constexpr int kRowBytes = 16;  // of a matrix
constexpr int64_t kBlockBytes = 16 * 32;

}  // namespace

bool can_transpose_bytes(const std::vector<int64_t>& shape, int num_warps) {
  return shape.size() == 2 &&
         std::all_of(shape.begin(), shape.end(),
                     [](int64_t n) { return n >= 32 && std::has_single_bit(uint64_t(n)); }) &&
         shape[0] * shape[1] % (kBlockBytes * num_warps) == 0;
}

ByteTranspose plan_byte_transpose(const std::vector<int64_t>& shape, int from, int num_warps) {
  TEGULA_CHECK(can_transpose_bytes(shape, num_warps), "a tile whose bytes cannot be transposed");
  const int to = 1 - from;
  using Bases = std::vector<LinearLayout::Basis>;
  auto along = [](int axis, int32_t coordinate) {
    LinearLayout::Basis basis(2, 0);
    basis[size_t(axis)] = coordinate;
    return basis;
  };
  Bases rows_of_from, rows_of_to, warps;
  for (int bit = 1; bit < kRowBytes; bit *= 2)
    rows_of_from.push_back(along(from, bit)), rows_of_to.push_back(along(to, bit));
  // The blocks: warps take some, registers go over the others.
  Bases blocks;
  for (int32_t bit = 32; bit < shape[size_t(to)]; bit *= 2) blocks.push_back(along(to, bit));
  for (int32_t bit = kRowBytes; bit < shape[size_t(from)]; bit *= 2) blocks.push_back(along(from, bit));
  const auto own = blocks.begin() + log2_of(num_warps);
  warps.assign(blocks.begin(), own);
  rows_of_from.insert(rows_of_from.end(), own, blocks.end());
  rows_of_to.insert(rows_of_to.end(), own, blocks.end());
  const Bases load_lanes{along(to, 1), along(to, 4), along(to, 8 | 2), along(to, 2), along(to, 16)};
  const Bases store_lanes{along(from, 2), along(from, 4), along(from, 8 | 1), along(from, 1), along(to, 16)};
  const std::vector<LinearLayout::Out> outs{{Dim::Dim0, int32_t(shape[0])}, {Dim::Dim1, int32_t(shape[1])}};
  auto layout = [&](const Bases& registers, const Bases& lanes) {
    return LinearLayout({{Dim::Register, registers}, {Dim::Lane, lanes}, {Dim::Warp, warps}}, outs);
  };
  return {layout(rows_of_from, load_lanes), layout(rows_of_to, store_lanes)};
}

}  // namespace tegula
