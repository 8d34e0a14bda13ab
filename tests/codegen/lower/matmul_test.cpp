// label: device
// heavy: Matmul.EveryNumberOfWarps
// heavy: Matmul.TransposedOperandAndAccumulator Matmul.Warpgroups Matmul.BlocksOfOddMultiples
// Tensor-core products: a plain matrix product, one product that feeds another, transposed operands.
#include <string>

#include "tests/codegen/lower/dot_support.h"
#include "tests/devices.h"

namespace tegula {
namespace {

Program& program() {
  static Program p = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/matmul.py");
  return p;
}

// Unit roundoff of an output type, below which the error of a correct rounding stays in this norm; for fp32 the
// accumulation's own.
template <class T>
constexpr double sums_tolerance() {
  if constexpr (std::is_same_v<T, float16>) return 4e-4;
  if constexpr (std::is_same_v<T, bfloat16>) return 2.5e-3;
  return 1e-6;
}

struct Problem {
  int m, n, k;
  int block_m, block_n, block_k;
  int num_warps;
  bool transposed_b = false;
  int num_stages = 3;
  bool transposed_a = false;
  bool wrapped = false;  ///< by wrapped_matmul, with a leaky ReLU
};

template <class In, class Out>
void check_matmul(Device& device, const Problem& p, Elem out_type, const char* precision = "ieee",
                  double tolerance = sums_tolerance<Out>()) {
  const int m = p.m, n = p.n, k = p.k;
  SCOPED_TRACE(fmt::format("{}: {} x {} x {}, blocks {} x {} x {}, {} warps, {} stages, {} bytes, {}{}{}",
                           device.info().name, m, n, k, p.block_m, p.block_n, p.block_k, p.num_warps, p.num_stages,
                           sizeof(In), precision, p.transposed_a ? ", A transposed" : "",
                           p.transposed_b ? ", B transposed" : ""));
  auto a = random_values<In>(size_t(m) * k, 1), b = random_values<In>(size_t(k) * n, 2);
  const int stride_am = p.transposed_a ? 1 : k, stride_ak = p.transposed_a ? m : 1;
  const int stride_bk = p.transposed_b ? 1 : n, stride_bn = p.transposed_b ? k : 1;
  const std::vector<double> exact_b = numbers(b);
  std::vector<double> exact(size_t(m) * n);
  for (int i = 0; i < m; ++i)
    for (int l = 0; l < k; ++l) {
      const double x = number(a[size_t(i) * stride_am + size_t(l) * stride_ak]);
      for (int j = 0; j < n; ++j)
        exact[size_t(i) * n + j] += x * exact_b[size_t(l) * stride_bk + size_t(j) * stride_bn];
    }
  if (p.wrapped)
    for (double& x : exact) x = x < 0 ? 0.01 * x : x;
  Buffer da(device, a), db(device, b), dc(device, exact.size() * sizeof(Out));
  device.fill(dc.address(), 0xff, dc.bytes());
  const unsigned programs = unsigned((m + p.block_m - 1) / p.block_m * ((n + p.block_n - 1) / p.block_n));
  LaunchOptions options{.constexprs = {{"BLOCK_M", p.block_m},
                                       {"BLOCK_N", p.block_n},
                                       {"BLOCK_K", p.block_k},
                                       {"GROUP_M", 2},
                                       {"OUT", out_type}},
                        .num_warps = p.num_warps,
                        .num_stages = p.num_stages};
  if (p.wrapped) {
    options.constexprs.emplace_back("ACTIVATION", "leaky_relu");
  } else {
    options.constexprs.emplace_back("SUMS", std::is_integral_v<Out> ? Elem::I32 : Elem::F32);
    options.constexprs.emplace_back("PRECISION", precision);
  }
  program()
      .kernel(p.wrapped ? "wrapped_matmul" : "matmul")
      .launch(device, {programs}, options, da.as<In>(), db.as<In>(), dc.as<Out>(), m, n, k, stride_am, stride_ak,
              stride_bk, stride_bn, n, 1);
  EXPECT_LE(relative_error(dc.download<Out>(), exact), tolerance);
}

// Operands of 8 and 32 bits.
void check_other_types(Device& device, const Problem& p) {
  check_matmul<float, float>(device, p, Elem::F32, "tf32", 1e-3);
  if (p.m <= 50) check_matmul<float, float>(device, p, Elem::F32, "tf32x3", 2e-6);
  check_matmul<int8_t, int32_t>(device, p, Elem::I32, "ieee", 0);
}

TEST(Matmul, ShapesAndTypes) {
  const Problem problems[] = {
      {32, 32, 32, 16, 16, 16, 1},           {50, 39, 70, 16, 16, 16, 1},
      {64, 64, 64, 32, 32, 16, 2, true},     {96, 80, 48, 32, 64, 32, 4},
      {100, 72, 136, 64, 32, 32, 4, true},   {130, 140, 72, 128, 128, 64, 8},
      {128, 128, 128, 128, 64, 32, 4, true}, {65, 33, 17, 64, 64, 32, 2},
      {33, 47, 40, 16, 32, 64, 8},           {48, 24, 96, 32, 8, 16, 1},
  };
  for (auto& device : tensor_core_devices())
    for (const Problem& p : problems) {
      check_matmul<float16, float16>(*device, p, Elem::F16);
      check_matmul<bfloat16, float>(*device, p, Elem::F32);
      if (p.k <= 70) check_other_types(*device, p);
    }
}

// What does not lie along K is transposed in shared memory, where an instruction of a warpgroup multiplies.
TEST(Matmul, OperandsOf8BitsInEitherOrder) {
  for (auto& device : tensor_core_devices())
    for (const Problem& p : {Problem{128, 64, 192, 64, 64, 64, 4, false, 3, true},
                             {150, 144, 224, 128, 64, 32, 8, false, 3, true},
                             {64, 128, 128, 64, 128, 64, 8, false, 2},
                             {128, 48, 96, 128, 32, 32, 4, true, 1, true}}) {
      check_matmul<int8_t, int32_t>(*device, p, Elem::I32, "ieee", 0);
      check_matmul<float8e4nv, float>(*device, p, Elem::F32, "ieee", 2e-4);
    }
}

TEST(Matmul, EveryNumberOfWarps) {
  for (auto& device : tensor_core_devices())
    for (int num_warps : {1, 2, 4, 8, 16})
      for (bool transposed : {false, true}) {
        check_matmul<float16, float>(*device, {64, 96, 80, 32, 32, 32, num_warps, transposed}, Elem::F32);
        check_matmul<bfloat16, bfloat16>(*device, {72, 64, 64, 64, 64, 16, num_warps, transposed}, Elem::BF16);
      }
}

// Loads run ahead of the dots, past the last of few iterations and up to where registers end.
TEST(Matmul, EveryNumberOfStages) {
  for (auto& device : tensor_core_devices())
    for (int num_stages : {1, 2, 4, 8}) {
      check_matmul<float16, float>(*device, {32, 32, 72, 16, 16, 16, 1, false, num_stages}, Elem::F32);
      check_matmul<float16, float>(*device, {32, 32, 16, 16, 16, 16, 2, true, num_stages}, Elem::F32);
      check_matmul<bfloat16, float>(*device, {64, 64, 96, 64, 64, 32, 2, false, num_stages}, Elem::F32);
    }
}

// By wgmma where the target has it: every arrangement of warpgroups, operands contiguous along either dimension in rows
// of 32 to 256 bytes, one to many iterations. On the emulator threads run in several orders, and each copy and product
// happens as late as the waits allow.
TEST(Matmul, Warpgroups) {
  std::vector<Problem> problems = {
      {128, 128, 256, 64, 64, 64, 4},
      {128, 256, 64, 128, 256, 64, 8},
      {136, 72, 200, 128, 64, 64, 8},
      {64, 128, 96, 64, 128, 16, 4, false, 4},
      {64, 64, 256, 64, 32, 128, 4, false, 2},
      {64, 64, 8, 64, 16, 32, 4, false, 5},
      {256, 64, 128, 256, 64, 32, 16},
      {64, 256, 64, 64, 256, 32, 8, false, 2},
      {64, 64, 96, 64, 64, 32, 8},
      {64, 128, 64, 64, 128, 64, 16},
  };
  for (size_t i = 0, n = problems.size(); i < n; ++i)
    for (int transposed : {1, 2, 3}) {
      Problem p = problems[i];
      p.transposed_a = transposed & 1, p.transposed_b = transposed & 2;
      problems.push_back(p);
    }
  problems.push_back({256, 256, 32, 256, 256, 16, 4});  // more sums than a thread has registers
  for (auto& device : gpu_or_emulators({{.target = "sm_90a"}, {.target = "sm_90a", .seed = 1}}))
    for (const Problem& p : problems) {
      check_matmul<float16, float16>(*device, p, Elem::F16);
      if (p.m == 128) check_matmul<bfloat16, float>(*device, p, Elem::F32);
      if (p.k <= 96 && p.n <= 128) check_other_types(*device, p);
    }
}

// Blocks that are no powers of two: by one wgmma for 64 rows and all columns where groups divide the rows, in parts
// where they divide columns or rows of B lie in several panels; by mma.sync.
TEST(Matmul, BlocksOfOddMultiples) {
  const Problem problems[] = {
      {128, 192, 128, 64, 192, 64, 4},       {130, 250, 100, 128, 224, 32, 8},
      {64, 96, 96, 64, 96, 32, 4},           {64, 192, 128, 64, 192, 32, 8},
      {192, 100, 64, 192, 96, 32, 4},        {100, 384, 64, 64, 384, 16, 4},
      {64, 192, 256, 64, 192, 128, 4, true}, {64, 192, 128, 64, 192, 64, 4, true},
      {70, 224, 96, 64, 224, 96, 4, true},   {64, 96, 96, 64, 96, 48, 4, false, 2},
      {96, 48, 64, 96, 48, 32, 2},           {24, 40, 64, 24, 40, 16, 1},
      {50, 20, 24, 48, 12, 24, 2},           {192, 192, 64, 192, 192, 32, 4, true, 3, true},
      {100, 208, 96, 64, 104, 32, 4},        {100, 208, 128, 64, 104, 64, 4, true},
      {130, 272, 64, 128, 272, 32, 8, true}, {64, 200, 64, 64, 200, 32, 4, true},
  };
  for (auto& device : tensor_core_devices())
    for (const Problem& p : problems) {
      check_matmul<float16, float16>(*device, p, Elem::F16);
      if (p.block_m == 64) check_matmul<bfloat16, float>(*device, p, Elem::F32);
    }
}

// Blocks of fewer elements than threads copy at a time: one of the threads that hold an element copies it, by any
// instruction that copies, or by a load and a store.
TEST(Matmul, OneThreadCopiesAnElement) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    auto device = make_emulator({.target = target, .check_races = true});
    for (const Problem& p : {Problem{50, 20, 24, 48, 12, 24, 2}, Problem{50, 21, 27, 48, 12, 24, 2},
                             Problem{32, 16, 32, 16, 16, 16, 8}, Problem{16, 16, 64, 16, 16, 64, 8, true}})
      check_matmul<float16, float16>(*device, p, Elem::F16);
  }
}

