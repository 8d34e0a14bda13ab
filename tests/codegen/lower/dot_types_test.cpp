// label: device
// heavy: DotTypes.ElementwiseThroughSharedMemory
// heavy: DotTypes.TensorCores DotTypes.LongSums DotTypes.ScaledBlocks
// heavy: DotTypes.SumsOfFloat16
// Dots of every type and extent against sums in double.
#include <algorithm>

#include "codegen/target/target.h"
#include "runtime/base/float8.h"
#include "tests/codegen/lower/dot_support.h"

namespace tegula {
namespace {

Program& program() {
  static Program p = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/dot_types.py");
  return p;
}

// Relative error of products of fp32: operands rounded to 11 bits, and to 22; the GPU's tensor cores cut their sums.
constexpr double kTf32 = 1e-3, kTf32x3 = 2e-5;

struct Extents {
  int batch, m, n, k;
};

template <class In, class Sum, class Other = In>
void check(const Extents& e, Elem out, double tolerance, const char* precision = "ieee") {
  const auto a = random_values<In>(size_t(e.batch) * e.m * e.k, 1);
  const auto b = random_values<Other>(size_t(e.batch) * e.k * e.n, 2);
  const auto c = random_values<Sum>(size_t(e.batch) * e.m * e.n, 3);
  std::vector<double> exact;
  for (int i = 0; i < e.batch; ++i)
    for (int m = 0; m < e.m; ++m)
      for (int n = 0; n < e.n; ++n) {
        double sum = number(c[exact.size()]);
        for (int k = 0; k < e.k; ++k)
          sum += number(a[(size_t(i) * e.m + m) * e.k + k]) * number(b[(size_t(i) * e.k + k) * e.n + n]);
        exact.push_back(sum);
      }
  for (auto& device : tensor_core_devices())
    for (int num_warps : {1, 4}) {
      SCOPED_TRACE(fmt::format("{}: {} x ({} x {} x {}) of {} bytes, {}, {} warps", device->info().name, e.batch, e.m,
                               e.n, e.k, sizeof(In), precision, num_warps));
      Buffer da(*device, a), db(*device, b), dc(*device, c);
      program().kernel("product").launch(
          *device, {1},
          {.constexprs =
               {{"BATCH", e.batch}, {"M", e.m}, {"N", e.n}, {"K", e.k}, {"OUT", out}, {"PRECISION", precision}},
           .num_warps = num_warps},
          da.as<In>(), db.as<Other>(), dc.as<Sum>());
      EXPECT_LE(relative_error(dc.download<Sum>(), exact), tolerance);
    }
}

// Below the matrix instruction's extents in every direction, and batches.
TEST(DotTypes, TensorCores) {
  for (const Extents& e : {Extents{1, 1, 32, 64},
                           {1, 2, 8, 16},
                           {1, 4, 16, 8},
                           {1, 8, 4, 4},
                           {1, 16, 2, 2},
                           {1, 1, 1, 1},
                           {1, 32, 1, 32},
                           {4, 16, 16, 16},
                           {2, 4, 32, 32},
                           {2, 64, 32, 2}}) {
    check<float16, float>(e, Elem::F32, 1e-6);
    check<bfloat16, float>(e, Elem::F32, 1e-6);
    check<float8e4nv, float>(e, Elem::F32, 1e-6);
    check<float8e5, float, float8e4nv>(e, Elem::F32, 1e-6);
    check<float8e4nv, float16, float8e5>(e, Elem::F16, 6e-4);
    check<float16, float16>(e, Elem::F16, 6e-4);
    check<float, float>(e, Elem::F32, kTf32, "tf32");
    check<float, float>(e, Elem::F32, kTf32x3, "tf32x3");
    check<int8_t, int32_t>(e, Elem::I32, 0);
    check<uint8_t, int32_t>(e, Elem::I32, 0);
  }
}

// Extents along K that are no powers of two: fragments may reach beyond the last block, where there is nothing to
// count.
TEST(DotTypes, BlocksOfOddMultiplesAlongK) {
  const Extents e{1, 16, 16, 48};
  check<float8e4nv, float>(e, Elem::F32, 1e-6);
  check<float8e5, float, float8e4nv>(e, Elem::F32, 1e-6);
  check<int8_t, int32_t>(e, Elem::I32, 0);
  check<uint8_t, int32_t>(e, Elem::I32, 0);
  check<float8e4nv, float>({2, 32, 8, 80}, Elem::F32, 1e-6);
  check<float8e5, float>({1, 16, 16, 24}, Elem::F32, 1e-6);
  check<float16, float>({1, 16, 16, 24}, Elem::F32, 1e-6);
  check<bfloat16, float>({1, 16, 16, 20}, Elem::F32, 1e-6);
  check<float, float>({1, 16, 16, 12}, Elem::F32, kTf32, "tf32");
  check<float, float>({1, 16, 16, 20}, Elem::F32, kTf32x3, "tf32x3");
}

TEST(DotTypes, Elementwise) {
  for (const Extents& e : {Extents{1, 16, 16, 16}, {1, 1, 32, 8}, {1, 32, 64, 16}, {4, 8, 4, 16}, {1, 1, 1, 1}}) {
    check<float, float>(e, Elem::F32, 5e-7);
    check<double, double>(e, Elem::F64, 1e-15);
  }
}

// Too many operands of a thread for its registers: through shared memory, step by step along K. Extents that are no
// powers of two, batches, narrow types that fill no block of a matrix instruction, sums of 16 bits.
TEST(DotTypes, ElementwiseThroughSharedMemory) {
  for (const Extents& e :
       {Extents{1, 32, 64, 64}, {1, 48, 24, 80}, {2, 32, 16, 96}, {1, 1, 256, 128}, {1, 64, 64, 9}}) {
    check<float, float>(e, Elem::F32, 5e-7);
    check<double, double>(e, Elem::F64, 1e-15);
  }
  check<float8e4nv, float>({2, 32, 64, 24}, Elem::F32, 1e-6);
  check<float8e5, float16, float8e4nv>({1, 64, 64, 24}, Elem::F16, 4e-4);
  check<float16, float16>({1, 64, 64, 20}, Elem::F16, 4e-4);
  check<uint8_t, int32_t>({1, 32, 96, 24}, Elem::I32, 0);
  check<int8_t, int32_t>({1, 64, 64, 40}, Elem::I32, 0);
}

// More of the operands than shared memory has room for: in slices along K, whose number is no power of two either. A
// register of a thread may hold elements of any slice.
TEST(DotTypes, ElementwiseInSlicesAlongK) {
  for (const Extents& e : {Extents{1, 64, 64, 160}, {1, 96, 128, 96}, {2, 16, 48, 160}, {1, 4, 160, 144}})
    check<float, float>(e, Elem::F32, 1e-6);
  check<double, double>({1, 32, 48, 192}, Elem::F64, 1e-15);
  check<float16, float16>({1, 64, 96, 240}, Elem::F16, 1e-3);
  check<uint8_t, int32_t>({1, 16, 320, 224}, Elem::I32, 0);
}

// Several instructions beside each other that do not begin where swizzle patterns of the operand do.
TEST(DotTypes, ColumnsInOddParts) {
  check<float16, float>({1, 64, 320, 16}, Elem::F32, 1e-6);
  check<float16, float>({1, 64, 288, 16}, Elem::F32, 1e-6);
}

// Operands in a pipelined loop, the second one transposed.
template <class In, class Sum>
void check_long(int m, int n, int block_k, Elem zero, double tolerance, const char* precision = "ieee") {
  const int k = 4096;
  const auto a = random_values<In>(size_t(m) * k, 1), b = random_values<In>(size_t(n) * k, 2);
  const std::vector<double> exact_a = numbers(a), exact_b = numbers(b);
  std::vector<double> exact;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) sum += exact_a[size_t(i) * k + l] * exact_b[size_t(j) * k + l];
      exact.push_back(sum);
    }
  for (auto& device : tensor_core_devices()) {
    SCOPED_TRACE(fmt::format("{}: {} x {}, steps of {}, {} bytes, {}", device->info().name, m, n, block_k, sizeof(In),
                             precision));
    Buffer da(*device, a), db(*device, b), dc(*device, exact.size() * sizeof(Sum));
    program()
        .kernel("long_product")
        .launch(*device, {1},
                {.constexprs = {{"M", m}, {"N", n}, {"BLOCK_K", block_k}, {"ZERO", zero}, {"PRECISION", precision}},
                 .num_warps = 4},
                da.as<In>(), db.as<In>(), dc.as<Sum>(), k);
    EXPECT_LE(relative_error(dc.download<Sum>(), exact), tolerance);
  }
}

