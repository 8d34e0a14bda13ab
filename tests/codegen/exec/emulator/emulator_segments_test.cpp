// label: device
// The emulator: shuffles that follow each other, which it does for all lanes of a warp at once.
#include <functional>

#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

/// out[t] = the kernel's %result of thread t of two warps, in several orders of threads.
void check(const std::string& body, const std::function<int(int thread)>& expected, int64_t shared_bytes = 0) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    auto device = make_emulator({.threads = 1, .seed = seed});
    auto kernel =
        device->load(make_image({pointer("out", Elem::I32)}, "  %t = call i32 @tegula.hw.thread_id()\n" + body + R"(
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %result, i1 true, i32 1)
  ret void)",
                                2, shared_bytes));
    Array<int> out(*device, 64);
    launch(*kernel, {1}, out.address());
    const std::vector<int> result = out.values();
    for (int t = 0; t < 64; ++t) ASSERT_EQ(result[size_t(t)], expected(t)) << "thread " << t << " seed " << seed;
  }
}

/// The thread of the same warp whose lane that is.
int in_warp(int t, int lane) { return t / 32 * 32 + lane % 32; }

// Sources that are known, and sources that each lane names, of values that come from shuffles.
TEST(LaneSegments, Sources) {
  check(R"(
  %a = mul i32 %t, %t
  %s = call i32 @tegula.hw.shfl_bfly_b32(i32 %a, i32 5)
  %from = add i32 %t, 7
  %r = call i32 @tegula.hw.shfl_idx_b32(i32 %s, i32 %from)
  %mask = and i32 %r, 15
  %q = call i32 @tegula.hw.shfl_bfly_b32(i32 %r, i32 %mask)
  %result = call i32 @tegula.hw.shfl_idx_b32(i32 %q, i32 %q))",
        [](int t) {
          auto s = [](int t) { return (t ^ 5) * (t ^ 5); };
          auto r = [&](int t) { return s(in_warp(t, t + 7)); };
          auto q = [&](int t) { return r(t ^ (r(t) & 15)); };
          return q(in_warp(t, q(t)));
        });
}

// Arithmetic between them: of bits, of 64 bits, of floats, of 16 bits, divisions, and choices. What others use too goes
// out of the segment.
TEST(LaneSegments, ArithmeticBetween) {
  check(R"(
  %a = add i32 %t, 3
  %s = call i32 @tegula.hw.shfl_bfly_b32(i32 %a, i32 1)
  %less = icmp slt i32 %s, %a
  %odd = trunc i32 %t to i1
  %either = xor i1 %less, %odd
  %w = sext i32 %s to i64
  %ww = mul i64 %w, 1000000007
  %high = lshr i64 %ww, 16
  %n = trunc i64 %high to i32
  %x = select i1 %either, i32 %n, i32 %s
  %u = call i32 @tegula.hw.shfl_bfly_b32(i32 %x, i32 2)
  %m = and i32 %u, 1023
  %d = sdiv i32 %m, %a
  %f = sitofp i32 %d to float
  %g = fmul float %f, 2.5
  %h = fptrunc float %g to half
  %k = fadd half %h, 0xH3800
  %i = fptosi half %k to i32
  %v = call i32 @tegula.hw.shfl_idx_b32(i32 %i, i32 9)
  %e = zext i1 %either to i32
  %y = add i32 %v, %e
  %z = mul i32 %y, 3
  %result = add i32 %z, %u)",
        [](int t) {
          auto a = [](int t) { return t + 3; };
          auto s = [&](int t) { return a(t ^ 1); };
          auto either = [&](int t) { return (s(t) < a(t)) != (t % 2 == 1); };
          auto x = [&](int t) { return either(t) ? int((int64_t(s(t)) * 1000000007) >> 16) : s(t); };
          auto u = [&](int t) { return x(t ^ 2); };
          auto i = [&](int t) { return int(float((u(t) & 1023) / a(t)) * 2.5f + 0.5f); };
          return (i(in_warp(t, 9)) + either(t)) * 3 + u(t);
        });
}

// Values of 64 bits, from lanes that are known or that each lane names, beside one of 32 bits.
TEST(LaneSegments, WideValues) {
  check(R"(
  %w = zext i32 %t to i64
  %a = mul i64 %w, 10000000019
  %s = call i64 @tegula.hw.shfl_bfly_b64(i64 %a, i32 3)
  %b = add i64 %s, %a
  %from = add i32 %t, 5
  %r = call i64 @tegula.hw.shfl_idx_b64(i64 %b, i32 %from)
  %high = lshr i64 %r, 32
  %h = trunc i64 %high to i32
  %l = trunc i64 %r to i32
  %o = call i32 @tegula.hw.shfl_idx_b32(i32 %l, i32 %t)
  %q = call i32 @tegula.hw.shfl_idx_b32(i32 %h, i32 %from)
  %result = xor i32 %o, %q)",
        [](int t) {
          auto b = [](int t) { return uint64_t((t ^ 3) + t) * 10000000019u; };
          auto r = [&](int t) { return b(in_warp(t, t + 5)); };
          return int(uint32_t(r(t)) ^ uint32_t(r(in_warp(t, t + 5)) >> 32));
        });
}

// More shuffles than a segment takes.
TEST(LaneSegments, ManyShuffles) {
  std::string body = "  %v0 = add i32 %t, 1\n";
  constexpr int kShuffles = 300;
  for (int i = 0; i < kShuffles; ++i)
    body += fmt::format(
        "  %s{0} = call i32 @tegula.hw.shfl_bfly_b32(i32 %v{0}, i32 {1})\n  %w{0} = mul i32 %s{0}, 3\n"
        "  %v{2} = xor i32 %w{0}, %v{0}\n",
        i, i % 31 + 1, i + 1);
  body += fmt::format("  %result = add i32 %v{}, 0", kShuffles);
  std::vector<uint32_t> values(64);
  for (uint32_t t = 0; t < 64; ++t) values[t] = t + 1;
  for (int i = 0; i < kShuffles; ++i) {
    const std::vector<uint32_t> last = values;
    for (uint32_t t = 0; t < 64; ++t) values[t] = (last[t ^ uint32_t(i % 31 + 1)] * 3) ^ last[t];
  }
  check(body, [&](int t) { return int(values[size_t(t)]); });
}

// A lane reads what another has stored between two shuffles: the second one is not done with the first.
TEST(LaneSegments, EndAtAccessesToMemory) {
  check(R"(
  %base = call i32 @tegula.hw.shared_base()
  %at = mul i32 %t, 4
  %own = add i32 %base, %at
  %s = call i32 @tegula.hw.shfl_bfly_b32(i32 %t, i32 1)
  call void @tegula.hw.st_shared_b32(i32 %own, i32 %s, i1 true, i32 1)
  %u = call i32 @tegula.hw.shfl_bfly_b32(i32 %s, i32 2)
  %o = xor i32 %own, 12
  %v = call i32 @tegula.hw.ld_shared_b32(i32 %o, i32 2)
  %m = mul i32 %v, 1000
  %result = add i32 %m, %u)",
        [](int t) { return ((t ^ 3) ^ 1) * 1000 + (t ^ 3); }, 256);
}

}  // namespace
}  // namespace tegula
