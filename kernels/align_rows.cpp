#include "kernels/align_rows.h"

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/library.h"

namespace tegula::kernels::detail {

namespace {

constexpr int64_t kAlignment = 16, kBlockRows = 8, kBlockCols = 512;

int64_t elem_size(const AnyMatrix& m) { return std::max(1, elem_info(m.elem).bits / 8); }
int64_t units_of(const AnyMatrix& m) { return (m.cols * elem_size(m) + kAlignment - 1) / kAlignment; }
int64_t programs_of(const AnyMatrix& m) {
  return (m.rows + kBlockRows - 1) / kBlockRows * ((m.cols + kBlockCols - 1) / kBlockCols);
}

const FlaggedKernel& kernel_for(int64_t align) {
  static const auto kernels = [] {
    std::array<std::optional<FlaggedKernel>, 5> all;
    for (size_t i = 0; i < all.size(); ++i)
      all[i].emplace("align_rows.py", "align_rows",
                     std::vector<ConstexprArg>{
                         {"ALIGN", int64_t(1) << i}, {"BLOCK_ROWS", kBlockRows}, {"BLOCK_COLS", kBlockCols}});
    return all;
  }();
  return *kernels[size_t(std::countr_zero(uint64_t(align)))];
}

}  // namespace

int64_t row_alignment(const AnyMatrix& m) {
  const uint64_t bits = m.address | uint64_t(m.rows > 1 ? m.stride * elem_size(m) : 0) | uint64_t(kAlignment);
  return int64_t(1) << std::countr_zero(bits);
}

int64_t aligned_bytes(const AnyMatrix& m) { return m.rows * units_of(m) * kAlignment; }

void align_rows(Device& device, std::span<AnyMatrix* const> matrices, uint64_t address, StreamHandle stream) {
  std::vector<Arg> args;
  int64_t programs = 0;
  for (size_t i = 0; i < 2; ++i) {
    const bool given = i < matrices.size();
    const AnyMatrix from = given ? *matrices[i] : AnyMatrix(address, matrices[0]->elem, 0, 0, 0);
    AnyMatrix to(address, from.elem, from.rows, from.cols, units_of(from) * kAlignment / elem_size(from));
    for (const Arg& arg : {pointer(to), pointer(from), integer(from.rows), integer(from.cols), integer(units_of(from)),
                           integer(from.stride)})
      args.push_back(arg);
    programs += programs_of(from);
    address += uint64_t(aligned_bytes(from));
    if (given) *matrices[i] = to;
  }
  const Grid grid{unsigned(programs)};
  kernel_for(kAlignment / elem_size(*matrices[0])).launch(device, tegula::detail::GridRef(grid), stream, args);
}

}  // namespace tegula::kernels::detail
