// Every fact of axis analysis holds: random index expressions, evaluated.
// heavy: Seeds/RandomExpressions.*/???
#include <algorithm>
#include <map>
#include <random>

#include "codegen/ir/printer.h"
#include "tests/codegen/analysis/axis_fixture.h"

namespace tegula::axis {
namespace {

class RandomExpressions : public Axis, public testing::WithParamInterface<int> {
 protected:
  std::map<const Value*, Numbers> values;  // row-major

  void remember(Value* v, Numbers numbers) { values[v] = std::move(numbers); }

  /// Checks all claims about one value. Runs of uint32 and uint64 go on around 0.
  void check(const Value* v, const AxisInfo& info) {
    const Elem elem = v->type.elem;
    const auto plus = [&](int64_t a, int64_t b) {
      const uint64_t sum = uint64_t(a) + uint64_t(b);
      return elem == Elem::U32 ? int64_t(uint32_t(sum)) : int64_t(sum);
    };
    Shape shape = v->type.is_scalar() ? Shape{1} : v->type.shape;
    const Numbers& x = values.at(v);
    int64_t inner = int64_t(x.size());
    ASSERT_TRUE(info.strided.empty() || info.strided.size() == shape.size()) << op(v);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      inner /= shape[axis];
      for (int64_t i = 0; i < int64_t(x.size()); ++i) {
        int64_t at = i / inner % shape[axis];
        int64_t in_run = at % info.contiguity[axis], in_group = at % info.constancy[axis];
        ASSERT_EQ(x[i], plus(x[i - in_run * inner], in_run))
            << "contiguity " << info.contiguity[axis] << " of " << op(v);
        ASSERT_EQ(x[i - in_run * inner] % info.divisibility[axis], 0)
            << "divisibility " << info.divisibility[axis] << " of " << op(v);
        ASSERT_EQ(x[i], x[i - in_group * inner]) << "constancy " << info.constancy[axis] << " of " << op(v);
        if (info.strided.empty()) continue;
        const AxisInfo::Run run = info.strided[axis];
        ASSERT_EQ(x[i], plus(x[i - at % run.length * inner], run.at(at % run.length))) << "stride of " << op(v);
      }
    }
    for (int64_t e : x) {
      ASSERT_EQ(e, info.constant.value_or(e)) << op(v);
      ASSERT_TRUE(e >= 0 || elem == Elem::U64 || !info.non_negative) << op(v);
    }
  }
  static std::string op(const Value* v) { return v->def ? ir::print_line(*v->def) : "a parameter"; }
};

TEST_P(RandomExpressions, FactsHold) {
  std::mt19937 random{uint32_t(GetParam())};
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  const std::vector<Shape> shapes = {{16}, {8, 16}, {12}, {6, 24}, {3, 8}};
  std::vector<Value*> scalars, tiles;
  for (int i = 0; i < 3; ++i) {
    int64_t divisor = int64_t(1) << below(6);
    scalars.push_back(i32(divisor));
    remember(scalars.back(), {divisor * (below(9) - 4)});
  }
  scalars.push_back(b.program_id(0));
  remember(scalars.back(), {below(5)});
  // What blocks of 16 from here wrap around at, of either sign.
  const int64_t wrap = (int64_t(1) << below(5)) * (1 + below(7)) * (below(2) ? 1 : -1);
  auto starts = [&]() -> Value* {
    Value *from = scalars[below(4)], *by = scalars[below(4)];
    const int64_t x = values[from][0], y = values[by][0], constant = (below(7) - 3) * 2 + 1;
    // Non-negative numbers are presumed to be divided by positive ones, except constants.
    if (below(2) && y && (x < 0 || y > 0)) {
      Value* v = b.div(from, by);
      remember(v, {x / y});
      return v;
    }
    Value* v = below(2) ? b.div(from, c(constant)) : b.rem(from, c(constant));
    remember(v, {v->def->opcode == Opcode::Div ? x / constant : x % constant});
    return v;
  };
  auto fill = [&](Shape shape, int64_t v) {
    return Numbers(size_t(shape.size() == 1 ? shape[0] : shape[0] * shape[1]), v);
  };
  auto leaf = [&](const Shape& shape) -> Value* {
    switch (below(4)) {
      case 0: {
        Value* s = scalars[below(4)];
        Value* v = b.splat(s, shape);
        remember(v, fill(shape, values[s][0]));
        return v;
      }
      case 1: {
        int64_t n = (below(9) - 2) << below(4);
        Value* v = all(n, shape);
        remember(v, fill(shape, n));
        return v;
      }
      default: {
        size_t axis = size_t(below(int64_t(shape.size())));
        int64_t start = below(3) << below(5);
        Value* v = b.arange(start, start + shape[axis]);
        if (shape.size() == 2) v = b.broadcast(b.expand_dims(v, axis == 0 ? 1 : 0), shape);
        Numbers x = fill(shape, start);
        for (size_t i = 0; i < x.size(); ++i)
          x[i] += axis + 1 == shape.size() ? int64_t(i) % shape[axis] : int64_t(i) / shape[1];
        remember(v, x);
        return v;
      }
    }
  };
  for (int i = 0; i < 4; ++i) {
    Value* start = starts();
    Value *x = row(b.mul(start, c(16)), 16),
          *wrapped = b.rem(x, b.splat(param(Type::scalar(Elem::I32), wrap & -wrap), {16}));
    Numbers run, rest;
    for (int64_t k = 0; k < 16; ++k) {
      run.push_back(values[start][0] * 16 + k);
      rest.push_back(run.back() % wrap);
    }
    remember(x, run);
    remember(wrapped, rest);
  }
  for (const Shape& shape : shapes) {
    tiles.clear();
    for (int i = 0; i < 4; ++i) tiles.push_back(leaf(shape));
    for (int i = 0; i < 12; ++i) {
      Value *x = tiles[below(int64_t(tiles.size()))], *y = below(2) ? leaf(shape) : tiles[below(int64_t(tiles.size()))];
      const Numbers a = values[x], c = values[y];
      int64_t choice = below(15);
      auto zip = [&](Value* v, auto f) {
        Numbers r;
        for (size_t k = 0; k < a.size(); ++k) r.push_back(f(a[k], c[k]));
        remember(v, r);
        return v;
      };
      bool has_zero = std::find(c.begin(), c.end(), 0) != c.end();
      bool small = true;
      for (int64_t e : a) small &= std::abs(e) < 10000;
      for (int64_t e : c) small &= std::abs(e) < 10000;
      Value* made = nullptr;
      switch (choice) {
        case 0:
        case 1:
          made = zip(b.add(x, y), [](int64_t p, int64_t q) { return p + q; });
          break;
        case 2:
          made = zip(b.sub(x, y), [](int64_t p, int64_t q) { return p - q; });
          break;
        case 3:
          if (small) made = zip(b.mul(x, y), [](int64_t p, int64_t q) { return p * q; });
          break;
        case 4:
          if (!has_zero) made = zip(b.div(x, y), [](int64_t p, int64_t q) { return p / q; });
          break;
        case 5:
          if (!has_zero) made = zip(b.rem(x, y), [](int64_t p, int64_t q) { return p % q; });
          break;
        case 6:
          made = zip(b.bit_and(x, y), [](int64_t p, int64_t q) { return p & q; });
          break;
        case 7:
          made = zip(b.bit_or(x, y), [](int64_t p, int64_t q) { return p | q; });
          break;
        case 8:
          made = zip(b.bit_xor(x, y), [](int64_t p, int64_t q) { return p ^ q; });
          break;
        case 9:
          made = zip(b.minimum(x, y), [](int64_t p, int64_t q) { return std::min(p, q); });
          break;
        case 10:
          made = zip(b.maximum(x, y), [](int64_t p, int64_t q) { return std::max(p, q); });
          break;
        case 11: {
          int64_t shift = below(4);
          Value* by = all(shift, shape);
          remember(by, fill(shape, shift));
          if (below(2))
            made = zip(b.shr(x, by), [&](int64_t p, int64_t) { return p >> shift; });
          else if (small)
            made = zip(b.shl(x, by), [&](int64_t p, int64_t) { return p << shift; });
          break;
        }
        default: {
          Value* mask;
          int64_t kind = below(6);
          auto compare = [&](int64_t p, int64_t q) {
            return int64_t(kind == 0   ? p < q
                           : kind == 1 ? p <= q
                           : kind == 2 ? p > q
                           : kind == 3 ? p >= q
                           : kind == 4 ? p == q
                                       : p != q);
          };
          mask = kind == 0   ? b.lt(x, y)
                 : kind == 1 ? b.le(x, y)
                 : kind == 2 ? b.gt(x, y)
                 : kind == 3 ? b.ge(x, y)
                 : kind == 4 ? b.eq(x, y)
                             : b.ne(x, y);
          zip(mask, compare);
          made = zip(b.select(mask, x, y), [&](int64_t p, int64_t q) { return compare(p, q) ? p : q; });
          break;
        }
      }
      if (made) tiles.push_back(made);
    }
    Value* last = tiles.back();
    if (shape.size() == 2) {
      Value* turned = b.trans(last, {1, 0});
      const int64_t rows = shape[0], columns = shape[1];
      Numbers x(size_t(rows * columns));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = 0; k < columns; ++k) x[k * rows + r] = values[last][r * columns + k];
      remember(turned, x);
      std::vector<Shape> reshaped{{rows * columns}, {columns, rows}};
      if (rows % 2 == 0)
        reshaped.insert(reshaped.end(), {{rows / 2, columns * 2}, {columns * 2, rows / 2}, {2, rows / 2, columns}});
      for (const Shape& to : reshaped) {
        remember(b.reshape(last, to), values[last]);
        remember(b.reshape(turned, to), x);
      }
    }
  }
  AxisAnalysis analysis(func);
  const AxisQuery query(func);
  for (auto& [v, numbers] : values) {
    ASSERT_NO_FATAL_FAILURE(check(v, analysis.info(v)));
    ASSERT_EQ(query.info(v), analysis.info(v));
  }
}

