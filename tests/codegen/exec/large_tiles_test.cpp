// label: device
// What keeps code of tiles with hundreds of elements a thread short, and quick to make.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "codegen/exec/generate.h"
#include "codegen/target/target.h"
#include "dsl/tegula.h"
#include "tests/codegen/lower/ptx_support.h"

namespace tegula {
namespace {

using kernel_texts::count;

Kernel kernel_of(const std::string& signature, const std::string& body) {
  const std::string text =
      "import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(" + signature + "):\n" + body;
  return Program::parse(text, "large_tiles.py").kernel("kernel");
}

constexpr ArgType kFloats{.elem = Elem::F32, .pointer = true, .divisible_by = 16};
constexpr ArgType kInts{.elem = Elem::I32, .pointer = true, .divisible_by = 16};
constexpr ArgType kInt{.elem = Elem::I32};

std::string remainder_ptx(const char* body) {
  const Kernel kernel = kernel_of("out_ptr, n, m, k", body);
  return kernel
      .compile(std::vector<ArgType>{kInts, kInt, kInt, kInt}, {.num_warps = 1, .dependent_launch = false}, "sm_90a")
      .ptx;
}

// Where both operands are below 2^32 at run time a division of 64 bits takes the way of one of 32, and a quotient and
// its remainder decide so once.
TEST(LargeTiles, DivisionsOf64BitsHaveAShortWay) {
  constexpr ArgType kLong{.elem = Elem::I64};
  const auto ptx = [&](const char* value) {
    return kernel_of("out_ptr, n, m", fmt::format("    tl.store(out_ptr, {})\n", value))
        .compile(std::vector<ArgType>{kInts, kLong, kLong}, {.num_warps = 1, .dependent_launch = false}, "sm_90a")
        .ptx;
  };
  for (const char* value : {"n // m", "(n // m) * (n % m)"}) {
    const std::string divided = ptx(value);
    EXPECT_EQ(count(divided, "div\\.s64"), 1) << divided;
    EXPECT_EQ(count(divided, "div\\.u32"), 1) << divided;
  }
  const std::string by_number = ptx("n // 12");
  EXPECT_EQ(count(by_number, "(div|rem)\\."), 0) << by_number;
}

// A quotient and the remainder beside it divide once, in whichever order they stand, also across blocks.
TEST(LargeTiles, RemaindersFollowFromQuotients) {
  const char* kBodies[] = {
      "    tl.store(out_ptr, n // m)\n    tl.store(out_ptr + 1, n % m)\n",
      "    tl.store(out_ptr, n % m)\n    tl.store(out_ptr + 1, n // m)\n",
      "    tl.store(out_ptr, n // m)\n    if k > 7:\n        tl.store(out_ptr + 1, n % m)\n",
      "    tl.store(out_ptr, n % m)\n    if k > 7:\n        tl.store(out_ptr + 1, n // m)\n",
  };
  for (const char* body : kBodies) {
    const std::string ptx = remainder_ptx(body);
    EXPECT_EQ(count(ptx, "div\\.s32"), 1) << body << ptx;
    EXPECT_EQ(count(ptx, "rem\\.s32"), 0) << body << ptx;
  }
  const std::string alone = remainder_ptx("    tl.store(out_ptr, n % m)\n    tl.store(out_ptr + 1, m // n)\n");
  EXPECT_EQ(count(alone, "rem\\.s32"), 1) << alone;
}

// Stores to one address, the first of `straight` behind the entry, then one in each of `branches` and one behind it.
std::string module_of_stores(int straight, int branches) {
  std::string text =
      "target triple = \"nvptx64-nvidia-cuda\"\ndefine ptx_kernel void @k(ptr addrspace(1) %x, i32 %n) {\n";
  int stores = 0;
  const auto store = [&] {
    text += fmt::format(
        "  call void asm sideeffect \"st.global.b32 [$0+{}], $1;\", \"l,r,~{{memory}}\"(ptr addrspace(1) %x, i32 %n)\n",
        4 * stores++);
  };
  for (int i = 0; i < straight; ++i) store();
  for (int i = 0; i < branches; ++i) {
    text += fmt::format("  %c{0} = icmp sgt i32 %n, {0}\n  br i1 %c{0}, label %then{0}, label %join{0}\nthen{0}:\n", i);
    store();
    text += fmt::format("  br label %join{0}\njoin{0}:\n", i);
    store();
  }
  return text + "  ret void\n}\n";
}

// How often each register stands in the PTX. Expects that what is stored to is one register or a move of it, and that
// no move stands behind a branch that leads around it to where its result is used.
std::map<std::string, int> uses_of_addresses(const std::string& ptx, int stores) {
  std::map<std::string, int> uses;
  std::map<std::string, std::string> moved;  // what registers hold
  std::vector<std::string> in_branch;
  std::set<std::string> roots;
  const std::regex move("\tmov\\.b64 (%rd\\d+), (%rd\\d+);"), access("st\\.global\\.b32 \\[(%rd\\d+)\\+?\\d*\\]");
  std::istringstream lines(ptx);
  bool branched = false;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (line.find("bra") != line.npos) branched = true;
    if (line.starts_with("$L")) {
      for (const std::string& name : in_branch) moved.erase(name);
      in_branch.clear();
      branched = false;
    }
    if (std::regex_search(line, found, move)) {
      ++uses[found[2]];
      moved[found[1]] = moved.contains(found[2]) ? moved[found[2]] : found[2].str();
      if (branched) in_branch.push_back(found[1]);
    } else if (std::regex_search(line, found, access)) {
      ++uses[found[1]];
      roots.insert(moved.contains(found[1]) ? moved[found[1]] : found[1].str());
      --stores;
    }
  }
  EXPECT_EQ(stores, 0) << ptx;
  EXPECT_EQ(roots.size(), 1) << ptx;
  return uses;
}

int most(const std::map<std::string, int>& uses) {
  int found = 0;
  for (const auto& [name, count] : uses) found = std::max(found, count);
  return found;
}

// The back end takes time for each pair of uses of an operand: where there are thousands, each few dozen have a move.
TEST(LargeTiles, OperandsOfManyAccessesHaveSeveralNames) {
  const Target& target = *find_target("sm_90a");
  EXPECT_LT(most(uses_of_addresses(ptx_of_module(module_of_stores(3000, 0), target), 3000)), 200);
  EXPECT_LT(most(uses_of_addresses(ptx_of_module(module_of_stores(200, 900), target), 2000)), 200);
  const auto few = uses_of_addresses(ptx_of_module(module_of_stores(300, 300), target), 900);
  EXPECT_EQ(few.size(), 1);
}

// A function's body is compiled once and stands in braces for each of its calls, also one with branches. Few calls are
// inlined.
TEST(LargeTiles, CallsAreWrittenOut) {
  const struct {
    const char *function, *body;
    int elements, blocks;
  } kCases[] = {{"erf", "ex2.approx", 8, 8}, {"sin", "setp.geu.f32", 8, 8}, {"erf", "ex2.approx", 2, 0}};
  for (const auto& [function, body, elements, blocks] : kCases) {
    const Kernel kernel = kernel_of("out_ptr, x_ptr, BLOCK: tl.constexpr",
                                    fmt::format("    at = tl.arange(0, BLOCK)\n"
                                                "    tl.store(out_ptr + at, tl.{}(tl.load(x_ptr + at)))\n",
                                                function));
    LaunchOptions options{.constexprs = {{"BLOCK", 32 * elements}}, .num_warps = 1, .dependent_launch = false};
    const std::string ptx = kernel.compile(std::vector<ArgType>{kFloats, kFloats}, options, "sm_90a").ptx;
    EXPECT_EQ(count(ptx, "\\.reg \\.pred \tw_p"), blocks) << ptx;
    EXPECT_GE(count(ptx, body), elements) << ptx;
    EXPECT_EQ(count(ptx, "\\.func"), 0) << ptx;
    EXPECT_EQ(count(ptx, "tegula"), 0) << ptx;
  }
}

// Loads of a few elements take what they give elsewhere from a register, loads of many from the instruction before.
TEST(LargeTiles, LoadsSetConstants) {
  const Kernel kernel = kernel_of("out_ptr, x_ptr, n, BLOCK: tl.constexpr",
                                  "    at = tl.arange(0, BLOCK)\n"
                                  "    tl.debug_barrier()  # so the tile stays whole\n"
                                  "    x = tl.load(x_ptr + at, mask=at % 7 < n, other=-1.5)\n"
                                  "    tl.store(out_ptr + at, x)\n");
  auto ptx = [&](int block) {
    return kernel
        .compile(std::vector<ArgType>{kFloats, kFloats, kInt}, {.constexprs = {{"BLOCK", block}}, .num_warps = 1},
                 "sm_90a")
        .ptx;
  };
  const char* kInOne = "mov\\.b32 %r\\d+, 3217031168; @%p\\d+ ld\\.global\\.b32 %r\\d+, \\[%rd\\d+(\\+\\d+)?\\];";
  EXPECT_EQ(count(ptx(256), kInOne), 0);
  const std::string many = ptx(32 * 512);
  EXPECT_EQ(count(many, kInOne), 512);
  EXPECT_EQ(count(many, "ld\\.global"), 512);
}

// What is added to an address of shared memory that has no other use stands in the access.
TEST(LargeTiles, ConstantsOfAddressesStandInAccesses) {
  const Kernel kernel = kernel_of("out_ptr, x_ptr, BLOCK: tl.constexpr",
                                  "    i, j = tl.arange(0, 32), tl.arange(0, BLOCK)\n"
                                  "    x = tl.load(x_ptr + i[:, None] * BLOCK + j[None, :])\n"
                                  "    tl.store(out_ptr + j[:, None] * 32 + i[None, :], tl.trans(x))\n");
  const LaunchOptions options{.constexprs = {{"BLOCK", 64}}, .num_warps = 1, .dependent_launch = false};
  const std::string ptx = kernel.compile(std::vector<ArgType>{kFloats, kFloats}, options, "sm_90a").ptx;
  EXPECT_GE(count(ptx, "\\.shared\\S* .*\\[%r\\d+\\+\\d+\\]"), 16) << ptx;
  EXPECT_LE(count(ptx, "\tadd\\.s32 \t%\\w+, %\\w+, \\d+"), 4) << ptx;
}

// Addresses of elements that are accessed with others are not left to LLVM's passes, nor are sums with 0 and masks that
// hold everywhere.
TEST(LargeTiles, LoweringMakesWhatIsUsed) {
  const Kernel kernel = kernel_of("out_ptr, x_ptr, n, BLOCK: tl.constexpr",
                                  "    i, j = tl.arange(0, 32), tl.arange(0, BLOCK)\n"
                                  "    at = i[:, None] * BLOCK + j[None, :]\n"
                                  "    mask = (i < n)[:, None] & (j < BLOCK)[None, :]\n"
                                  "    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)\n");
  const std::vector<ArgType> types{kFloats, kFloats, kInt};
  CompileOptions options;
  options.target = *find_target("sm_90a");
  std::string lowered;
  options.dump = [&](const std::string& stage, const std::string& text) {
    if (stage == "llvm") lowered = text;
  };
  Diagnostics diags;
  ASSERT_TRUE(compile(*kernel.tile_func(types, {.constexprs = {{"BLOCK", 64}}, .num_warps = 1}), options, diags));
  EXPECT_EQ(count(lowered, "call [^\n]*@tegula.hw.ld_global_v4b32"), 16) << lowered;
  EXPECT_EQ(count(lowered, " = getelementptr "), 32) << lowered;
  EXPECT_EQ(count(lowered, " = add [^\n]*, 0\n| = and i1 [^\n]*, true\n"), 0) << lowered;
}

// A function that a tile calls many times stays one.
TEST(LargeTiles, LongFunctionsStayFunctions) {
  const Kernel kernel = kernel_of("out_ptr, x_ptr, BLOCK: tl.constexpr",
                                  "    at = tl.arange(0, BLOCK)\n"
                                  "    tl.debug_barrier()  # so the tile stays whole\n"
                                  "    tl.store(out_ptr + at, tl.load(x_ptr + at) % 3.7)\n");
  auto options = [](int block) { return LaunchOptions{.constexprs = {{"BLOCK", block}}, .num_warps = 1}; };
  auto ptx = [&](int block) {
    return kernel.compile(std::vector<ArgType>{kFloats, kFloats}, options(block), "sm_90a").ptx;
  };
  constexpr int kFew = 128, kMany = 32 * 512;
  EXPECT_EQ(count(ptx(kFew), "\\.func"), 0);
  const std::string many = ptx(kMany);
  EXPECT_GE(count(many, "\\.func"), 1);
  EXPECT_EQ(count(many, "call\\.uni"), 512);

  auto device = default_device();
  std::vector<float> x(kMany);
  for (int i = 0; i < kMany; ++i) x[size_t(i)] = float(i - kMany / 2) * 0.37f;
  Buffer from(*device, x), to(*device, x.size() * sizeof(float));
  kernel.launch(*device, {1}, options(kMany), to.as<float>(), from.as<float>());
  const std::vector<float> found = to.download<float>();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(found[i], std::fmod(x[i], 3.7f)) << x[i];
}

// The fewer passes that code of so many instructions takes fold what lowering leaves to them: a shift by a constant has
// no bounds to keep, and a loop is not unrolled. (Squares keep the text's own loop as it is.)
TEST(LargeTiles, ManyInstructionsAreFolded) {
  constexpr int kElements = 16, kSteps = 256;
  const Kernel kernel = kernel_of("out_ptr, x_ptr, factor, rounds, BLOCK: tl.constexpr, STEPS: tl.constexpr",
                                  "    at = tl.arange(0, BLOCK)\n"
                                  "    x = tl.load(x_ptr + at)\n"
                                  "    for _ in range(rounds):\n"
                                  "        for i in tl.static_range(STEPS):\n"
                                  "            x = (x ^ (x >> 7)) * factor + i * i\n"
                                  "    tl.store(out_ptr + at, x)\n");
  const LaunchOptions options{.constexprs = {{"BLOCK", 32 * kElements}, {"STEPS", kSteps}}, .num_warps = 1};
  const KernelImage image = kernel.compile(std::vector<ArgType>{kInts, kInts, kInt, kInt}, options, "sm_90a");
  EXPECT_EQ(image.few_programs, 0);  // one entry is long enough
  const std::string& ptx = image.ptx;
  EXPECT_EQ(count(ptx, "(mul|mad)\\.lo\\.s32"), kElements * kSteps);
  EXPECT_EQ(count(ptx, "shr\\.s32"), kElements * kSteps);
  EXPECT_EQ(count(ptx, "selp"), 0);

  auto device = default_device();  // for a GPU instructions of so long a block are selected piece by piece
  std::vector<int32_t> x(32 * kElements);
  for (size_t i = 0; i < x.size(); ++i) x[i] = int32_t(i) * 977 - 12345;
  Buffer from(*device, x), to(*device, x.size() * sizeof(int32_t));
  constexpr int kFactor = 31, kRounds = 2;
  kernel.launch(*device, {1}, options, to.as<int32_t>(), from.as<int32_t>(), kFactor, kRounds);
  for (int32_t& v : x)
    for (int step = 0; step < kRounds * kSteps; ++step)
      v = int32_t(uint32_t(v ^ (v >> 7)) * uint32_t(kFactor) + uint32_t((step % kSteps) * (step % kSteps)));
  EXPECT_EQ(to.download<int32_t>(), x);
}

// Rows of which registers hold but a few are computed in a loop, some at a time; with a row's statistics, a reshaped
// tile, in place, and in a loop of the program's own.
TEST(LargeTiles, RowsAreComputedInParts) {
  const Kernel kernel = kernel_of("out_ptr, sums_ptr, x_ptr, rounds, ROWS: tl.constexpr, COLS: tl.constexpr",
                                  "    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)\n"
                                  "    at = rows[:, None] * COLS + cols[None, :]\n"
                                  "    x = tl.load(x_ptr + at)\n"
                                  "    tl.store(x_ptr + at, x * 2)\n"
                                  "    weight = tl.sum(tl.where(cols % 2 == 0, 1.0, 0.0))\n"
                                  "    for i in range(rounds):\n"
                                  "        groups = tl.sum(tl.reshape(x, (ROWS, COLS // 4, 4)), axis=2)\n"
                                  "        tl.store(sums_ptr + i * ROWS + rows, tl.sum(groups, axis=1) * weight + i)\n"
                                  "    tl.store(out_ptr + at, x - tl.sum(x, axis=1)[:, None])\n");
  constexpr int kRows = 32, kCols = 1024, kRounds = 3;
  const LaunchOptions options{.constexprs = {{"ROWS", kRows}, {"COLS", kCols}}, .num_warps = 2};
  const std::string ptx = kernel.compile(std::vector<ArgType>{kFloats, kFloats, kFloats, kInt}, options, "sm_90a").ptx;
  EXPECT_LE(count(ptx, "ld\\.global"), 64 / 4) << ptx;

  auto device = default_device();
  std::vector<float> x(kRows * kCols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 23) - 11;
  Buffer from(*device, x), out(*device, x.size() * sizeof(float)), sums(*device, kRows * kRounds * sizeof(float));
  kernel.launch(*device, {1}, options, out.as<float>(), sums.as<float>(), from.as<float>(), kRounds);
  const std::vector<float> doubled = from.download<float>(), rest = out.download<float>(),
                           found = sums.download<float>();
  for (int row = 0; row < kRows; ++row) {
    float sum = 0;
    for (int col = 0; col < kCols; ++col) sum += x[size_t(row * kCols + col)];
    for (int i = 0; i < kRounds; ++i) ASSERT_EQ(found[size_t(i * kRows + row)], sum * (kCols / 2) + float(i)) << row;
    for (size_t at = size_t(row * kCols), end = at + kCols; at < end; ++at) {
      ASSERT_EQ(doubled[at], 2 * x[at]);
      ASSERT_EQ(rest[at], x[at] - sum);
    }
  }
}

// So are rows that registers would hold, where the code would be long, as that of sorts is.
TEST(LargeTiles, LongCodeIsComputedInParts) {
  const Kernel kernel = kernel_of("out_ptr, x_ptr, ROWS: tl.constexpr, COLS: tl.constexpr",
                                  "    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]\n"
                                  "    x = tl.sort(tl.load(x_ptr + at))\n"
                                  "    x = tl.sort(tl.cumsum(x, axis=1), descending=True)\n"
                                  "    tl.store(out_ptr + at, x)\n");
  constexpr int kRows = 64, kCols = 64;
  const LaunchOptions options{.constexprs = {{"ROWS", kRows}, {"COLS", kCols}}, .num_warps = 1};
  const std::string ptx = kernel.compile(std::vector<ArgType>{kFloats, kFloats}, options, "sm_90a").ptx;
  EXPECT_LE(count(ptx, "st\\.global"), 128 / 8) << ptx;

  auto device = default_device();
  std::vector<float> x(kRows * kCols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i * 37 % 101) - 50;
  Buffer from(*device, x), to(*device, x.size() * sizeof(float));
  kernel.launch(*device, {1}, options, to.as<float>(), from.as<float>());
  for (auto row = x.begin(); row != x.end(); row += kCols) {
    std::sort(row, row + kCols);
    std::partial_sum(row, row + kCols, row);
    std::sort(row, row + kCols, std::greater<>());
  }
  EXPECT_EQ(to.download<float>(), x);
}

// However many ops index arithmetic would be if each access had its own.
TEST(LargeTiles, ManyAccessesAreComputedInParts) {
  const Kernel kernel = kernel_of("out_ptr, x_ptr, ROWS: tl.constexpr, COLS: tl.constexpr",
                                  "    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)\n"
                                  "    out = out_ptr + rows[:, None] * COLS + cols[None, :]\n"
                                  "    for i in tl.static_range(60):\n"
                                  "        rows = (rows * 3 ^ i * i) % ROWS\n"
                                  "    at = rows[:, None] * COLS + cols[None, :]\n"
                                  "    x = tl.zeros((ROWS, COLS), tl.float32)\n"
                                  "    for i in tl.static_range(60):\n"
                                  "        x = x * 0.5 + tl.load(x_ptr + at + i * i * 4)\n"
                                  "    tl.store(out, x)\n");
  const LaunchOptions options{.constexprs = {{"ROWS", 64}, {"COLS", 64}}, .num_warps = 1};
  const std::string ptx = kernel.compile(std::vector<ArgType>{kFloats, kFloats}, options, "sm_90a").ptx;
  EXPECT_LE(count(ptx, "st\\.global"), 128 / 8) << ptx;
}

// Elements of a tile in another shape are others at the same place of their leading axes.
TEST(LargeTiles, PartsOfTilesInTwoShapesAreTheSameElements) {
  auto device = default_device();
  for (const auto& [warps, n] : {std::pair(1, 8192), {4, 32768}}) {
    const Kernel split = kernel_of("out_ptr, x_ptr, N: tl.constexpr",
                                   "    i = tl.arange(0, 2 * N)\n"
                                   "    a, b = tl.split(tl.reshape(tl.load(x_ptr + i), (N, 2)))\n"
                                   "    tl.store(out_ptr + tl.arange(0, N), a - 2 * b)\n");
    const Kernel join = kernel_of("out_ptr, x_ptr, N: tl.constexpr",
                                  "    i = tl.arange(0, N)\n"
                                  "    y = tl.interleave(tl.load(x_ptr + i), tl.load(x_ptr + N + i))\n"
                                  "    tl.store(out_ptr + tl.arange(0, 2 * N), y + 1)\n");
    std::vector<float> x(size_t(2 * n));
    std::iota(x.begin(), x.end(), 0.0F);
    Buffer in(*device, x), halves(*device, size_t(n) * sizeof(float)), whole(*device, x.size() * sizeof(float));
    const LaunchOptions options{.constexprs = {{"N", int64_t{n}}}, .num_warps = warps};
    split.launch(*device, {1}, options, halves.as<float>(), in.as<float>());
    join.launch(*device, {1}, options, whole.as<float>(), in.as<float>());
    const auto got = halves.download<float>(), joined = whole.download<float>();
    int wrong = 0;
    for (size_t i = 0; i < size_t(n); ++i) {
      wrong += got[i] != x[2 * i] - 2 * x[2 * i + 1];
      wrong += joined[2 * i] != x[i] + 1 || joined[2 * i + 1] != x[size_t(n) + i] + 1;
    }
    EXPECT_EQ(wrong, 0) << n;
  }
}

// What follows from sums over all of a tile waits for a loop that adds up its parts, also where sums follow from each
// other, where two are at once, and where the result takes the operand's place.
TEST(LargeTiles, SumsOverAllPartsComeFirst) {
  const Kernel kernel = kernel_of("out_ptr, found_ptr, x_ptr, n, N: tl.constexpr",
                                  "    if tl.program_id(0) >= n:\n"
                                  "        return\n"
                                  "    i = tl.arange(0, N)\n"
                                  "    x = tl.load(x_ptr + i)\n"
                                  "    most = tl.max(x, 0)\n"
                                  "    tl.store(found_ptr, tl.sum(tl.where(x == most, 1.0, 0.0), 0))\n"
                                  "    tl.store(found_ptr + 1, tl.argmin(x, 0).to(tl.float32))\n"
                                  "    tl.store(out_ptr + i, most - x)\n");
  constexpr int kElements = 1 << 15;
  const LaunchOptions options{.constexprs = {{"N", kElements}}, .num_warps = 2};
  const std::string ptx = kernel.compile(std::vector<ArgType>{kFloats, kFloats, kFloats, kInt}, options, "sm_90a").ptx;
  EXPECT_LE(count(ptx, "ld\\.global"), 3 * 64 / 4) << ptx;

  auto device = default_device();
  std::vector<float> x(kElements);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i * 377 % 1009) - 504;
  x[20007] = -1000;
  const float most = *std::max_element(x.begin(), x.end());
  const auto times = float(std::count(x.begin(), x.end(), most));
  std::vector<float> expected(x);
  for (float& v : expected) v = most - v;
  Buffer from(*device, x), to(*device, x.size() * sizeof(float)), found(*device, 2 * sizeof(float));
  for (Buffer* out : {&to, &from}) {
    kernel.launch(*device, {2}, options, out->as<float>(), found.as<float>(), from.as<float>(), 1);
    EXPECT_EQ(found.download<float>(), (std::vector<float>{times, 20007}));
    EXPECT_EQ(out->download<float>(), expected);
  }
}

