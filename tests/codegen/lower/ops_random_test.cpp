// label: device
// Random programs: a seeded generator makes a kernel and, step by step with it, a function on the host that computes
// the same; both run on the same data. Integers, so that results are exact.
#include <array>
#include <functional>
#include <numeric>

#include "tests/codegen/lower/ops_support.h"
#include "tests/random_count.h"

namespace tegula::ops {
namespace {

constexpr int kRows = 8, kCols = 32, kSize = kRows * kCols;
constexpr int kVariables = 4;

using Tile = std::vector<int32_t>;

struct State {
  std::array<Tile, kVariables> variables;
  std::vector<int32_t> counters;  ///< of the enclosing loops
  const Tile* input;
  int32_t n;
};

struct Expr {
  std::string text;
  std::function<Tile(const State&)> value;
};

struct Statement {
  std::string text;  ///< lines without indentation of their own block
  std::function<void(State&)> run;
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  Statement block(int depth, int length) {
    std::vector<Statement> list;
    for (int i = 0; i < length; ++i) list.push_back(statement(depth));
    std::string text;
    for (const Statement& s : list) text += s.text;
    return {text, [list](State& state) {
              for (const Statement& s : list) s.run(state);
            }};
  }

 private:
  int pick(int n) { return int(random_() % unsigned(n)); }
  static std::string name(int variable) { return std::string(1, char('a' + variable)); }

  static std::string nested(const std::string& text) {
    std::string out;
    size_t start = 0;
    for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
      out += "    " + text.substr(start, end - start) + "\n";
    return out;
  }

  template <class F>
  static Expr zip(std::string text, Expr a, Expr b, F f) {
    return {std::move(text), [a = std::move(a.value), b = std::move(b.value), f](const State& s) {
              Tile x = a(s), y = b(s);
              for (int i = 0; i < kSize; ++i) x[size_t(i)] = f(x[size_t(i)], y[size_t(i)]);
              return x;
            }};
  }

  static Expr uniform(std::string text, std::function<int32_t(const State&)> f) {
    return {std::move(text), [f](const State& s) { return Tile(kSize, f(s)); }};
  }

  Expr leaf() {
    switch (pick(5)) {
      case 0: {
        int value = pick(40) - 20;
        return uniform(fmt::format("({})", value), [value](const State&) { return value; });
      }
      case 1:
        return uniform("n", [](const State& s) { return s.n; });
      case 2:
        if (loops_ > 0) {
          int loop = pick(loops_);
          return uniform(fmt::format("k{}", loop), [loop](const State& s) { return s.counters[size_t(loop)]; });
        }
        [[fallthrough]];
      default: {
        int v = pick(kVariables);
        return {name(v), [v](const State& s) { return s.variables[size_t(v)]; }};
      }
    }
  }

