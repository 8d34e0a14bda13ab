// Facts about the elements of an integer or pointer tile, axis by axis.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/layout/coordinates.h"

namespace tegula {

/// For each axis (scalars have one, of extent 1), along it and in aligned groups of that many elements:
/// contiguity: the elements are consecutive (bytes/size for pointers);
/// divisibility: the first element of each contiguous group is a multiple of it (bytes for pointers);
/// constancy: the elements are equal. All are powers of two, so that a splat of 192 elements shows groups of 64.
struct AxisInfo {
  using PerAxis = ShortList<int64_t, 3>;
  PerAxis contiguity;
  PerAxis divisibility;
  PerAxis constancy;
  std::optional<int64_t> constant;  ///< every element has this value
  /// No element is negative. Presumes sane index arithmetic: that it does not overflow 32 bits, and that a scalar which
  /// is not negative is divided by a positive one unless that is a constant (nothing in a kernel tells the sign of the
  /// rows left in the last group of a grouped order). What wraps around at a bound (`%`) is contiguous only because of
  /// this.
  bool non_negative = false;

  /// Elements in an aligned group, each `stride` more than the one before (bytes for pointers); or as many equal ones,
  /// `repeats`, `stride` more than as many before, as words of numbers of 4 bits that each number has loaded.
  struct Run {
    int64_t stride = 0;
    int64_t length = 1;
    int64_t repeats = 1;
    /// The difference between element `i` and the first one.
    int64_t at(int64_t i) const { return i / repeats * stride; }
    bool operator==(const Run&) const = default;
  };
  /// For each axis, the longest known run whose stride neither contiguity nor constancy describes; empty if none is
  /// known. The cost of columns that lie 256 bytes apart follows from it.
  std::vector<Run> strided = {};

  bool operator==(const AxisInfo&) const = default;
};

/// What AxisAnalysis takes for given beside the ops.
struct AxisPremises {
  bool no_negative_parameters = false;  ///< facts are those of launches with none
  bool promises = true;                 ///< what `hint` says of runs and divisors
  /// What a launch's parameters are multiples of, beside what the function tells. Null: nothing more.
  const std::unordered_map<const ir::Value*, int64_t>* divisors = nullptr;
};

/// Facts for all values of a function by abstract interpretation to a fixed point over its loops.
class AxisAnalysis {
 public:
  explicit AxisAnalysis(const ir::Func& func, AxisPremises premises = {});
  const AxisInfo& info(const ir::Value* value) const;

  /// Facts about the elements where the mask is true (null: all elements). They follow through divisions and remainders
  /// too, if the mask keeps the dividend from being negative. Facts about groups hold for groups in which the mask is
  /// constant.
  AxisInfo info(const ir::Value* value, const ir::Value* mask) const;

  /// The number of elements along `axis` that one aligned access of this pointer tile can cover (at most 16 bytes),
  /// under the mask (null: none).
  int vector_width(const ir::Value* ptr, const ir::Value* mask, int axis) const;

 private:
  std::unordered_map<const ir::Value*, AxisInfo> info_;
  AxisPremises premises_;
};

/// Whether the program promises runs or divisors (tl.multiple_of, tl.max_contiguous, tl.max_constancy).
bool has_promises(const ir::Func& func);

/// The same facts, each found when it is first asked for, from what the value follows from: of a long function's few
/// values, whose number of ops does not matter then. What a value follows from must not change before it is asked for.
class AxisQuery {
 public:
  explicit AxisQuery(const ir::Func& func, AxisPremises premises = {});
  const AxisInfo& info(const ir::Value* value) const;

 private:
  const ir::Func& func_;
  mutable std::unordered_map<const ir::Value*, AxisInfo> info_;
  AxisPremises premises_;
};

/// Axes by contiguity of the pointers, the most contiguous first; then those along which elements lie nearest to each
/// other, as far as that is known, or else usually (UsualDistances); the last axis wins a tie.
std::vector<int> fastest_axes(const AxisInfo& pointers, const std::vector<int64_t>& usual_distances);

}  // namespace tegula
