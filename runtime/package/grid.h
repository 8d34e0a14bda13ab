// The grid of a packaged kernel as a function of its arguments, so that programs need not know how it follows from what
// is compiled in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/launch.h"

namespace tegula {

struct PackagedGrid {
  std::string text;                   ///< as it was given: "cdiv(n, BLOCK)"; empty: there is none
  std::vector<LaunchStep> steps;      ///< arguments are those of the code, by position
  std::vector<int32_t> extents = {};  ///< steps: 1 to 3
  bool operator==(const PackagedGrid&) const = default;

  explicit operator bool() const { return !text.empty(); }
  /// Whether steps name earlier steps and `num_params` arguments alone, and extents steps.
  bool is_valid(size_t num_params) const;
  /// The grid for arguments that a launch of `image` takes. Throws LaunchError: they do not fit it, or an extent is
  /// below 0 or past 2^31 - 1.
  Grid operator()(const KernelImage& image, std::span<const Arg> args) const;
};

}  // namespace tegula
