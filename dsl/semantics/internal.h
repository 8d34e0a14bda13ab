// What the files of the semantic layer share.
#pragma once

#include <optional>
#include <utility>

#include "dsl/semantics/sema.h"

namespace tegula::dsl {

/// The type Triton gives a literal that stands alone: int1, int32, uint32, int64, uint64, float32, float64.
Elem literal_type(const Val& x);
/// False after an error: no type has a number that large.
bool check_literal(Sema& s, const Val& literal);
/// Whether a number can be had in `elem` as it is: the range of integers.
bool literal_fits(const Val& literal, Elem elem);
/// The type in which two operands are combined, `literal` ones of which take the other's where they can; nullopt where
/// there is none: integers differ in sign and a division minds, or a float8 meets an integer.
std::optional<Elem> computation_type(Elem a, bool a_literal, Elem b, bool b_literal, bool division);
/// binary(), compare() and unary() of numbers of which one is typed: in the type that both come to, where integers wrap
/// around, quotients of integers are rounded toward zero and floats to float32. The result is a typed number if its
/// value says that type, too, else a scalar.
Val binary_of_typed(Sema& s, std::string_view op, const Val& lhs, const Val& rhs);
Val compare_typed(Sema& s, std::string_view op, const Val& lhs, const Val& rhs);
Val unary_of_typed(Sema& s, std::string_view op, const Val& x);
/// The first of two numbers in the type that a choice between both has.
Val in_common_type(Sema& s, const Val& chosen, const Val& other);
/// A number as it is in the type that it has by itself: most floats have float32's digits.
Val in_own_type(const Val& number);
/// A number as a constant of `type`, scalar or splat; integers wrap.
ir::Value* constant(Sema& s, const ir::Type& type, const Val& literal);
/// x itself, or float32 for a bfloat16.
ir::Value* widen_bfloat16(Sema& s, ir::Value* x);
/// x with another element type; pointers and equal types stay.
ir::Value* cast_to(Sema& s, ir::Value* x, Elem elem);
/// False after an error: float8 has no arithmetic.
bool check_arithmetic(Sema& s, std::string_view function, const ir::Value* x);
/// Whether an argument such as `reverse` is set: a bool or an integer known at compile time; nullopt after an error.
std::optional<bool> to_flag(Sema& s, const Val& x, std::string_view what);
/// x != 0 as i1; null after an error (a pointer is compared with null).
ir::Value* to_bool(Sema& s, ir::Value* x);

/// Brings two values to one shape: scalars are splat, missing leading dimensions added, extents of 1 repeated. False
/// after an error that shows both shapes.
bool broadcast_pair(Sema& s, ir::Value*& a, ir::Value*& b);
/// x repeated to `shape`; null after an error.
ir::Value* broadcast_value(Sema& s, ir::Value* x, const ir::Shape& shape);

struct OperandRules {
  bool pointers = false;  ///< two pointers to the same type may meet
  bool float8 = false;    ///< the operation does not compute
  /// A literal is a value of its own type first, as in Triton's comparisons: an int8 meets 300 in int32.
  bool typed_literals = false;
  bool division = false;  ///< fp16 and bf16 compute in fp32; integers of different sign are refused
};
/// Both operands as IR values of one element type and shape; nullopt after an error that names `op`.
std::optional<std::pair<ir::Value*, ir::Value*>> operands(Sema& s, std::string_view op, const Val& lhs, const Val& rhs,
                                                          OperandRules rules);

/// Hints for a pointer where a number is wanted, and for a float where an integer is: they name the argument of the
/// launch that it is, or is computed from, as arguments are easily given in another order.
std::string hint_for_pointer(const ir::Value* pointer);
std::string hint_for_float(const ir::Value* number);

/// The start of a hint for an extent that no tile has: those below and above that one can have.
std::string next_extents(int64_t extent);
/// A compile-time shape from a tuple or list of ints, checked: extents that tiles have, at most 2^20 elements.
std::optional<ir::Shape> to_shape(Sema& s, const Val& shape, std::string_view function);
/// The same from varargs: `reshape(x, 2, 4)` and `reshape(x, (2, 4))`.
std::optional<ir::Shape> to_shape_varargs(Sema& s, const Val& rest, std::string_view function);
/// x itself, unless it is a tile of more dimensions than tiles have: an error that names `function`.
Val checked_rank(Sema& s, Val x, std::string_view function);
/// A compile-time axis in [0, rank), negative counted from the end.
std::optional<int> to_axis(Sema& s, const Val& axis, int rank, std::string_view function);
/// A compile-time integer of 64 bits.
std::optional<int64_t> to_int(Sema& s, const Val& x, std::string_view what);
std::optional<Elem> to_elem(Sema& s, const Val& x, std::string_view what);

/// An operand of the function `info` as a value, if it takes its type: as in Triton, transcendental functions take
/// float32 and float64 only. Null after an error that names `function`.
ir::Value* math_operand(Sema& s, const Val& x, const char* function, const ir::OpInfo& info);

/// A function of libdevice, by its name there.
Val call_libdevice(Sema& s, std::string_view name, std::span<const Val> args);

/// In Triton's debug mode: asserts that what tl.assume promises holds, and that an index of run time lies in its axis.
void assert_promised(Sema& s, ir::Value* condition);
void assert_within(Sema& s, ir::Value* index, int64_t extent, int axis);
/// In Triton's debug mode: an assert that a + b, a - b or a * b of integers of less than 64 bits has no more bits.
void assert_no_overflow(Sema& s, std::string_view op, ir::Value* a, ir::Value* b);
/// None of these until this ends, if `off`: for what the language computes itself, and where a kernel asks for that.
class WithoutOverflowAsserts {
 public:
  explicit WithoutOverflowAsserts(Sema& s, bool off = true) : s_(s), before_(s.sanitizes_overflow) {
    if (off) s.sanitizes_overflow = false;
  }
  ~WithoutOverflowAsserts() { s_.sanitizes_overflow = before_; }
  WithoutOverflowAsserts(const WithoutOverflowAsserts&) = delete;

 private:
  Sema& s_;
  bool before_;
};

/// The element of a tile of one, as a scalar; scalars stay. Null after an error that names `function`.
ir::Value* single_element(Sema& s, ir::Value* x, std::string_view function = "item");

/// False after an error: `function` (reduce, ...) calls the function of this name for elements, so the ops of its
/// region are scalar ones that touch no memory. What neither an op nor `results` need is removed first.
bool check_elements_region(Sema& s, ir::Block& region, const std::vector<ir::Value*>& results, std::string_view name,
                           const char* function);

/// max, min or sum along an axis, as the functions of that name do it (for softmax).
Val reduce_named(Sema& s, std::string_view name, const Val& x, int axis, bool keep_dims);

using Args = std::span<const Val>;
#define TEGULA_FN(name, params, method, doc) Val fn_##name(Sema& s, Args args);
#define TEGULA_DESCRIPTOR_METHOD(name, params, doc) Val descriptor_##name(Sema& s, Args args);
#include "dsl/semantics/functions.def"

}  // namespace tegula::dsl