TEST(DotTypes, LongSums) {
  for (int m : {1, 8, 32}) {
    check_long<float16, float>(m, 32, 64, Elem::F32, 4e-4);
    check_long<bfloat16, float>(m, 16, 32, Elem::F32, 3e-3);
    check_long<float8e4nv, float>(m, 32, 64, Elem::F32, 1e-5);
    check_long<float8e5, float>(m, 32, 128, Elem::F32, 1e-5);
    check_long<float, float>(m, 32, 32, Elem::F32, 2e-6);
    check_long<float, float>(m, 32, 32, Elem::F32, kTf32, "tf32");
    check_long<float, float>(m, 16, 16, Elem::F32, kTf32x3, "tf32x3");
    check_long<uint8_t, int32_t>(m, 8, 128, Elem::I32, 0);
    check_long<double, double>(m, 16, 16, Elem::F64, 1e-14);
    check_long<int8_t, int32_t>(m, 16, 32, Elem::I32, 0);
  }
}

// Two sums of 16 bits in a register, rounded at each instruction: in one step, and carried by a pipelined loop.
TEST(DotTypes, SumsOfFloat16) {
  for (const Extents& e : {Extents{1, 64, 8, 16}, {1, 64, 96, 80}, {1, 128, 64, 64}, {1, 192, 64, 32}}) {
    check<float16, float16>(e, Elem::F16, 1e-3);
    check<float8e4nv, float16, float8e5>(e, Elem::F16, 1e-3);
  }
  check_long<float16, float16>(8, 32, 64, Elem::F16, 2e-2);
  check_long<float16, float16>(64, 32, 64, Elem::F16, 2e-2);
  check_long<float16, float16>(128, 64, 32, Elem::F16, 2e-2);
  check_long<float8e5, float16>(64, 64, 64, Elem::F16, 2e-2);
}