// Rows and columns that wrap around at sizes that are no multiples of the blocks, nor some of 16; groups of fewer rows
// of blocks than asked for.
TEST(Matmul, WrappedRowsAndColumns) {
  Problem problems[] = {
      {128, 256, 64, 128, 128, 64, 8}, {200, 144, 136, 64, 64, 32, 4}, {144, 160, 80, 64, 64, 32, 4, true},
      {77, 99, 50, 32, 64, 32, 4},     {48, 16, 70, 64, 64, 32, 4},    {80, 112, 48, 32, 32, 16, 2, false, 2, true},
  };
  for (auto& device : tensor_core_devices())
    for (Problem& p : problems) {
      p.wrapped = true;
      check_matmul<float16, float16>(*device, p, Elem::F16);
    }
}

// Columns that wrap around in each iteration stay side by side in the iterations that loads run ahead of, too.
template <class In, class Sum>
void check_wrapped_in_loop(Elem sums) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def wrapped(a_ptr, b_ptr, c_ptr, N, n, SUMS: tl.constexpr):
    """The sum of n products of a with 16 columns each of b, which has N of them, side by side in rows of 64."""
    i, k = tl.arange(0, 16), tl.arange(0, 32)
    a = tl.load(a_ptr + i[:, None] * 32 + k[None, :])
    acc = tl.zeros((16, 16), SUMS)
    for t in range(0, n):
        j = (t * 16 + i) % N
        acc += tl.dot(a, tl.load(b_ptr + k[:, None] * 64 + j[None, :]), out_dtype=SUMS)
    tl.store(c_ptr + i[:, None] * 16 + i[None, :], acc)
)",
                                       "wrapped.py")
                            .kernel("wrapped");
  auto a = random_values<In>(16 * 32, 1), b = random_values<In>(32 * 64, 2);
  for (int columns : {48, 40, 33})
    for (auto& device : tensor_core_devices())
      for (int num_stages : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{}: {} columns, {} stages", device->info().name, columns, num_stages));
        const int n = 5;
        std::vector<double> exact;
        for (int i = 0; i < 16; ++i)
          for (int j = 0; j < 16; ++j) {
            double sum = 0;
            for (int t = 0; t < n; ++t)
              for (int k = 0; k < 32; ++k) sum += number(a[i * 32 + k]) * number(b[k * 64 + (t * 16 + j) % columns]);
            exact.push_back(sum);
          }
        Buffer da(*device, a), db(*device, b), dc(*device, exact.size() * sizeof(Sum));
        kernel.launch(*device, {1}, {.constexprs = {{"SUMS", sums}}, .num_warps = 1, .num_stages = num_stages},
                      da.as<In>(), db.as<In>(), dc.as<Sum>(), columns, n);
        EXPECT_LE(relative_error(dc.download<Sum>(), exact), std::is_integral_v<Sum> ? 0 : 1e-6);
      }
  const ArgType pointer{.elem = *elem_of<In>(), .pointer = true, .divisible_by = 16};
  const ArgType result{.elem = sums, .pointer = true, .divisible_by = 16};
  const ArgType columns{.elem = Elem::I32, .divisible_by = 16}, n{.elem = Elem::I32};
  const std::string ptx = kernel
                              .compile(std::vector{pointer, pointer, result, columns, n},
                                       {.constexprs = {{"SUMS", sums}}, .num_warps = 1, .num_stages = 2}, "sm_90a")
                              .ptx;
  EXPECT_NE(ptx.find("cp.async.cg.shared.global"), std::string::npos) << "no copy of 16 bytes";
}

