// What a function of tile IR computes, straight from its ops: a reference that shares neither passes nor lowering with
// what is tested. It knows the ops of random functions alone, and integers; a float is the integer that it is.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/ir/ir.h"
#include "runtime/base/check.h"

namespace tegula {

class TileEvaluator {
 public:
  using Tile = std::vector<int64_t>;  ///< elements in row-major order; of a scalar one

  /// An argument that is a pointer is one to the first element of the array of that number, which the call may change.
  struct Argument {
    int64_t number = 0;
    std::vector<int32_t>* array = nullptr;
  };

  explicit TileEvaluator(const std::vector<Argument>& arguments) : arguments_(arguments) {}

  /// Runs programs (0, 0, 0) to (programs - 1, 0, 0), one after the other.
  void run(const ir::Func& func, int64_t programs) {
    programs_ = programs;
    for (size_t i = 0; i < arguments_.size(); ++i)
      values_[func.body.args[i].get()] = {arguments_[i].array ? int64_t(i) << kOffsetBits : arguments_[i].number};
    for (program_ = 0; program_ < programs; ++program_) block(func.body);
  }

 private:
  using Op = ir::Op;
  using Opcode = ir::Opcode;
  using Block = ir::Block;

  static constexpr int kOffsetBits = 40;  ///< of a pointer; above them is the argument's number

  Tile& value(const ir::Value* v) { return values_.at(v); }
  static int64_t elements(const ir::Type& type) {
    int64_t n = 1;
    for (int64_t extent : type.shape) n *= extent;
    return n;
  }

  /// The values that its terminator hands on.
  std::vector<Tile> block(const Block& block) {
    for (const auto& op : block.ops) {
      if (!op->has(ir::Terminator)) {
        evaluate(*op);
        continue;
      }
      std::vector<Tile> handed;
      for (const ir::Value* v : op->operands) handed.push_back(value(v));
      return handed;
    }
    return {};
  }

  void evaluate(const Op& op) {
    switch (op.opcode) {
      case Opcode::For:
        return loop(op);
      case Opcode::If:
        return give(op, block(*op.regions[value(op.operand(0))[0] ? 0 : 1]));
      case Opcode::Store:
        return store(op);
      default: {
        Tile& result = values_[op.result()];
        result.resize(size_t(elements(op.result()->type)));
        compute(op, result);
      }
    }
  }

  void give(const Op& op, std::vector<Tile> tiles) {
    for (size_t i = 0; i < tiles.size(); ++i) values_[op.results[i].get()] = std::move(tiles[i]);
  }

  void loop(const Op& op) {
    const Block& body = *op.regions[0];
    const int64_t end = value(op.operand(1))[0], step = value(op.operand(2))[0];
    std::vector<Tile> carried;
    for (size_t i = 3; i < op.operands.size(); ++i) carried.push_back(value(op.operands[i]));
    for (int64_t i = value(op.operand(0))[0]; i < end; i += step) {
      values_[body.args[0].get()] = {i};
      for (size_t k = 0; k < carried.size(); ++k) values_[body.args[k + 1].get()] = std::move(carried[k]);
      carried = block(body);
    }
    give(op, std::move(carried));
  }

  void compute(const Op& op, Tile& to) {
    switch (op.opcode) {
      case Opcode::Constant: {
        const ir::Attr number = op.get(ir::attr::value);
        const auto* whole = std::get_if<int64_t>(&number);
        return std::fill(to.begin(), to.end(), whole ? *whole : int64_t(std::get<double>(number)));
      }
      case Opcode::ProgramId:
        to[0] = program_;
        return;
      case Opcode::NumPrograms:
        to[0] = programs_;
        return;
      case Opcode::Arange:
        for (size_t i = 0; i < to.size(); ++i) to[i] = op.get(ir::attr::start) + int64_t(i);
        return;
      case Opcode::Splat:
        return std::fill(to.begin(), to.end(), value(op.operand(0))[0]);
      case Opcode::Cast:
      case Opcode::ExpandDims:
      case Opcode::Reshape:
        to = value(op.operand(0));
        return;
      case Opcode::Broadcast:
      case Opcode::Trans:
        return move(op, to);
      case Opcode::Reduce:
        return sum(op, to);
      case Opcode::Dot:
        return product(op, to);
      case Opcode::Load:
        return load(op, to);
      case Opcode::Select: {
        const Tile &condition = value(op.operand(0)), &x = value(op.operand(1)), &y = value(op.operand(2));
        for (size_t i = 0; i < to.size(); ++i) to[i] = condition[i] ? x[i] : y[i];
        return;
      }
      case Opcode::AddPtr:
        return each(op, to, [](int64_t x, int64_t y) { return x + y; });
      case Opcode::Add:
        return each(op, to, [](int64_t x, int64_t y) { return int64_t(int32_t(x + y)); });
      case Opcode::Sub:
        return each(op, to, [](int64_t x, int64_t y) { return int64_t(int32_t(x - y)); });
      case Opcode::Mul:
        return each(op, to, [](int64_t x, int64_t y) { return int64_t(int32_t(x * y)); });
      case Opcode::Rem:
        return each(op, to, [](int64_t x, int64_t y) { return x % y; });
      case Opcode::BitAnd:
        return each(op, to, [](int64_t x, int64_t y) { return x & y; });
      case Opcode::BitXor:
        return each(op, to, [](int64_t x, int64_t y) { return x ^ y; });
      case Opcode::Lt:
        return each(op, to, [](int64_t x, int64_t y) { return int64_t(x < y); });
      default:
        TEGULA_CHECK(false, "the evaluator has no {}", op.info().text);
    }
  }

