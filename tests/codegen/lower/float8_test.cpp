// label: device
// The kinds of float8: their numbers, conversions by instructions and on bits, kernels of both front ends.
#include "runtime/base/float8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <regex>

#include "codegen/exec/emulator.h"
#include "tests/devices.h"
#include "tests/dsl/front_ends_support.h"

namespace tegula {
namespace {

using namespace front_ends;

constexpr const char* kKernels = TEGULA_SOURCE_DIR "/tests/kernels/float8.py";

// The default device; if that is an emulator, targets with and without the conversions.
const Devices& devices() {
  static const Devices all = gpu_or_emulators({{.target = "sm_80"}, {.target = "sm_89"}, {.target = "sm_90a"}});
  return all;
}

/// Only the OCP's formats have instructions, on some targets: the others are converted everywhere in one way.
template <class T>
std::vector<std::shared_ptr<Device>> devices_for() {
  return is_ocp_float8(T::kElem) ? devices() : std::vector{devices().back()};
}

template <class T>
constexpr bool kOneZero = std::is_same_v<T, float8e4b8> || std::is_same_v<T, float8e5b16>;
template <class T>
constexpr int kFraction = std::is_same_v<T, float8e5> || std::is_same_v<T, float8e5b16> ? 2 : 3;
template <class T>
constexpr int kBias = std::is_same_v<T, float8e4nv>    ? 7
                      : std::is_same_v<T, float8e4b8>  ? 8
                      : std::is_same_v<T, float8e5b16> ? 16
                                                       : 15;
/// What numbers that are too large become.
template <class T>
constexpr int kLargest = kOneZero<T>                   ? 0x7F
                         : std::is_same_v<T, float8e5> ? 0x7B
                                                       : 0x7E;

/// What the bits mean, from the definition of the format.
template <class T>
double compute_meaning(uint8_t bits) {
  if (kOneZero<T> && bits == 0x80) return NAN;
  const bool has_special = !kOneZero<T> && !std::is_same_v<T, float8e4b15>;
  const int exponent = (bits & 0x7F) >> kFraction<T>, fraction = bits & ((1 << kFraction<T>)-1);
  const double sign = bits & 0x80 ? -1 : 1;
  if (has_special && (bits & 0x7F) > kLargest<T>)
    return std::is_same_v<T, float8e5> && fraction == 0 ? sign * INFINITY : NAN;
  const double significand = std::ldexp(fraction, -kFraction<T>) + (exponent > 0);
  return sign * std::ldexp(significand, std::max(exponent, 1) - kBias<T>);
}

/// The same from a table: `nearest` asks for it several times a number.
template <class T>
double meaning(uint8_t bits) {
  static const auto table = [] {
    std::array<double, 256> numbers;
    for (size_t code = 0; code < numbers.size(); ++code) numbers[code] = compute_meaning<T>(uint8_t(code));
    return numbers;
  }();
  return table[bits];
}

/// The nearest finite number, of two the even one. Of float8e4b15 the larger one of two, after the bits beyond those of
/// a half are dropped. Codes are in the order of their numbers.
template <class T>
uint8_t nearest(double x) {
  constexpr bool kIsTritons = std::is_same_v<T, float8e4b15>;
  if (std::isnan(x)) return kOneZero<T> ? 0x80 : kIsTritons ? 0x7E : 0x7F;
  double size = std::fabs(x);
  if (kIsTritons && size < 2) size = std::ldexp(std::trunc(std::ldexp(size, 24)), -24);
  if (kIsTritons && size < 2 && size >= 0x1p-14) {
    const int places = 10 - std::ilogb(size);
    size = std::ldexp(std::trunc(std::ldexp(size, places)), -places);
  }
  int below = 0, best = kLargest<T>;  // the numbers on both sides
  while (best - below > 1) {
    const int middle = (below + best) / 2;
    (meaning<T>(uint8_t(middle)) <= size ? below : best) = middle;
  }
  const double up = meaning<T>(uint8_t(best)) - size, down = size - meaning<T>(uint8_t(below));
  if (down < up || (down == up && below % 2 == 0 && !kIsTritons)) best = below;
  return uint8_t(kOneZero<T> && best == 0 ? 0 : best | (std::signbit(x) ? 0x80 : 0));
}

/// Whether the bits are what a number becomes. Which sign the NaNs of float8e4b15's halves have is open.
template <class T>
bool is_nearest(T found, float x) {
  const int ignored = std::isnan(x) && std::is_same_v<T, float8e4b15> ? 0x80 : 0;
  return (found.bits | ignored) == (nearest<T>(x) | ignored);
}

/// Every number, every middle between two, what is next to it on both sides, what is too large or small; NaNs.
template <class T>
std::vector<float> interesting_floats() {
  std::vector<float> out = {0,      INFINITY, NAN,    -NAN,   1e30f,  3e38f,    1e-40f,   1e-30f,
                            463.0f, 464.0f,   465.0f, 480.0f, 512.0f, 61439.0f, 61440.0f, 65536.0f};
  for (int code = 0; code <= kLargest<T>; ++code) {
    const float x = float(meaning<T>(uint8_t(code)));
    const float next = code < kLargest<T> ? float(meaning<T>(uint8_t(code + 1))) : 2 * x;
    for (float y : {x, (x + next) / 2})
      for (float z : {std::nextafter(y, -INFINITY), y, std::nextafter(y, INFINITY)}) out.push_back(z);
  }
  for (size_t i = out.size(); i-- > 0;) out.push_back(-out[i]);
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) out.push_back(std::bit_cast<float>(uint32_t(random())));
  return out;
}

template <class T>
class Float8 : public ::testing::Test {};
using Float8Types = ::testing::Types<float8e4nv, float8e5, float8e4b15, float8e4b8, float8e5b16>;
TYPED_TEST_SUITE(Float8, Float8Types);

TYPED_TEST(Float8, OnTheHost) {
  using T = TypeParam;
  for (int code = 0; code < 256; ++code) {
    const double exact = meaning<T>(uint8_t(code));
    const float value = T::of_bits(uint8_t(code));
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(value, exact) << code;
    }
    if (std::isfinite(exact) && std::fabs(exact) <= meaning<T>(kLargest<T>)) {
      EXPECT_EQ(T(value).bits, code);
    }
  }
  for (float x : interesting_floats<T>()) EXPECT_TRUE(is_nearest(T(x), x)) << x << " gives " << int(T(x).bits);
}