// A number that two loops compute is the same in both: some element is the largest one.
TEST(LargeTiles, PartsAreTheSameInEachLoop) {
  const Kernel kernel = kernel_of("out_ptr, found_ptr, a_ptr, b_ptr, c_ptr, N: tl.constexpr",
                                  "    i = tl.arange(0, N)\n"
                                  "    p = tl.load(a_ptr + i) * tl.load(b_ptr + i)\n"
                                  "    v = p + tl.load(c_ptr + i) * tl.load(c_ptr + N + i)\n"
                                  "    hit = v == tl.max(v, 0)\n"
                                  "    tl.store(found_ptr, tl.sum(hit.to(tl.int32), 0))\n"
                                  "    tl.store(out_ptr + i, tl.where(hit, p, 0.0))\n");
  constexpr size_t kElements = 1 << 15;
  const LaunchOptions options{.constexprs = {{"N", int64_t(kElements)}}, .num_warps = 1};
  auto device = default_device();
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (int n = 0; n < 20; ++n) {
    std::vector<float> x(4 * kElements);
    for (float& v : x) v = normal(random);
    Buffer from(*device, x), to(*device, kElements * sizeof(float)), found(*device, sizeof(int32_t));
    kernel.launch(*device, {1}, options, to.as<float>(), found.as<int32_t>(), from.as<float>(),
                  from.as<float>() + kElements, from.as<float>() + 2 * kElements);
    EXPECT_GE(found.download<int32_t>()[0], 1) << n;
  }
}

