// Tensor maps: descriptions of arrays in global memory by which bulk copies move boxes of them. Code that copies in
// bulk takes them as parameters after its arguments, and each launch makes them from these arguments.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/elem.h"

namespace tegula {

/// The most dimensions of an array that a map describes.
inline constexpr int kMaxMapRank = 5;

/// A step of the integer arithmetic that computes numbers that a launch needs from its arguments.
struct LaunchStep {
  enum Kind : uint8_t {
    Constant,
    Argument,
    Add,
    Sub,
    Mul,
    Div,  ///< truncates
    Rem,  ///< has the sign of the first operand
    Minimum,
    Maximum,
    Cast,
    kCount
  };
  Kind kind = Constant;
  Elem elem = Elem::I64;                 ///< the result is wrapped to it; addresses are u64
  std::array<int32_t, 2> operands = {};  ///< earlier steps; of a cast the first one counts
  int64_t number = 0;                    ///< Constant: its value; Argument: which one of KernelImage::params

  bool operator==(const LaunchStep&) const;
};

/// How a launch makes one map.
struct ImageTensorMap {
  Elem elem = Elem::F16;
  int32_t swizzle = 0;           ///< bytes of a box's row in which groups of 16 change places: 0, 32, 64 or 128
  std::vector<int32_t> box;      ///< elements that one copy moves along each dimension, the fastest first
  int32_t base = 0;              ///< the step that gives the array's address
  std::vector<int32_t> extents;  ///< steps that give the extents, the fastest first
  std::vector<int32_t> strides;  ///< of all dimensions but the fastest, in elements
  std::vector<int32_t> non_negative = {};  ///< steps: where one is negative, the code's coordinates are not right
  /// Boxes may lie outside of the array altogether. A GPU looks at the array's begin then: it has to be memory.
  bool may_lie_outside = false;

  int rank() const;
  bool operator==(const ImageTensorMap&) const;
};

/// The tensor maps of a kernel and the arithmetic behind them.
struct TensorMaps {
  /// The limits of a launch.
  static constexpr size_t kMost = 16, kMostSteps = 256;

  std::vector<LaunchStep> steps;
  std::vector<ImageTensorMap> maps;

  bool empty() const;
  /// Whether steps and maps name earlier steps and `num_params` arguments alone, and are not too many.
  bool are_valid(size_t num_params) const;
  /// The argument from whose memory the map's array must not begin elsewhere, which the launch has to ask for: where it
  /// is not that begin itself, the begin may be anywhere, though no element there is accessed. Null: it may.
  const uint64_t* must_begin_within(const ImageTensorMap& map, void* const* args) const;
  bool operator==(const TensorMaps&) const;
};

/// An array as a launch found it; the fastest dimension first, unused ones 0.
struct MappedArray {
  uint64_t base = 0;
  std::array<int64_t, kMaxMapRank> extents = {};
  std::array<int64_t, kMaxMapRank - 1> strides = {};  ///< in bytes, from the second dimension on
  bool operator==(const MappedArray&) const;
};

/// The arrays of all maps of a launch with these arguments (as LoadedKernel::launch takes them), into `arrays`, which
/// has room for as many; false where one of them allows no map. Neither locks nor allocates. The device looks where
/// they begin (must_begin_within).
bool find_arrays(const TensorMaps& maps, void* const* args, MappedArray* arrays);

/// Why the arguments allow no map, as a sentence that goes on after "array 1: "; empty where they do.
std::string why_no_maps(const TensorMaps& maps, void* const* args);

}  // namespace tegula