// `block` is small where a thread shall have one number alone.
template <class To, class From>
std::vector<To> converted(Device& device, const std::vector<From>& x, int block = 1024) {
  static Program program = Program::load(kKernels);
  Buffer in(device, x), out(device, x.size() * sizeof(To));
  program.kernel("convert").launch(device, {unsigned((x.size() + size_t(block) - 1) / size_t(block))},
                                   {.constexprs = {{"TYPE", *elem_of<To>()}, {"BLOCK", block}}, .num_warps = 2},
                                   in.as<From>(), out.as<To>(), int(x.size()));
  return out.template download<To>();
}

template <class T>
std::vector<T> all_of_16_bits() {
  std::vector<T> all;
  for (int bits = 0; bits < 65536; ++bits) all.push_back(T::of_bits(uint16_t(bits)));
  return all;
}

TYPED_TEST(Float8, Widens) {
  using T = TypeParam;
  std::vector<T> all;
  for (int code = 0; code < 256; ++code) all.push_back(T::of_bits(uint8_t(code)));
  for (auto& device : devices_for<T>()) {
    SCOPED_TRACE(device->info().name);
    auto check = [&]<class To>(To, int block) {
      const auto out = converted<To>(*device, all, block);
      for (size_t code = 0; code < 256; ++code) {
        const double exact = meaning<T>(uint8_t(code)), found = double(float(out[code]));
        EXPECT_TRUE(found == exact || (std::isnan(found) && std::isnan(exact)))
            << code << ": " << found << " instead of " << exact;
        EXPECT_EQ(std::signbit(found), std::isnan(exact) ? std::signbit(found) : std::signbit(exact)) << code;
      }
    };
    for (int block : {1024, 64}) check(float(), block), check(float16(), block);
    check(bfloat16(), 256);
    check(double(), 256);
    const auto whole = converted<int32_t>(*device, all);
    const auto flags = converted<ops::Boolean>(*device, all);
    for (size_t code = 0; code < 256; ++code) {
      const double exact = meaning<T>(uint8_t(code));
      if (std::isfinite(exact)) {
        EXPECT_EQ(whole[code], int32_t(exact)) << code;
      }
      EXPECT_EQ(bool(flags[code]), exact != 0) << code;
    }
  }
}

