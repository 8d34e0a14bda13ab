// Recognises tiles of pointers that are boxes of an array, which bulk copies can move.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/polynomial.h"
#include "codegen/ir/ir.h"

namespace tegula {

/// A dimension of an array; the tile's elements begin at coordinate `start`.
struct AffineDim {
  int axis;                          ///< of the tile, that runs along it; -1: none, one coordinate of it is in the tile
  Polynomial stride;                 ///< elements; 1 for the dimension whose elements lie side by side
  Polynomial start;                  ///< never negative, or the mask does not hold there
  std::optional<Polynomial> extent;  ///< the mask holds below it; none: it does not ask
  bool bounded = false;              ///< the mask says where it begins or ends
};

/// A number that the host computes, which must be positive and a multiple of another one.
struct Multiple {
  Polynomial number;
  int64_t of;
  bool operator==(const Multiple&) const = default;
};

/// The tile whose element (i, j, ...) has the address base + sum of (start + i) * stride and exists if start + i <
/// extent along every dimension and all `conditions`, scalars, hold. The host can compute base, strides and extents
/// from parameters.
struct AffineTile {
  const ir::Value* base;  ///< a parameter
  Polynomial base_offset;
  std::vector<AffineDim>
      dims;  ///< one for each axis whose extent is not 1, the contiguous one last; before them others
  std::vector<const ir::Value*> conditions;
  std::vector<const ir::Value*> not_negative;  ///< parameters: if one is, starts may be negative
  std::vector<Multiple> multiples;             ///< else elements may lie elsewhere
  std::vector<Polynomial> long_strides;  ///< of kLongStride bytes at least, or coordinates may not reach all memory

  /// Whether the mask may leave out all of a tile.
  bool may_lie_outside() const;
};

/// Dimensions whose starts may be negative are counted from kOrigin on, in an array that begins kOrigin strides
/// earlier, so that coordinates from -kOrigin to kOrigin are valid. With strides of kLongStride bytes that covers more
/// than a GPU's memory.
inline constexpr int64_t kOrigin = int64_t(1) << 30, kLongStride = 256;

/// `of % modulus`, an unknown that replaces the (of + i) % modulus of a tile: the latter equals of % modulus + i if
/// `multiple_of`, the number of i's, divides both.
struct Remainder {
  Polynomial of, modulus;
  int64_t multiple_of;
  Elem elem;  ///< that the program computes it in
};

/// Finds such tiles. The unknowns of all its polynomials are scalars of the function, including values that loops
/// carry.
class AffineTiles {
 public:
  explicit AffineTiles(const ir::Func& func) : func_(func), axes_(func) {}

  /// The tile that the pointers and the mask (null: none) describe, or the reason why bulk copies cannot move it.
  /// Strides, the base and the start within a row must be multiples of 16 bytes.
  std::variant<AffineTile, std::string> tile_of(const ir::Value* pointers, const ir::Value* mask);
  /// The polynomial that an integer scalar equals; nullopt if its computation cannot be followed.
  std::optional<Polynomial> polynomial_of(const ir::Value* scalar);
  /// A divisor of the polynomial's value.
  int64_t divisor(const Polynomial& p) const;
  /// The scalar that an unknown stands for; null if it is a remainder.
  const ir::Value* unknown(int number) const { return unknowns_[size_t(number)]; }
  /// The remainder that an unknown stands for; null if it is a scalar.
  const Remainder* remainder(int number) const {
    const auto at = remainders_.find(number);
    return at == remainders_.end() ? nullptr : &at->second;
  }

 private:
  // A tile of integers, or of pointers relative to `base`: first + sum of i * steps[axis].
  struct Form {
    const ir::Value* base = nullptr;
    Polynomial first;
    std::vector<Polynomial> steps;
  };
  // The conditions under which a mask is true: all polynomials in `below` are negative, and all scalar conditions true.
  struct Bounds {
    std::vector<Form> below;
    std::vector<const ir::Value*> conditions;
  };
  // What the mask says of an axis: an element exists if start + i is below `upper` and lower + i is not negative.
  struct AxisBounds {
    std::optional<Polynomial> start, upper, lower;
  };
  using MaybeForm = std::optional<Form>;

  const MaybeForm& form_of(const ir::Value* v);
  MaybeForm find_form(const ir::Value* v);
  MaybeForm form_of_argument(const ir::Value* v);
  MaybeForm form_of_op(const ir::Op& op);
  MaybeForm sum(const MaybeForm& a, const MaybeForm& b) const;
  MaybeForm product(const MaybeForm& a, const MaybeForm& b) const;
  MaybeForm remainder_form(const ir::Op& op);
  static Form reshaped(const ir::Op& op, Form form);
  Form unknown_scalar(const ir::Value* v);
  int make_up(Remainder remainder);

  bool add_bounds(const ir::Value* mask, Bounds& bounds);
  bool add_comparison(const ir::Op& op, Bounds& bounds);
  std::string split_bounds(const Bounds& bounds, const ir::Type& tile, std::vector<AxisBounds>& out) const;

  std::string place_axes(const Form& form, const ir::Type& tile, const std::vector<AxisBounds>& bounds,
                         AffineTile& out);
  void place_term(const Polynomial& term, AffineTile& out) const;
  /// Whether that many elements of the tile's array take a multiple of 16 bytes.
  bool keeps_alignment(const Polynomial& distance, const AffineTile& tile) const;
  std::string check(const AffineTile& tile) const;
  std::string check_starts(AffineTile& tile, const std::vector<AxisBounds>& bounds);
  std::string count_from_origin(AffineDim& dim, AffineTile& tile) const;

  void for_each_scalar(const Polynomial& p, const std::function<void(const ir::Value*)>& act) const;
  void add_multiples(const Polynomial& p, std::vector<Multiple>& out) const;
  bool is_host(const Polynomial& p) const;
  bool is_non_negative(const Polynomial& p, const AxisQuery& axes) const;
  /// The facts that hold if no parameter is negative.
  const AxisQuery& if_positive();

  const ir::Func& func_;
  AxisQuery axes_;
  std::optional<AxisQuery> if_positive_;
  std::unordered_map<const ir::Value*, MaybeForm> forms_;
  std::unordered_map<const ir::Value*, int> numbers_;
  std::vector<const ir::Value*> unknowns_;
  std::unordered_map<int, Remainder> remainders_;  // unknowns that are no scalars of the function
};

}  // namespace tegula
