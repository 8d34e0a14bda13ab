// label: device
// Casts between all types, roundings, bitcasts.
#include <numeric>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {
namespace {

/// Whether the value of `from` converts to `To` with a result that the language defines: floats to integers must be in
/// range.
template <class To, class From>
bool convertible(From x) {
  if constexpr (is_real<From> && !is_real<To> && !is_bool<To>) {
    long double w = std::trunc(wide(x));
    return w >= (long double)std::numeric_limits<To>::min() && w <= (long double)std::numeric_limits<To>::max();
  }
  return true;
}

template <class To, class From>
To converted(From x) {
  if constexpr (is_bool<To>)
    return is_nan(x) || wide(x) != 0;
  else if constexpr (is_real<To>)
    return round_to<To>((long double)wide(x));
  else if constexpr (is_real<From>)
    return convertible<To>(x) ? To(wide(x)) : To(0);
  else
    return To(wide(x));
}

TEST(Casts, BetweenAllTypes) {
  for_types<AllTypes>([](auto from) {
    using From = decltype(from);
    auto x = specials<From>(), more = random_values<From>(600, 31);
    x.insert(x.end(), more.begin(), more.end());
    // Half of what floats hold lies within the smaller integers.
    if constexpr (is_real<From>)
      for (size_t i = 0; i < 200; ++i) x.push_back(round_to<From>((long double)(int(i) - 60) * 1.3L));
    for_types<AllTypes>([&](auto to) {
      using To = decltype(to);
      if constexpr (!std::is_same_v<From, To>) {
        auto r = evaluate<To>({fmt::format("a.to({})", tl<To>())}, x)[0];
        for (size_t i = 0; i < x.size(); ++i)
          if (!convertible<To>(x[i])) r[i] = To(0);
        expect_equal(
            r, tl<From>() + " to " + tl<To>(), [&](size_t i) { return converted<To>(x[i]); },
            [&](size_t i) { return " of " + show(x[i]); });
      }
    });
  });
}

TEST(Casts, StoresConvert) {
  auto x = small_values<int32_t>(300, 32);
  Array<int32_t> in(x);
  Array<float16> half(x.size());
  Array<int8_t> byte(x.size());
  Array<Boolean> flag(x.size());
  run(R"(
@triton.jit
def kernel(x, half, byte, flag, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    tl.store(half + i, a, mask=i < n)
    tl.store(byte + i, a, mask=i < n)
    tl.store(flag + i, a, mask=i < n)
)",
      {.constexprs = {{"BLOCK", 512}}}, {1}, in, half, byte, flag, int(x.size()));
  expect_equal(half.values(), "half", [&](size_t i) { return float16(float(x[i])); });
  expect_equal(byte.values(), "byte", [&](size_t i) { return int8_t(x[i]); });
  expect_equal(flag.values(), "flag", [&](size_t i) { return Boolean(x[i] != 0); });
}

TEST(Casts, TowardsZero) {
  auto test = [](auto from, auto to) {
    using From = decltype(from);
    using To = decltype(to);
    auto x = specials<From>(), more = random_values<From>(1000, 33);
    x.insert(x.end(), more.begin(), more.end());
    // Just below and above what the narrow type holds: rounded twice, these would go wrong.
    for (int i = 1; i < 40; ++i)
      for (long double d : {-0x1p-40L, 0x1p-40L, -0x1p-20L}) x.push_back(round_to<From>(i * 0.25L * (1 + d)));
    auto largest = std::ldexp(1.0L, kMaxExponent<To> + 1) - std::ldexp(1.0L, kMaxExponent<To> - kPrecision<To> + 1);
    auto r = evaluate<To>({fmt::format("a.to({}, fp_downcast_rounding='rtz')", tl<To>()),
                           fmt::format("tl.cast(a, {}, fp_downcast_rounding='rtne')", tl<To>())},
                          x);
    auto at = [&](size_t i) { return " of " + show(x[i]); };
    expect_equal(
        r[0], tl<From>() + " to " + tl<To>() + " rtz",
        [&](size_t i) {
          long double w = wide(x[i]);
          if (std::isfinite(w) && std::fabs(w) > largest) return round_to<To>(std::copysign(largest, w));
          return round_to<To>(w, true);
        },
        at);
    expect_equal(
        r[1], tl<From>() + " to " + tl<To>() + " rtne", [&](size_t i) { return round_to<To>(wide(x[i])); }, at);
  };
  test(float(), float16());
  test(float(), bfloat16());
  test(double(), float16());
  test(double(), bfloat16());
  test(double(), float());
}

// What lies just beside the middle of two bfloat16: rounded to fp32 first it is the middle.
template <class From>
std::vector<From> beside_middles() {
  std::vector<From> x;
  for (int exponent = 25; exponent < std::numeric_limits<From>::digits; ++exponent)
    for (From odd : {From(0), From(1)})
      for (From beside : {From(-1), From(0), From(1)}) {
        const From top = From(1) << exponent, unit = From(top >> 7);
        x.push_back(From(top + odd * unit + unit / 2 + beside));
        x.push_back(From(0) - x.back());
      }
  return x;
}

template <class From>
void check_to_bfloat16(Device& device) {
  SCOPED_TRACE(device.info().name + ": " + tl<From>());
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def convert(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n).to(tl.bfloat16), mask=i < n)
)",
                                       "convert.py")
                            .kernel("convert");
  const auto x = beside_middles<From>();
  Buffer in(device, x), out(device, x.size() * sizeof(bfloat16));
  kernel.launch(device, {unsigned(x.size() / 128 + 1)}, {.constexprs = {{"BLOCK", 128}}}, in.as<From>(),
                out.as<bfloat16>(), int(x.size()));
  const bool once = device.info().sm >= 90;
  expect_equal(
      out.download<bfloat16>(), "bfloat16",
      [&](size_t i) { return once ? round_to<bfloat16>((long double)x[i]) : bfloat16(float(x[i])); },
      [&](size_t i) { return " of " + show(x[i]); });
  const std::vector<ArgType> types{
      {.elem = elem<From>, .pointer = true}, {.elem = Elem::BF16, .pointer = true}, {.elem = Elem::I32}};
  const std::string ptx = kernel.compile(types, {.constexprs = {{"BLOCK", 128}}}, "sm_90a").ptx;
  EXPECT_NE(ptx.find(fmt::format("cvt.rn.bf16.{}{}", std::is_signed_v<From> ? 's' : 'u', 8 * sizeof(From))), ptx.npos);
}