TYPED_TEST(Float8, Narrows) {
  using T = TypeParam;
  const auto floats = interesting_floats<T>();
  std::vector<double> doubles(floats.begin(), floats.end());
  const auto halves = all_of_16_bits<float16>();
  const auto bfloats = all_of_16_bits<bfloat16>();
  std::vector<int32_t> integers = {0, 1, -1, 7, 100, 447, 448, 1000, -57344, 61440, 1 << 30, INT32_MIN};
  for (int i = -600; i < 600; ++i) integers.push_back(i);
  for (auto& device : devices_for<T>()) {
    SCOPED_TRACE(device->info().name);
    auto check = [&](const auto& x, int block = 1024) {
      const auto out = converted<T>(*device, x, block);
      int wrong = 0;
      for (size_t i = 0; i < x.size() && wrong < 5; ++i) {
        const float value = float(x[i]);
        if (is_nearest(out[i], value)) continue;
        ++wrong;
        ADD_FAILURE() << value << " gives " << int(out[i].bits) << ", expected " << int(nearest<T>(value));
      }
    };
    check(floats);
    check(floats, 64);
    check(doubles);
    check(halves);
    check(bfloats);
    check(integers);
  }
}

// From one format to the other, and the same bits as a byte.
TEST(Float8Pairs, ToEachOther) {
  std::vector<float8e4nv> all;
  for (int code = 0; code < 256; ++code) all.push_back(float8e4nv::of_bits(uint8_t(code)));
  for (auto& device : devices()) {
    auto check = [&]<class T>(T) {
      const auto out = converted<T>(*device, all);
      for (size_t code = 0; code < 256; ++code)
        EXPECT_TRUE(is_nearest(out[code], float(meaning<float8e4nv>(uint8_t(code))))) << code;
    };
    check(float8e5()), check(float8e4b15()), check(float8e4b8()), check(float8e5b16());
  }
}

TEST(Float8Kernels, InBothFrontEnds) {
  auto in_cpp = kernel("scale", [](Ptr<"out_ptr", float8e5> out, Ptr<"x_ptr", float8e4nv> x, Float<"factor"> factor,
                                   Int<"n"> n, Const<"BLOCK"> BLOCK) {
    Tile i = program_id(0) * BLOCK + arange(0, BLOCK);
    Tile v = load(x + i, i < n, 2.0).to(tl::float32);
    v = where(v > 3.0, v * factor, v);
    store(out + i, v, i < n);
  });
  Kernel in_text = Program::load(kKernels).kernel("scale");
  const std::vector<ArgType> types{{Elem::F8E5M2, true}, {Elem::F8E4M3, true}, {Elem::F32}, {Elem::I32}};
  EXPECT_EQ(canonical_ir(in_text, types, {.constexprs = {{"BLOCK", 256}}}),
            canonical_ir(in_cpp.kernel(), types, {.constexprs = {{"BLOCK", 256}}}));
  std::vector<float8e4nv> x;
  for (int i = 0; i < 1000; ++i) x.push_back(float8e4nv(float(i % 97) * 0.25f - 4));
  for (auto& device : devices()) {
    Buffer in(*device, x), out(*device, x.size());
    for (bool text : {false, true}) {
      out.fill(0xA5);
      const Kernel& k = text ? in_text : in_cpp.kernel();
      k.launch(*device, {4}, {.constexprs = {{"BLOCK", 256}}}, out.as<float8e5>(), in.as<float8e4nv>(), 5000.0f,
               int(x.size()));
      const auto y = out.download<float8e5>();
      for (size_t i = 0; i < x.size(); ++i) {
        const float v = x[i];
        EXPECT_EQ(y[i].bits, float8e5(v > 3 ? v * 5000 : v).bits) << v;
      }
    }
  }
}