  template <class Function>
  void each(const Op& op, Tile& to, Function function) {
    const int64_t *x = value(op.operand(0)).data(), *y = value(op.operand(1)).data();
    int64_t* out = to.data();
    for (size_t i = 0, n = to.size(); i < n; ++i) out[i] = function(x[i], y[i]);
  }

  /// How far elements of a tile lie apart along each axis.
  static std::vector<int64_t> strides(const ir::Shape& shape) {
    std::vector<int64_t> out(shape.size(), 1);
    for (size_t axis = shape.size(); axis-- > 1;) out[axis - 1] = out[axis] * shape[axis];
    return out;
  }

  /// Calls visit(i, from) for the elements i of `shape` in order, with `from` the sum of coordinates times `steps`.
  template <class Visit>
  static void walk(const ir::Shape& shape, const std::vector<int64_t>& steps, Visit visit) {
    std::vector<int64_t> at(shape.size(), 0);
    int64_t from = 0;
    const size_t last = shape.size() - 1;
    for (size_t i = 0;;) {
      for (int64_t k = 0; k < shape[last]; ++k) visit(i++, size_t(from + k * steps[last]));
      size_t axis = last;
      while (axis-- > 0) {
        from += steps[axis];
        if (++at[axis] < shape[axis]) break;
        from -= steps[axis] * shape[axis];
        at[axis] = 0;
      }
      if (axis == size_t(-1)) return;
    }
  }

  void move(const Op& op, Tile& to) {
    const Tile& x = value(op.operand(0));
    const ir::Shape &shape = op.result()->type.shape, &before = op.operand(0)->type.shape;
    const std::vector<int64_t> apart = strides(before);
    std::vector<int64_t> steps;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (op.opcode == Opcode::Trans)
        steps.push_back(apart[size_t(op.get(ir::attr::order)[axis])]);
      else
        steps.push_back(before[axis] == 1 ? 0 : apart[axis]);
    walk(shape, steps, [&](size_t i, size_t from) { to[i] = x[from]; });
  }

  void sum(const Op& op, Tile& to) {
    TEGULA_CHECK(op.regions[0]->ops.front()->opcode == Opcode::Add && op.regions[0]->ops.size() == 2,
                 "the evaluator reduces by sums alone");
    const Tile& x = value(op.operand(0));
    const ir::Shape& shape = op.operand(0)->type.shape;
    const auto axis = size_t(op.get(ir::attr::axis));
    ir::Shape left = shape;
    left.erase(left.begin() + int64_t(axis));
    std::vector<int64_t> steps = strides(left);
    steps.insert(steps.begin() + int64_t(axis), 0);
    std::fill(to.begin(), to.end(), 0);
    walk(shape, steps, [&](size_t i, size_t into) { to[into] += x[i]; });
    for (int64_t& n : to) n = int32_t(n);
  }

  void product(const Op& op, Tile& to) {
    const Tile &a = value(op.operand(0)), &b = value(op.operand(1));
    to = value(op.operand(2));
    const auto k = size_t(op.operand(0)->type.shape[1]), columns = size_t(op.operand(1)->type.shape[1]);
    for (size_t row = 0; row < to.size() / columns; ++row)
      for (size_t i = 0; i < k; ++i) {
        const int64_t x = a[row * k + i], *y = &b[i * columns];
        int64_t* sums = &to[row * columns];
        for (size_t column = 0; column < columns; ++column) sums[column] += int64_t(int32_t(x)) * int32_t(y[column]);
      }
  }

  int32_t& at(int64_t pointer) {
    std::vector<int32_t>& array = *arguments_[size_t(pointer >> kOffsetBits)].array;
    const int64_t offset = pointer & ((int64_t(1) << kOffsetBits) - 1);
    TEGULA_CHECK(offset < int64_t(array.size()), "an access outside of its array");
    return array[size_t(offset)];
  }

  void load(const Op& op, Tile& to) {
    const Tile& pointers = value(op.operand(0));
    const Tile* mask = op.operand(1) ? &value(op.operand(1)) : nullptr;
    const Tile* other = op.operand(2) ? &value(op.operand(2)) : nullptr;
    for (size_t i = 0; i < to.size(); ++i) {
      if (!mask || (*mask)[i])
        to[i] = at(pointers[i]);
      else
        to[i] = other ? (*other)[i] : 0;
    }
  }

  void store(const Op& op) {
    const Tile &pointers = value(op.operand(0)), &from = value(op.operand(1));
    const Tile* mask = op.operand(2) ? &value(op.operand(2)) : nullptr;
    for (size_t i = 0; i < pointers.size(); ++i)
      if (!mask || (*mask)[i]) at(pointers[i]) = int32_t(from[i]);
  }

  const std::vector<Argument> arguments_;
  int64_t program_ = 0, programs_ = 1;
  std::unordered_map<const ir::Value*, Tile> values_;
};

}  // namespace tegula