// Sums over rows and over columns follow from each other, and those over rows are of parts.
TEST(LargeTiles, SumsAlongBothAxesFollowFromEachOther) {
  const Kernel kernel = kernel_of("out_ptr, columns_ptr, x_ptr, ROWS: tl.constexpr, COLS: tl.constexpr",
                                  "    cols = tl.arange(0, COLS)\n"
                                  "    at = tl.arange(0, ROWS)[:, None] * COLS + cols[None, :]\n"
                                  "    x = tl.load(x_ptr + at)\n"
                                  "    x = x - tl.max(x, axis=1)[:, None]\n"
                                  "    columns = tl.min(x, axis=0)\n"
                                  "    tl.store(columns_ptr + cols, columns)\n"
                                  "    x = x - columns[None, :]\n"
                                  "    tl.store(out_ptr + at, x + tl.max(x, axis=0)[None, :])\n");
  constexpr size_t kRows = 64, kCols = 256;
  const LaunchOptions options{.constexprs = {{"ROWS", int64_t(kRows)}, {"COLS", int64_t(kCols)}}, .num_warps = 1};
  const std::string ptx = kernel.compile(std::vector<ArgType>{kFloats, kFloats, kFloats}, options, "sm_90a").ptx;
  EXPECT_LE(count(ptx, "ld\\.global"), 3 * 256 / 4) << ptx;

  std::vector<float> x(kRows * kCols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i * 377 % 1009);
  auto device = default_device();
  Buffer from(*device, x), to(*device, x.size() * sizeof(float)), columns(*device, kCols * sizeof(float));
  kernel.launch(*device, {1}, options, to.as<float>(), columns.as<float>(), from.as<float>());
  for (auto row = x.begin(); row != x.end(); row += kCols) {
    const float most = *std::max_element(row, row + kCols);
    std::for_each(row, row + kCols, [&](float& v) { v -= most; });
  }
  std::vector<float> least(kCols, 0), most(kCols, 0);
  for (size_t i = 0; i < x.size(); ++i) least[i % kCols] = std::min(least[i % kCols], x[i]);
  for (size_t i = 0; i < x.size(); ++i) most[i % kCols] = std::max(most[i % kCols], x[i] -= least[i % kCols]);
  for (size_t i = 0; i < x.size(); ++i) x[i] += most[i % kCols];
  EXPECT_EQ(columns.download<float>(), least);
  EXPECT_EQ(to.download<float>(), x);
}

}  // namespace
}  // namespace tegula