TEST(Float8Kernels, BitsAndReductions) {
  std::vector<float8e4nv> x;
  for (int i = 0; i < 256; ++i) x.push_back(float8e4nv(float(i % 50) - 20));
  for (auto& device : devices()) {
    Buffer in(*device, x), out(*device, x.size()), bytes(*device, x.size()), largest(*device, 4), sum(*device, 4);
    Program::load(kKernels).kernel("bits").launch(*device, {1}, {.constexprs = {{"BLOCK", 256}}}, out.as<float8e4nv>(),
                                                  bytes.as<uint8_t>(), largest.as<float>(), sum.as<float>(),
                                                  in.as<float8e4nv>());
    const auto y = out.download<uint8_t>(), b = bytes.download<uint8_t>();
    float total = 0, most = -INFINITY;
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(b[i], x[i].bits);
      EXPECT_EQ(y[i], i < 8 ? x[i].bits ^ 0x80 : i < 16 ? 0x7E : 0);
      total += float(x[i]), most = std::max(most, float(x[i]));
    }
    EXPECT_EQ(sum.download<float>()[0], total);
    EXPECT_EQ(largest.download<float>()[0], most);
  }
}

// The instructions are used where they are, and only there.
TEST(Float8Kernels, Ptx) {
  Program program = Program::load(kKernels);
  auto ptx = [&](Elem from, Elem to, const char* target) {
    const std::vector<ArgType> types{{from, true}, {to, true}, {Elem::I32}};
    return program.kernel("convert").compile(types, {.constexprs = {{"TYPE", to}, {"BLOCK", 1024}}}, target).ptx;
  };
  auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  for (const char* target : {"sm_89", "sm_90a"}) {
    EXPECT_TRUE(has(ptx(Elem::F32, Elem::F8E4M3, target), "cvt.rn.satfinite.e4m3x2.f32"));
    EXPECT_TRUE(has(ptx(Elem::BF16, Elem::F8E5M2, target), "cvt.rn.satfinite.e5m2x2.f32"));
    EXPECT_TRUE(has(ptx(Elem::F8E4M3, Elem::F16, target), "cvt.rn.f16x2.e4m3x2"));
  }
  // They came to sm_89 in PTX 8.1: what does without is for older drivers too.
  EXPECT_TRUE(has(ptx(Elem::F32, Elem::F8E4M3, "sm_89"), ".version 8.1\n"));
  EXPECT_TRUE(has(ptx(Elem::F8E4M3, Elem::F16, "sm_89"), ".version 8.1\n"));
  EXPECT_TRUE(has(ptx(Elem::F32, Elem::F16, "sm_89"), ".version 7.8\n"));
  EXPECT_TRUE(has(ptx(Elem::F32, Elem::F8E4M3, "sm_90a"), ".version 8.0\n"));
  EXPECT_FALSE(has(ptx(Elem::F32, Elem::F8E4M3, "sm_80"), "e4m3"));
  EXPECT_FALSE(has(ptx(Elem::F8E4M3, Elem::F16, "sm_80"), "e4m3"));
}

// ------------------------------------------------------------------------------------------------------- products

constexpr const char* kMatmul = TEGULA_SOURCE_DIR "/tests/kernels/matmul.py";

LaunchOptions product_options(int block_m, int block_n, int block_k, int num_warps) {
  return {.constexprs =
              {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"BLOCK_K", block_k}, {"GROUP_M", 4}, {"OUT", Elem::F32}},
          .num_warps = num_warps,
          .num_stages = 3};
}

