// label: device
// The two front ends: each kernel is written as text and in C++. Both give the same tile IR, and results that agree
// with a reference on the host.
#include <set>
#include <type_traits>

#include "codegen/ir/ir.h"
#include "codegen/passes/passes.h"
#include "codegen/target/target.h"
#include "dsl/semantics/sema.h"
#include "dsl/tegula.h"
#include "tests/ops_support.h"

namespace tegula::ops {
namespace {

Kernel text_kernel(const std::string& body) {
  return Program::parse("import triton\nimport triton.language as tl\n\n" + body, "kernel.py").kernel("kernel");
}

// Text of a kernel's tile IR that does not depend on the order in which operands were computed, which C++ leaves open:
// each value is shown where it is used first, constants in place.
class Canonical {
 public:
  explicit Canonical(const ir::Func& func) {
    for (const auto& arg : func.body.args) text_ += fmt::format("{} {} ", number(arg.get()), arg->name);
    block(func.body);
  }
  const std::string& text() const { return text_; }

 private:
  static bool is_ordered(const ir::Op& op) { return !op.has(ir::Pure) && op.opcode != ir::Opcode::Load; }

  std::string number(const ir::Value* v) {
    return fmt::format("%{}: {}", numbers_.emplace(v, numbers_.size()).first->second, v->type.to_string());
  }
  std::string use(const ir::Value* v) {
    if (!v) return "_";
    if (v->def && v->def->opcode == ir::Opcode::Constant) return v->type.to_string() + attributes(*v->def);
    if (v->def && !numbers_.contains(v)) statement(*v->def);
    return number(v);
  }
  static std::string attributes(const ir::Op& op) {
    std::string out;
    for (const auto& [name, value] : op.attrs)
      out += std::visit(
          [&](const auto& x) {
            if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::vector<int64_t>>)
              return fmt::format(" {}={}", name, fmt::join(x, ","));
            else
              return fmt::format(" {}={}", name, x);
          },
          value);
    return out;
  }
  void block(const ir::Block& b) {
    text_ += "{";
    for (const auto& arg : b.args) text_ += " " + number(arg.get());
    text_ += "\n";
    for (const auto& op : b.ops)
      if (is_ordered(*op)) statement(*op);
    text_ += "}\n";
  }
  void statement(const ir::Op& op) {
    std::string operands;
    for (const ir::Value* v : op.operands) operands += " " + use(v);
    for (const auto& result : op.results) text_ += number(result.get()) + " ";
    text_ += op.info().text + operands + attributes(op) + "\n";
    for (const auto& region : op.regions) block(*region);
  }