// In types whose numbers wrap around, among them along an axis.
TEST_P(RandomExpressions, FactsHoldWhereNumbersWrapAround) {
  std::mt19937 random{uint32_t(GetParam())};
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  constexpr Elem kTypes[] = {Elem::I8, Elem::U8, Elem::I16, Elem::U16, Elem::U32, Elem::U64};
  const auto in = [](Elem type, int64_t x) {
    if (type == Elem::U64) return x;
    if (type == Elem::U32) return int64_t(uint32_t(x));
    return int64_t(type == Elem::I8    ? int8_t(x)
                   : type == Elem::U8  ? uint8_t(x)
                   : type == Elem::I16 ? int16_t(x)
                                       : uint16_t(x));
  };
  const auto cast = [&](Value* x, Elem to) {
    Numbers numbers = values[x];
    if (to != Elem::I32 && to != Elem::I64)
      for (int64_t& e : numbers) e = in(to, e);
    Value* v = b.cast(x, to);
    remember(v, numbers);
    return v;
  };
  for (const Shape& shape : std::vector<Shape>{{512}, {384}, {4, 256}, {256, 4}}) {
    const size_t size = size_t(shape.size() == 1 ? shape[0] : shape[0] * shape[1]);
    const auto constant = [&](Elem type, int64_t n) {
      Value* v = b.constant(Type::tile(type, shape), n);
      remember(v, Numbers(size, n));
      return v;
    };
    const auto leaf = [&](Elem type) {
      if (below(3) == 0) return constant(type, in(type, (below(64) - 20) << below(4)));
      const size_t axis = size_t(below(int64_t(shape.size())));
      const int64_t start = below(5) << below(8);
      Value* v = b.arange(start, start + shape[axis]);
      if (shape.size() == 2) v = b.broadcast(b.expand_dims(v, axis == 0 ? 1 : 0), shape);
      Numbers x(size, start);
      for (size_t i = 0; i < size; ++i)
        x[i] += axis + 1 == shape.size() ? int64_t(i) % shape[axis] : int64_t(i) / shape[1];
      remember(v, x);
      return cast(v, type);
    };
    for (const Elem type : kTypes) {
      std::vector<Value*> tiles{leaf(type), leaf(type), leaf(type)};
      for (int i = 0; i < 8; ++i) {
        Value *x = tiles[size_t(below(int64_t(tiles.size())))], *y = below(2) ? leaf(type) : tiles.back();
        if (below(6) == 0) x = cast(cast(x, kTypes[below(std::size(kTypes))]), type);
        const Numbers p = values[x], q = values[y];
        const auto zip = [&](Value* v, auto f) {
          Numbers r;
          for (size_t k = 0; k < size; ++k) r.push_back(in(type, f(p[k], q[k])));
          remember(v, r);
          tiles.push_back(v);
        };
        const bool divides = std::none_of(q.begin(), q.end(), [](int64_t e) { return e == 0 || e == -1; });
        const int64_t choice = below(16), shift = below(5);
        using Word = uint64_t;
        const bool is_word = type == Elem::U64;
        const auto less = [&](int64_t m, int64_t n) { return is_word ? Word(m) < Word(n) : m < n; };
        const auto smaller = [&](int64_t m, int64_t n) { return less(m, n) ? m : n; };
        const auto larger = [&](int64_t m, int64_t n) { return less(m, n) ? n : m; };
        switch (choice) {
          case 0:
          case 1:
            zip(b.add(x, y), [](int64_t m, int64_t n) { return int64_t(Word(m) + Word(n)); });
            break;
          case 2:
            zip(b.sub(x, y), [](int64_t m, int64_t n) { return int64_t(Word(m) - Word(n)); });
            break;
          case 3:
            zip(b.mul(x, y), [](int64_t m, int64_t n) { return int64_t(Word(m) * Word(n)); });
            break;
          case 4:
            if (divides)
              zip(b.div(x, y), [&](int64_t m, int64_t n) { return is_word ? int64_t(Word(m) / Word(n)) : m / n; });
            break;
          case 5:
            if (divides)
              zip(b.rem(x, y), [&](int64_t m, int64_t n) { return is_word ? int64_t(Word(m) % Word(n)) : m % n; });
            break;
          case 6:
            zip(b.bit_and(x, y), [](int64_t m, int64_t n) { return m & n; });
            break;
          case 7:
            zip(b.shl(x, constant(type, shift)), [&](int64_t m, int64_t) { return int64_t(Word(m) << shift); });
            break;
          case 8:
            zip(b.shr(x, constant(type, shift)),
                [&](int64_t m, int64_t) { return is_word ? int64_t(Word(m) >> shift) : m >> shift; });
            break;
          case 9:
            zip(b.create(Opcode::Abs, {x}, {x->type})->result(),
                [&](int64_t m, int64_t) { return is_word ? m : std::abs(m); });
            break;
          case 10:
            zip(b.create(Opcode::Neg, {x}, {x->type})->result(), [](int64_t m, int64_t) { return int64_t(-Word(m)); });
            break;
          case 11:
            zip(b.bit_or(x, y), [](int64_t m, int64_t n) { return m | n; });
            break;
          case 12:
            zip(b.bit_xor(x, y), [](int64_t m, int64_t n) { return m ^ n; });
            break;
          case 13:
            zip(b.minimum(x, y), smaller);
            break;
          case 14:
            zip(b.maximum(x, y), larger);
            break;
          default: {
            const int64_t kind = below(6);
            Value* mask = kind == 0   ? b.lt(x, y)
                          : kind == 1 ? b.le(x, y)
                          : kind == 2 ? b.gt(x, y)
                          : kind == 3 ? b.ge(x, y)
                          : kind == 4 ? b.eq(x, y)
                                      : b.ne(x, y);
            const auto holds = [&](int64_t m, int64_t n) {
              return kind == 0   ? less(m, n)
                     : kind == 1 ? !less(n, m)
                     : kind == 2 ? less(n, m)
                     : kind == 3 ? !less(m, n)
                     : kind == 4 ? m == n
                                 : m != n;
            };
            zip(b.select(mask, x, y), [&](int64_t m, int64_t n) { return holds(m, n) ? m : n; });
            Numbers truths;
            for (size_t k = 0; k < size; ++k) truths.push_back(holds(p[k], q[k]));
            remember(mask, truths);
          }
        }
        cast(tiles.back(), type == Elem::U32 || type == Elem::U64 ? Elem::I64 : Elem::I32);
      }
    }
  }
  const AxisAnalysis analysis(func);
  for (auto& [v, numbers] : values) ASSERT_NO_FATAL_FAILURE(check(v, analysis.info(v)));
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomExpressions, testing::Range(0, 200));

}  // namespace
}  // namespace tegula::axis