TEST(Matmul, ColumnsThatWrapAroundInALoop) {
  check_wrapped_in_loop<float16, float>(Elem::F32);
  check_wrapped_in_loop<int8_t, int32_t>(Elem::I32);
}

// Sums that are scaled an iteration late, for any number of iterations.
TEST(Matmul, SumsOfTheIterationBefore) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def late(a_ptr, b_ptr, s_ptr, c_ptr, n):
    i, j = tl.arange(0, 64), tl.arange(0, 32)
    acc = tl.zeros((64, 32), tl.float32)
    sums = tl.zeros((64, 32), tl.float32)
    scale = 0.0
    for t in range(0, n):
        product = tl.dot(tl.load(a_ptr + t * 2048 + i[:, None] * 32 + j[None, :]),
                         tl.load(b_ptr + t * 1024 + j[:, None] * 32 + j[None, :]))
        acc += sums * scale
        sums = product
        scale = tl.load(s_ptr + t)
    tl.store(c_ptr + i[:, None] * 32 + j[None, :], acc + sums * scale)
)",
                                       "late.py")
                            .kernel("late");
  constexpr int kMost = 5;
  auto a = random_values<float16>(kMost * 64 * 32, 1), b = random_values<float16>(kMost * 32 * 32, 2);
  auto scales = random_values<float>(kMost, 3);
  for (auto& device : tensor_core_devices())
    for (int n : {0, 1, 2, kMost}) {
      SCOPED_TRACE(fmt::format("{}: {} iterations", device->info().name, n));
      std::vector<double> exact(64 * 32, 0);
      for (int t = 0; t < n; ++t)
        for (int i = 0; i < 64 * 32; ++i)
          for (int k = 0; k < 32; ++k)
            exact[size_t(i)] += double(scales[size_t(t)]) * number(a[size_t(t * 2048 + i / 32 * 32 + k)]) *
                                number(b[size_t(t * 1024 + k * 32 + i % 32)]);
      Buffer da(*device, a), db(*device, b), ds(*device, scales), dc(*device, exact.size() * sizeof(float));
      kernel.launch(*device, {1}, {.num_warps = 4}, da.as<float16>(), db.as<float16>(), ds.as<float>(), dc.as<float>(),
                    n);
      const std::vector<float> found = dc.download<float>();
      if (n) {
        EXPECT_LE(relative_error(found, exact), 1e-6);
      } else {
        EXPECT_EQ(found, std::vector<float>(exact.size(), 0));
      }
    }
}