  std::map<const ir::Value*, size_t> numbers_;
  std::string text_;
};

std::string canonical_ir(const Kernel& kernel, std::span<const ArgType> types, const LaunchOptions& options) {
  auto func = kernel.tile_func(types, options);
  Diagnostics diags;
  PassContext context{target_for_sm(90), diags};
  passes::canonicalize(*func, context);
  return func->name + " " + Canonical(*func).text();
}

// Both kernels take the pointer to `size` values to write and then `in`. `expected(i)` is what value i is to be, within
// `tolerance` relative to its magnitude or to 1.
template <class Out, class Typed, class Expected, class... In>
void check(const std::string& text, const Typed& cpp, const LaunchOptions& options, Grid grid, size_t size,
           Expected expected, double tolerance, const In&... in) {
  SCOPED_TRACE(text);
  try {
    Kernel from_text = text_kernel(text);
    const Kernel& from_cpp = cpp;
    Array<Out> a(size, 0), b(size, 0);
    std::vector<Arg> args{Arg(a), Arg(in)...};
    auto types = from_text.classify(args, options);
    EXPECT_EQ(canonical_ir(from_text, types, options),
              canonical_ir(from_cpp, from_cpp.classify(args, options), options));
    from_text.launch(device(), grid, options, args);
    cpp.launch(device(), grid, options, Arg(b), Arg(in)...);
    device().synchronize();
    std::vector<Out> one = a.values(), other = b.values();
    int wrong = 0;
    for (size_t i = 0; i < size && wrong < 4; ++i) {
      double e = double(expected(i)), got = double(wide(other[i]));
      bool right = std::abs(got - e) <= tolerance * std::max(1.0, std::abs(e));
      if (right && same(one[i], other[i])) continue;
      ++wrong;
      ADD_FAILURE() << "[" << i << "]: text gives " << show(one[i]) << ", C++ " << show(other[i]) << ", expected " << e;
    }
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

std::vector<float> numbers(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-4, 4);
  std::vector<float> out(n);
  for (float& x : out) x = uniform(random);
  return out;
}

TEST(FrontEnds, Softmax) {
  constexpr int kRows = 5, kCols = 100;
  auto x = numbers(kRows * kCols, 1);
  auto cpp =
      kernel("kernel", [](Ptr<"out"> out, Ptr<"x", float> x, Int<"stride"> stride, Int<"n"> n, Const<"BLOCK"> BLOCK) {
        Tile row = program_id(0);
        Tile cols = arange(0, BLOCK);
        Tile mask = cols < n;
        Tile v = load(x + row * stride + cols, mask, -inf);
        Tile e = exp(v - max(v, 0));
        store(out + row * stride + cols, e / sum(e, 0), mask);
      });
  auto reference = [&](size_t i) {
    const float* row = &x[i / kCols * kCols];
    double sum = 0;
    for (int k = 0; k < kCols; ++k) sum += std::exp(double(row[k]));
    return std::exp(double(x[i])) / sum;
  };
  check<float>(R"(@triton.jit
def kernel(out, x, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    v = tl.load(x + row * stride + cols, mask, -float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * stride + cols, e / tl.sum(e, 0), mask)
)",
               cpp, {.constexprs = {{"BLOCK", 128}}}, {kRows}, x.size(), reference, 1e-6, Array<float>(x), kCols,
               kCols);
}

TEST(FrontEnds, OperatorsOfIntegers) {
  auto a = small_values<int32_t>(64, 2, 1000), b = small_values<int32_t>(64, 3, 20);
  for (auto& v : b) v = v == 0 ? 7 : v;
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Ptr<"y"> y) {
    Tile i = arange(0, 64);
    Tile a = load(x + i), b = load(y + i);
    Tile r = a * 3 + b - 2;
    r += floordiv(a, b);
    r ^= a % b;
    r -= (a & 255) | (b << 2);
    r *= 2;
    r |= 1;
    r = where((a < b) & (a != 3) | ~(b >= 4), r, -r);
    r = where(logical_not(a == b), r, a >> 1);
    store(out + i, r + (1 - a) + (5 | b) + (100 ^ a));
  });
  check<int32_t>(
      R"(@triton.jit
def kernel(out, x, y):
    i = tl.arange(0, 64)
    a = tl.load(x + i)
    b = tl.load(y + i)
    r = a * 3 + b - 2
    r += a // b
    r ^= a % b
    r -= (a & 255) | (b << 2)
    r *= 2
    r |= 1
    r = tl.where((a < b) & (a != 3) | ~(b >= 4), r, -r)
    r = tl.where(not (a == b), r, a >> 1)
    tl.store(out + i, r + (1 - a) + (5 | b) + (100 ^ a))
)",
      cpp, {}, {1}, 64,
      [&](size_t i) {
        int x = a[i], y = b[i];
        int r = x * 3 + y - 2;
        r += x / y;
        r ^= x % y;
        r -= (x & 255) | (y << 2);
        r *= 2;
        r |= 1;
        r = (x < y && x != 3) || !(y >= 4) ? r : -r;
        r = x != y ? r : x >> 1;
        return r + (1 - x) + (5 | y) + (100 ^ x);
      },
      0, Array<int32_t>(a), Array<int32_t>(b));
}