// Integers become bfloat16 by one rounding where PTX has the instruction (cvt.rn.bf16.s32 and its kin, from sm_90 on),
// as Triton's code for sm_90 has it. Below that GPUs take two, fp32 in between, in Triton's code too.
TEST(Casts, IntegersToBfloat16) {
  const auto sm_80 = make_emulator({.target = "sm_80"});
  for (Device* device : {&ops::device(), static_cast<Device*>(sm_80.get())}) {
    check_to_bfloat16<int32_t>(*device);
    check_to_bfloat16<uint32_t>(*device);
    check_to_bfloat16<int64_t>(*device);
    check_to_bfloat16<uint64_t>(*device);
  }
}

// Integers known to have few bits become floating-point numbers by additions, which GPUs do faster than conversions.
TEST(Casts, SmallIntegers) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl


@triton.jit
def convert(x_ptr, half_ptr, brain_ptr, full_ptr, BITS: tl.constexpr, SIGNED: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    if SIGNED:
        x = (x << (32 - BITS)) >> (32 - BITS)
    else:
        x = x & ((1 << BITS) - 1)
    tl.store(half_ptr + i, x.to(tl.float16))
    tl.store(brain_ptr + i, x.to(tl.bfloat16))
    tl.store(full_ptr + i, x.to(tl.float32))
)",
                                       "convert.py")
                            .kernel("convert");
  constexpr int kBlock = 1024;
  std::vector<int32_t> x(1 << 17);
  std::iota(x.begin(), x.end(), -(1 << 16));
  Device& device = ops::device();
  Buffer in(device, x), half(device, 2 * x.size()), brain(device, 2 * x.size()), full(device, 4 * x.size());
  for (const bool is_signed : {false, true})
    for (const int bits : {4, 8, 10, 11, 16, 17}) {
      const LaunchOptions options{.constexprs = {{"BITS", bits}, {"SIGNED", is_signed}, {"BLOCK", kBlock}}};
      kernel.launch(device, {unsigned(x.size() / kBlock)}, options, in.as<int32_t>(), half.as<float16>(),
                    brain.as<bfloat16>(), full.as<float>());
      const int above = 32 - bits;
      auto value = [&](size_t i) {
        return (long double)(is_signed ? (x[i] << above) >> above : int32_t(uint32_t(x[i]) << above >> above));
      };
      auto at = [&](size_t i) { return fmt::format(" of {} in {} bits", int64_t(value(i)), bits); };
      expect_equal(
          half.download<float16>(), "float16", [&](size_t i) { return round_to<float16>(value(i)); }, at);
      expect_equal(
          brain.download<bfloat16>(), "bfloat16", [&](size_t i) { return round_to<bfloat16>(value(i)); }, at);
      expect_equal(
          full.download<float>(), "float32", [&](size_t i) { return float(value(i)); }, at);
      std::vector<ArgType> types{{.elem = Elem::I32, .pointer = true}};
      for (const Elem elem : {Elem::F16, Elem::BF16, Elem::F32}) types.push_back({.elem = elem, .pointer = true});
      const std::string ptx = kernel.compile(types, options, "sm_90a").ptx;
      EXPECT_EQ(ptx.find("cvt.rn.f16.") == ptx.npos, bits <= 10) << bits;
      EXPECT_EQ(ptx.find("cvt.rn.f32.") == ptx.npos, bits <= 16) << bits;
    }
}

