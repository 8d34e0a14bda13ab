// label: device
// Random numbers, beside those that Triton gives.
#include <bit>

#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

struct Recorded {
  int64_t seed, base;
  int rounds;
  uint32_t words[8];   ///< randint4x at base and base + 1: first the words number 0
  uint64_t quads[8];   ///< philox of the counters (o, 3 o, o - 7, 0), likewise
  uint32_t floats[6];  ///< bits of rand, of randn, and of quads number 0 as floats
};
// What Triton 3.6 gives (its interpreter, with numpy's log, sqrt and cos).
const Recorded kRecorded[] = {
    {0,
     0,
     10,
     {0x6627e8d5, 0xf8e4cca4, 0xe169c58d, 0x5cb200db, 0xbc57ac4c, 0xb1a574eb, 0x9b00dbd8, 0x097eff67},
     {0xd4aa82cd6cc5dfaa, 0xc9526a15b65225fc, 0x77fe7da047f13655, 0xede185e5b6c7c255, 0xcfcddd4eeb9458ce,
      0xa5a5e76823408e10, 0x6ffe74e56b0a912d, 0xed053c5165b0478d},
     {0x3f4c4fd1, 0x3d63666a, 0x3d3eacd1, 0xbec6d74f, 0x3ead55f4, 0x3edab656}},
    {42,
     0,
     10,
     {0x9ceaf053, 0xfcdb2127, 0x77f5493b, 0x53ba6cfd, 0x12bf50ad, 0x838f5a6e, 0x5742b3d7, 0x744e06fb},
     {0x6a0b2b307339adda, 0x5db09d5e773ce501, 0xc8a381dee2cc27a3, 0x3853821b0250d171, 0xebe51647ea8e30bb,
      0x20138fe21cc329d8, 0xcc10acdd739001dd, 0xb0f123a2b723453e},
     {0x3f462a1e, 0x3cc937b5, 0x3f291df5, 0xbfc577a3, 0x3f541654, 0x3f3b613a}},
    {1311768467294899695,
     5,
     10,
     {0x1c4d1c5f, 0xbf5d3a7b, 0x99280956, 0x4c8e6699, 0x008c5ed7, 0x3514ff18, 0x30d32c9d, 0x05394c8f},
     {0x368985d6ce2ca5d3, 0xb873b2b1904ee415, 0x3df3f4855b4b384d, 0x4add1bdcd80dc228, 0xe9a5038fea04d2c3,
      0x5e351260dc5a1b24, 0xeec9df1adbbd5464, 0xa8b730184c12f752},
     {0x3e6268e2, 0x3f01458a, 0x3f129cf9, 0xbf743191, 0x3eda2615, 0x3f0f189a}},
    {-3,
     8589934592,
     10,
     {0x8dd8bc7e, 0x1cd961ff, 0x971e64c9, 0x033f16c7, 0xf6dda516, 0xf73678f5, 0x5076891e, 0x49df1c47},
     {0xf3ffe188dc1bca80, 0x52a3d2b773e70949, 0x641c0668f681b3c5, 0x375f44e9c17d7f7b, 0xde24b30af7e66c87,
      0xee382d0633aadeda, 0x9082fdff13ecd283, 0xf73c795bd1da8c22},
     {0x3f644e86, 0x3e66cb0f, 0x3e4eea64, 0x3fda28a6, 0x3dc001e5, 0x3f2547a4}},
    {7,
     100,
     7,
     {0x5f4fce5d, 0x99fbe091, 0x135740a4, 0x3801df79, 0x8227d4f1, 0xefcef1ab, 0xd161edd1, 0x4a5f529a},
     {0xff51cad6450bb208, 0x178bbc1a83609499, 0xfd2eddb6a768d58d, 0x2cb6f29bf1ededca, 0x7e972c280afd9d85,
      0x774a1da3a18e0bb3, 0x9cd78bcd04500cc9, 0x3354d8a0235acacd},
     {0x3f3e9f9c, 0x3f4c083e, 0x3ee4e892, 0xbf1f5992, 0x3bae3529, 0x3e3c5de0}},
};