TEST(FrontEnds, FunctionsAndKeywords) {
  auto x = numbers(64, 4), y = numbers(64, 5);
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Ptr<"y"> y, Float<"scale"> scale, Int<"n"> n) {
    Tile i = arange(0, 64);
    Tile a = load(x + i, "mask"_a = i < n, "other"_a = 0.5f);
    Tile b = load(y + i, "cache_modifier"_a = ".cg");
    Tile r = fma(a, b, scale) + sigmoid(a) * minimum(a, b) - maximum(a, 0.25f);
    r = r + sqrt(abs(b)) + rsqrt(exp2(a)) + log(exp(b)) + clamp(a, -1.0f, 1.0f) + floor(b) + fdiv(a, b * b + 1.0f);
    r += a.to(tl::float16).to(tl::float32) + erf(a) + x.dtype().element_ty().is_floating().to(tl::float32);
    store(out + i, r, "mask"_a = i < 60);
  });
  check<float>(
      R"(@triton.jit
def kernel(out, x, y, scale, n):
    i = tl.arange(0, 64)
    a = tl.load(x + i, mask=i < n, other=0.5)
    b = tl.load(y + i, cache_modifier=".cg")
    r = tl.fma(a, b, scale) + tl.sigmoid(a) * tl.minimum(a, b) - tl.maximum(a, 0.25)
    r = r + tl.sqrt(tl.abs(b)) + tl.rsqrt(tl.exp2(a)) + tl.log(tl.exp(b)) + tl.clamp(a, -1.0, 1.0) + tl.floor(b) + tl.fdiv(a, b * b + 1.0)
    r += a.to(tl.float16).to(tl.float32) + tl.erf(a) + 1.0
    tl.store(out + i, r, mask=i < 60)
)",
      cpp, {}, {1}, 64,
      [&](size_t i) -> double {
        if (i >= 60) return 0;
        double a = i < 50 ? x[i] : 0.5, b = y[i], half = wide(round_to<float16>(a));
        double r = a * b + 1.5 + 1 / (1 + std::exp(-a)) * std::min(a, b) - std::max(a, 0.25);
        r += std::sqrt(std::abs(b)) + 1 / std::sqrt(std::exp2(a)) + b + std::clamp(a, -1.0, 1.0) + std::floor(b) +
             a / (b * b + 1);
        return r + half + std::erf(a) + 1;
      },
      1e-5, Array<float>(x), Array<float>(y), 1.5f, 50);
}

TEST(FrontEnds, ShapesAndTuples) {
  auto x = numbers(16 * 32, 6);
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x) {
    Tile i = arange(0, 16), j = arange(0, 32);
    Tile v = load(x + i[{all, none}] * 32 + j[{none, all}]);
    auto [m, at] = unpack<2>(max(v, 1, "return_indices"_a = true));
    Tile t = v.T() + reshape(v, list({32, 16})) + trans(view(v, 16, 32)) * 2.0f;
    t -= broadcast_to(expand_dims(m, 0), list({32, 16}));
    auto [wide, zeros_like_t] = unpack<2>(broadcast(at.to(tl::float32)[{none, all}], zeros({32, 1}, tl::float32)));
    t += wide + zeros_like_t + full({32, 16}, 3.0f, tl::float32) + zeros_like(t) + v.argmin(1)[{none, all}];
    store(out + j[{all, none}] * 16 + i[{none, all}], t);
  });
  check<float>(
      R"(@triton.jit
def kernel(out, x):
    i = tl.arange(0, 16)
    j = tl.arange(0, 32)
    v = tl.load(x + i[:, None] * 32 + j[None, :])
    m, at = tl.max(v, 1, return_indices=True)
    t = v.T + tl.reshape(v, (32, 16)) + tl.trans(tl.view(v, 16, 32)) * 2.0
    t -= tl.broadcast_to(tl.expand_dims(m, 0), (32, 16))
    wide, zeros_like_t = tl.broadcast(at.to(tl.float32)[None, :], tl.zeros((32, 1), tl.float32))
    t += wide + zeros_like_t + tl.full((32, 16), 3.0, tl.float32) + tl.zeros_like(t) + v.argmin(1)[None, :]
    tl.store(out + j[:, None] * 16 + i[None, :], t)
)",
      cpp, {}, {1}, 512,
      [&](size_t k) {
        size_t j = k / 16, i = k % 16;
        auto row = x.begin() + long(i * 32);
        auto largest = std::max_element(row, row + 32), smallest = std::min_element(row, row + 32);
        return 3.0 * row[long(j)] + x[k] - *largest + double(largest - row) + 3 + double(smallest - row);
      },
      1e-5, Array<float>(x));
}

TEST(FrontEnds, LoopsThatCarryValues) {
  auto x = numbers(1000, 7);
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Int<"n"> n, Const<"BLOCK"> BLOCK) {
    Tile cols = arange(0, BLOCK);
    Tile total = zeros(list({BLOCK}), tl::float32);
    Tile steps = 0;
    Tile untouched = cols * 2;
    for (Tile k : range(0, n, BLOCK, {.num_stages = 2})) {
      Tile v = load(x + k + cols, k + cols < n, 0.0f);
      total += v * v;
      steps += 1;
      for (Tile j : range(steps)) total += j.to(tl::float32);
    }
    store(out + cols, total + steps + untouched);
  });
  check<float>(
      R"(@triton.jit
def kernel(out, x, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    steps = 0
    untouched = cols * 2
    for k in tl.range(0, n, BLOCK, num_stages=2):
        v = tl.load(x + k + cols, k + cols < n, 0.0)
        total += v * v
        steps += 1
        for j in range(steps):
            total += j.to(tl.float32)
    tl.store(out + cols, total + steps + untouched)
)",
      cpp, {.constexprs = {{"BLOCK", 64}}}, {1}, 64,
      [&](size_t c) {
        double total = 0;
        int steps = 0;
        for (size_t k = 0; k < 1000; k += 64) {
          if (k + c < 1000) total += double(x[k + c]) * x[k + c];
          ++steps;
          total += steps * (steps - 1) / 2;
        }
        return total + steps + 2.0 * double(c);
      },
      1e-5, Array<float>(x), 1000);
}

