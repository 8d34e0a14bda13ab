// label: device
// Atomics: types, masks, kinds, order, several elements at once.
#include <algorithm>
#include <bit>
#include <functional>

#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

using AtomicTypes = std::tuple<int32_t, int64_t, uint32_t, uint64_t, float16, bfloat16, float, double>;

TEST(Atomics, ManyProgramsOneAddress) {
  for_types<AtomicTypes>([](auto type) {
    using T = decltype(type);
    // As many additions of 1 as the type counts exactly.
    int programs = std::is_same_v<T, bfloat16> ? 200 : 500;
    for (const char* options :
         {"", ", sem='relaxed'", ", sem='release', scope='sys'", ", sem='acquire', scope='gpu'"}) {
      Array<T> sum(std::vector<T>(1, T(0)));
      Array<T> old(size_t(programs), 0);
      run(fmt::format(R"(
@triton.jit
def kernel(total, old):
    before = tl.atomic_add(total, 1{})
    tl.static_assert(before.dtype == total.dtype.element_ty)
    tl.store(old + tl.program_id(0), before)
)",
                      options),
          {.num_warps = next_warps()}, {unsigned(programs)}, sum, old);
      EXPECT_EQ(wide(sum.values()[0]), programs) << tl<T>() << options;
      // Every program saw another number: each of 0 .. programs - 1 once.
      std::vector<int> seen;
      for (T v : old.values()) seen.push_back(int(wide(v)));
      std::sort(seen.begin(), seen.end());
      for (int i = 0; i < programs; ++i) EXPECT_EQ(seen[size_t(i)], i) << tl<T>() << options;
    }
  });
}

TEST(Atomics, TilesAndMasks) {
  for_types<AtomicTypes>([](auto type) {
    using T = decltype(type);
    for (int num_warps : {1, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} num_warps {}", tl<T>(), num_warps));
      auto x = small_values<T>(256, 68, 7);
      Array<T> in(x), bins(std::vector<T>(16, T(0))), each(std::vector<T>(256, T(2))), old(256);
      run(R"(
@triton.jit
def kernel(x, bins, each, old, n):
    i = tl.arange(0, 256)
    a = tl.load(x + i)
    tl.atomic_add(bins + i % 16, a, mask=i < n)
    tl.store(old + i, tl.atomic_add(each + i, a))
)",
          {.num_warps = num_warps}, {1}, in, bins, each, old, 200);
      std::vector<double> sums(16);
      for (size_t i = 0; i < 200; ++i) sums[i % 16] += double(wide(x[i]));
      expect_equal(bins.values(), "bins", [&](size_t i) { return T(float(sums[i])); });
      expect_equal(each.values(), "each", [&](size_t i) { return T(float(wide(x[i])) + 2); });
      expect_equal(old.values(), "old", [&](size_t) { return T(2); });
    }
  });
}

// A tile with fewer elements than threads: each addition happens once, and all threads get its old value.
TEST(Atomics, CopiesAddOnce) {
  for (int num_warps : {1, 4, 8}) {
    Array<int32_t> counters(std::vector<int32_t>(8, 10)), out(3 * 64);
    run(R"(
@triton.jit
def kernel(counters, out):
    i = tl.arange(0, 8)
    out += tl.program_id(0) * 64
    before = tl.atomic_add(counters + i, i + 1)
    wide = tl.broadcast_to(before[:, None], 8, 8)
    j = tl.arange(0, 8)
    tl.store(out + i[:, None] * 8 + j[None, :], wide + j[None, :])
)",
        {.num_warps = num_warps}, {3}, counters, out);
    expect_equal(counters.values(), "counters", [](size_t i) { return int32_t(10 + 3 * (i + 1)); });
    for (int32_t v : out.values()) EXPECT_GE(v, 10);
  }
}

// By plain loads, as in Triton.
TEST(Atomics, LoopsWaitForOtherPrograms) {
  for (int num_warps : {1, 4}) {
    Array<int32_t> flags(2), out(2);
    run(R"(
@triton.jit
def kernel(flags, out):
    i = tl.program_id(0)
    seen = 0
    if i == 0:
        while tl.load(flags) == 0:
            pass
    else:
        tl.atomic_xchg(flags, 5)
        while seen < 7:
            seen = tl.load(flags + 1)
    if i == 0:
        tl.atomic_xchg(flags + 1, 7)
    tl.store(out + i, seen + 1)
)",
        {.num_warps = num_warps}, {2}, flags, out);
    EXPECT_EQ(out.values(), (std::vector<int32_t>{1, 8}));
  }
}