// B as [N, K] if `transposed`, else [K, N].
template <class A, class B>
void check_product(int m, int n, int k, const LaunchOptions& options, Grid grid, bool transposed) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<A> a(size_t(m) * k);
  std::vector<B> b(size_t(n) * k);
  for (A& x : a) x = A(normal(random));
  for (B& x : b) x = B(normal(random));
  const int stride_bk = transposed ? 1 : n, stride_bn = transposed ? k : 1;
  std::vector<double> exact;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l)
        sum += double(float(a[size_t(i) * k + l])) * float(b[size_t(l) * stride_bk + size_t(j) * stride_bn]);
      exact.push_back(sum);
    }
  Kernel kernel = Program::load(kMatmul).kernel("matmul");
  for (auto& device : devices()) {
    SCOPED_TRACE(fmt::format("{}: {} x {} x {}{}", device->info().name, m, n, k, transposed ? ", B transposed" : ""));
    Buffer da(*device, a), db(*device, b), dc(*device, exact.size() * sizeof(float));
    kernel.launch(*device, grid, options, da.as<A>(), db.as<B>(), dc.as<float>(), m, n, k, k, 1, stride_bk, stride_bn,
                  n, 1);
    const auto c = dc.template download<float>();
    double difference = 0, norm = 0;
    for (size_t i = 0; i < exact.size(); ++i)
      difference += (c[i] - exact[i]) * (c[i] - exact[i]), norm += exact[i] * exact[i];
    // Hopper's tensor cores keep 14 bits of the sums.
    EXPECT_LE(std::sqrt(difference / norm), device->info().sm == 90 ? 1e-3 : 1e-6);
  }
}

TEST(Float8Products, OnEveryPath) {
  for (bool transposed : {true, false}) {
    check_product<float8e4nv, float8e4nv>(128, 64, 160, product_options(128, 64, 64, 4), {1}, transposed);
    check_product<float8e5, float8e4nv>(100, 72, 96, product_options(64, 32, 32, 4), {6}, transposed);
  }
  check_product<float8e4nv, float8e5>(128, 128, 256, product_options(128, 128, 128, 8), {1}, true);
  check_product<float8e5, float8e5>(16, 32, 128, product_options(16, 32, 64, 2), {1}, true);
  for (bool transposed : {true, false})  // the last fragments of K reach beyond it
    check_product<float8e4nv, float8e5>(32, 16, 96, product_options(32, 16, 48, 2), {1}, transposed);
}

// A product whose operands a hardware function widens, word by word, beside a function that is long enough to be
// called.
TEST(Float8Products, BesideLongFunctions) {
  const char* text = R"(
import triton
import triton.language as tl


@triton.jit
def kernel(out_ptr, sines_ptr, a_ptr, x_ptr):
    i, j, k = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :], tl.arange(0, 32)
    sines = tl.sin(tl.load(x_ptr + k))
    c = tl.dot(tl.load(a_ptr + i * 32 + k[None, :]), tl.load(a_ptr + k[:, None] * 16 + j))
    tl.store(sines_ptr + k, sines)
    tl.store(out_ptr + i * 16 + j, c)
)";
  std::vector<float8e4nv> a;
  for (int i = 0; i < 512; ++i) a.push_back(float8e4nv(float(i * 7 % 31 - 15) / 4));
  const std::vector<float> x(32, -2.0f);
  for (auto& device : devices())
    for (int num_warps : {1, 2, 4}) {
      Buffer da(*device, a), dx(*device, x), out(*device, 256 * sizeof(float)), sines(*device, 32 * sizeof(float));
      Program::parse(text, "sines.py")
          .kernel("kernel")
          .launch(*device, {1}, {.num_warps = num_warps}, out.as<float>(), sines.as<float>(), da.as<float8e4nv>(),
                  dx.as<float>());
      const auto c = out.download<float>();
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) {
          float sum = 0;
          for (int k = 0; k < 32; ++k) sum += float(a[size_t(i * 32 + k)]) * float(a[size_t(k * 16 + j)]);
          ASSERT_EQ(c[size_t(i * 16 + j)], sum) << device->info().name << ", " << num_warps << " warps";
        }
      EXPECT_NEAR(sines.download<float>()[31], std::sin(-2.0f), 1e-6);
    }
}