TEST(RandomNumbers, AreTritons) {
  for (const Recorded& r : kRecorded) {
    SCOPED_TRACE(fmt::format("seed {} base {} rounds {}", r.seed, r.base, r.rounds));
    Array<uint32_t> words(8);
    Array<uint64_t> quads(8);
    Array<float> floats(14);
    run(R"(
@triton.jit
def kernel(words, quads, floats, seed, base, ROUNDS: tl.constexpr):
    i = tl.arange(0, 2)
    o = base + i
    a, b, c, d = tl.randint4x(seed, o, ROUNDS)
    tl.static_assert(a.dtype == tl.uint32)
    tl.store(words + i, tl.randint(seed, o, n_rounds=ROUNDS))
    tl.store(words + 2 + i, b)
    tl.store(words + 4 + i, c)
    tl.store(words + 6 + i, d)
    o = o.to(tl.int64)
    e, f, g, h = tl.philox(seed, o, o * 3, o - 7, o * 0, ROUNDS)
    tl.static_assert(h.dtype == tl.uint64)
    tl.store(quads + i, e)
    tl.store(quads + 2 + i, f)
    tl.store(quads + 4 + i, g)
    tl.store(quads + 6 + i, h)
    tl.store(floats + i, tl.rand(seed, base + i, ROUNDS))
    tl.store(floats + 2 + i, tl.randn(seed, base + i, ROUNDS))
    tl.store(floats + 4 + i, tl.uint_to_uniform_float(e))
    u, v, w, x = tl.rand4x(seed, base + i, ROUNDS)
    m, n = tl.pair_uniform_to_normal(u, v)
    j, k, l, p = tl.randn4x(seed, base + i, ROUNDS)
    tl.store(floats + 6 + i, u - tl.uint_to_uniform_float(a) + (m - j) + (n - k))
    m, n = tl.pair_uniform_to_normal(w, x)
    tl.store(floats + 8 + i, (m - l) + (n - p))
    tl.store(floats + 10 + i, tl.rand(seed, base.to(tl.int32) * 0))
    tl.store(floats + 12 + i, tl.rand(seed, i * 0))
)",
        {.constexprs = {{"ROUNDS", r.rounds}}, .num_warps = next_warps()}, {1}, words, quads, floats, r.seed, r.base);
    EXPECT_EQ(words.values(), std::vector<uint32_t>(r.words, r.words + 8));
    EXPECT_EQ(quads.values(), std::vector<uint64_t>(r.quads, r.quads + 8));
    std::vector<float> got = floats.values();
    for (size_t i = 0; i < 6; ++i) {
      if (i == 2 || i == 3)  // by way of log, sqrt and cos
        EXPECT_LE(ulp_error(got[i], std::bit_cast<float>(r.floats[i])), 8) << i;
      else
        EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), r.floats[i]) << i;
    }
    for (size_t i = 6; i < 10; ++i) EXPECT_NEAR(got[i], 0, 1e-6) << i;  // products and sums may become one fma
    EXPECT_EQ(got[10], got[12]);                                        // a scalar offset
  }
}

// As in Triton, they become uint32.
TEST(RandomNumbers, OffsetsThatAreFloats) {
  Array<float> out(64);
  run(R"(
@triton.jit
def kernel(out):
    i = tl.arange(0, 16)
    tl.store(out + i, tl.rand(7, i))
    tl.store(out + 16 + i, tl.rand(7, i.to(tl.float32) + 0.5))
    tl.store(out + 32 + i, tl.rand(7, i.to(tl.float16)))
    five = 5.0
    tl.store(out + 48 + i, tl.rand(7, five))
)",
      {}, {1}, out);
  const std::vector<float> got = out.values();
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(got[16 + i], got[i]);
    EXPECT_EQ(got[32 + i], got[i]);
    EXPECT_EQ(got[48 + i], got[5]);
  }
}

TEST(RandomNumbers, NoRoundsAndTilesOfSeeds) {
  Array<uint32_t> out(16);
  run(R"(
@triton.jit
def kernel(out):
    i = tl.arange(0, 4)
    a, b, c, d = tl.philox_impl(i.to(tl.uint32), i.to(tl.uint32) + 1, tl.zeros((4,), tl.uint32) + 2, tl.zeros((4,), tl.uint32) + 3, i.to(tl.uint32), i.to(tl.uint32), 0)
    tl.store(out + i, a * 1000 + b * 100 + c * 10 + d)
    r = tl.randint(i[:, None], tl.arange(0, 2)[None, :])
    tl.static_assert(r.shape[0] == 4 and r.shape[1] == 2)
    tl.store(out + 4 + i[:, None] * 2 + tl.arange(0, 2)[None, :], r)
    tl.store(out + 12 + i, tl.randint(0, i % 2))
)",
      {}, {1}, out);
  std::vector<uint32_t> got = out.values();
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(got[i], i * 1000 + (i + 1) * 100 + 23);
  EXPECT_EQ(got[4], kRecorded[0].words[0]);
  EXPECT_EQ(got[5], kRecorded[0].words[1]);
  EXPECT_EQ(got[12], kRecorded[0].words[0]);
  EXPECT_NE(got[6], got[4]);
}

}  // namespace
}  // namespace tegula::ops