TEST(FrontEnds, LoopsDownwardsAndSwappedValues) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Int<"n"> n) {
    Tile a = 0, b = 1;
    for (Tile k : range(n, 0, -2)) {
      Tile t = a + b * k;
      a = b;
      b = t;
    }
    store(out, a);
    store(out + 1, b);
  });
  for (int n : {-2, 0, 1, 5, 8}) {
    int32_t a = 0, b = 1;
    for (int k = n; k > 0; k -= 2) {
      int32_t t = a + b * k;
      a = b, b = t;
    }
    check<int32_t>(
        R"(@triton.jit
def kernel(out, n):
    a = 0
    b = 1
    for k in range(n, 0, -2):
        t = a + b * k
        a = b
        b = t
    tl.store(out, a)
    tl.store(out + 1, b)
)",
        cpp, {}, {1}, 2, [&](size_t i) { return i ? b : a; }, 0, n);
  }
}

TEST(FrontEnds, TwoDeepWhile) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Int<"n"> n) {
    Tile sum = 0, i = 0;
    while_([&] { return i < n; },
           [&] {
             Tile x = i + 6;
             Tile steps = 0;
             while_([&] { return x > 1; },
                    [&] {
                      x = if_(
                          x % 2 == 0, [&] { return floordiv(x, 2); }, [&] { return x * 3 + 1; });
                      steps += 1;
                    });
             sum += steps;
             store(out + i, steps);
             i += 1;
           });
    store(out + n, sum);
  });
  auto steps = [](int x) {
    int count = 0;
    for (; x > 1; ++count) x = x % 2 ? x * 3 + 1 : x / 2;
    return count;
  };
  check<int32_t>(
      R"(@triton.jit
def kernel(out, n):
    i = 0
    sum = 0
    while i < n:
        x = i + 6
        steps = 0
        while x > 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = x * 3 + 1
            steps += 1
        sum += steps
        tl.store(out + i, steps)
        i += 1
    tl.store(out + n, sum)
)",
      cpp, {}, {1}, 12,
      [&](size_t i) {
        int sum = 0;
        for (int k = 0; k < 11; ++k) sum += steps(k + 6);
        return i < 11 ? steps(int(i) + 6) : sum;
      },
      0, 11);
}

TEST(FrontEnds, BranchesThatMerge) {
  auto x = numbers(32, 8);
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Int<"n"> n, Const<"TWICE", bool> TWICE) {
    Tile i = arange(0, 32);
    Tile a = load(x + i);
    Tile scale = 1.0f;
    if_(
        n > 10,
        [&] {
          a = a * 2.0f;
          if_(n > 20, [&] { scale = 0.5f; });
        },
        [&] {
          a += i;
          scale = a.sum(0);
        });
    if (TWICE) a = a + a;
    store(out + i, a * scale);
  });
  double sum = 0;
  for (int k = 0; k < 32; ++k) sum += double(x[size_t(k)]) + k;
  for (int n : {3, 15, 25})
    for (bool twice : {false, true})
      check<float>(
          R"(@triton.jit
def kernel(out, x, n, TWICE: tl.constexpr):
    i = tl.arange(0, 32)
    a = tl.load(x + i)
    scale = 1.0
    if n > 10:
        a = a * 2.0
        if n > 20:
            scale = 0.5
    else:
        a += i
        scale = a.sum(0)
    if TWICE:
        a = a + a
    tl.store(out + i, a * scale)
)",
          cpp, {.constexprs = {{"TWICE", Constexpr(twice)}}}, {1}, 32,
          [&](size_t i) {
            double v = x[i] * (twice ? 2.0 : 1.0);
            return n > 20 ? v : n > 10 ? v * 2 : (v + double(i) * (twice ? 2 : 1)) * sum;
          },
          1e-5, Array<float>(x), n);
}