// wgmma reads float8 along K alone: rows of B are transposed in shared memory.
TEST(Float8Products, Instructions) {
  auto ptx = [](Elem a, Elem b, bool transposed, const char* target) {
    const ArgType stride{.elem = Elem::I32, .divisible_by = 16}, one{.elem = Elem::I32, .constant = 1};
    const std::vector<ArgType> types{{a, true, 16},
                                     {b, true, 16},
                                     {Elem::F32, true, 16},
                                     stride,
                                     stride,
                                     stride,
                                     stride,
                                     one,
                                     transposed ? one : stride,
                                     transposed ? stride : one,
                                     stride,
                                     one};
    return Program::load(kMatmul).kernel("matmul").compile(types, product_options(128, 128, 64, 4), target).ptx;
  };
  auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const Elem e4m3 = Elem::F8E4M3, e5m2 = Elem::F8E5M2;
  EXPECT_TRUE(has(ptx(e4m3, e4m3, true, "sm_90a"), "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3"));
  EXPECT_TRUE(has(ptx(e4m3, e5m2, true, "sm_90a"), "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e5m2"));
  EXPECT_TRUE(has(ptx(e5m2, e5m2, true, "sm_90a"), "wgmma.mma_async.sync.aligned.m64n128k32.f32.e5m2.e5m2"));
  EXPECT_TRUE(has(ptx(e4m3, e4m3, false, "sm_90a"), "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3"));
  EXPECT_TRUE(has(ptx(e4m3, e4m3, false, "sm_90a"), "ldmatrix.sync.aligned.m8n8.x4.trans"));
  EXPECT_TRUE(has(ptx(e5m2, e4m3, true, "sm_89"), "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32"));
  EXPECT_TRUE(has(ptx(e5m2, e4m3, true, "sm_89"), ".version 8.4\n"));
  EXPECT_TRUE(has(ptx(Elem::F16, Elem::F16, true, "sm_89"), ".version 7.8\n"));
  EXPECT_TRUE(has(ptx(e4m3, e4m3, true, "sm_80"), "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16"));
}

// A scalar argument that the kernel declares as float8.
TEST(Float8Kernels, ScalarArgument) {
  Program program = Program::parse(R"(
import triton
import triton.language as tl

@triton.jit
def kernel(out_ptr, x: tl.float8e4nv):
    tl.store(out_ptr, x)
)",
                                   "kernel.py");
  for (auto& device : devices()) {
    Buffer out(*device, 4);
    program.kernel("kernel").launch(*device, {1}, {}, out.as<float>(), 3.3f);
    EXPECT_EQ(out.download<float>()[0], 3.25f);
  }
}

constexpr const char* kUniform = R"(
import triton
import triton.language as tl

@triton.jit
def masked_off(out, a, b):
    m, n = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    y = tl.load(b + m * 32 + n, mask=n < 0, other=-2.0)
    tl.store(out + m * 32 + n, tl.dot(tl.load(a + m * 32 + n), y))

@triton.jit
def of_argument(out, bits):
    n = tl.arange(0, 128)
    bytes = tl.where(n % 4 == 0, bits & 255, tl.where(n % 4 == 1, bits >> 8 & 255, tl.where(n % 4 == 2, bits >> 16 & 255, bits >> 24)))
    tl.store(out + n, bytes.to(tl.uint8).to(tl.float8e4nv, bitcast=True).to(tl.float16))

@triton.jit
def of_odd_argument(out, bits):
    n = tl.arange(0, 128)
    bytes = tl.where(n % 2 == 0, bits & 255, bits >> 8 & 255) | 1
    tl.store(out + n, bytes.to(tl.uint8).to(tl.float8e4nv, bitcast=True).to(tl.float16))