// Softmax's tile is the left operand of a second product.
template <class T>
void check_attention(Device& device, int rows, int keys, int depth, int num_warps) {
  SCOPED_TRACE(
      fmt::format("{}: {} rows, {} keys, depth {}, {} warps", device.info().name, rows, keys, depth, num_warps));
  const int blocks = 2;
  auto q = random_values<T>(size_t(blocks) * rows * depth, 3);
  auto k = random_values<T>(size_t(keys) * depth, 4), v = random_values<T>(size_t(keys) * depth, 5);
  const float scale = 1 / std::sqrt(float(depth));
  std::vector<double> exact(q.size());
  for (int i = 0; i < blocks * rows; ++i) {
    std::vector<double> weights(keys);
    double total = 0;
    for (int j = 0; j < keys; ++j) {
      double score = 0;
      for (int d = 0; d < depth; ++d) score += double(q[size_t(i) * depth + d]) * k[size_t(j) * depth + d];
      total += weights[j] = std::exp(score * scale);
    }
    for (int j = 0; j < keys; ++j)
      for (int d = 0; d < depth; ++d) exact[size_t(i) * depth + d] += weights[j] / total * v[size_t(j) * depth + d];
  }
  Buffer dq(device, q), dk(device, k), dv(device, v), out(device, exact.size() * sizeof(float));
  program()
      .kernel("attention")
      .launch(device, {blocks},
              {.constexprs = {{"ROWS", rows}, {"KEYS", keys}, {"DEPTH", depth}}, .num_warps = num_warps}, dq.as<T>(),
              dk.as<T>(), dv.as<T>(), out.as<float>(), scale);
  // The weights are rounded to T before the second product.
  EXPECT_LE(relative_error(out.download<float>(), exact), sums_tolerance<T>());
}