// What the kernel does not say is tf32, as in Triton.
TEST(DotTypes, DefaultPrecision) {
  for (const auto& [said, precision] : {std::pair<const char*, std::string>{"", "tf32"},
                                        {", allow_tf32=True", "tf32"},
                                        {", allow_tf32=False", "ieee"},
                                        {", input_precision='ieee'", "ieee"},
                                        {", input_precision='tf32x3'", "tf32x3"}}) {
    const Kernel kernel =
        Program::parse(fmt::format("import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, y):\n"
                                   "    i = tl.arange(0, 16)\n"
                                   "    p = i[:, None] * 16 + i[None, :]\n"
                                   "    a = tl.load(x + p)\n"
                                   "    tl.store(y + p, tl.dot(a, a{}))\n",
                                   said),
                       "k.py")
            .kernel("k");
    const ArgType x{.elem = Elem::F32, .pointer = true};
    const std::string ptx = kernel.compile(std::array{x, x}, {}, "sm_80").ptx;
    auto count = [&](std::string_view what) {
      int found = 0;
      for (size_t at = 0; (at = ptx.find(what, at)) != ptx.npos; ++at) ++found;
      return found;
    };
    const int products = count("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32");
    const int steps = 16 / 8;  // of K; a warp has one block
    EXPECT_EQ(products, steps * (precision == "ieee" ? 0 : precision == "tf32x3" ? 3 : 1)) << said;
    EXPECT_EQ(count("fma.rn.f32") > 0, products == 0) << said;
  }
}

// Infinities stay what they are where operands are taken apart.
TEST(DotTypes, InfinityInParts) {
  for (auto& device : tensor_core_devices()) {
    std::vector<float> a(16 * 16, 1), b(16 * 16, 1), c(16 * 16, 0);
    a[0] = INFINITY;
    Buffer da(*device, a), db(*device, b), dc(*device, c);
    program().kernel("product").launch(
        *device, {1},
        {.constexprs = {{"BATCH", 1}, {"M", 16}, {"N", 16}, {"K", 16}, {"OUT", Elem::F32}, {"PRECISION", "tf32x3"}}},
        da.as<float>(), db.as<float>(), dc.as<float>());
    const auto found = dc.download<float>();
    EXPECT_EQ(found[0], INFINITY);
    EXPECT_EQ(found[255], 16);
  }
}