TEST(FrontEnds, ReductionsByFunctions) {
  auto x = numbers(8 * 64, 9);
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x) {
    Tile i = arange(0, 8), j = arange(0, 64);
    Tile v = load(x + i[{all, none}] * 64 + j[{none, all}]);
    Tile largest = reduce(v, 1, [](Tile a, Tile b) { return where(a > b, a, b); });
    auto [mean, count] =
        unpack<2>(reduce(list({v, full({8, 64}, 1.0f, tl::float32)}), 1, [](Tile mean_a, Tile a, Tile mean_b, Tile b) {
          return std::array<Tile, 2>{(mean_a * a + mean_b * b) / (a + b), a + b};
        }));
    store(out + i, largest + mean + count);
  });
  check<float>(
      R"(@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)

@triton.jit
def join(mean_a, a, mean_b, b):
    return (mean_a * a + mean_b * b) / (a + b), a + b

@triton.jit
def kernel(out, x):
    i = tl.arange(0, 8)
    j = tl.arange(0, 64)
    v = tl.load(x + i[:, None] * 64 + j[None, :])
    largest = tl.reduce(v, 1, larger)
    mean, count = tl.reduce((v, tl.full((8, 64), 1.0, tl.float32)), 1, join)
    tl.store(out + i, largest + mean + count)
)",
      cpp, {}, {1}, 8,
      [&](size_t i) {
        auto row = x.begin() + long(i * 64);
        double sum = 0;
        for (int k = 0; k < 64; ++k) sum += row[k];
        return *std::max_element(row, row + 64) + sum / 64 + 64;
      },
      1e-5, Array<float>(x));
}

// A helper is a C++ function: of Tiles, and of what is known when the kernel is recorded.
Tile horner(const Tile& x, const std::vector<double>& coefficients) {
  Tile y = full(list({64}), coefficients[0], tl::float32);
  for (size_t i = 1; i < coefficients.size(); ++i) y = y * x + coefficients[i];
  return y;
}

TEST(FrontEnds, HelpersAndCompileTimeValues) {
  auto x = numbers(64, 10);
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"x"> x, Const<"ACT", std::string> ACT, Const<"DT", Elem> DT,
                                 Const<"REPEAT"> REPEAT) {
    Tile i = arange(0, 64);
    auto activate = [&](const Tile& v) {
      if (ACT.value == "relu") return maximum(v, 0.0f);
      if (ACT.value == "poly") return horner(v, {0.5, -1.0, 2.0});
      return Tile(v);
    };
    Tile v = load(x + i);
    for (int64_t k = 0; k < REPEAT; ++k) v = activate(v).to(DT).to(tl::float32) * 0.5f;
    store(out + i, v);
  });
  for (std::string act : {"relu", "poly", "none"})
    for (Elem dtype : {Elem::F32, Elem::F16})
      check<float>(
          R"(@triton.jit
def activate(v, ACT: tl.constexpr):
    if ACT == "relu":
        return tl.maximum(v, 0.0)
    elif ACT == "poly":
        y = tl.full([64], 0.5, tl.float32)
        y = y * v + -1.0
        return y * v + 2.0
    else:
        return v

@triton.jit
def kernel(out, x, ACT: tl.constexpr, DT: tl.constexpr, REPEAT: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i)
    for k in tl.static_range(REPEAT):
        v = activate(v, ACT).to(DT).to(tl.float32) * 0.5
    tl.store(out + i, v)
)",
          cpp, {.constexprs = {{"ACT", act}, {"DT", dtype}, {"REPEAT", 3}}}, {1}, 64,
          [&](size_t i) {
            double v = x[i];
            for (int k = 0; k < 3; ++k) {
              v = act == "relu" ? std::max(v, 0.0) : act == "poly" ? 0.5 * v * v - v + 2 : v;
              if (dtype == Elem::F16) v = double(wide(round_to<float16>(v)));
              v *= 0.5;
            }
            return v;
          },
          dtype == Elem::F16 ? 2e-3 : 1e-5, Array<float>(x));
}

