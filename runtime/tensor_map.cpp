#include "runtime/tensor_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/launch_steps.h"

namespace tegula {

namespace {

constexpr uint64_t kBaseAlignment = 16;
constexpr int64_t kStrideAlignment = 16, kStrideLimit = int64_t(1) << 40;
constexpr int64_t kMostExtent = 0x7fff0000;  // what coordinates of 32 bits reach, a box beyond it included

// `value` as an element of the type has it: its low bits, extended by its sign or by zeros.
int64_t wrapped(int64_t value, Elem elem) {
  const int unused = 64 - elem_bits(elem);
  if (unused == 0) return value;
  const uint64_t high = uint64_t(value) << unused;
  return is_signed(elem) ? int64_t(high) >> unused : int64_t(high >> unused);
}

int64_t argument(const void* slot, Elem elem) {
  uint64_t bits = 0;
  std::memcpy(&bits, slot, size_t(elem_bytes(elem)));
  return wrapped(int64_t(bits), elem);
}

bool less(int64_t a, int64_t b, Elem elem) { return is_unsigned(elem) ? uint64_t(a) < uint64_t(b) : a < b; }

// Division by zero gives 0, as good as any number.
int64_t divided(int64_t a, int64_t b, Elem elem, bool remainder) {
  if (b == 0) return 0;
  if (is_unsigned(elem)) return int64_t(remainder ? uint64_t(a) % uint64_t(b) : uint64_t(a) / uint64_t(b));
  if (b == -1) return remainder ? 0 : int64_t(0 - uint64_t(a));
  return remainder ? a % b : a / b;
}

// `elem` is the type of the operands, that of the result but for casts.
int64_t result(LaunchStep::Kind kind, Elem elem, int64_t a, int64_t b) {
  switch (kind) {
    case LaunchStep::Add:
      return int64_t(uint64_t(a) + uint64_t(b));
    case LaunchStep::Sub:
      return int64_t(uint64_t(a) - uint64_t(b));
    case LaunchStep::Mul:
      return int64_t(uint64_t(a) * uint64_t(b));
    case LaunchStep::Div:
      return divided(a, b, elem, false);
    case LaunchStep::Rem:
      return divided(a, b, elem, true);
    case LaunchStep::Minimum:
      return less(a, b, elem) ? a : b;
    case LaunchStep::Maximum:
      return less(a, b, elem) ? b : a;
    default:
      return a;
  }
}

using Numbers = std::array<int64_t, TensorMaps::kMostSteps>;

}  // namespace

void compute_steps(std::span<const LaunchStep> steps, void* const* args, std::span<int64_t> numbers) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const LaunchStep& step = steps[i];
    int64_t value = step.number;
    if (step.kind == LaunchStep::Argument) {
      value = argument(args[step.number], step.elem);
    } else if (step.kind != LaunchStep::Constant) {
      const auto [a, b] = step.operands;
      value = result(step.kind, steps[size_t(a)].elem, numbers[size_t(a)], numbers[size_t(b)]);
    }
    numbers[i] = wrapped(value, step.elem);
  }
}

