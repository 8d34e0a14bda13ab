// label: device
// heavy: WidenedOperands.FragmentsInHalves
// Products of operands that are widened on the way: copied ahead as they lie in memory, converted from shared memory.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "runtime/base/float16.h"
#include "runtime/base/float8.h"
#include "tests/codegen/lower/dot_support.h"
#include "tests/devices.h"

namespace tegula {
namespace {

// The GPU if there is one; else emulators, on which each copy and product happens as late as the waits allow.
const Devices& devices() {
  static const Devices all = gpu_or_emulators(
      {{.target = "sm_80"}, {.target = "sm_89"}, {.target = "sm_90a"}, {.target = "sm_90a", .seed = 1}});
  return all;
}

Kernel& kernel() {
  static Program p = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/operands.py");
  static Kernel k = p.kernel("widened");
  return k;
}

// Every bit pattern of integers; of float8 no NaNs, and nothing that float16 could not sum up.
template <class T>
std::vector<T> operand(size_t count, unsigned seed) {
  if constexpr (sizeof(T) > 1) {
    return random_values<T>(count, seed);
  } else {
    std::mt19937 random(seed);
    std::vector<T> values(count);
    for (T& v : values) {
      const auto bits = uint8_t(random());
      if constexpr (std::is_integral_v<T>)
        v = T(bits);
      else
        v = T::of_bits(bits & 0xBF);
    }
    return values;
  }
}

struct Shape {
  int m, n, k;
  int block_m, block_n, block_k;
  int num_warps, num_stages;
};
// Tiles that warps multiply from registers and such that warpgroups multiply, with rests along each axis.
constexpr Shape kShapes[] = {{16, 64, 256, 16, 64, 128, 4, 4}, {33, 40, 84, 32, 32, 32, 4, 3},
                             {20, 24, 130, 16, 16, 64, 2, 3},  {16, 8, 64, 16, 8, 64, 1, 2},
                             {70, 64, 100, 64, 64, 32, 4, 3},  {64, 48, 96, 64, 16, 16, 4, 2}};

template <class A, class B>
void check(Device& device, const Shape& p, Elem type, bool turned, bool in_rows) {
  SCOPED_TRACE(fmt::format("{}: {} x {} x {}, blocks {} x {} x {}, {} warps, {} stages, {} x {} as {}{}{}",
                           device.info().name, p.m, p.n, p.k, p.block_m, p.block_n, p.block_k, p.num_warps,
                           p.num_stages, elem_info(*elem_of<A>()).tl, elem_info(*elem_of<B>()).tl, elem_info(type).tl,
                           turned ? ", turned" : "", in_rows ? ", in rows" : ""));
  const auto a = operand<A>(size_t(p.m) * p.k, 1);
  const auto b = operand<B>(size_t(p.k) * p.n, 2);
  const int stride_bk = in_rows ? p.n : 1, stride_bn = in_rows ? 1 : p.k;
  std::vector<double> exact(size_t(p.m) * p.n);
  for (int i = 0; i < p.m; ++i)
    for (int l = 0; l < p.k; ++l)
      for (int j = 0; j < p.n; ++j)
        exact[size_t(i) * p.n + j] += number(a[size_t(i) * p.k + l]) * number(b[size_t(l) * stride_bk + j * stride_bn]);
  Buffer da(device, a), db(device, b), dc(device, exact.size() * sizeof(float));
  device.fill(dc.address(), 0xff, dc.bytes());
  kernel().launch(
      device, {unsigned((p.m + p.block_m - 1) / p.block_m), unsigned((p.n + p.block_n - 1) / p.block_n)},
      {.constexprs =
           {{"BLOCK_M", p.block_m}, {"BLOCK_N", p.block_n}, {"BLOCK_K", p.block_k}, {"TYPE", type}, {"TURNED", turned}},
       .num_warps = p.num_warps,
       .num_stages = p.num_stages},
      da.as<A>(), db.as<B>(), dc.as<float>(), p.m, p.n, p.k, p.k, stride_bk, stride_bn);
  EXPECT_LE(relative_error(dc.download<float>(), exact), 1e-5);
}

// Each shape with the weights one way, all ways in turn.
template <class A, class B>
void check_all(Elem type) {
  for (auto& device : devices())
    for (int i = 0; const Shape& shape : kShapes) {
      check<A, B>(*device, shape, type, i & 1, i & 2);
      ++i;
    }
}

TEST(WidenedOperands, IntegersOf8Bits) {
  check_all<bfloat16, int8_t>(Elem::BF16);
  check_all<float16, uint8_t>(Elem::F16);
}

TEST(WidenedOperands, BothOf8Bits) { check_all<int8_t, uint8_t>(Elem::BF16); }

TEST(WidenedOperands, Float8) {
  check_all<bfloat16, float8e4nv>(Elem::BF16);
  check_all<float16, float8e5>(Elem::F16);
}

// First operands whose fragments warpgroups compute in registers, in halves where warps of their own copy.
TEST(WidenedOperands, FragmentsInHalves) {
  for (const bool turned : {false, true})
    for (auto& device : devices())
      for (const Shape& shape : {Shape{200, 72, 336, 128, 64, 64, 8, 4}, Shape{130, 128, 64, 64, 128, 32, 4, 3},
                                 Shape{128, 40, 16, 128, 48, 128, 8, 3}, Shape{70, 64, 160, 64, 64, 16, 4, 3}}) {
        check<int8_t, float16>(*device, shape, Elem::F16, turned, false);
        check<float8e5, bfloat16>(*device, shape, Elem::BF16, turned, true);
      }
}

// As fp32, of which products take 10 bits of mantissa.
TEST(WidenedOperands, Of16Bits) {
  check_all<bfloat16, bfloat16>(Elem::F32);
  check_all<float16, float16>(Elem::F32);
}

// PTX for 16 rows of A and weights along K.
std::string ptx(Elem a, Elem b, Elem type, bool turned, const char* target) {
  const ArgType sums{.elem = Elem::F32, .pointer = true, .divisible_by = 16},
      size{.elem = Elem::I32, .divisible_by = 16};
  const ArgType one{.elem = Elem::I32, .constant = 1};
  const std::vector<ArgType> types{{.elem = a, .pointer = true, .divisible_by = 16},
                                   {.elem = b, .pointer = true, .divisible_by = 16},
                                   sums,
                                   size,
                                   size,
                                   size,
                                   size,
                                   one,
                                   size};
  return kernel()
      .compile(types,
               {.constexprs = {{"BLOCK_M", 16}, {"BLOCK_N", 64}, {"BLOCK_K", 128}, {"TYPE", type}, {"TURNED", turned}},
                .num_warps = 4,
                .num_stages = 4},
               target)
      .ptx;
}

int count(const std::string& text, std::string_view what) {
  int found = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
  return found;
}

// Weights are copied ahead as bytes, and come from shared memory a word of a row at a time.
TEST(WidenedOperands, AreCopiedAsTheyLieInMemory) {
  for (const char* target : {"sm_80", "sm_90a"})
    for (bool turned : {false, true}) {
      const std::string text = ptx(Elem::BF16, Elem::I8, Elem::BF16, turned, target);
      EXPECT_EQ(count(text, "ld.global"), 0) << text;
      EXPECT_EQ(count(text, "st.shared"), 0);
      EXPECT_EQ(count(text, "cvt.rn.bf16"), 0);
      EXPECT_GT(count(text, "ldmatrix"), 0);
      EXPECT_EQ(count(text, "ld.shared.b8"), 0);
      EXPECT_EQ(count(text, "ld.shared.b16"), 0);
    }
}

// The later half of an iteration's fragments is computed beside the product of the first half, whose registers the next
// iteration computes in once that is over.
TEST(WidenedOperands, HalvesOfFragmentsTakeTurns) {
  const ArgType sums{.elem = Elem::F32, .pointer = true, .divisible_by = 16},
      size{.elem = Elem::I32, .divisible_by = 16}, one{.elem = Elem::I32, .constant = 1};
  const std::vector<ArgType> types{{.elem = Elem::I8, .pointer = true, .divisible_by = 16},
                                   {.elem = Elem::F16, .pointer = true, .divisible_by = 16},
                                   sums,
                                   size,
                                   size,
                                   size,
                                   size,
                                   one,
                                   size};
  auto ptx_of = [&](int depth) {
    return kernel()
        .compile(types,
                 {.constexprs =
                      {{"BLOCK_M", 128}, {"BLOCK_N", 128}, {"BLOCK_K", depth}, {"TYPE", Elem::F16}, {"TURNED", true}},
                  .num_warps = 8,
                  .num_stages = 4},
                 "sm_90a")
        .ptx;
  };
  const std::string text = ptx_of(64);
  EXPECT_EQ(count(text, "wgmma.commit_group"), 2);
  EXPECT_EQ(count(text, "wgmma.wait_group.sync.aligned 1;"), 2);
  const size_t first = text.find("wgmma.wait_group.sync.aligned 1;"), second = text.find("wgmma.fence", first);
  ASSERT_NE(second, std::string::npos);
  const std::string conversion = "f16x2";
  EXPECT_EQ(count(text.substr(first, second - first), conversion), count(text.substr(0, first), conversion));
  EXPECT_EQ(count(ptx_of(16), "wgmma.commit_group"), 1) << "an instruction's depth";
}

TEST(WidenedOperands, AsFp32AreMultipliedAsTheyAre) {
  for (bool turned : {false, true}) {
    const std::string text = ptx(Elem::BF16, Elem::BF16, Elem::F32, turned, "sm_90a");
    EXPECT_EQ(count(text, "tf32"), 0);
    EXPECT_GT(count(text, "mma.sync.aligned.m16n8k16.row.col.f32.bf16"), 0);
    EXPECT_EQ(count(text, "st.shared"), 0) << "a transposed operand is read from its place as the product wants it";
  }
}

// Each number from the one before in two ways: 2^40 ways from the bytes to the product, none of which is gone twice.
TEST(WidenedOperands, InManyWays) {
  std::string text =
      "import triton\nimport triton.language as tl\n"
      "@triton.jit\ndef product(out, w, x, K, M: tl.constexpr, N: tl.constexpr):\n"
      "    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 64)\n"
      "    acc = tl.zeros((M, N), tl.float32)\n"
      "    for k in range(0, K, 64):\n"
      "        q = tl.load(w + m[:, None] * (K // 2) + (k // 2 + tl.arange(0, 32))[None, :])\n"
      "        q = tl.reshape(tl.broadcast_to(q[:, :, None], [M, 32, 2]), [M, 64])\n";
  for (int i = 0; i < 40; ++i) text += "        q = q ^ (q >> 1)\n";
  text +=
      "        x_ptrs = x + (k + d)[:, None] * N + n[None, :]\n"
      "        acc = tl.dot(q.to(tl.float16), tl.load(x_ptrs), acc)\n"
      "    tl.store(out + m[:, None] * N + n[None, :], acc)\n";
  auto pointer = [](Elem elem) { return ArgType{.elem = elem, .pointer = true, .divisible_by = 16}; };
  const std::vector<ArgType> types{
      pointer(Elem::F32), pointer(Elem::U8), pointer(Elem::F16), {.elem = Elem::I32, .divisible_by = 16}};
  const std::string made =
      Program::parse(text).kernel("product").compile(types, {.constexprs = {{"M", 64}, {"N", 64}}}, "sm_90a").ptx;
  EXPECT_GT(count(made, "wgmma.mma_async"), 0);
  EXPECT_EQ(count(made, "ld.global"), 0) << "the bytes are copied";
}

}  // namespace
}  // namespace tegula