  // A tile expression. The generator keeps a tile among the operands where one is needed: `tile` leaves are variables.
  Expr expression(int depth) {
    if (depth == 0) return leaf();
    using U = uint32_t;
    switch (pick(15)) {
      case 0:
      case 1: {
        Expr a = expression(depth - 1), b = expression(depth - 1);
        std::string text = fmt::format("({} + {})", a.text, b.text);
        return zip(text, a, b, [](int32_t x, int32_t y) { return int32_t(U(x) + U(y)); });
      }
      case 2: {
        Expr a = expression(depth - 1), b = expression(depth - 1);
        std::string text = fmt::format("({} - {})", a.text, b.text);
        return zip(text, a, b, [](int32_t x, int32_t y) { return int32_t(U(x) - U(y)); });
      }
      case 3: {
        Expr a = variable(), b = expression(depth - 1);
        std::string text = fmt::format("({} * {})", a.text, b.text);
        return zip(text, a, b, [](int32_t x, int32_t y) { return int32_t(U(x) * U(y)); });
      }
      case 4: {
        Expr a = variable(), b = expression(depth - 1);
        std::string text = fmt::format("({} ^ {})", a.text, b.text);
        return zip(text, a, b, [](int32_t x, int32_t y) { return x ^ y; });
      }
      case 5: {
        Expr a = variable(), b = expression(depth - 1);
        int divisor = pick(9) + 2;
        std::string text = fmt::format("(({} + {}) // {})", a.text, b.text, divisor);
        return zip(text, a, b, [divisor](int32_t x, int32_t y) { return int32_t(U(x) + U(y)) / divisor; });
      }
      case 6: {
        Expr a = variable(), b = expression(depth - 1);
        std::string text = fmt::format("({} % ({} | 1))", a.text, b.text);
        return zip(text, a, b, [](int32_t x, int32_t y) { return (y | 1) == -1 ? 0 : x % (y | 1); });
      }
      case 7: {
        Expr a = variable(), b = expression(depth - 1), c = expression(depth - 1);
        std::string text = fmt::format("tl.where({} < {}, {}, {})", a.text, b.text, c.text, a.text);
        Expr chosen = zip("", b, c, [](int32_t, int32_t y) { return y; });
        return {text, [a = a.value, b = b.value, c = chosen.value](const State& s) {
                  Tile x = a(s), y = b(s), z = c(s);
                  for (int i = 0; i < kSize; ++i)
                    if (x[size_t(i)] < y[size_t(i)]) x[size_t(i)] = z[size_t(i)];
                  return x;
                }};
      }
      case 8: {
        Expr a = variable(), b = expression(depth - 1);
        bool max = pick(2);
        std::string text = fmt::format("tl.{}({}, {})", max ? "maximum" : "minimum", a.text, b.text);
        return zip(text, a, b, [max](int32_t x, int32_t y) { return max ? std::max(x, y) : std::min(x, y); });
      }
      case 9: {
        Expr a = variable();
        int by = pick(5);
        bool left = pick(2);
        return {fmt::format("({} {} {})", a.text, left ? "<<" : ">>", by), [a = a.value, by, left](const State& s) {
                  Tile x = a(s);
                  for (int32_t& v : x) v = left ? int32_t(U(v) << by) : v >> by;
                  return x;
                }};
      }
      case 10:
        return reduction();
      case 11:
        return rearranged();
      case 12: {
        // Reads the input where the expression says.
        Expr a = variable(), b = expression(depth - 1);
        std::string text = fmt::format("tl.load(x + (({} + {}) & {}))", a.text, b.text, kSize - 1);
        Expr place = zip("", a, b, [](int32_t x, int32_t y) { return int32_t(U(x) + U(y)) & (kSize - 1); });
        return {text, [place = place.value](const State& s) {
                  Tile x = place(s);
                  for (int32_t& v : x) v = (*s.input)[size_t(v)];
                  return x;
                }};
      }
      case 13: {
        Expr a = variable();
        const char* type = pick(2) ? "tl.int8" : "tl.uint16";
        bool byte = std::string(type) == "tl.int8";
        return {fmt::format("{}.to({}).to(tl.int32)", a.text, type), [a = a.value, byte](const State& s) {
                  Tile x = a(s);
                  for (int32_t& v : x) v = byte ? int8_t(v) : uint16_t(v);
                  return x;
                }};
      }
      default:
        return expression(depth - 1);
    }
  }

  Expr variable() {
    int v = pick(kVariables);
    return {name(v), [v](const State& s) { return s.variables[size_t(v)]; }};
  }

  Expr reduction() {
    int v = pick(kVariables), axis = pick(3), kind = pick(3);
    const char* functions[] = {"sum", "max", "min"};
    std::string text = axis < 2 ? fmt::format("tl.{}({}, axis={}, keep_dims=True)", functions[kind], name(v), axis)
                                : fmt::format("tl.{}({})", functions[kind], name(v));
    return {fmt::format("({} + {})", text, "zero"), [v, axis, kind](const State& s) {
              const Tile& x = s.variables[size_t(v)];
              auto group = [axis](int i) { return axis == 0 ? i % kCols : axis == 1 ? i / kCols : 0; };
              std::vector<int64_t> total(kSize, kind == 0 ? 0 : kind == 1 ? INT32_MIN : INT32_MAX);
              for (int i = 0; i < kSize; ++i) {
                int64_t& t = total[size_t(group(i))];
                t = kind == 0   ? t + x[size_t(i)]
                    : kind == 1 ? std::max<int64_t>(t, x[size_t(i)])
                                : std::min<int64_t>(t, x[size_t(i)]);
              }
              Tile out(kSize);
              for (int i = 0; i < kSize; ++i) out[size_t(i)] = int32_t(total[size_t(group(i))]);
              return out;
            }};
  }

  // The same elements at other places.
  Expr rearranged() {
    int v = pick(kVariables), bits = 1 + pick(7);
    int rows = 1 << bits, cols = kSize >> bits;
    return {fmt::format("tl.reshape(tl.trans(tl.reshape({}, ({}, {}))), ({}, {}))", name(v), rows, cols, kRows, kCols),
            [v, rows, cols](const State& s) {
              Tile out(kSize);
              for (int i = 0; i < rows; ++i)
                for (int j = 0; j < cols; ++j) out[size_t(j * rows + i)] = s.variables[size_t(v)][size_t(i * cols + j)];
              return out;
            }};
  }