/// What memory and the old value are after each kind of atomic, elementwise beside the host; also where the mask keeps
/// an element out, and in a tile that several threads hold.
template <class T>
void check_kinds(const std::vector<std::pair<std::string, std::function<T(T, T)>>>& kinds) {
  auto x = random_values<T>(64, 70), y = random_values<T>(64, 71);
  for (auto& [kind, combine] : kinds) {
    SCOPED_TRACE(kind);
    for (const char* options : {"", ", sem='relaxed', scope='cta'", ", sem='acquire', scope='sys'"}) {
      Array<T> memory(x), values(y), old(64);
      run(fmt::format(R"(
@triton.jit
def kernel(memory, values, old):
    i = tl.arange(0, 64)
    before = tl.atomic_{}(memory + i, tl.load(values + i), mask=i < 60{})
    tl.store(old + i, before, mask=i < 60)
)",
                      kind, options),
          {.num_warps = next_warps()}, {1}, memory, values, old);
      expect_equal(memory.values(), kind,
                   [&, &combine = combine](size_t i) { return i < 60 ? combine(x[i], y[i]) : x[i]; });
      auto before = old.values();
      before.resize(60);
      expect_equal(before, kind + ": old", [&](size_t i) { return x[i]; });
    }
  }
}

template <class T>
T smaller(T a, T b) {
  return std::min(a, b);
}
template <class T>
T larger(T a, T b) {
  return std::max(a, b);
}
template <class T>
T second(T, T b) {
  return b;
}

TEST(Atomics, KindsOfIntegers) {
  for_types<std::tuple<int32_t, uint32_t, int64_t, uint64_t>>([](auto type) {
    using T = decltype(type);
    SCOPED_TRACE(tl<T>());
    check_kinds<T>({{"min", smaller<T>},
                    {"max", larger<T>},
                    {"and", [](T a, T b) { return T(a & b); }},
                    {"or", [](T a, T b) { return T(a | b); }},
                    {"xor", [](T a, T b) { return T(a ^ b); }},
                    {"xchg", second<T>}});
  });
}

template <class T, class Bits>
std::vector<std::pair<std::string, std::function<T(T, T)>>> bitwise_kinds() {
  auto of_bits = [](auto combine) {
    return [combine](T a, T b) { return std::bit_cast<T>(combine(std::bit_cast<Bits>(a), std::bit_cast<Bits>(b))); };
  };
  return {{"and", of_bits(std::bit_and<Bits>())},
          {"or", of_bits(std::bit_or<Bits>())},
          {"xor", of_bits(std::bit_xor<Bits>())}};
}

// As in Triton, of floats of 32 and 64 bits.
TEST(Atomics, BitsOfFloats) {
  check_kinds<float>(bitwise_kinds<float, uint32_t>());
  check_kinds<double>(bitwise_kinds<double, uint64_t>());
}

TEST(Atomics, KindsOfFloats) {
  check_kinds<float>({{"min", smaller<float>}, {"max", larger<float>}, {"xchg", second<float>}});
  check_kinds<double>({{"min", smaller<double>}, {"max", larger<double>}, {"xchg", second<double>}});
  check_kinds<float16>({{"min", smaller<float16>}, {"max", larger<float16>}});
  check_kinds<bfloat16>({{"min", smaller<bfloat16>}, {"max", larger<bfloat16>}});
}

TEST(Atomics, CompareAndSwap) {
  for_types<std::tuple<int16_t, float16, int32_t, float, uint64_t, double>>([](auto type) {
    using T = decltype(type);
    std::vector<T> x;
    for (int i = 0; i < 64; ++i) x.push_back(T(float(i % 3)));
    Array<T> memory(x), old(64);
    run(R"(
@triton.jit
def kernel(memory, old):
    i = tl.arange(0, 64)
    tl.store(old + i, tl.atomic_cas(memory + i, 1, 7, sem='acq_rel', scope='gpu'))
)",
        {.num_warps = next_warps()}, {1}, memory, old);
    expect_equal(memory.values(), tl<T>(), [&](size_t i) { return i % 3 == 1 ? T(7.0f) : x[i]; });
    expect_equal(old.values(), tl<T>() + ": old", [&](size_t i) { return x[i]; });
  });
}

// A lock as in the layer norm of Triton's tutorials: programs take it by compare and swap, and give it back by
// exchange.
TEST(Atomics, Lock) {
  Array<int32_t> lock(std::vector<int32_t>(1, 0)), sums(std::vector<int32_t>(32, 0));
  run(R"(
@triton.jit
def kernel(lock, sums):
    i = tl.arange(0, 32)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(sums + i, tl.load(sums + i) + i)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
)",
      {.num_warps = 2}, {20}, lock, sums);
  expect_equal(sums.values(), "sums", [](size_t i) { return int32_t(20 * i); });
}

