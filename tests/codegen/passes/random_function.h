// Random functions of tile IR: products in loops and in persistent loops, carried pointers, wrapped and masked loads,
// reductions, shapes and control flow.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/codegen/passes/random_products.h"

namespace tegula {

class RandomFunction : private RandomProducts {
 public:
  /// Products alone in their loop take any shape only if `any_shape` says so; `several`: a loop has several products.
  RandomFunction(unsigned seed, bool any_shape, bool several)
      : RandomProducts(seed, seed % 3 == 1, any_shape ? kSlot : kFewElements),
        bulk_copies_(seed / 3 % 3),
        several_(several) {}

  std::unique_ptr<ir::Func> make() {
    func_.name = "k";
    func_.attrs["num_warps"] = int64_t(1) << pick(4);
    func_.attrs["warp_specialize"] = int64_t(pick(4));
    func_.attrs["num_stages"] = int64_t(1 + pick(4));
    func_.attrs["bulk_copies"] = bulk_copies_;
    if (several_ && pick(8)) func_.attrs["num_warps"] = one_of<int64_t>({4, 4, 8});  // products beside the program
    declare(several_ ? one_of({Elem::F16, Elem::F16, Elem::BF16, Elem::F32, Elem::I8}) : Elem::F16);
    Builder at(&func_.body);
    Value* first = at.program_id(0);
    if (several_ ? pick(4) == 0 : pick(2)) {
      Op* loop = at.create(Opcode::For, {first, number(at, kTiles), at.num_programs(0)});
      Block& body = *loop->regions[0];
      Value* tile = body.add_arg(first->type);
      Builder in(&body);
      round(in, tile);
      in.create(Opcode::Yield, {});
    } else {
      round(at, first);
    }
    at.create(Opcode::Return, {});
    return func_.clone();
  }

 private:
  using Op = ir::Op;
  using Opcode = ir::Opcode;
  using Block = ir::Block;
  using Attrs = ir::Attrs;

  /// What the tile of that number computes and stores.
  void round(Builder& at, Value* tile) {
    slot_ = 0;
    std::vector<Value*> pool{elements(at, tile, {16, 32})};
    if (several_) {
      for (Value* sums : products(at, tile)) {
        store(at, tile, sums);
        pool.push_back(sums);
      }
      return grow(at, tile, pool, pick(3));
    }
    if (pick(4)) pool.push_back(product(at, tile));
    if (pick(3) == 0) pool.push_back(product(at, tile));
    grow(at, tile, pool, 3 + pick(4));
    store(at, tile, pool.back());
  }

  static Value* sum(Builder& at, Value* x, int axis) {
    return at.reduce({x}, axis, [](Builder& in, const std::vector<Value*>& v) {
      return std::vector<Value*>{in.add(v[0], v[1])};
    })[0];
  }

  /// Adds values to the pool, each by one op or more; stores some.
  void grow(Builder& at, Value* tile, std::vector<Value*>& pool, int count) {
    for (int i = 0; i < count; ++i) {
      Value* x = pool[size_t(pick(int(pool.size())))];
      const Shape shape = x->type.shape;
      switch (pick(9)) {
        case 0:
          pool.push_back(at.add(x, elements(at, tile, shape)));
          break;
        case 1:
          pool.push_back(at.mul(x, all(at, 1 + pick(5), shape)));
          break;
        case 2: {
          std::vector<int64_t> order(shape.size());
          for (size_t axis = 0; axis < order.size(); ++axis) order[axis] = int64_t(axis);
          std::shuffle(order.begin(), order.end(), random_);
          pool.push_back(at.trans(x, order));
          break;
        }
        case 3:
          if (shape.size() == 2)
            pool.push_back(at.reshape(x, {shape[1], shape[0]}));
          else
            pool.push_back(at.reshape(x, {shape[0] / 4, 4}));
          break;
        case 4: {  // less a sum of its own
          const int axis = pick(int(shape.size()));
          Value* total = sum(at, x, axis);
          total = total->type.is_tile() ? at.broadcast(at.expand_dims(total, axis), shape) : at.splat(total, shape);
          pool.push_back(at.sub(x, total));
          break;
        }
        case 5: {
          Value* other = elements(at, tile, shape);
          pool.push_back(at.select(at.lt(x, other), x, at.bit_xor(other, x)));
          break;
        }
        case 6:
          pool.push_back(branch(at, tile, x));
          break;
        case 7:
          pool.push_back(loop(at, tile, x));
          break;
        default:
          store(at, tile, x);
      }
    }
  }

  Value* branch(Builder& at, Value* tile, Value* x) {
    Op* op = at.create(Opcode::If, {at.lt(tile, n_)}, {x->type});
    for (auto& region : op->regions) {
      Builder in(region.get());
      std::vector<Value*> pool{x};
      const int64_t slot = std::exchange(slot_, kSlots);  // nothing is stored inside
      grow(in, tile, pool, 1);
      slot_ = slot;
      Value* y = pool.back()->type.shape == x->type.shape ? pool.back() : x;
      in.create(Opcode::Yield, {in.add(y, y)});
    }
    return op->result();
  }

  Value* loop(Builder& at, Value* tile, Value* x) {
    Attrs attrs;
    if (pick(2)) attrs["num_stages"] = int64_t(1 + pick(3));
    Op* op = at.create(Opcode::For, {number(at, pick(3)), steps_, number(at, 1 + pick(2)), x}, {x->type}, attrs);
    Block& body = *op->regions[0];
    Value* i = body.add_arg(steps_->type);
    Value* carried = body.add_arg(x->type);
    Builder in(&body);
    Value* more = elements(in, in.add(tile, i), x->type.shape);
    std::vector<Value*> pool{in.add(carried, more)};
    const int64_t slot = std::exchange(slot_, kSlots);
    grow(in, tile, pool, pick(3));
    slot_ = slot;
    in.create(Opcode::Yield, {pool.back()->type.shape == x->type.shape ? pool.back() : pool.front()});
    return op->result();
  }

  const int64_t bulk_copies_;
  const bool several_;
};

}  // namespace tegula