TEST(Matmul, ChainedDots) {
  for (auto& device : tensor_core_devices())
    for (int num_warps : {1, 2, 4, 8}) {
      check_attention<float16>(*device, 64, 32, 64, num_warps);
      check_attention<float16>(*device, 16, 64, 16, num_warps);
      check_attention<bfloat16>(*device, 32, 128, 32, num_warps);
    }
}

template <class T>
void check_gram(Device& device, int r, int c, int num_warps) {
  SCOPED_TRACE(fmt::format("{}: {} x {}, {} warps", device.info().name, r, c, num_warps));
  auto x = random_values<T>(size_t(r) * c, 6);
  auto start = random_values<float>(size_t(c) * c, 7);
  std::vector<double> exact(start.begin(), start.end());
  for (int l = 0; l < r; ++l)
    for (int i = 0; i < c; ++i)
      for (int j = 0; j < c; ++j) exact[size_t(i) * c + j] += double(x[size_t(l) * c + i]) * x[size_t(l) * c + j];
  Buffer dx(device, x), dc(device, start), out(device, exact.size() * sizeof(float));
  program().kernel("gram").launch(device, {1}, {.constexprs = {{"R", r}, {"C", c}}, .num_warps = num_warps}, dx.as<T>(),
                                  dc.as<float>(), out.as<float>());
  EXPECT_LE(relative_error(out.download<float>(), exact), sums_tolerance<float>());
}

