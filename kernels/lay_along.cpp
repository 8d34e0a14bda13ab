#include "kernels/lay_along.h"

#include <array>
#include <bit>
#include <vector>

#include "kernels/library.h"

namespace tegula::kernels::detail {

namespace {

constexpr int64_t kAlignment = 16, kElemSize = 2, kUnit = kAlignment / kElemSize, kBlock = 64;

int64_t blocks(int64_t extent) { return (extent + kBlock - 1) / kBlock; }
int64_t rows_of(const Operand& x) { return x.along_k ? x.matrix.rows : x.matrix.cols; }
int64_t depth_of(const Operand& x) { return x.along_k ? x.matrix.cols : x.matrix.rows; }

const FlaggedKernel& kernel_for(bool a_across, bool b_across) {
  auto made = [](bool a, bool b) {
    return FlaggedKernel("lay_along.py", "lay_along",
                         {{"A_ACROSS", a}, {"B_ACROSS", b}, {"ALIGN", kUnit}, {"BLOCK", kBlock}});
  };
  static const std::array<FlaggedKernel, 4> kernels{made(false, false), made(false, true), made(true, false),
                                                    made(true, true)};
  return kernels[2 * size_t(a_across) + size_t(b_across)];
}

}  // namespace

int64_t row_alignment(const AnyMatrix& m) {
  const uint64_t bits = m.address | uint64_t(m.rows > 1 ? m.stride * kElemSize : 0) | uint64_t(kAlignment);
  return int64_t(1) << std::countr_zero(bits);
}

bool is_aligned(const Operand& x) {
  return row_alignment(x.matrix) == kAlignment && x.matrix.cols % kUnit == 0 && depth_of(x) % kUnit == 0;
}

int64_t copied_depth(int64_t depth) { return (depth + kUnit - 1) / kUnit * kUnit; }

int64_t copied_bytes(const Operand& x) { return rows_of(x) * copied_depth(depth_of(x)) * kElemSize; }

void lay_along(Device& device, std::span<Operand* const> operands, uint64_t address, StreamHandle stream) {
  const int64_t depth = depth_of(*operands[0]), width = copied_depth(depth);
  const Operand none{AnyMatrix(address, operands[0]->matrix.elem, 0, 0, 0), true};
  const bool across[] = {!operands[0]->along_k, operands.size() > 1 && !operands[1]->along_k};
  std::vector<Arg> args;
  int64_t programs = 0;
  for (size_t i = 0; i < 2; ++i) {
    const Operand from = i < operands.size() ? *operands[i] : none;
    const AnyMatrix to(address, from.matrix.elem, rows_of(from), width, width);
    for (const Arg& arg : {pointer(to), pointer(from.matrix), integer(to.rows), integer(from.matrix.stride)})
      args.push_back(arg);
    programs += blocks(to.rows) * blocks(width);
    if (i >= operands.size()) continue;
    address += uint64_t(copied_bytes(from));
    *operands[i] = {to, true};
  }
  args.push_back(integer(depth));
  args.push_back(integer(width / kUnit));
  const Grid grid{unsigned(programs)};
  kernel_for(across[0], across[1]).launch(device, tegula::detail::GridRef(grid), stream, args);
}

}  // namespace tegula::kernels::detail