TEST(Atomics, AdjacentHalvesGoTogether) {
  const char* text =
      "@triton.jit\ndef kernel(x, y):\n    i = tl.arange(0, 1024)\n    tl.atomic_add(x + i, tl.load(y + i), mask=i < "
      "{})\n";
  EXPECT_NE(ptx_of<float16>(fmt::format(fmt::runtime(text), 510), 2).find("add.noftz.f16x2"), std::string::npos);
  EXPECT_NE(ptx_of<bfloat16>(fmt::format(fmt::runtime(text), 510), 2).find("add.noftz.bf16x2"), std::string::npos);
  // The mask parts a pair.
  EXPECT_EQ(ptx_of<float16>(fmt::format(fmt::runtime(text), 511), 2).find("add.noftz.f16x2"), std::string::npos);
}

// Sums of 16 bytes of floats, where the GPU has them, between two fences for all of a thread's.
TEST(Atomics, VectorsOfSums) {
  const auto ptx = [](Elem elem, const char* target, const char* how, const char* use) {
    const ArgType pointer{.elem = elem, .pointer = true, .divisible_by = 16};
    const std::string text = fmt::format(
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(x, y):\n    i = tl.arange(0, 4096)\n   "
        " old = tl.atomic_add(x + i, tl.load(y + i), "
        "mask=i < 1024{})\n{}",
        how, use);
    return Program::parse(text, "k.py").kernel("kernel").compile(std::vector{pointer, pointer}, {}, target).ptx;
  };
  auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
    return found;
  };
  const char* store = "    tl.store(y + i, old)\n";
  for (const auto& [elem, form] : std::vector<std::pair<Elem, std::string>>{
           {Elem::F32, "add.v4.f32"}, {Elem::F16, "add.noftz.v4.f16x2"}, {Elem::BF16, "add.noftz.v4.bf16x2"}}) {
    const std::string found = ptx(elem, "sm_90a", "", store);
    EXPECT_EQ(count(found, "atom.global.gpu.relaxed." + form), elem == Elem::F32 ? 8 : 4) << found;
    EXPECT_EQ(count(found, "fence.acq_rel.gpu"), 2) << found;
    EXPECT_EQ(count(found, "atom."), elem == Elem::F32 ? 8 : 4) << found;
  }
  EXPECT_EQ(count(ptx(Elem::F32, "sm_80", "", store), "atom.global.gpu.relaxed.add.f32"), 32);
  EXPECT_EQ(count(ptx(Elem::F64, "sm_90a", "", store), "atom.global.gpu.relaxed.add.f64"), 32);
  // What nobody looks at acquires nothing.
  EXPECT_EQ(count(ptx(Elem::F32, "sm_90a", "", ""), "fence"), 1);
  EXPECT_EQ(count(ptx(Elem::F32, "sm_90a", ", sem='release', scope='sys'", store), "fence.acq_rel.sys"), 1);
  EXPECT_EQ(count(ptx(Elem::F32, "sm_90a", ", sem='acquire'", store), "fence.acq_rel.gpu"), 1);
  EXPECT_EQ(count(ptx(Elem::F32, "sm_90a", ", sem='relaxed'", store), "fence"), 0);
}

TEST(Atomics, VectorsOfFloatsInRowsAndMasks) {
  for_types<std::tuple<float, float16, bfloat16>>([](auto type) {
    using T = decltype(type);
    for (int width : {64, 61, 58}) {  // columns of a row of 64 that count
      SCOPED_TRACE(fmt::format("{} width {}", tl<T>(), width));
      auto x = small_values<T>(32 * 64, 69, 7);
      Array<T> in(x), sums(std::vector<T>(32 * 64, T(2))), old(32 * 64);
      run(R"(
@triton.jit
def kernel(x, sums, old, n):
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    inside = (tl.arange(0, 64) < n)[None, :]
    a = tl.load(x + at)
    tl.atomic_add(sums + at, a, mask=inside)
    tl.debug_barrier()
    tl.store(old + at, tl.atomic_add(sums + at, a, mask=inside), mask=inside)
)",
          {.num_warps = 4}, {1}, in, sums, old, width);
      auto value = [&](size_t i) { return float(wide(x[i])); };
      auto counts = [&](size_t i) { return int(i % 64) < width; };
      expect_equal(sums.values(), "sums", [&](size_t i) { return T(2 + (counts(i) ? 2 * value(i) : 0)); });
      auto seen = old.values();
      for (size_t i = 0; i < seen.size(); ++i)
        if (counts(i)) {
          EXPECT_EQ(float(wide(seen[i])), 2 + value(i)) << i;
        }
    }
  });
}

}  // namespace
}  // namespace tegula::ops