  Statement assignment() {
    int v = pick(kVariables);
    Expr e = expression(3);
    // `zero` makes a tile of what may be a scalar.
    return {fmt::format("{} = {} + zero\n", name(v), e.text), [v, e](State& s) {
              Tile t = e.value(s);
              s.variables[size_t(v)] = std::move(t);
            }};
  }

  Statement loop(int depth) {
    int from = pick(3), step = pick(3) + 1, stages = 1 + pick(3), index = loops_++;
    bool down = pick(4) == 0;
    Statement body = block(depth - 1, 1 + pick(3));
    --loops_;
    std::string range = down ? fmt::format("range(n, {}, {})", from, -step)
                             : fmt::format("tl.range({}, n, {}, num_stages={})", from, step, stages);
    return {fmt::format("for k{} in {}:\n{}", index, range, nested(body.text)), [=](State& s) {
              s.counters.resize(size_t(index) + 1);
              for (int k = down ? s.n : from; down ? k > from : k < s.n; k += down ? -step : step) {
                s.counters.resize(size_t(index) + 1);
                s.counters[size_t(index)] = k;
                body.run(s);
              }
            }};
  }

  Statement branch(int depth) {
    int limit = pick(6);
    bool parity = pick(2), of_counter = loops_ > 0 && pick(2);
    int loop = loops_ > 0 ? pick(loops_) : 0;
    std::string value = of_counter ? fmt::format("k{}", loop) : "n";
    Statement yes = block(depth - 1, 1 + pick(2)), no = block(depth - 1, 1 + pick(2));
    std::string condition = parity ? fmt::format("{} % 2 == 0", value) : fmt::format("{} > {}", value, limit);
    return {fmt::format("if {}:\n{}else:\n{}", condition, nested(yes.text), nested(no.text)), [=](State& s) {
              int x = of_counter ? s.counters[size_t(loop)] : s.n;
              ((parity ? x % 2 == 0 : x > limit) ? yes : no).run(s);
            }};
  }

  Statement statement(int depth) {
    if (depth > 0 && pick(4) == 0) return pick(3) ? loop(depth) : branch(depth);
    return assignment();
  }

  std::mt19937 random_;
  int loops_ = 0;  ///< that enclose the statement being made
};

constexpr const char* kHead = R"(
@triton.jit
def kernel(x, y, n):
    at = tl.arange(0, 8)[:, None] * 32 + tl.arange(0, 32)[None, :]
    zero = tl.zeros((8, 32), tl.int32)
    a = tl.load(x + at)
    b = a * 3 - n
    c = at
    d = tl.load(x + (255 - at))
)";

TEST(RandomPrograms, ComputeWhatTheHostDoes) {
  Tile input = small_values<int32_t>(kSize, 90, 1000);
  Array<int32_t> in(input);
  for (unsigned seed = 0; seed < random_count(60); ++seed) {
    Statement program = Generator(seed).block(2, 5);
    std::string text = kHead + indented(program.text) +
                       "\n    tl.store(y + at, a)\n    tl.store(y + 256 + at, b)\n    tl.store(y + 512 + at, c)\n    "
                       "tl.store(y + 768 + at, d)\n";
    for (int n : {0, 5}) {
      State state;
      state.input = &input;
      state.n = n;
      for (Tile& t : state.variables) t.resize(kSize);
      for (int i = 0; i < kSize; ++i) {
        state.variables[0][size_t(i)] = input[size_t(i)];
        state.variables[1][size_t(i)] = input[size_t(i)] * 3 - n;
        state.variables[2][size_t(i)] = i;
        state.variables[3][size_t(i)] = input[size_t(kSize - 1 - i)];
      }
      program.run(state);
      LaunchOptions options{.num_warps = next_warps(), .num_stages = 1 + int(seed % 4)};
      Array<int32_t> out(kVariables * kSize);
      run(text, options, {1}, in, out, n);
      auto got = out.values();
      bool right = true;
      for (int i = 0; i < kVariables * kSize; ++i)
        right &= got[size_t(i)] == state.variables[size_t(i / kSize)][size_t(i % kSize)];
      EXPECT_TRUE(right) << "seed " << seed << " n " << n << " num_warps " << options.num_warps << " num_stages "
                         << options.num_stages << text;
      if (!right) expect_equal(got, "variables", [&](size_t i) { return state.variables[i / kSize][i % kSize]; });
    }
  }
}

}  // namespace
}  // namespace tegula::ops
