#include "runtime/package/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/launch_steps.h"

namespace tegula {

bool PackagedGrid::is_valid(size_t num_params) const {
  if (text.empty()) return steps.empty() && extents.empty();
  TensorMaps arithmetic;
  arithmetic.steps = steps;
  auto is_step = [&](int32_t e) { return e >= 0 && size_t(e) < steps.size(); };
  return extents.size() >= 1 && extents.size() <= 3 && std::all_of(extents.begin(), extents.end(), is_step) &&
         arithmetic.are_valid(num_params);
}

Grid PackagedGrid::operator()(const KernelImage& image, std::span<const Arg> args) const {
  const ArgPack pack(image, args);
  std::array<int64_t, TensorMaps::kMostSteps> numbers;
  compute_steps(steps, pack.data(), numbers);
  std::array<unsigned, 3> grid = {1, 1, 1};
  for (size_t i = 0; i < extents.size(); ++i) {
    const int64_t extent = numbers[size_t(extents[i])];
    if (extent < 0 || extent > INT32_MAX)
      throw LaunchError(fmt::format("kernel '{}': extent {} of the grid '{}' is {}, expected 0 to 2^31 - 1",
                                    image.kernel, i, text, extent));
    grid[i] = unsigned(extent);
  }
  return {grid[0], grid[1], grid[2]};
}

}  // namespace tegula
