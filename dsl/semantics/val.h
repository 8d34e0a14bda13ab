// What an expression of a front end stands for: a compile-time value, or a value of tile IR.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codegen/ir/ir.h"
#include "dsl/semantics/integer.h"

namespace tegula::dsl {

struct Val;

/// An error has been reported already: whatever is computed from it is Poison too, silently.
struct Poison {};
/// Python's None.
struct None {};
/// `lower:upper:step` as an index; what is left out is absent.
struct Slice {
  std::optional<int64_t> lower = {}, upper = {}, step = {};

  bool full() const { return !lower && !upper && !step; }
};
/// A type as a value: tl.float32, p.dtype, p.dtype.element_ty. Scalar, pointer or tile; or a block pointer's, which
/// points to a tile.
struct DType {
  ir::Type type;
  bool to_block = false;  ///< the type is that of a block pointer to tiles of `type`
};
/// A value that only host code has, such as a dictionary or a configuration of @triton.autotune; the front end knows
/// its kinds, to the semantic layer it is opaque.
struct HostObject {
  virtual ~HostObject() = default;
  /// For messages: "a dict of 3".
  virtual std::string describe() const = 0;
  virtual bool truth() const { return true; }
};
using HostRef = std::shared_ptr<const HostObject>;

/// What a named tuple, or an object of a class of the program, is beside a tuple.
struct TupleFields {
  std::string type;  ///< the name of its class
  std::vector<std::string> names;
  HostRef methods = {};  ///< of an object: its class
  bool operator==(const TupleFields& o) const { return type == o.type && names == o.names; }
};
/// (a, b), [a, b]: any mixture of values. Of a named tuple also its class and the names of its fields.
struct TupleVal {
  std::shared_ptr<const std::vector<Val>> items;
  std::shared_ptr<const TupleFields> fields = {};
  bool is_list = false;  ///< its items may change

  /// The value of a field; null if there is none of this name.
  const Val* field(std::string_view name) const;
};
/// What is known at compile time of a block pointer or a tensor descriptor.
struct BlockForm {
  enum class Kind { Pointer, Descriptor } kind;
  ir::Type block;        ///< the tile that is read or written at a time
  bool pad_nan = false;  ///< of a descriptor: elements outside of the array read as NaN, not as 0

  bool operator==(const BlockForm& o) const {
    return kind == o.kind && block.same_shape_and_elem(o.block) && pad_nan == o.pad_nan;
  }
};
/// A block pointer or a tensor descriptor: an array in global memory that is read and written in blocks of one shape.
/// Its parts are values of the kernel: the pointer to the array's first element; the array's extents and its strides in
/// elements, one a dimension; of a block pointer also where the block begins (int64). Extents and strides of a block
/// pointer are int64, extents of a descriptor int32 or int64.
struct BlockView {
  std::shared_ptr<const BlockForm> form;
  std::shared_ptr<const std::vector<Val>> parts;

  bool is_pointer() const { return form->kind == BlockForm::Kind::Pointer; }
  int rank() const { return form->block.rank(); }
  ir::Value* base() const;
  ir::Value* extent(int axis) const;
  ir::Value* stride(int axis) const;
  ir::Value* offset(int axis) const;  ///< of a block pointer
};
/// A function as a value: one of the tables' functions (by its name there) or a jit function of a program, by pointer
/// to its syntax tree and the module that it was found in; or a module ("tl", "tl.math").
struct FunctionRef {
  enum class Kind { Builtin, Jit, Module } kind;
  std::string name;
  const void* function = nullptr;
  const void* module = nullptr;
};

struct Val {
  std::variant<Poison, None, Slice, bool, Int, double, std::string, DType, TupleVal, BlockView, FunctionRef, HostRef,
               ir::Value*>
      v;
  /// Of a number, a scalar of the kernel whose value is known, as Triton makes one of what is assigned to a name: it
  /// has the type that its value has by itself (int32, float32, ...) and computes in it, also at compile time. Other
  /// numbers are literals and constexprs: Python's among themselves, and where they meet a value they take its type.
  bool typed = false;

  Val() : v(Poison{}) {}
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Val>) Val(T&& x)
      : v(std::forward<T>(x)) {}  // NOLINT: implicit on purpose

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(v);
  }
  template <class T>
  const T& as() const {
    return std::get<T>(v);
  }
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&v);
  }

  bool is_poison() const { return is<Poison>(); }
  bool is_value() const { return is<ir::Value*>(); }
  /// Known at compile time (poison, IR values, block pointers and descriptors are not).
  bool is_constant() const { return !is_value() && !is_poison() && !is<BlockView>(); }
  ir::Value* value() const { return is_value() ? as<ir::Value*>() : nullptr; }
};

inline Val make_tuple(std::vector<Val> items, std::shared_ptr<const TupleFields> fields = {}) {
  return Val(TupleVal{std::make_shared<const std::vector<Val>>(std::move(items)), std::move(fields)});
}
inline Val make_list(std::vector<Val> items) {
  return Val(TupleVal{std::make_shared<std::vector<Val>>(std::move(items)), {}, true});
}
/// Other items in a tuple or list like `form`.
inline Val with_items(const TupleVal& form, std::vector<Val> items) {
  return Val(TupleVal{std::make_shared<std::vector<Val>>(std::move(items)), form.fields, form.is_list});
}

inline const Val* TupleVal::field(std::string_view name) const {
  for (size_t i = 0; fields && i < fields->names.size(); ++i)
    if (fields->names[i] == name) return &(*items)[i];
  return nullptr;
}

inline ir::Value* BlockView::base() const { return parts->front().value(); }
inline ir::Value* BlockView::extent(int axis) const { return (*parts)[size_t(1 + axis)].value(); }
inline ir::Value* BlockView::stride(int axis) const { return (*parts)[size_t(1 + rank() + axis)].value(); }
inline ir::Value* BlockView::offset(int axis) const { return (*parts)[size_t(1 + 2 * rank() + axis)].value(); }

}  // namespace tegula::dsl
