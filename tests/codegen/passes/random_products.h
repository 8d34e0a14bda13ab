// Random loops of products of tile IR: one that sums up a product, and several products, of which some multiply what
// others gave.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/codegen/passes/random_tiles.h"

namespace tegula {

class RandomProducts : protected RandomTiles {
 protected:
  /// Threads that have more than `most_elements` of a tile take longer, and repeat what they do with fewer: loops of
  /// one product have no larger tiles. `pages`: the number of a step is loaded, so that operands cannot be loaded
  /// ahead.
  RandomProducts(unsigned seed, bool pages, int64_t most_elements)
      : RandomTiles(seed), pages_(pages), most_elements_(most_elements) {}

  /// Integers that a loop of products sums up.
  Value* product(Builder& at, Value* tile) {
    int64_t m = one_of({16, 32, 48, 64}), n = one_of({16, 32, 64}), k = one_of({16, 32, 48, 64});
    limit(m, n), limit(m, k), limit(n, k);
    Operand a = operand(a_, m, k), b = operand(b_, k, n);
    Loop loop{tile, {of_type(at, one_of({0, 0, 3}), sums_type(m, n))}};
    const Source left = source(at, loop, a), right = source(at, loop, b);
    Builder in = open(at, loop);
    Value *x = load(in, loop, left), *y = load(in, loop, right), *sums = loop.carried[0];
    if (pick(4) == 0)
      loop.next[0] = in.add(sums, multiply(in, x, y, of_type(in, 0, sums->type)));
    else
      loop.next[0] = multiply(in, x, y, sums);
    in.create(ir::Opcode::Yield, loop.next);
    return integers(at, loop.op->result(0));
  }

  /// Integers that a loop of several products sums up, as attention and linear attention have them: a product's
  /// operands are loaded, some of them for several products and for other ops, or follow from products before it and
  /// from what the loop carries.
  std::vector<Value*> products(Builder& at, Value* tile) {
    const std::vector<int64_t> extents{64, one_of({16, 32, 64}), one_of({32, 64})};
    auto any = [&] { return extents[size_t(pick(int(extents.size())))]; };
    std::vector<Product> chain;
    for (int count = 2 + pick(4), i = 1; i <= count; ++i)
      chain.push_back({pick(4) ? 64 : any(), any(), any(), i == count || pick(2) == 0});
    Loop loop{tile, {}};
    for (const Product& x : chain)
      if (x.is_carried) loop.begin.push_back(of_type(at, one_of({0, 0, 3}), sums_type(x.m, x.n)));
    const size_t sums = loop.begin.size();
    for (int count = 1 + pick(3), i = 0; i < count; ++i) {
      const int64_t columns = any(), rows = any();
      Value* base = one_of({a_, b_});
      loop.sources.push_back(source(at, loop, operand(base, rows, columns)));
    }
    const size_t rest = loop.begin.size();
    if (pick(2)) loop.begin.push_back(all(at, 0, shape_of(loop.sources[0].operand)));
    Builder in = open(at, loop);
    if (pick(2)) loop.factors.push_back(small(in, loop.carried[size_t(pick(int(sums)))]));  // of the iteration before
    if (rest < loop.begin.size()) {  // an operand that is summed up, too
      Value* x = load(in, loop, loop.sources[0]);
      loop.next[rest] = in.add(loop.carried[rest], integers(in, x));
      loop.factors.push_back({x, kMostLoaded});
      loop.sources.erase(loop.sources.begin());
    }
    size_t number = 0;
    for (const Product& x : chain) put(in, loop, x, x.is_carried ? number++ : kNone);
    in.create(ir::Opcode::Yield, loop.next);
    std::vector<Value*> results;
    for (size_t i = 0; i < loop.begin.size(); ++i)
      if (i < sums || i >= rest) results.push_back(integers(at, loop.op->result(int(i))));
    return results;
  }

 private:
  static constexpr size_t kNone = size_t(-1);
  static constexpr int64_t kMostLoaded = 2 * kMostInput;
  static constexpr int64_t kMostCast = 120;     // the largest magnitude of a result that is cast to an operand's type
  static constexpr int64_t kMostSum = 1 << 18;  // and of a product: all that is summed up is exact in fp32

  /// An operand, and where its pointers are in what the loop carries.
  struct Source {
    Operand operand;
    size_t place;
  };
  /// A tile that products take, and how large its elements are at most.
  struct Factor {
    Value* value;
    int64_t most;
  };
  /// A product, and whether its sums are carried by the loop.
  struct Product {
    int64_t m, n, k;
    bool is_carried;
  };
  struct Loop {
    Value* tile;
    std::vector<Value*> begin;  ///< of what it carries
    ir::Op* op = nullptr;
    Value* step = nullptr;
    std::vector<Value*> carried = {}, next = {};
    std::vector<Source> sources = {};  ///< that no product has taken yet
    std::vector<Factor> factors = {};  ///< for any product
  };

  /// Makes the larger extent of a tile smaller until a thread has few elements.
  void limit(int64_t& x, int64_t& y) const {
    while (x * y > most_elements_ * kThreadsOfWarp * func_.num_warps()) {
      int64_t& larger = x > y ? x : y;
      larger = larger > 32 ? 32 : 16;
    }
  }

  Elem elem() const { return a_->type.elem; }
  Type sums_type(int64_t m, int64_t n) const { return Type::tile(elem() == Elem::I8 ? Elem::I32 : Elem::F32, {m, n}); }
  Value* multiply(Builder& at, Value* a, Value* b, Value* sums) const {
    ir::Attrs attrs;
    if (elem() == Elem::F32) attrs["precision"] = std::string("tf32");
    return at.dot(a, b, sums, attrs);
  }
  static Value* integers(Builder& at, Value* x) { return x->type.elem == Elem::I32 ? x : at.cast(x, Elem::I32); }
  static Shape shape_of(const Operand& x) { return x.transposed ? Shape{x.columns, x.rows} : Shape{x.rows, x.columns}; }

