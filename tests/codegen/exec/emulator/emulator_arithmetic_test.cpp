// The emulator: conversions of fp16 and bf16, and approximate functions.
#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "runtime/base/float16.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

/// Applies a conversion to one value per thread of 32-bit patterns.
std::vector<uint32_t> convert(EmulatorDevice& device, const std::string& expression, std::vector<uint32_t> in) {
  in.resize((in.size() + 31) / 32 * 32);
  auto kernel = device.load(make_image({pointer("in"), pointer("out")}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %pid = call i32 @tegula.hw.program_id_x()
  %first = mul i32 %pid, 32
  %i = add i32 %first, %t
  %ip = getelementptr i32, ptr addrspace(1) %in, i32 %i
  %op = getelementptr i32, ptr addrspace(1) %out, i32 %i
  %x = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %ip, i32 0, i1 true, i32 1)
  %f = bitcast i32 %x to float
)" + expression + R"(
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %op, i32 %y, i1 true, i32 1)
  ret void)"));
  Array<uint32_t> x(device, in), y(device, in.size());
  launch(*kernel, {unsigned(in.size() / 32)}, x.address(), y.address());
  return y.values();
}

template <class T>
float value_of(uint16_t bits) {
  return T::of_bits(bits);
}

/// The nearest value of a 16-bit format by search among all, ties to even. Independent of the code under test.
uint16_t nearest(double value, float (*widen)(uint16_t), uint16_t infinity) {
  static std::map<uint16_t, std::vector<double>> tables;
  auto& table = tables[infinity];
  if (table.empty())
    for (uint32_t bits = 0; bits <= infinity; ++bits) table.push_back(widen(uint16_t(bits)));
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  value = std::abs(value);
  // Where rounding is concerned, infinity stands where the next finite value would.
  table[infinity] = 2 * table[infinity - 1] - table[infinity - 2];
  uint16_t above = uint16_t(std::lower_bound(table.begin(), table.end(), value) - table.begin());
  if (above > infinity) return sign | infinity;
  if (above == 0 || table[above] == value) return sign | above;
  double up = table[above] - value, down = value - table[above - 1];
  bool take_up = up < down || (up == down && above % 2 == 0);
  return sign | uint16_t(take_up ? above : above - 1);
}

TEST(EmulatorArithmetic, ConvertsHalfAndBfloat) {
  for (bool baseline : {false, true}) {
    auto device = make_emulator({.baseline_cpu = baseline});
    std::vector<uint32_t> all(65536);
    std::iota(all.begin(), all.end(), 0);
    auto widened_half = convert(*device, R"(
  %h = trunc i32 %x to i16
  %hf = bitcast i16 %h to half
  %w = fpext half %hf to float
  %y = bitcast float %w to i32)",
                                all);
    auto widened_bfloat = convert(*device, R"(
  %h = trunc i32 %x to i16
  %hf = bitcast i16 %h to bfloat
  %w = fpext bfloat %hf to float
  %y = bitcast float %w to i32)",
                                  all);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      int exponent = bits >> 10 & 31, fraction = bits & 1023;
      double expected = exponent == 0    ? std::ldexp(fraction, -24)
                        : exponent == 31 ? (fraction ? NAN : INFINITY)
                                         : std::ldexp(1024 + fraction, exponent - 25);
      if (bits & 0x8000) expected = -expected;
      float half = std::bit_cast<float>(widened_half[bits]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(half)) << bits;
      } else {
        EXPECT_EQ(half, expected) << bits;
      }
      float bfloat = std::bit_cast<float>(bits << 16);
      if (!std::isnan(bfloat)) {
        EXPECT_EQ(widened_bfloat[bits], bits << 16);
      }
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(float(float16::of_bits(uint16_t(bits)))));
      } else {
        EXPECT_EQ(float(float16::of_bits(uint16_t(bits))), expected) << bits;
      }
    }

    std::vector<uint32_t> floats;
    std::mt19937 random(11);
    for (int i = 0; i < 20000; ++i) floats.push_back(uint32_t(random()));
    for (int i = 0; i < 20000; ++i)  // around half's range, half of them ties
      floats.push_back((uint32_t(random()) % 0x12000000 + 0x32000000) & (i % 2 ? ~0u : ~0xFFFu));
    for (uint32_t edge : {0x00000000u, 0x80000000u, 0x7F800000u, 0xFF800000u, 0x477FE000u, 0x477FEFFFu, 0x477FF000u,
                          0x33000000u, 0x33000001u, 0x33800000u, 0x38800000u, 0x387FFFFFu, 0x00000001u, 0x7F7FFFFFu,
                          0x7F7F7FFFu, 0x7F7F8000u, 0x00008000u, 0x00018000u})
      floats.push_back(edge);
    std::erase_if(floats, [](uint32_t bits) { return std::isnan(std::bit_cast<float>(bits)); });
    auto halves = convert(*device, R"(
  %h = fptrunc float %f to half
  %b = bitcast half %h to i16
  %y = zext i16 %b to i32)",
                          floats);
    auto halves_from_double = convert(*device, R"(
  %d = fpext float %f to double
  %e = fmul double %d, 0x3FF0000000000001
  %h = fptrunc double %e to half
  %b = bitcast half %h to i16
  %y = zext i16 %b to i32)",
                                      floats);
    auto bfloats = convert(*device, R"(
  %h = fptrunc float %f to bfloat
  %b = bitcast bfloat %h to i16
  %y = zext i16 %b to i32)",
                           floats);
    auto bfloats_from_double = convert(*device, R"(
  %d = fpext float %f to double
  %e = fmul double %d, 0x3FF0000000000001
  %h = fptrunc double %e to bfloat
  %b = bitcast bfloat %h to i16
  %y = zext i16 %b to i32)",
                                       floats);
    for (size_t i = 0; i < floats.size(); ++i) {
      double value = std::bit_cast<float>(floats[i]), more = value * 0x1.0000000000001p0;
      ASSERT_EQ(halves[i], nearest(value, value_of<float16>, 0x7C00)) << value;
      ASSERT_EQ(halves_from_double[i], nearest(more, value_of<float16>, 0x7C00)) << value;
      ASSERT_EQ(bfloats[i], nearest(value, value_of<bfloat16>, 0x7F80)) << value;
      ASSERT_EQ(bfloats_from_double[i], nearest(more, value_of<bfloat16>, 0x7F80)) << value;
    }
    // Toward zero.
    auto toward_zero = convert(*device, R"(
  %h = call half @tegula.hw.cvt_rz_f16_f32(float %f)
  %b = bitcast half %h to i16
  %y = zext i16 %b to i32)",
                               {0x3F801FFF, 0xBF801FFF, 0x477FF000, 0x7F800000, 0x7FC00000, 0x33FFFFFF});
    EXPECT_EQ(std::vector(toward_zero.begin(), toward_zero.begin() + 6),
              (std::vector<uint32_t>{0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0x7FFF, 0x0001}));
    auto bfloat_toward_zero = convert(*device, R"(
  %h = call bfloat @tegula.hw.cvt_rz_bf16_f32(float %f)
  %b = bitcast bfloat %h to i16
  %y = zext i16 %b to i32)",
                                      {0x3F80FFFF, 0xBF80FFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x0001FFFF});
    EXPECT_EQ(std::vector(bfloat_toward_zero.begin(), bfloat_toward_zero.begin() + 6),
              (std::vector<uint32_t>{0x3F80, 0xBF80, 0x7F7F, 0x7F80, 0x7FFF, 0x0001}));
  }
}

