#include "kernels/aligned_batches.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/lay_along.h"
#include "runtime/workspace.h"

namespace tegula::kernels::detail {

namespace {

// An operand whose elements lie side by side along K, axis number `k_axis`, or along the other axis of its matrices;
// none if along neither.
std::optional<Operand> operand_of(const Tensor& t, size_t k_axis) {
  const size_t other = 3 - k_axis;
  Operand found{AnyMatrix(t.address, t.elem, t.shape[other], t.shape[k_axis], t.strides[other]), true};
  if (t.strides[k_axis] != 1) {
    if (t.strides[other] != 1) return std::nullopt;
    found = {AnyMatrix(t.address, t.elem, t.shape[k_axis], t.shape[other], t.strides[k_axis]), false};
  }
  if (t.strides[0] != 0) {
    found.batch = t.shape[0];
    found.batch_stride = t.strides[0];
  }
  return found;
}

// The tensor with what a copy along K has in its place.
Tensor tensor_of(const Operand& copy, Tensor t, size_t k_axis) {
  t.address = copy.matrix.address;
  t.shape[k_axis] = copy.matrix.cols;
  if (t.strides[0] != 0) t.strides[0] = copy.batch_stride;
  t.strides[k_axis] = 1;
  t.strides[3 - k_axis] = copy.matrix.stride;
  return t;
}

}  // namespace

bool multiply_aligned_copies(Device& device, const BoundCall& call, StreamHandle stream) {
  constexpr std::array<const char*, 2> kNames{"a", "b"};
  constexpr std::array<size_t, 2> kAxes{2, 1};  // K
  const std::array tensors{call.tensor(kNames[0]), call.tensor(kNames[1])};
  const std::array found{operand_of(*tensors[0], kAxes[0]), operand_of(*tensors[1], kAxes[1])};
  if (!found[0] || !found[1]) return false;
  std::array<Operand, 2> operands{*found[0], *found[1]};
  const double sums = double(call.extent("batch")) * double(call.extent("M")) * double(call.extent("N"));
  const std::vector<Operand*> copied = operands_to_copy(2 * sums * double(call.extent("K")), operands);
  if (copied.empty()) return false;
  const int64_t bytes = copied_bytes(copied), batch = call.extent("batch");
  if (bytes > kMostCopied && batch > 1) {
    for (const auto& [first, count] : {std::pair(int64_t(0), batch / 2), std::pair(batch / 2, batch - batch / 2)})
      run(device, call.entry(), call.part("batch", first, count), stream);
    return true;
  }
  const Workspace workspace = device.workspace(stream, size_t(bytes), WorkspaceUse::SeveralLaunches);
  lay_along(device, copied, workspace.partials, stream);
  std::vector<kernels::Operand> all = call.part("batch", 0, batch);
  for (size_t i = 0; i < operands.size(); ++i)
    if (std::ranges::find(copied, &operands[i]) != copied.end())
      all[size_t(call.entry().find_operand(kNames[i]))] = tensor_of(operands[i], *tensors[i], kAxes[i]);
  run(device, call.entry(), all, stream);
  return true;
}

}  // namespace tegula::kernels::detail