TEST(Matmul, TransposedOperandAndAccumulator) {
  for (auto& device : tensor_core_devices())
    for (int num_warps : {1, 2, 4, 8}) {
      check_gram<float16>(*device, 16, 16, num_warps);
      check_gram<float16>(*device, 64, 32, num_warps);
      check_gram<bfloat16>(*device, 32, 128, num_warps);
    }
}

// Sums of a product that runs beside the program meet those of one whose operands are computed: each wait has the
// layout of its own product.
TEST(Matmul, SumsOfProductsOfTwoKindsMeet) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def linear_attention(q_ptr, k_ptr, v_ptr, out_ptr, n, BLOCKS: tl.constexpr):
    i = tl.arange(0, 64)
    j = tl.arange(0, 32)
    rows = tl.arange(0, 64)
    kv = tl.zeros([64, 32], dtype=tl.float32)
    for b in range(BLOCKS):
        q = tl.load(q_ptr + rows[:, None] * 64 + i[None, :], mask=rows[:, None] < n, other=0.0)
        k = tl.load(k_ptr + rows[None, :] * 64 + i[:, None], mask=rows[None, :] < n, other=0.0)
        v = tl.load(v_ptr + rows[:, None] * 32 + j[None, :], mask=rows[:, None] < n, other=0.0)
        o = tl.dot(tl.dot(q, k), v) + tl.dot(q, kv)
        tl.store(out_ptr + rows[:, None] * 32 + j[None, :], o, mask=rows[:, None] < n)
        kv += tl.dot(k, v)
        rows += 64
)",
                                       "linear_attention.py")
                            .kernel("linear_attention");
  const int n = 100;
  std::vector<float> q(n * 64), k(n * 64), v(n * 32);
  for (auto* values : {&q, &k, &v})
    for (size_t i = 0; i < values->size(); ++i) (*values)[i] = float((i * i + i / 5 + values->size()) % 3) - 1;
  std::vector<float> exact(n * 32);
  for (int row = 0; row < n; ++row)
    for (int other = 0; other < (row < 64 ? 64 : n); ++other) {  // of its block and those before
      float product = 0;
      for (int l = 0; l < 64; ++l) product += q[size_t(row * 64 + l)] * k[size_t(other * 64 + l)];
      for (int j = 0; j < 32; ++j) exact[size_t(row * 32 + j)] += product * v[size_t(other * 32 + j)];
    }
  for (auto& device : tensor_core_devices()) {
    SCOPED_TRACE(device->info().name);
    Buffer dq(*device, q), dk(*device, k), dv(*device, v), out(*device, std::vector<float>(exact.size()));
    kernel.launch(*device, {1}, {.constexprs = {{"BLOCKS", 2}}}, dq.as<float>(), dk.as<float>(), dv.as<float>(),
                  out.as<float>(), n);
    EXPECT_EQ(out.download<float>(), exact);
  }
}

}  // namespace
}  // namespace tegula