TEST(EmulatorArithmetic, FastArithmetic) {
  auto device = make_emulator();
  std::vector<uint32_t> in;
  for (float x = -151; x < 129; x += 0.0137f) in.push_back(std::bit_cast<uint32_t>(x));
  for (float x : {0.0f, -0.0f, 1e-40f, -1e-40f, 128.0f, 127.99999f, -126.5f, -149.0f, -149.5f, -150.0f, -151.0f,
                  INFINITY, -INFINITY, 1e30f, -1e30f})
    in.push_back(std::bit_cast<uint32_t>(x));
  auto exp2 =
      convert(*device, "  %e = call float @tegula.hw.ex2_approx_f32(float %f)\n  %y = bitcast float %e to i32", in);
  for (size_t i = 0; i < in.size(); ++i) {
    double exact = std::exp2(double(std::bit_cast<float>(in[i])));
    float got = std::bit_cast<float>(exp2[i]), expected = float(exact);
    if (std::isinf(expected) || expected == 0) {
      EXPECT_EQ(got, expected) << std::bit_cast<float>(in[i]);
    } else {
      EXPECT_LE(std::abs(int64_t(exp2[i]) - int64_t(std::bit_cast<uint32_t>(expected))), 1)
          << std::bit_cast<float>(in[i]);
    }
  }
  auto nan = convert(*device, "  %e = call float @tegula.hw.ex2_approx_f32(float %f)\n  %y = bitcast float %e to i32",
                     {0x7FC00000, 0xFFC12345});
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(nan[0])));
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(nan[1])));
  auto other = convert(*device, R"(
  %a = call float @tegula.hw.sqrt_approx_f32(float %f)
  %b = call float @tegula.hw.rsqrt_approx_f32(float %f)
  %c = call float @tegula.hw.div_full_f32(float %a, float %b)
  %r = frem float %c, 0x4008000000000000
  %m = call float @llvm.fma.f32(float %r, float %r, float 1.0)
  %y = bitcast float %m to i32)",
                       {std::bit_cast<uint32_t>(16.0f)});
  EXPECT_EQ(std::bit_cast<float>(other[0]), 2.0f);  // sqrt / rsqrt = x; 16 mod 3 = 1
}

}  // namespace
}  // namespace tegula