TEST(FrontEnds, DotInALoop) {
  constexpr int kM = 32, kN = 16, kK = 64;
  auto a = small_values<float16>(kM * kK, 11), b = small_values<float16>(kK * kN, 12);
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Ptr<"a", float16> a, Ptr<"b", float16> b, Int<"K"> K, Const<"BK"> BK) {
    Tile acc = zeros({32, 16}, tl::float32);
    Tile m = arange(0, 32), n = arange(0, 16), k = arange(0, BK);
    Tile pa = a + m[{all, none}] * K + k[{none, all}];
    Tile pb = b + k[{all, none}] * 16 + n[{none, all}];
    for ([[maybe_unused]] Tile step : range(0, K, BK)) {
      acc = dot(load(pa), load(pb), acc);
      pa += BK;
      pb += BK * 16;
    }
    store(out + m[{all, none}] * 16 + n[{none, all}], acc);
  });
  check<float>(
      R"(@triton.jit
def kernel(out, a, b, K, BK: tl.constexpr):
    m = tl.arange(0, 32)
    n = tl.arange(0, 16)
    k = tl.arange(0, BK)
    pa = a + m[:, None] * K + k[None, :]
    pb = b + k[:, None] * 16 + n[None, :]
    acc = tl.zeros((32, 16), tl.float32)
    for step in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK * 16
    tl.store(out + m[:, None] * 16 + n[None, :], acc)
)",
      cpp, {.constexprs = {{"BK", 16}}}, {1}, kM * kN,
      [&](size_t i) {
        double sum = 0;
        for (size_t k = 0; k < kK; ++k) sum += float(a[i / kN * kK + k]) * float(b[k * kN + i % kN]);
        return sum;
      },
      0, Array<float16>(a), Array<float16>(b), kK);
}

TEST(FrontEnds, AtomicsOfManyPrograms) {
  auto cpp = kernel("kernel", [](Ptr<"out"> out, Int<"n"> n) {
    Tile i = program_id(0) * 32 + arange(0, 32);
    atomic_add(out + i % 4, i, i < n, "sem"_a = "relaxed");
  });
  check<int32_t>(
      R"(@triton.jit
def kernel(out, n):
    i = tl.program_id(0) * 32 + tl.arange(0, 32)
    tl.atomic_add(out + i % 4, i, i < n, sem="relaxed")
)",
      cpp, {}, {4}, 4,
      [](size_t c) {
        int sum = 0;
        for (int i = int(c); i < 100; i += 4) sum += i;
        return sum;
      },
      0, 100);
}

TEST(FrontEnds, TypesOfParameters) {
  auto cpp = kernel("kernel", [](Ptr<"out", double> out, Int<"a", int64_t> a, Float<"b", double> b, Bool<"c"> c,
                                 Const<"D", int64_t, 4> D,
                                 Const<"E", double, 0.5> E) { store(out, where(c, a * 2 + b, 0.0f) + D * E); });
  std::string text = R"(@triton.jit
def kernel(out, a: tl.int64, b: tl.float64, c: tl.int1, D: tl.constexpr = 4, E: tl.constexpr = 0.5):
    tl.store(out, tl.where(c, a * 2 + b, 0.0) + D * E)
)";
  check<double>(
      text, cpp, {}, {1}, 1, [](size_t) { return 2.0 * 5000000000 + 0.25 + 2; }, 0, int64_t(5000000000), 0.25, true);
  check<double>(
      text, cpp, {.constexprs = {{"D", 10}}}, {1}, 1, [](size_t) { return 5.0; }, 0, 1, 0.25, false);
}

// ---- Every function of the language is a function in C++, by a row of the same tables.

TEST(FrontEnds, EveryFunctionIsThere) {
  std::set<std::string> in_cpp;
  // Naming tegula::name makes the compiler look for it.
#define TEGULA_NAMED(name)                                                 \
  {                                                                        \
    using Result = decltype(tegula::name(std::declval<const Operand&>())); \
    static_assert(std::is_same_v<Result, Tile>);                           \
    std::string function = #name;                                          \
    if (function.back() == '_') function.pop_back();                       \
    in_cpp.insert(function);                                               \
  }
#define TEGULA_FN(name, params, method, doc) TEGULA_NAMED(name)
#include "dsl/semantics/functions.def"
#define TEGULA_OP(...)
#define TEGULA_UNARY(...)
#define TEGULA_BINARY(...)
#define TEGULA_TERNARY(...)
#define TEGULA_FUNCTION_UNARY(Name, text, rule, traits, doc) TEGULA_NAMED(text)
#define TEGULA_FUNCTION_BINARY(Name, text, rule, traits, doc) TEGULA_NAMED(text)
#define TEGULA_FUNCTION_TERNARY(Name, text, names, rule, traits, doc) TEGULA_NAMED(text)
#include "codegen/ir/ops.def"
#undef TEGULA_NAMED
  std::set<std::string> in_table;
  for (const dsl::FunctionInfo& f : dsl::function_table()) in_table.insert(f.name);
  EXPECT_EQ(in_table, in_cpp);
}

}  // namespace
}  // namespace tegula::ops
