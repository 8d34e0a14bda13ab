// Types of tile IR values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/layout/linear_layout.h"
#include "runtime/base/elem.h"

namespace tegula::ir {

using Shape = std::vector<int64_t>;

/// How the copies behind a token complete: as a group of their thread, or with a phase of a barrier in shared memory.
enum class Completion : uint8_t { None, Group, Barrier };

/// What a value is, and where it is.
enum class Kind : uint8_t {
  Data,      ///< a scalar (rank 0) or a tile, in registers
  Place,     ///< room for a tile in shared memory
  InFlight,  ///< the sums of asynchronous products under way: registers that nothing may touch before mma_wait
  Token,     ///< asynchronous copies under way
  Map,       ///< an array in global memory as bulk copies see it; the shape is that of the box that one of them moves
};

/// The type of a value: its kind; the elements, numbers or pointers to numbers in global memory; the shape.
/// After the pass assign_layouts every tile has a layout, (register, lane, warp) -> coordinates, and every place one
/// from the offset in elements. Text: f32, ptr<f32>, tile<16x32xf32>, tile<1024xptr<f16>>, shared<64x64xf16>,
/// in_flight<64x64xf32>, token<group>, tensor_map<1x64x64xf16>, tile<1024xf32, #0> (layout alias 0 of the function).
struct Type {
  Elem elem = Elem::I32;
  bool pointer = false;
  Shape shape;
  LayoutRef layout;
  Kind kind = Kind::Data;
  Completion completion = Completion::None;  ///< of a token

  static Type scalar(Elem elem) { return {elem, false, {}, nullptr}; }
  static Type pointer_to(Elem elem) { return {elem, true, {}, nullptr}; }
  static Type tile(Elem elem, Shape shape) { return {elem, false, std::move(shape), nullptr}; }
  static Type place(Elem elem, Shape shape) { return {elem, false, std::move(shape), nullptr, Kind::Place}; }

  static Type map(Elem elem, Shape box) { return {elem, false, std::move(box), nullptr, Kind::Map}; }

  static Type token(Completion completion) { return {Elem::I32, false, {}, nullptr, Kind::Token, completion}; }

  bool is_token() const { return kind == Kind::Token; }
  bool is_place() const { return kind == Kind::Place; }
  bool is_in_flight() const { return kind == Kind::InFlight; }
  bool is_map() const { return kind == Kind::Map; }
  bool is_tile() const { return !shape.empty() && !is_place() && !is_map(); }  ///< of registers, those in flight too
  bool is_scalar() const { return shape.empty(); }                             ///< tokens too
  int rank() const { return int(shape.size()); }
  int64_t num_elements() const;
  bool is_float() const { return !pointer && tegula::is_float(elem); }
  bool is_integer() const { return !pointer && !is_token() && tegula::is_integer(elem); }  ///< i1 included
  bool is_bool() const { return !pointer && elem == Elem::I1; }
  /// Bits of one element as held in registers: 64 for pointers.
  int bits() const { return pointer ? 64 : elem_bits(elem); }

  Type with_elem(Elem e) const { return {e, false, shape, layout, kind}; }
  Type with_shape(Shape s) const { return {elem, pointer, std::move(s), nullptr, kind}; }
  Type with_layout(LayoutRef l) const { return {elem, pointer, shape, std::move(l), kind}; }
  Type with_kind(Kind k) const { return {elem, pointer, shape, layout, k}; }
  Type element() const { return {elem, pointer, {}, nullptr}; }

  /// Same element type and shape, whatever the layout.
  bool same_shape_and_elem(const Type& o) const {
    return elem == o.elem && pointer == o.pointer && shape == o.shape && kind == o.kind && completion == o.completion;
  }
  /// Equal in all, layouts compared by content.
  bool operator==(const Type& o) const;

  /// "f32", "tile<16x32xf32>": without the layout.
  std::string to_string() const;
};

std::string shape_to_string(const Shape& shape);  ///< "[16, 32]"

}  // namespace tegula::ir