@triton.jit
def partly_masked(out, a, b):
    m, n, k = tl.arange(0, 64)[:, None], tl.arange(0, 32)[None, :], tl.arange(0, 32)
    x = tl.load(a + m * 32 + k[None, :], mask=m < 33, other=1.0)
    tl.store(out + m * 32 + n, tl.dot(x, tl.load(b + k[:, None] * 32 + n)))

@triton.jit
def of_the_row_before(out, x, MASKED: tl.constexpr):
    i = tl.arange(0, 128)
    sums, before = tl.zeros([128], tl.float32), tl.full([128], -1.0, tl.float8e4nv)
    for k in tl.range(0, 8, loop_unroll_factor=1):
        if MASKED:
            before = tl.load(x + (k - 1) * 128 + i, mask=k > 0, other=-1.0)
        sums += before.to(tl.float32) * (k + 1)
        if not MASKED:
            before = tl.load(x + k * 128 + i)
    tl.store(out + i, sums)
)";

// Numbers that all threads share, as constants and as arguments.
TEST(Float8Kernels, NumbersThatThreadsShare) {
  const Program program = Program::parse(kUniform, "uniform.py");
  std::vector<float8e4nv> a(32 * 32);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float8e4nv(float(int(i * 7 % 13) - 6));
  constexpr uint32_t kBits = 0x40483839;
  for (auto& device : devices()) {
    Buffer da(*device, a), sums(*device, 4 * a.size()), numbers(*device, 2 * 128);
    program.kernel("masked_off").launch(*device, {1}, {}, sums.as<float>(), da.as<float8e4nv>(), da.as<float8e4nv>());
    const std::vector<float> got = sums.download<float>();
    for (size_t row = 0; row < 32; ++row) {
      float expected = 0;
      for (size_t k = 0; k < 32; ++k) expected -= 2 * float(a[row * 32 + k]);
      for (size_t column = 0; column < 32; ++column) ASSERT_EQ(got[row * 32 + column], expected) << row;
    }
    program.kernel("of_argument").launch(*device, {1}, {.num_warps = 1}, numbers.as<float16>(), int32_t(kBits));
    const std::vector<float16> of_bytes = numbers.download<float16>();
    for (size_t i = 0; i < of_bytes.size(); ++i)
      ASSERT_EQ(float(of_bytes[i]), float(float8e4nv::of_bits(uint8_t(kBits >> (8 * (i % 4)))))) << i;
    program.kernel("of_odd_argument").launch(*device, {1}, {.num_warps = 1}, numbers.as<float16>(), int32_t(kBits));
    const std::vector<float16> of_odd = numbers.download<float16>();
    for (size_t i = 0; i < of_odd.size(); ++i)
      ASSERT_EQ(float(of_odd[i]), float(float8e4nv::of_bits(uint8_t(kBits >> (8 * (i % 2)) | 1)))) << i;
  }
}

// Whole tiles of an operand that are constant come to the product's threads by exchanges.
TEST(Float8Kernels, NumbersThatThreadsShareAreExchanged) {
  const Program program = Program::parse(kUniform, "uniform.py");
  std::vector<float8e4nv> a(64 * 32), b(32 * 32);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float8e4nv(float(int(i * 7 % 13) - 6));
  for (size_t i = 0; i < b.size(); ++i) b[i] = float8e4nv(float(int(i * 5 % 11) - 5));
  for (auto& device : devices()) {
    Buffer sums(*device, 4 * a.size()), da(*device, a), db(*device, b);
    program.kernel("partly_masked")
        .launch(*device, {1}, {.num_warps = 1}, sums.as<float>(), da.as<float8e4nv>(), db.as<float8e4nv>());
    const std::vector<float> got = sums.download<float>();
    for (size_t row = 0; row < 64; ++row) {
      for (size_t column = 0; column < 32; ++column) {
        float expected = 0;
        for (size_t k = 0; k < 32; ++k) expected += (row < 33 ? float(a[row * 32 + k]) : 1) * float(b[k * 32 + column]);
        ASSERT_EQ(got[row * 32 + column], expected) << row << ", " << column;
      }
    }
  }
}

