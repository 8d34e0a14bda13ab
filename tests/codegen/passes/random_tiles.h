// What random functions of tile IR are made of: their parameters, tiles that they load, and where they store. All
// numbers are small integers, so that every type of a product computes them exactly.
#pragma once

#include <cstdint>
#include <random>
#include <utility>

#include "codegen/ir/builder.h"

namespace tegula {

constexpr int kPrograms = 2, kTiles = 5;
constexpr int64_t kInput = 1 << 17;     // elements of each operand of products in memory
constexpr int64_t kIntegers = 1 << 14;  // and of the integers
constexpr int64_t kMostSteps = 4;       // iterations of a product's loop
constexpr int64_t kMostInput = 2;       // the largest magnitude of an operand in memory
constexpr int64_t kThreadsOfWarp = 32;
constexpr int64_t kFewElements = 16;            // of a tile that a thread has
constexpr int64_t kSlot = 64 * 64, kSlots = 4;  // of the output: the largest tile, tiles that a round stores

class RandomTiles {
 protected:
  using Value = ir::Value;
  using Builder = ir::Builder;
  using Type = ir::Type;
  using Shape = ir::Shape;

  RandomTiles(unsigned seed) : random_(seed) {}

  /// Declares the parameters, with operands of products of that type.
  void declare(Elem operands) {
    a_ = func_.add_param(Type::pointer_to(operands), "a", 16);
    b_ = func_.add_param(Type::pointer_to(operands), "b", 16);
    x_ = func_.add_param(Type::pointer_to(Elem::I32), "x", pick(2) ? 16 : 4);
    out_ = func_.add_param(Type::pointer_to(Elem::I32), "out", 16);
    n_ = func_.add_param(Type::scalar(Elem::I32), "n", 1);
    steps_ = func_.add_param(Type::scalar(Elem::I32), "steps", 1);
    wrap_ = func_.add_param(Type::scalar(Elem::I32), "wrap", 16);
  }

  int pick(int n) { return int(random_() % unsigned(n)); }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[pick(int(list.size()))];
  }
  static Value* number(Builder& at, int64_t n) { return at.constant(Type::scalar(Elem::I32), n); }
  static Value* all(Builder& at, int64_t n, const Shape& shape) { return of_type(at, n, Type::tile(Elem::I32, shape)); }
  static Value* of_type(Builder& at, int64_t n, const Type& type) {
    return elem_info(type.elem).kind == ElemKind::Float ? at.constant_float(type, double(n)) : at.constant(type, n);
  }

  void store(Builder& at, Value* tile, Value* value) {
    if (slot_ == kSlots) return;
    Value* base = at.add(at.mul(tile, number(at, kSlots * kSlot)), number(at, kSlot * slot_++));
    at.store(pointers(at, at.addptr(out_, base), value->type.shape), value, nullptr);
  }

  /// Pointers to the elements of a tile that lies in rows from `base` on.
  Value* pointers(Builder& at, Value* base, const Shape& shape) {
    Value* offset = all(at, 0, shape);
    int64_t stride = 1;
    for (int axis = int(shape.size()); axis-- > 0; stride *= shape[size_t(axis)])
      offset =
          at.add(offset, at.mul(along(at, at.arange(0, shape[size_t(axis)]), axis, shape), all(at, stride, shape)));
    return at.addptr(at.splat(base, shape), offset);
  }
  static Value* along(Builder& at, Value* row, int axis, const Shape& shape) {
    for (int other = 0; other < int(shape.size()); ++other)
      if (other != axis) row = at.expand_dims(row, other);
    return at.broadcast(row, shape);
  }

  /// Integers of memory, some masked.
  Value* elements(Builder& at, Value* tile, const Shape& shape) {
    Value* p = pointers(at, at.addptr(x_, at.mul(tile, number(at, one_of({0, 7, 64})))), shape);
    if (pick(2)) return at.load(p, nullptr, nullptr);
    const int axis = pick(int(shape.size()));
    Value* mask = at.lt(along(at, at.arange(0, shape[size_t(axis)]), axis, shape), at.splat(n_, shape));
    return at.load(p, mask, all(at, 5, shape));
  }

  /// The tile of an operand with `rows` x `columns` elements: rows of the whole lie kMostSteps x columns apart, and the
  /// steps side by side.
  struct Operand {
    int64_t rows, columns;
    bool transposed, wrapped, carried, masked, scaled;
    Value* base;
  };
  Operand operand(Value* base, int64_t rows, int64_t columns) {
    return {rows, columns, pick(2) == 1, pick(3) == 0, pick(3) == 0, pick(3) == 0, pick(4) == 0, base};
  }
  Value* operand_pointers(Builder& at, const Operand& x, Value* tile, Value* step) {
    const Shape shape{x.rows, x.columns};
    Value* rows = at.add(at.splat(at.mul(tile, number(at, x.rows)), {x.rows}), at.arange(0, x.rows));
    if (x.wrapped) rows = at.rem(rows, at.splat(wrap_, {x.rows}));
    Value* columns = at.arange(0, x.columns);
    if (step) columns = at.add(at.splat(at.mul(step, number(at, x.columns)), {x.columns}), columns);
    Value* offset =
        at.add(at.mul(along(at, rows, 0, shape), all(at, kMostSteps * x.columns, shape)), along(at, columns, 1, shape));
    return at.addptr(at.splat(x.base, shape), offset);
  }
  Value* load_operand(Builder& at, const Operand& x, Value* pointers) {
    const Shape& shape = pointers->type.shape;
    const Type type = Type::tile(x.base->type.elem, shape);
    Value *mask = nullptr, *other = nullptr;
    if (x.masked) {
      mask = at.lt(along(at, at.arange(0, shape[1]), 1, shape), at.splat(n_, shape));
      other = of_type(at, one_of({0, 0, 1}), type);
    }
    Value* value = at.load(pointers, mask, other);
    if (x.scaled) value = at.mul(value, of_type(at, 2, type));
    return x.transposed ? at.trans(value, {1, 0}) : value;
  }

  std::mt19937 random_;
  ir::Func func_;
  Value *a_ = nullptr, *b_ = nullptr, *x_ = nullptr, *out_ = nullptr, *n_ = nullptr, *steps_ = nullptr,
        *wrap_ = nullptr;
  int64_t slot_ = 0;
};

}  // namespace tegula