// Where tensor cores sum up float8 in few bits, 2^-6 is lost beside 256: from instruction to instruction unless it is
// said otherwise.
TEST(DotTypes, SumsOfFloat8InFewBits) {
  const int m = 64, n = 16, k = 256, block_k = 64;
  auto operand = [&](int rows) {
    std::vector<float8e4nv> values(size_t(rows) * k, float8e4nv(0.125f));
    for (int i = 0; i < rows; ++i) values[size_t(i) * k] = float8e4nv(16.0f);
    return values;
  };
  for (auto& device : tensor_core_devices()) {
    const bool few_bits = target_for_sm(device->info().sm).has(Feature::Wgmma);
    auto found = [&](bool add, ConstexprArg limit) {
      Buffer a(*device, operand(m)), b(*device, operand(n)), c(*device, m * n * sizeof(float));
      program()
          .kernel("float8_sums")
          .launch(*device, {1},
                  {.constexprs = {{"M", m}, {"N", n}, {"BLOCK_K", block_k}, {"ADD", add}, limit}, .num_warps = 4},
                  a.as<float8e4nv>(), b.as<float8e4nv>(), c.as<float>(), k);
      const auto sums = c.download<float>();
      EXPECT_EQ(std::count(sums.begin(), sums.end(), sums[0]), m * n);
      return sums[0];
    };
    SCOPED_TRACE(device->info().name);
    const float all = 256 + 255.0f / 64;
    EXPECT_EQ(found(false, {"LIMIT", Constexpr(std::monostate())}), few_bits ? 256 : all);
    EXPECT_EQ(found(true, {"LIMIT", Constexpr(std::monostate())}), few_bits ? 259 : all);
    EXPECT_EQ(found(false, {"LIMIT", 64}), few_bits ? 259 : all);
    EXPECT_EQ(found(false, {"LIMIT", 33}), few_bits ? 259 : all);
    EXPECT_EQ(found(false, {"LIMIT", 32}), few_bits ? 259.5f : all);
    EXPECT_EQ(found(false, {"LIMIT", 0}), few_bits ? 259.5f : all);
  }
}

struct ScaledBlocks {
  int m, n, k, block_m, block_n, group, num_warps;
};

// Scales of blocks along K: with rows and columns that wrap around, and in waves of 64 rows, of two groups too.
TEST(DotTypes, ScaledBlocks) {
  constexpr int kBlock = 128;
  for (const ScaledBlocks& x : {ScaledBlocks{50, 96, 320, 64, 64, 32, 4},
                                {128, 128, 256, 128, 128, 128, 4},
                                {256, 128, 384, 256, 128, 128, 8}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {} by {} x {}, {} warps", x.m, x.n, x.k, x.block_m, x.block_n, x.num_warps));
    const int steps = (x.k + kBlock - 1) / kBlock;
    const auto a = random_values<float8e4nv>(size_t(x.m) * x.k, 1), b = random_values<float8e4nv>(size_t(x.n) * x.k, 2);
    const auto a_scale = random_values<float>(size_t(x.m) * steps, 3);
    const auto b_scale = random_values<float>(size_t(x.n / x.group + 1) * steps, 4);
    std::vector<double> exact;
    for (int i = 0; i < x.m; ++i)
      for (int j = 0; j < x.n; ++j) {
        double sum = 0;
        for (int l = 0; l < x.k; ++l)
          sum += number(a[size_t(i) * x.k + l]) * number(b[size_t(j) * x.k + l]) *
                 number(a_scale[size_t(i) * steps + l / kBlock]) *
                 number(b_scale[size_t(j / x.group) * steps + l / kBlock]);
        exact.push_back(sum);
      }
    for (auto& device : tensor_core_devices()) {
      Buffer da(*device, a), db(*device, b), das(*device, a_scale), dbs(*device, b_scale);
      Buffer c(*device, exact.size() * sizeof(float));
      program()
          .kernel("scaled_blocks")
          .launch(
              *device, {unsigned((x.m + x.block_m - 1) / x.block_m), unsigned((x.n + x.block_n - 1) / x.block_n)},
              {.constexprs = {{"BLOCK_M", x.block_m}, {"BLOCK_N", x.block_n}, {"BLOCK_K", kBlock}, {"GROUP", x.group}},
               .num_warps = x.num_warps},
              da.as<float8e4nv>(), db.as<float8e4nv>(), das.as<float>(), dbs.as<float>(), c.as<float>(), x.m, x.n, x.k);
      EXPECT_LE(relative_error(c.download<float>(), exact), 1e-3) << device->info().name;
    }
  }
}

}  // namespace
}  // namespace tegula