// ptxas unrolls the loop, in whose first iteration all numbers are constant.
TEST(Float8Kernels, NumbersThatThreadsShareInOneIteration) {
  const Program program = Program::parse(kUniform, "uniform.py");
  std::vector<float8e4nv> x(8 * 128);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float8e4nv(float(int(i * 7 % 13) - 6));
  for (auto& device : devices()) {
    for (bool masked : {false, true}) {
      Buffer sums(*device, 128 * sizeof(float)), of_x(*device, x);
      program.kernel("of_the_row_before")
          .launch(*device, {1}, {.constexprs = {{"MASKED", masked}}, .num_warps = 1}, sums.as<float>(),
                  of_x.as<float8e4nv>());
      const std::vector<float> got = sums.download<float>();
      for (size_t i = 0; i < 128; ++i) {
        float expected = -1;
        for (size_t k = 1; k < 8; ++k) expected += float(x[(k - 1) * 128 + i]) * float(k + 1);
        ASSERT_EQ(got[i], expected) << i << (masked ? ", masked" : "");
      }
    }
  }
}

// ptxas could keep these in uniform registers, from which the hardware converts wrongly.
TEST(Float8Kernels, NumbersThatThreadsShareComeThroughOwnRegisters) {
  const Program program = Program::parse(kUniform, "uniform.py");
  const auto ptx = [&](const char* kernel, std::vector<ArgType> types) {
    return program.kernel(kernel).compile(types, {.num_warps = 1}, "sm_90a").ptx;
  };
  const ArgType floats{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
  const ArgType bytes{.elem = Elem::F8E4M3, .pointer = true, .divisible_by = 16};
  const ArgType halves{.elem = Elem::F16, .pointer = true, .divisible_by = 16}, number{.elem = Elem::I32};
  EXPECT_NE(ptx("of_argument", {halves, number}).find("mad.lo.u32 t, t, t, t"), std::string::npos);
  const std::string odd = ptx("of_odd_argument", {halves, number});
  EXPECT_TRUE(
      std::regex_search(odd, std::regex(R"(and\.b32 t, t, 1; neg\.s32 (%r\d+), t[^$]*xor\.b32 \s*%r\d+, %r\d+, \1;)")))
      << "no bit of the result follows from those of the number that are known";
  const std::string masked = ptx("masked_off", {floats, bytes, bytes});
  EXPECT_EQ(masked.find("mad.lo.u32 t, t, t, t"), std::string::npos) << "loaded numbers are no such";
  EXPECT_NE(masked.find("cvt.rn.f16x2.e4m3x2"), std::string::npos) << "of a";
  EXPECT_EQ(masked.find("ld.global.b8"), std::string::npos) << "of b, all masked off";
  EXPECT_NE(ptx("partly_masked", {floats, bytes, bytes}).find("mad.lo.u32 t, t, t, t"), std::string::npos)
      << "exchanged constants";
  for (bool masked : {false, true}) {
    const std::vector<ArgType> of_loop{floats, bytes};
    const std::string loop = program.kernel("of_the_row_before")
                                 .compile(of_loop, {.constexprs = {{"MASKED", masked}}, .num_warps = 1}, "sm_90a")
                                 .ptx;
    EXPECT_NE(loop.find("mad.lo.u32 t, t, t, t"), std::string::npos) << "constant in an iteration";
  }
  const std::vector<ArgType> types{floats, bytes, bytes};
  const std::string products = program.kernel("partly_masked").compile(types, {.num_warps = 1}, "sm_89").ptx;
  EXPECT_NE(products.find(".e4m3.e4m3"), std::string::npos) << "conversions where sm_90a takes it";
  EXPECT_NE(products.find("mad.lo.u32 t, t, t, t"), std::string::npos);
}

}  // namespace
}  // namespace tegula
