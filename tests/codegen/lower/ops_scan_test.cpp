// label: device
// Scans: axes, directions, types, tuples and functions that do not commute, over tiles smaller than a warp to several
// rounds of all warps.
#include <algorithm>

#include "tests/codegen/lower/ops_axes.h"

namespace tegula::ops {
namespace {

// The values of expressions of the tile `a`, each as large as it, of type R.
template <class R, class T>
std::vector<std::vector<R>> scan(const std::vector<T>& x, const Shape& shape,
                                 const std::vector<std::string>& expressions, int num_warps,
                                 const std::string& helpers = "") {
  std::string body = fmt::format("i = {}\na = tl.load(x + i)\n", offsets(shape));
  for (size_t k = 0; k < expressions.size(); ++k)
    body += fmt::format(
        "r{0} = {1}\ntl.static_assert(r{0}.dtype == {2}, 'type of expression {0}')\ntl.store(out + {3} + i, r{0})\n", k,
        expressions[k], tl<R>(), k * x.size());
  Array<R> out(x.size() * expressions.size());
  run(fmt::format("{}\n@triton.jit\ndef kernel(x, out):\n{}\n", helpers, indented(body)), {.num_warps = num_warps}, {1},
      Array<T>(x), out);
  std::vector<R> all = out.values();
  std::vector<std::vector<R>> results;
  for (size_t k = 0; k < expressions.size(); ++k)
    results.emplace_back(all.begin() + long(k * x.size()), all.begin() + long((k + 1) * x.size()));
  return results;
}

// What a scan gives: `step` combines what came before, nothing at first, with the next element.
template <class R, class State, class T, class Step>
std::vector<R> scan_reference(const std::vector<T>& x, const Shape& shape, int axis, bool reverse, Step step) {
  std::vector<R> out(x.size());
  for (std::vector<int> group : groups_along(shape, axis)) {
    if (reverse) std::reverse(group.begin(), group.end());
    std::optional<State> state;
    for (int i : group) {
      state = step(state, x[size_t(i)]);
      out[size_t(i)] = R(*state);
    }
  }
  return out;
}

// x -> scale * x + shift, one after the other: associative, and the order matters.
constexpr const char* kAffine = R"(
@triton.jit
def affine(scale1, shift1, scale2, shift2):
    return scale1 * scale2, shift1 * scale2 + shift2

@triton.jit
def first(a, b):
    return a

@triton.jit
def second(a, b):
    return b
)";

void check_scans(const Shape& shape, int axis, int num_warps) {
  SCOPED_TRACE(fmt::format("[{}] axis {} num_warps {}", fmt::join(shape, ", "), axis, num_warps));
  auto x = small_values<int32_t>(size_t(elements(shape)), unsigned(axis + num_warps), 100);
  std::vector<std::string> expressions;
  for (const char* reverse : {"", ", reverse=True"}) {
    expressions.push_back(fmt::format("tl.cumsum(a, {}{})", axis, reverse));
    expressions.push_back(fmt::format("tl.associative_scan((a * 2 + 1, a), {}, affine{})[1]", axis, reverse));
    expressions.push_back(fmt::format("tl.associative_scan(a, {}, first{})", axis, reverse));
    expressions.push_back(fmt::format("a.associative_scan({}, second{})", axis, reverse));
  }
  auto r = scan<int32_t>(x, shape, expressions, num_warps, kAffine);
  using State = std::optional<uint32_t>;
  for (bool reverse : {false, true}) {
    auto reference = [&](auto step) { return scan_reference<int32_t, uint32_t>(x, shape, axis, reverse, step); };
    const size_t k = reverse ? 4 : 0;
    EXPECT_EQ(r[k], reference([](State s, int v) { return s.value_or(0) + uint32_t(v); })) << "cumsum " << reverse;
    EXPECT_EQ(r[k + 1], reference([](State s, int v) { return s.value_or(0) * uint32_t(2 * v + 1) + uint32_t(v); }))
        << "affine " << reverse;
    EXPECT_EQ(r[k + 2], reference([](State s, int v) { return s.value_or(uint32_t(v)); })) << "first " << reverse;
    EXPECT_EQ(r[k + 3], x) << "second " << reverse;
  }
}

TEST(Scans, Rank1) {
  for (int extent : {1, 2, 16, 32, 64, 96, 224, 1024, 3072})
    for (int num_warps : {1, 4, 8}) check_scans({extent}, 0, num_warps);
}

TEST(Scans, Axes) {
  for (const Shape& shape : std::vector<Shape>{{4, 8},
                                               {32, 32},
                                               {2, 128},
                                               {128, 2},
                                               {48, 16},
                                               {16, 48},
                                               {8, 4, 16},
                                               {2, 3, 32},
                                               {4, 2, 2, 8},
                                               {2, 2, 4, 2, 4}})
    for (int axis = 0; axis < int(shape.size()); ++axis) check_scans(shape, axis, next_warps());
  check_scans({64, 64}, 0, 4);
  check_scans({4, 512}, 1, 16);
  for (const Shape& shape : std::vector<Shape>{{128, 32}, {96, 64}, {256, 8}, {64, 2, 16}}) check_scans(shape, 0, 8);
}

// Operands that come from elsewhere than from memory: transposed, flattened, sums of products.
TEST(Scans, OfOtherLayouts) {
  for (int num_warps : {1, 4}) {
    Shape shape{32, 64};
    auto x = small_values<float>(2048, 3, 4);
    auto r =
        scan<float>(x, shape,
                    {"tl.trans(tl.cumsum(tl.trans(a), 1))", "tl.reshape(tl.cumsum(tl.reshape(a, (2048,))), (32, 64))",
                     "tl.sum(tl.cumsum(tl.dot(a.to(tl.float16), tl.trans(a).to(tl.float16)), 1), 1)[:, None] + a"},
                    num_warps);
    auto sum = [](std::optional<double> s, float v) { return s.value_or(0) + v; };
    const auto columns = scan_reference<float, double>(x, shape, 0, false, sum);
    const auto all = scan_reference<float, double>(x, {2048}, 0, false, sum);
    EXPECT_EQ(r[0], columns);
    EXPECT_EQ(r[1], all);
    for (int row = 0; row < 32; ++row) {
      double total = 0, before = 0;
      for (int column = 0; column < 32; ++column) {
        double product = 0;
        for (int k = 0; k < 64; ++k) product += double(x[size_t(row * 64 + k)]) * x[size_t(column * 64 + k)];
        before += product, total += before;
      }
      for (int k = 0; k < 64; ++k)
        ASSERT_EQ(r[2][size_t(row * 64 + k)], float(total) + x[size_t(row * 64 + k)]) << row << " " << k;
    }
  }
}

template <class T>
void check_scan_types() {
  using Sum = std::conditional_t<std::is_same_v<T, bfloat16>, float, SumOf<T>>;
  using Product = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;
  SCOPED_TRACE(tl<T>());
  const Shape shape{8, 64};
  auto x = small_values<T>(512, 7, is_half<T> ? 2 : 9);
  auto sums = scan<Sum>(x, shape, {"tl.cumsum(a, 1)", "a.cumsum(-1, reverse=True)"}, 4);
  for (bool reverse : {false, true})
    expect_equal(sums[reverse], "cumsum", [&, r = scan_reference<double, double>(x, shape, 1, reverse, [](auto s, T v) {
                                                return s.value_or(0.0) + double(wide(v));
                                              })](size_t i) {
      if constexpr (is_real<Sum>)
        return round_to<Sum>(r[i]);
      else
        return Sum(int64_t(r[i]));
    });
  // Products of ones, twos and minus ones, few of them.
  std::vector<T> few(512, T(1));
  for (size_t i = 0; i < few.size(); i += 11) few[i] = i % 2 ? T(2) : T(is_real<T> || std::is_signed_v<T> ? -1 : 1);
  auto products = scan<Product>(few, shape, {"tl.cumprod(a, 1)", "tl.cumprod(a, axis=1, reverse=True)"}, 4);
  for (bool reverse : {false, true})
    expect_equal(products[reverse], "cumprod",
                 [&, r = scan_reference<double, double>(few, shape, 1, reverse, [](auto s, T v) {
                       return s.value_or(1.0) * double(wide(v));
                     })](size_t i) {
                   if constexpr (is_real<Product>)
                     return round_to<Product>(r[i]);
                   else
                     return Product(int64_t(r[i]));
                 });
}

TEST(Scans, Types) {
  check_scan_types<int8_t>();
  check_scan_types<uint8_t>();
  check_scan_types<int16_t>();
  check_scan_types<uint16_t>();
  check_scan_types<int32_t>();
  check_scan_types<uint32_t>();
  check_scan_types<int64_t>();
  check_scan_types<uint64_t>();
  check_scan_types<float16>();
  check_scan_types<bfloat16>();
  check_scan_types<float>();
  check_scan_types<double>();
  // int1 counts in uint32; `dtype` comes first.
  auto x = small_values<float>(256, 9, 3);
  auto count = scan<uint32_t>(x, {256}, {"tl.cumsum(a > 0)", "tl.cumsum((a > 0).to(tl.int8), 0, dtype=tl.uint32)"}, 2);
  auto expected = scan_reference<uint32_t, uint32_t>(x, {256}, 0, false,
                                                     [](auto s, float v) { return s.value_or(0) + uint32_t(v > 0); });
  EXPECT_EQ(count[0], expected);
  EXPECT_EQ(count[1], expected);
}

// Scans in a loop share scratch with what comes before and behind.
TEST(Scans, InLoops) {
  auto x = small_values<int32_t>(1024, 5, 9);
  for (int num_warps : {4, 8}) {
    Array<int32_t> out(1024);
    run(R"(
@triton.jit
def kernel(x, out, n):
    i = tl.arange(0, 1024)
    a = tl.load(x + i)
    for k in range(n):
        a = tl.cumsum(a, 0) - tl.max(a, 0)
        a = tl.cumsum(a, 0, reverse=True) & 1023
    tl.store(out + i, a)
)",
        {.num_warps = num_warps}, {1}, Array<int32_t>(x), out, 5);
    std::vector<int32_t> a = x;
    for (int k = 0; k < 5; ++k) {
      const uint32_t most = uint32_t(*std::max_element(a.begin(), a.end()));
      uint32_t sum = 0;
      std::vector<uint32_t> next;
      for (int v : a) sum += uint32_t(v), next.push_back(sum - most);
      sum = 0;
      for (size_t i = a.size(); i-- > 0;) sum += next[i], a[i] = int32_t(sum & 1023);
    }
    EXPECT_EQ(out.values(), a);
  }
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// What the warps have of columns lies lane by lane, four columns of a thread in an access: else all lanes of a warp
// would meet in one bank of shared memory.
TEST(Scans, WarpsExchangeColumnsInWideAccesses) {
  const std::string ptx = ptx_of<float>(
      "@triton.jit\ndef kernel(x, out):\n    i = tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]\n"
      "    tl.store(out + i, tl.cumsum(tl.load(x + i), 0))\n",
      2);
  constexpr int kRounds = 8, kWarps = 4;
  EXPECT_EQ(count(ptx, "st.shared.v4"), kRounds) << ptx;
  EXPECT_EQ(count(ptx, "ld.shared.v4"), kRounds * kWarps - 1) << "nothing is behind the last\n" << ptx;
}

// As many exchanges as a reduction needs: one for each bit of the lanes, and one barrier between warps.
TEST(Scans, FewExchanges) {
  auto kernel = [](int extent) {
    return ptx_of<float>(fmt::format("@triton.jit\ndef kernel(x, out):\n    i = tl.arange(0, {})\n"
                                     "    tl.store(out + i, tl.cumsum(tl.load(x + i)))\n",
                                     extent),
                         2);
  };
  const std::string warp = kernel(32), warps = kernel(512), rounds = kernel(4096);
  EXPECT_EQ(count(warp, "shfl.sync"), 5) << warp;
  EXPECT_EQ(count(warp, "bar.sync"), 0) << warp;
  EXPECT_EQ(count(warps, "shfl.sync"), 5) << warps;
  EXPECT_EQ(count(warps, "bar.sync"), 1) << warps;
  EXPECT_EQ(count(warps, "ld.global.v4"), 1) << "one layout from load to store\n" << warps;
  EXPECT_EQ(count(rounds, "shfl.sync"), 8 * 5) << rounds;
  EXPECT_EQ(count(rounds, "bar.sync"), 1) << rounds;
}

}  // namespace
}  // namespace tegula::ops