namespace {

MappedArray array_of(const ImageTensorMap& map, const Numbers& numbers) {
  MappedArray array;
  array.base = uint64_t(numbers[size_t(map.base)]);
  for (size_t d = 0; d < map.extents.size(); ++d) array.extents[d] = numbers[size_t(map.extents[d])];
  // A stride whose bytes are no int64 is out of range in elements as well.
  for (size_t d = 0; d < map.strides.size(); ++d)
    array.strides[d] = std::clamp(numbers[size_t(map.strides[d])], -kStrideLimit, kStrideLimit) * elem_bytes(map.elem);
  return array;
}

// The first number that must not be negative and is; null if there is none.
const int64_t* negative(const ImageTensorMap& map, const Numbers& numbers) {
  for (int32_t step : map.non_negative)
    if (numbers[size_t(step)] < 0) return &numbers[size_t(step)];
  return nullptr;
}

bool has_map(const MappedArray& array, int rank) {
  if (array.base % kBaseAlignment || !array.base) return false;
  for (int d = 0; d < rank; ++d)
    if (array.extents[size_t(d)] <= 0 || array.extents[size_t(d)] > kMostExtent) return false;
  for (int d = 0; d < rank - 1; ++d)
    if (const int64_t bytes = array.strides[size_t(d)]; bytes <= 0 || bytes >= kStrideLimit || bytes % kStrideAlignment)
      return false;
  return true;
}

std::string why_no_map(const MappedArray& array, int rank) {
  if (!array.base) return "its address is null";
  if (array.base % kBaseAlignment)
    return fmt::format("its address {:#x} is not a multiple of {}", array.base, kBaseAlignment);
  for (int d = 0; d < rank; ++d)
    if (const int64_t extent = array.extents[size_t(d)]; extent <= 0 || extent > kMostExtent)
      return fmt::format("dimension {} has the extent {}, expected 1 to {}", rank - 1 - d, extent, kMostExtent);
  for (int d = 0; d < rank - 1; ++d)
    if (const int64_t bytes = array.strides[size_t(d)]; bytes <= 0 || bytes >= kStrideLimit || bytes % kStrideAlignment)
      return fmt::format("dimension {} has a stride of {} bytes, expected a multiple of {} above 0 and below {}",
                         rank - 2 - d, bytes, kStrideAlignment, kStrideLimit);
  return {};
}

}  // namespace

int ImageTensorMap::rank() const { return int(box.size()); }
bool TensorMaps::empty() const { return maps.empty(); }

bool TensorMaps::are_valid(size_t num_params) const {
  if (maps.size() > kMost || steps.size() > kMostSteps) return false;
  for (size_t i = 0; i < steps.size(); ++i) {
    const LaunchStep& step = steps[i];
    if (step.kind >= LaunchStep::kCount || is_float(step.elem)) return false;
    if (step.kind == LaunchStep::Argument && uint64_t(step.number) >= num_params) return false;
    const bool computes = step.kind != LaunchStep::Argument && step.kind != LaunchStep::Constant;
    for (int32_t operand : step.operands)
      if (operand < 0 || (computes && size_t(operand) >= i)) return false;
  }
  auto is_step = [&](int32_t index) { return index >= 0 && size_t(index) < steps.size(); };
  return std::all_of(maps.begin(), maps.end(), [&](const ImageTensorMap& map) {
    return map.rank() >= 1 && map.rank() <= kMaxMapRank && map.extents.size() == map.box.size() &&
           map.strides.size() == map.box.size() - 1 && is_step(map.base) &&
           std::all_of(map.extents.begin(), map.extents.end(), is_step) &&
           std::all_of(map.strides.begin(), map.strides.end(), is_step) &&
           std::all_of(map.non_negative.begin(), map.non_negative.end(), is_step);
  });
}

const uint64_t* TensorMaps::must_begin_within(const ImageTensorMap& map, void* const* args) const {
  const LaunchStep* step = &steps[size_t(map.base)];
  if (!map.may_lie_outside || step->kind == LaunchStep::Argument) return nullptr;
  // What is added to an address stands behind it.
  while (step->kind != LaunchStep::Argument && step->kind != LaunchStep::Constant)
    step = &steps[size_t(step->operands[0])];
  return step->kind == LaunchStep::Argument ? static_cast<const uint64_t*>(args[step->number]) : nullptr;
}

bool find_arrays(const TensorMaps& maps, void* const* args, MappedArray* arrays) {
  Numbers numbers;
  compute_steps(maps.steps, args, numbers);
  for (size_t i = 0; i < maps.maps.size(); ++i) {
    arrays[i] = array_of(maps.maps[i], numbers);
    if (!has_map(arrays[i], maps.maps[i].rank()) || negative(maps.maps[i], numbers)) return false;
  }
  return true;
}

std::string why_no_maps(const TensorMaps& maps, void* const* args) {
  Numbers numbers;
  compute_steps(maps.steps, args, numbers);
  for (size_t i = 0; i < maps.maps.size(); ++i) {
    if (std::string why = why_no_map(array_of(maps.maps[i], numbers), maps.maps[i].rank()); !why.empty())
      return fmt::format("array {}: {}", i, why);
    if (const int64_t* number = negative(maps.maps[i], numbers))
      return fmt::format("array {}: {} takes part in its coordinates, expected no negative number", i, *number);
  }
  return {};
}

}  // namespace tegula