// What does not fit comes back as another number, along an axis too: neither masks nor addresses follow from the first
// number of a run.
TEST(Casts, PlacesThatWrapAround) {
  constexpr int kLength = 1024;
  Array<int32_t> values(kLength), negative(kLength), taken(kLength);
  std::vector<int32_t> numbers(2 * kLength);
  std::iota(numbers.begin(), numbers.end(), 0);
  Array<int32_t> table(numbers);
  for_types<std::tuple<int8_t, uint8_t, int16_t>>([&](auto small) {
    using Small = decltype(small);
    for (int added : {0, 4, 100}) {
      SCOPED_TRACE(fmt::format("{} + {}", tl<Small>(), added));
      run(fmt::format(R"(
@triton.jit
def kernel(values, negative, taken, table, LENGTH: tl.constexpr, ADDED: tl.constexpr):
    i = tl.arange(0, LENGTH)
    x = i.to({0}) + tl.full([LENGTH], ADDED, {0})
    tl.store(values + i, x.to(tl.int32))
    tl.store(negative + i, x < 0)
    tl.store(taken + i, tl.load(table + 200 + x.to(tl.int32), mask=x < 1024, other=-1))
)",
                      tl<Small>()),
          {.constexprs = {{"LENGTH", kLength}, {"ADDED", added}}}, {1}, values, negative, taken, table);
      const auto x = [&](size_t i) { return int32_t(Small(int(i) + added)); };
      expect_equal(values.values(), "values", x);
      expect_equal(negative.values(), "negative", [&](size_t i) { return int32_t(x(i) < 0); });
      expect_equal(taken.values(), "taken", [&](size_t i) { return x(i) < 1024 ? 200 + x(i) : -1; });
    }
  });
}

// A mask of numbers that go through 0 without a sign has a hole, which no access covers as a whole.
TEST(Casts, MasksThatWrapAround) {
  constexpr int kLength = 1024;
  Array<int8_t> in(random_values<int8_t>(kLength, 5)), loaded(kLength), stored(kLength);
  const std::vector<int8_t> x = in.values();
  for (const char* number : {"i.to(tl.uint32) - 3", "i.to(tl.uint64) - 3", "(i.to(tl.uint32) - 3).to(tl.int64)",
                             "(i - 3).to(tl.uint32).to(tl.uint64)"}) {
    SCOPED_TRACE(number);
    run(fmt::format(R"(
@triton.jit
def kernel(x, loaded, stored, LENGTH: tl.constexpr):
    i = tl.arange(0, LENGTH)
    u = {}
    tl.store(loaded + i, tl.load(x + i, mask=u > 5, other=-7))
    tl.store(stored + i, tl.full([LENGTH], 9, tl.int8))
    tl.store(stored + i, tl.load(x + i), mask=u >= 9)
)",
                    number),
        {.constexprs = {{"LENGTH", kLength}}, .num_warps = 1}, {1}, in, loaded, stored);
    expect_equal(loaded.values(), "loaded", [&](size_t i) { return uint32_t(i) - 3 > 5 ? x[i] : int8_t(-7); });
    expect_equal(stored.values(), "stored", [&](size_t i) { return uint32_t(i) - 3 >= 9 ? x[i] : int8_t(9); });
  }
}

TEST(Casts, Bitcasts) {
  auto test = [](auto from, auto to) {
    using From = decltype(from);
    using To = decltype(to);
    auto x = random_values<From>(300, 34);
    auto r = evaluate<To>({fmt::format("a.to({}, bitcast=True)", tl<To>())}, x)[0];
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(std::memcmp(&x[i], &r[i], sizeof(To)), 0) << show(x[i]);
    auto back = evaluate<From>({fmt::format("tl.cast(a, {}, bitcast=True)", tl<From>())}, r)[0];
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(std::memcmp(&x[i], &back[i], sizeof(To)), 0) << show(x[i]);
  };
  test(float(), int32_t());
  test(float(), uint32_t());
  test(double(), int64_t());
  test(float16(), int16_t());
  test(bfloat16(), uint16_t());
  test(float16(), bfloat16());
  test(int8_t(), uint8_t());
}

// A pointer to other elements over the same memory.
TEST(Casts, Pointers) {
  auto x = random_values<float>(256, 35);
  Array<float> in(x);
  Array<int32_t> out(256);
  Array<int64_t> address(1);
  run(R"(
@triton.jit
def kernel(x, out, address):
    i = tl.arange(0, 256)
    bits = x.to(tl.pointer_type(tl.int32))
    tl.store(out + i, tl.load(bits + i))
    tl.store(address, x.to(tl.int64))
)",
      {}, {1}, in, out, address);
  expect_equal(out.values(), "bits", [&](size_t i) { return std::bit_cast<int32_t>(x[i]); });
  EXPECT_EQ(address.values()[0], int64_t(reinterpret_cast<uint64_t>(in.at(0))));
}

}  // namespace
}  // namespace tegula::ops
