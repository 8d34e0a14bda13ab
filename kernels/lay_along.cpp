#include "kernels/lay_along.h"

#include <algorithm>
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

// How fast products are whose rows begin at multiples of so many bytes, in operations a microsecond, on an H200. Rows
// of odd numbers of elements take loads of one element; where both operands lie along K these fill the registers.
double rate(int64_t alignment, bool along_k, bool batch) {
  if (alignment >= 16) return 600e6;
  if (alignment >= 4) return alignment >= 8 ? 500e6 : 350e6;
  return batch ? 60e6 : along_k ? 30e6 : 150e6;
}

const FlaggedKernel& kernel_for(bool a_across, bool b_across) {
  auto made = [](bool a, bool b) {
    return FlaggedKernel("lay_along.py", "lay_along",
                         {{"A_ACROSS", a}, {"B_ACROSS", b}, {"ALIGN", kUnit}, {"BLOCK", kBlock}});
  };
  static const std::array<FlaggedKernel, 4> kernels{made(false, false), made(false, true), made(true, false),
                                                    made(true, true)};
  return kernels[2 * size_t(a_across) + size_t(b_across)];
}

// From the first matrix of a batch to after the last one.
Arg pointer(const Operand& x) {
  AnyMatrix all = x.matrix;
  if (!all.address || !all.rows || !all.cols) return detail::pointer(all);
  const int64_t elements = (x.batch - 1) * x.batch_stride + (all.rows - 1) * all.stride + all.cols;
  return Arg::pointer(all.address, all.elem, size_t(elements * kElemSize));
}

}  // namespace

int64_t row_alignment(const Operand& x) {
  const AnyMatrix& m = x.matrix;
  const int64_t strides = (m.rows > 1 ? m.stride : 0) | (x.batch > 1 ? x.batch_stride : 0);
  const uint64_t bits = m.address | uint64_t(strides * kElemSize) | uint64_t(kAlignment);
  return int64_t(1) << std::countr_zero(bits);
}

bool is_aligned(const Operand& x) {
  return row_alignment(x) == kAlignment && x.matrix.cols % kUnit == 0 && depth_of(x) % kUnit == 0;
}

int64_t copied_depth(int64_t depth) { return (depth + kUnit - 1) / kUnit * kUnit; }

int64_t copied_bytes(const Operand& x) { return x.batch * rows_of(x) * copied_depth(depth_of(x)) * kElemSize; }

int64_t copied_bytes(std::span<Operand* const> operands) {
  int64_t bytes = 0;
  for (const Operand* x : operands) bytes += copied_bytes(*x);
  return bytes;
}

std::vector<Operand*> operands_to_copy(double operations, std::array<Operand, 2>& operands) {
  constexpr double kCopied = 2.5e6, kLaunch = 3;  // bytes a microsecond, microseconds
  std::vector<Operand*> found;
  int64_t alignment = kAlignment, bytes = 0;
  for (Operand& x : operands) {
    alignment = std::min(alignment, row_alignment(x));
    if (is_aligned(x)) continue;
    found.push_back(&x);
    bytes += copied_bytes(x);
  }
  const bool along_k = operands[0].along_k && operands[1].along_k;
  const bool batch = operands[0].batch > 1 || operands[1].batch > 1;
  const double saved = operations * (1 / rate(alignment, along_k, batch) - 1 / rate(kAlignment, along_k, batch));
  if (saved < kLaunch + 2 * double(bytes) / kCopied) found.clear();
  return found;
}

void lay_along(Device& device, std::span<Operand* const> operands, uint64_t address, StreamHandle stream) {
  const int64_t depth = depth_of(*operands[0]), width = copied_depth(depth);
  const Operand none{AnyMatrix(address, operands[0]->matrix.elem, 0, 0, 0), true};
  const bool across[] = {!operands[0]->along_k, operands.size() > 1 && !operands[1]->along_k};
  std::vector<Arg> args;
  int64_t programs = 0;
  for (size_t i = 0; i < 2; ++i) {
    const Operand from = i < operands.size() ? *operands[i] : none;
    const AnyMatrix to(address, from.matrix.elem, rows_of(from), width, width);
    args.push_back(Arg::pointer(to.address, to.elem, size_t(copied_bytes(from))));
    args.push_back(pointer(from));
    if (i == 0) args.push_back(integer(from.batch));
    for (int64_t value : {to.rows, from.batch_stride, from.matrix.stride}) args.push_back(integer(value));
    programs += from.batch * blocks(to.rows) * blocks(width);
    if (i >= operands.size()) continue;
    address += uint64_t(copied_bytes(from));
    *operands[i] = {to, true, from.batch, to.rows * width};
  }
  args.push_back(integer(depth));
  args.push_back(integer(width / kUnit));
  const Grid grid{unsigned(programs)};
  kernel_for(across[0], across[1]).launch(device, tegula::detail::GridRef(grid), stream, args);
}

}  // namespace tegula::kernels::detail
