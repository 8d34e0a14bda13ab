// label: device
// What keeps code of tiles with hundreds of elements a thread short, and quick to make.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "dsl/tegula.h"

namespace tegula {
namespace {

ptrdiff_t count(const std::string& text, const char* pattern) {
  const std::regex form(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), form), std::sregex_iterator());
}

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
  return kernel.compile(std::vector<ArgType>{kInts, kInt, kInt, kInt}, {.num_warps = 1}, "sm_90a").ptx;
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

// Loads of a few elements take what they give elsewhere from a register, loads of many from the instruction before.
TEST(LargeTiles, LoadsSetConstants) {
  const Kernel kernel = kernel_of("out_ptr, x_ptr, n, BLOCK: tl.constexpr",
                                  "    at = tl.arange(0, BLOCK)\n"
                                  "    x = tl.load(x_ptr + at, mask=at % 7 < n, other=-1.5)\n"
                                  "    tl.store(out_ptr + at, x)\n");
  auto ptx = [&](int block) {
    return kernel
        .compile(std::vector<ArgType>{kFloats, kFloats, kInt}, {.constexprs = {{"BLOCK", block}}, .num_warps = 1},
                 "sm_90a")
        .ptx;
  };
  const char* kInOne = "mov\\.b32 %r\\d+, 3217031168; @%p\\d+ ld\\.global\\.b32 %r\\d+, \\[%rd\\d+\\];";
  EXPECT_EQ(count(ptx(256), kInOne), 0);
  const std::string many = ptx(32 * 512);
  EXPECT_EQ(count(many, kInOne), 512);
  EXPECT_EQ(count(many, "ld\\.global"), 512);
}

// A function that a tile calls many times stays one.
TEST(LargeTiles, LongFunctionsStayFunctions) {
  const Kernel kernel = kernel_of("out_ptr, x_ptr, BLOCK: tl.constexpr",
                                  "    at = tl.arange(0, BLOCK)\n"
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

}  // namespace
}  // namespace tegula