  /// An operand of that shape, with its pointers among what the loop carries.
  Source source(Builder& at, Loop& loop, Operand x) {
    if (x.transposed) std::swap(x.rows, x.columns);
    const size_t place = loop.begin.size();
    if (x.carried) loop.begin.push_back(operand_pointers(at, x, loop.tile, nullptr));
    return {x, place};
  }

  /// The loop's op, and where its body begins.
  Builder open(Builder& at, Loop& loop) {
    std::vector<Value*> operands{number(at, 0), steps_, number(at, 1)};
    std::vector<Type> types;
    for (Value* v : loop.begin) operands.push_back(v), types.push_back(v->type);
    ir::Attrs attrs;
    if (pick(2)) attrs["num_stages"] = int64_t(1 + pick(4));
    loop.op = at.create(ir::Opcode::For, operands, types, attrs);
    ir::Block& body = *loop.op->regions[0];
    loop.step = body.add_arg(steps_->type);
    for (Value* v : loop.begin) loop.carried.push_back(body.add_arg(v->type));
    loop.next = loop.carried;
    Builder in(&body);
    if (pages_) loop.step = in.bit_and(in.load(in.addptr(x_, loop.step), nullptr, nullptr), number(in, kMostSteps - 1));
    return in;
  }

  Value* load(Builder& in, Loop& loop, const Source& x) {
    if (!x.operand.carried) return load_operand(in, x.operand, operand_pointers(in, x.operand, loop.tile, loop.step));
    Value* p = loop.carried[x.place];
    loop.next[x.place] = in.addptr(p, all(in, x.operand.columns, p->type.shape));
    return load_operand(in, x.operand, p);
  }

  /// One product of several; `place`: of its sums in what the loop carries.
  void put(Builder& in, Loop& loop, const Product& x, size_t place) {
    Factor a = factor(in, loop, {x.m, x.k}), b = factor(in, loop, {x.k, x.n});
    if (a.most * b.most * x.k > kMostSum) a = small(in, a.value);
    Factor result{nullptr, a.most * b.most * x.k};
    if (place == kNone) {
      result.value = multiply(in, a.value, b.value, of_type(in, 0, sums_type(x.m, x.n)));
    } else {
      Value* sums = loop.carried[place];
      if (pick(3) == 0)
        result.value = in.add(sums, multiply(in, a.value, b.value, of_type(in, 0, sums->type)));
      else
        result.value = multiply(in, a.value, b.value, pick(4) ? sums : in.mul(sums, of_type(in, 2, sums->type)));
      loop.next[place] = result.value;
      result.most = kMostSum;
    }
    if (place == kNone || pick(3) == 0) loop.factors.push_back(follows(in, loop, result));
    if (pick(6) == 0) store(in, loop.tile, integers(in, result.value));
  }

  /// A tile of that shape: one that is there, as it is or transposed, or one that is loaded.
  Factor factor(Builder& in, Loop& loop, const Shape& shape) {
    const Shape across{shape[1], shape[0]};
    auto fits = [&](const Shape& x) { return x == shape || x == across; };
    std::vector<size_t> there, waiting;
    for (size_t i = 0; i < loop.factors.size(); ++i)
      if (fits(loop.factors[i].value->type.shape)) there.push_back(i);
    for (size_t i = 0; i < loop.sources.size(); ++i)
      if (fits(shape_of(loop.sources[i].operand))) waiting.push_back(i);
    if (const int chosen = pick(int(there.size() + waiting.size()) + 1); chosen < int(there.size())) {
      return oriented(in, loop.factors[there[size_t(chosen)]], shape);
    } else if (const size_t i = size_t(chosen) - there.size(); i < waiting.size()) {
      loop.factors.push_back({load(in, loop, loop.sources[waiting[i]]), kMostLoaded});
      loop.sources.erase(loop.sources.begin() + int64_t(waiting[i]));
    } else if (pick(4) == 0) {  // of another type than the product's
      loop.factors.push_back(small(in, elements(in, loop.tile, pick(2) ? shape : across)));
    } else {
      Operand x = operand(one_of({a_, b_}), shape[0], shape[1]);
      x.carried = false;
      loop.factors.push_back({load(in, loop, source(in, loop, x)), kMostLoaded});
    }
    return oriented(in, loop.factors.back(), shape);
  }
  Factor oriented(Builder& in, const Factor& x, const Shape& shape) {
    const bool transposed = x.value->type.shape != shape || (shape[0] == shape[1] && pick(2) == 0);
    return transposed ? Factor{in.trans(x.value, {1, 0}), x.most} : x;
  }

  /// What follows from a result and may be an operand: itself where its elements are small enough, or less another
  /// tile.
  Factor follows(Builder& in, const Loop& loop, const Factor& result) {
    if (result.most <= kMostCast) return {in.cast(result.value, elem()), result.most};
    Value* x = integers(in, result.value);
    for (const Factor& other : loop.factors)
      if (other.value->type.shape == x->type.shape && pick(2)) return small(in, in.sub(integers(in, other.value), x));
    return small(in, x);
  }
  /// From -1 to 2, as the last bits of `x` say.
  Factor small(Builder& in, Value* x) {
    const Shape& shape = x->type.shape;
    Value* bits = in.bit_and(integers(in, x), all(in, 3, shape));
    return {in.cast(in.sub(bits, all(in, 1, shape)), elem()), 2};
  }

  const bool pages_;
  const int64_t most_elements_;
};

}  // namespace tegula
