// Inline PTX on the emulator: single instructions against what the manual says, and what the parser refuses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "codegen/exec/emulator/ptx/ptx.h"
#include "runtime/base/float16.h"
#include "runtime/base/float8.h"

namespace tegula::emulator::ptx {
namespace {

uint64_t bits(float x) { return std::bit_cast<uint32_t>(x); }
uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The results of a block whose operands all take whole slots.
std::vector<uint64_t> results_of(std::string_view text, std::string_view constraints,
                                 const std::vector<uint64_t>& arguments) {
  auto parsed = parse(text, constraints);
  if (auto* message = std::get_if<std::string>(&parsed)) {
    ADD_FAILURE() << text << "\n" << *message;
    return {0};
  }
  const Program& program = std::get<Program>(parsed);
  std::vector<uint64_t> slots(program.slots);
  EXPECT_EQ(program.operands - program.results, arguments.size()) << text;
  for (size_t i = 0; i < arguments.size(); ++i) slots[program.results + i] = arguments[i];
  for (auto [argument, result] : program.ties) slots[result] = slots[argument];
  run(program, slots.data(), 0, 0);
  slots.resize(program.results);
  return slots;
}

std::string message_of(std::string_view text, std::string_view constraints = "=r,r") {
  auto parsed = parse(text, constraints);
  auto* message = std::get_if<std::string>(&parsed);
  return message ? *message : "";
}

struct Case {
  const char* text;  ///< of one result $0
  std::vector<uint64_t> arguments;
  uint64_t expected;
};

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    std::string constraints = "=l";
    for (size_t i = 0; i < c.arguments.size(); ++i) constraints += ",l";
    EXPECT_EQ(results_of(c.text, constraints, c.arguments).at(0), c.expected)
        << c.text
        << fmt::format("\n  found {:#x}, expected {:#x}", results_of(c.text, constraints, c.arguments).at(0),
                       c.expected);
  }
}

TEST(PtxInterpreter, IntegerArithmetic) {
  check({
      {"add.u32 $0, $1, $2;", {0xFFFFFFFF, 2}, 1},
      {"add.sat.s32 $0, $1, $2;", {0x7FFFFFFF, 2}, 0x7FFFFFFF},
      {"sub.s64 $0, $1, 5;", {3}, uint64_t(-2)},
      {"sub.s16 $0, $1, $2;", {1, 2}, 0xFFFF},
      {"mul.lo.u32 $0, $1, $2;", {0x10001, 0x10001}, 0x20001},
      {"mul.hi.u32 $0, $1, $2;", {0xFFFFFFFF, 0xFFFFFFFF}, 0xFFFFFFFE},
      {"mul.hi.s32 $0, $1, $2;", {0xFFFFFFFF, 2}, 0xFFFFFFFF},
      {"mul.hi.s64 $0, $1, $2;", {uint64_t(-1), 2}, uint64_t(-1)},
      {"mul.wide.s32 $0, $1, $2;", {0xFFFFFFFF, 2}, uint64_t(-2)},
      {"mul.wide.u16 $0, $1, $2;", {0xFFFF, 0xFFFF}, 0xFFFE0001},
      {"mul24.lo.s32 $0, $1, $2;", {0xFFFFFF, 3}, 0xFFFFFFFD},
      {"mul24.hi.u32 $0, $1, $2;", {0xFFFFFF, 0xFFFFFF}, 0xFFFFFE00},
      {"mad.lo.s32 $0, $1, $2, $3;", {3, 4, 0xFFFFFFFF}, 11},
      {"mad.wide.u32 $0, $1, $2, $3;", {0xFFFFFFFF, 2, 5}, 0x200000003},
      {"div.s32 $0, $1, $2;", {uint32_t(-7), 2}, uint32_t(-3)},
      {"rem.s32 $0, $1, $2;", {uint32_t(-7), 2}, uint32_t(-1)},
      {"div.u64 $0, $1, $2;", {7, 2}, 3},
      {"abs.s32 $0, $1;", {uint32_t(-7)}, 7},
      {"neg.s32 $0, $1;", {7}, uint32_t(-7)},
      {"min.s32 $0, $1, $2;", {uint32_t(-7), 3}, uint32_t(-7)},
      {"max.u32 $0, $1, $2;", {uint32_t(-7), 3}, uint32_t(-7)},
      {"sad.s32 $0, $1, $2, $3;", {uint32_t(-7), 3, 100}, 110},
      {"sad.u32 $0, $1, $2, $3;", {3, 7, 100}, 104},
      {"dp4a.u32.u32 $0, $1, $2, $3;", {0x01020304, 0x01010101, 5}, 15},
      {"dp4a.s32.s32 $0, $1, $2, $3;", {0xFF, 0xFE, 0}, 2},
      {"dp2a.lo.u32.u32 $0, $1, $2, $3;", {0x00020001, 0x04030201, 0}, 5},
      {"dp2a.hi.u32.u32 $0, $1, $2, $3;", {0x00020001, 0x04030201, 0}, 11},
      {"{ .reg .u32 a; add.cc.u32 a, $1, $1; addc.u32 $0, 0, 0; }", {0x80000000}, 1},
      {"{ .reg .u32 a; sub.cc.u32 a, $1, 1; subc.u32 $0, 5, 0; }", {0}, 4},
      {"{ .reg .u32 a; sub.cc.u32 a, $1, 1; subc.u32 $0, 5, 0; }", {1}, 5},
  });
}

TEST(PtxInterpreter, Bits) {
  check({
      {"and.b32 $0, $1, 0x0f;", {0xAB}, 0x0B},
      {"or.b32 $0, $1, $2;", {0xA0, 0x0B}, 0xAB},
      {"xor.b32 $0, $1, -1;", {0}, 0xFFFFFFFF},
      {"not.b16 $0, $1;", {0}, 0xFFFF},
      {"cnot.b32 $0, $1;", {0}, 1},
      {"lop3.b32 $0, $1, $2, $3, 0xf8;", {0xF0, 0xCC, 0xAA}, 0xF0 | (0xCC & 0xAA)},
      {"lop3.b32 $0, $1, $2, $3, 0xea;", {0xF0, 0xCC, 0xAA}, (0xF0 & 0xCC) | 0xAA},
      {"lop3.b32 $0, $1, $2, $3, 0x96;", {0xF0, 0xCC, 0xAA}, 0xF0 ^ 0xCC ^ 0xAA},
      {"shl.b32 $0, $1, $2;", {1, 31}, 0x80000000},
      {"shl.b32 $0, $1, $2;", {1, 32}, 0},
      {"shr.s32 $0, $1, $2;", {0x80000000, 40}, 0xFFFFFFFF},
      {"shr.u32 $0, $1, $2;", {0x80000000, 31}, 1},
      {"shf.l.wrap.b32 $0, $1, $2, $3;", {0x80000001, 0x00000001, 4}, 0x18},
      {"shf.r.wrap.b32 $0, $1, $2, $3;", {0x80000001, 0x00000001, 4}, 0x18000000},
      {"shf.r.clamp.b32 $0, $1, $2, 40;", {1, 2}, 2},
      {"bfe.u32 $0, $1, 4, 8;", {0xABCDE}, 0xCD},
      {"bfe.s32 $0, $1, 4, 8;", {0xABCDE}, 0xFFFFFFCD},
      {"bfi.b32 $0, $1, $2, 4, 8;", {0xFF, 0}, 0xFF0},
      {"brev.b32 $0, $1;", {1}, 0x80000000},
      {"brev.b64 $0, $1;", {2}, 0x4000000000000000},
      {"popc.b64 $0, $1;", {0xF0F0F0F0F0}, 20},
      {"clz.b32 $0, $1;", {0}, 32},
      {"clz.b64 $0, $1;", {1}, 63},
      {"bfind.u32 $0, $1;", {0x100}, 8},
      {"bfind.u32 $0, $1;", {0}, 0xFFFFFFFF},
      {"bfind.s32 $0, $1;", {0xFFFFFFFE}, 0},
      {"bfind.shiftamt.u32 $0, $1;", {0x100}, 23},
      {"prmt.b32 $0, $1, $2, 0x7531;", {0x33221100, 0x77665544}, 0x77553311},
      {"prmt.b32 $0, 0, $1, 0x5746;", {0x44332211}, 0x22441133},
      {"prmt.b32 $0, $1, 0, 0x8888;", {0x80}, 0xFFFFFFFF},
      {"bmsk.clamp.b32 $0, $1, $2;", {4, 8}, 0xFF0},
      {"szext.wrap.s32 $0, $1, $2;", {0xFF, 8}, 0xFFFFFFFF},
  });
}

TEST(PtxInterpreter, Floats) {
  check({
      {"add.f32 $0, $1, $2;", {bits(1.5f), bits(2.25f)}, bits(3.75f)},
      {"add.rp.f32 $0, $1, $2;", {bits(1.0f), bits(0x1p-30f)}, bits(1.0f + 0x1p-23f)},
      {"add.rz.f32 $0, $1, $2;", {bits(-1.0f), bits(-0x1.8p-24f)}, bits(-1.0f)},
      {"sub.rm.f64 $0, $1, $2;", {bits(1.0), bits(0x1p-80)}, bits(1.0 - 0x1p-53)},
      {"mul.f32 $0, $1, 0f40000000;", {bits(1.5f)}, bits(3.0f)},
      {"mul.f32 $0, $1, 2.0;", {bits(1.5f)}, bits(3.0f)},
      {"fma.rn.f32 $0, $1, $1, $2;", {bits(1.0f + 0x1p-12f), bits(-1.0f)}, bits(0x1p-11f + 0x1p-24f)},
      {"fma.rz.f64 $0, $1, $2, $3;", {bits(3.0), bits(1.0), bits(-0x1p-60)}, bits(std::nextafter(3.0, 0.0))},
      {"div.rn.f32 $0, $1, $2;", {bits(1.0f), bits(3.0f)}, bits(1.0f / 3.0f)},
      {"div.rp.f32 $0, $1, $2;", {bits(1.0f), bits(3.0f)}, bits(std::nextafter(1.0f / 3.0f, 0.0f) + 0x1p-25f)},
      {"rcp.rz.f32 $0, $1;", {bits(3.0f)}, bits(std::nextafter(1.0f / 3.0f, 0.0f))},
      {"sqrt.rn.f32 $0, $1;", {bits(2.0f)}, bits(std::sqrt(2.0f))},
      {"sqrt.rp.f64 $0, $1;", {bits(4.0)}, bits(2.0)},
      {"rsqrt.approx.f32 $0, $1;", {bits(4.0f)}, bits(0.5f)},
      {"ex2.approx.ftz.f32 $0, $1;", {bits(-130.0f)}, bits(0.0f)},
      {"ex2.approx.f32 $0, $1;", {bits(-130.0f)}, bits(0x1p-130f)},
      {"lg2.approx.f32 $0, $1;", {bits(8.0f)}, bits(3.0f)},
      {"tanh.approx.f32 $0, $1;", {bits(40.0f)}, bits(1.0f)},
      {"add.ftz.f32 $0, $1, $2;", {bits(0x1p-130f), bits(0x1p-130f)}, bits(0.0f)},
      {"min.f32 $0, $1, $2;", {bits(kNan), bits(1.0f)}, bits(1.0f)},
      {"min.NaN.f32 $0, $1, $2;", {bits(kNan), bits(1.0f)}, 0x7FFFFFFF},
      {"max.f32 $0, $1, $2;", {bits(-0.0f), bits(0.0f)}, bits(0.0f)},
      {"min.f32 $0, $1, $2;", {bits(0.0f), bits(-0.0f)}, bits(-0.0f)},
      {"neg.f32 $0, $1;", {0x7FC00001}, 0xFFC00001},
      {"abs.f64 $0, $1;", {bits(-2.0)}, bits(2.0)},
      {"copysign.f32 $0, $1, $2;", {bits(-2.0f), bits(3.0f)}, bits(-3.0f)},
      {"testp.subnormal.f32 $0, $1;", {bits(0x1p-130f)}, 1},
      {"testp.notanumber.f64 $0, $1;", {bits(1.0)}, 0},
      {"add.f16 $0, $1, $2;", {0x3C00, 0x3C00}, 0x4000},
      {"add.f16x2 $0, $1, $2;", {0x3C004000, 0x3C003C00}, 0x40004200},
      {"fma.rn.f16x2 $0, $1, $2, $3;", {0x40004000, 0x42003C00, 0x3C003C00}, 0x47004200},
      {"fma.rn.relu.bf16x2 $0, $1, $2, $3;", {0x3F80BF80, 0x3F803F80, 0}, 0x3F800000},
      {"mul.bf16 $0, $1, $2;", {0x4000, 0x4040}, 0x40C0},
      {"min.f16x2 $0, $1, $2;", {0x3C00C000, 0x40003C00}, 0x3C00C000},
      {"neg.bf16x2 $0, $1;", {0x3F80BF80}, 0xBF803F80},
  });
}

TEST(PtxInterpreter, ComparisonsAndChoices) {
  check({
      {"{ .reg .pred p; setp.lt.s32 p, $1, $2; selp.b32 $0, 10, 20, p; }", {uint32_t(-1), 0}, 10},
      {"{ .reg .pred p; setp.lt.u32 p, $1, $2; selp.b32 $0, 10, 20, p; }", {uint32_t(-1), 0}, 20},
      {"{ .reg .pred p; setp.lo.u32 p, $1, $2; @!p mov.u32 $0, 7; }", {5, 1}, 7},
      {"{ .reg .pred p, q; setp.ne.f32 p|q, $1, $2; selp.b32 $0, 1, 2, q; }", {bits(1.0f), bits(1.0f)}, 1},
      {"{ .reg .pred p; setp.ne.f32 p, $1, $1; selp.b32 $0, 1, 2, p; }", {bits(kNan)}, 2},
      {"{ .reg .pred p; setp.neu.f32 p, $1, $1; selp.b32 $0, 1, 2, p; }", {bits(kNan)}, 1},
      {"{ .reg .pred p; setp.nan.f32 p, $1, $1; selp.b32 $0, 1, 2, p; }", {bits(kNan)}, 1},
      {"{ .reg .pred p, q; setp.lt.f16x2 p|q, $1, $2; selp.b32 $0, 1, 2, q; }", {0x3C004000, 0x40003C00}, 1},
      {"{ .reg .pred p, q; setp.eq.u32 p, $1, 1; setp.eq.and.u32 q, $2, 2, !p; selp.u32 $0, 1, 0, q; }", {1, 2}, 0},
      {"set.gt.u32.f32 $0, $1, 0f00000000;", {bits(1.0f)}, 0xFFFFFFFF},
      {"set.lt.f32.s32 $0, $1, 0;", {uint32_t(-4)}, bits(1.0f)},
      {"slct.f32.s32 $0, $1, $2, $3;", {bits(1.0f), bits(2.0f), uint32_t(-1)}, bits(2.0f)},
  });
}

TEST(PtxInterpreter, MovesAndConversions) {
  check({
      {"mov.b32 $0, {$1, $2};", {0x1122, 0x3344}, 0x33441122},
      {"{ .reg .b8 t<4>; mov.b32 {t0, t1, t2, t3}, $1; cvt.u32.u8 $0, t2; }", {0x44332211}, 0x33},
      {"{ .reg .b32 %lo, %hi; mov.b64 {%lo, %hi}, $1; mov.b32 $0, %hi; }", {0x1122334455667788}, 0x11223344},
      {"{ .reg .b16 a; mov.b32 {_, a}, $1; cvt.u32.u16 $0, a; }", {0x33441122}, 0x3344},
      {"cvt.s32.s8 $0, $1;", {0x80}, uint64_t(-128)},
      {"cvt.sat.u8.s32 $0, $1;", {uint32_t(-5)}, 0},
      {"cvt.sat.s8.s32 $0, $1;", {200}, 127},
      {"cvt.sat.s8.s32 $0, $1;", {uint32_t(-200)}, uint64_t(-128)},
      {"cvt.rni.s16.f32 $0, $1;", {bits(-3.0f)}, uint64_t(-3)},
      {"cvt.rni.u16.f32 $0, $1;", {bits(65535.0f)}, 65535},
      {"{ .reg .b16 a; cvt.s8.s32 a, $1; cvt.u32.u16 $0, a; }", {0xF3}, 0xFFF3},
      {"{ .reg .b64 a; cvt.s16.s32 a, $1; shr.u64 a, a, 32; cvt.u32.u64 $0, a; }", {0x80F3}, 0xFFFFFFFF},
      {"cvt.rn.f32.s32 $0, $1;", {uint32_t(-3)}, bits(-3.0f)},
      {"cvt.rz.f32.u32 $0, $1;", {0xFFFFFFFF}, bits(4294967040.0f)},
      {"cvt.rp.f32.s64 $0, $1;", {(uint64_t(1) << 40) + 1}, bits(0x1p40f + 0x1p17f)},
      {"cvt.rm.f64.u64 $0, $1;", {~uint64_t(0)}, bits(0x1.fffffffffffffp63)},
      {"cvt.rn.bf16.s32 $0, $1;", {0x1010001}, 0x4B81},
      {"cvt.rni.s32.f32 $0, $1;", {bits(2.5f)}, 2},
      {"cvt.rpi.s32.f32 $0, $1;", {bits(2.1f)}, 3},
      {"cvt.rmi.s32.f32 $0, $1;", {bits(-2.1f)}, uint64_t(-3)},
      {"cvt.rzi.s32.f32 $0, $1;", {bits(3e10f)}, 0x7FFFFFFF},
      {"cvt.rzi.u32.f32 $0, $1;", {bits(-3.0f)}, 0},
      {"cvt.rzi.s32.f32 $0, $1;", {bits(kNan)}, 0},
      {"cvt.rzi.s64.f32 $0, $1;", {bits(kNan)}, 0x8000000000000000},
      {"cvt.rni.f32.f32 $0, $1;", {bits(-0.5f)}, bits(-0.0f)},
      {"cvt.sat.f32.f32 $0, $1;", {bits(1.5f)}, bits(1.0f)},
      {"cvt.sat.f32.f32 $0, $1;", {bits(kNan)}, bits(0.0f)},
      {"cvt.rz.f32.f64 $0, $1;", {bits(1.0 + 0x1.8p-24)}, bits(1.0f)},
      {"cvt.rn.f16.f32 $0, $1;", {bits(65520.0f)}, 0x7C00},
      {"cvt.rm.f16.f32 $0, $1;", {bits(-1.0001f)}, 0xBC01},
      {"cvt.f32.f16 $0, $1;", {0x3555}, bits(0.333251953125f)},
      {"cvt.f32.bf16 $0, $1;", {0x3FC0}, bits(1.5f)},
      {"cvt.rn.bf16x2.f32 $0, $1, $2;", {bits(1.0f), bits(2.0f)}, 0x3F804000},
      {"cvt.rn.relu.f16x2.f32 $0, $1, $2;", {bits(-1.0f), bits(2.0f)}, 0x00004000},
      {"cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", {bits(1000.0f), bits(-1.0f)}, 0x7EB8},
      {"cvt.rn.satfinite.e5m2x2.f32 $0, $1, $2;", {bits(1.0f), bits(kNan)}, 0x3C7F},
      {"cvt.rn.satfinite.e4m3x2.f16x2 $0, $1;", {0x3C00BC00}, 0x38B8},
      {"cvt.rn.f16x2.e4m3x2 $0, $1;", {0x387E}, 0x3C005F00},
      {"cvt.rn.f16x2.e5m2x2 $0, $1;", {0x3C7C}, 0x3C007C00},
      {"cvt.rn.satfinite.e2m1x2.f32 $0, $1, $2;", {bits(5.1f), bits(-0.25f)}, 0x78},
      {"cvt.rn.satfinite.e2m1x2.f32 $0, $1, $2;", {bits(2.5f), bits(0.75f)}, 0x42},
      {"cvt.rn.f16x2.e2m1x2 $0, $1;", {0x7A}, 0x4600BC00},
      {"cvt.rp.satfinite.ue8m0x2.f32 $0, $1, $2;", {bits(1.5f), bits(4.0f)}, 0x8081},
      {"cvt.rna.tf32.f32 $0, $1;", {0x3F801000}, 0x3F802000},
  });
  // A narrow result fills its register.
  EXPECT_EQ(results_of("cvt.rni.sat.s8.f32 $0, $1;", "=r,f", {bits(-3.0f)})[0], uint32_t(-3));
  EXPECT_EQ(results_of("cvt.rni.sat.s8.f32 $0, $1;", "=h,f", {bits(-300.0f)})[0], 0xFF80u);
  EXPECT_EQ(results_of("cvt.rni.sat.u8.f32 $0, $1;", "=r,f", {bits(300.0f)})[0], 255u);
}

// A row of the hardware table, of which builds without the compiler have the texts alone.
struct Row {
  std::string_view assembly, constraints;
};

Row row_of(std::string_view wanted) {
#define TEGULA_HW(name, signature, feature, effects, assembly, constraints) \
  if (wanted == #name) return {assembly, constraints};
#include "codegen/lower/hw.def"
  ADD_FAILURE() << "no row " << wanted;
  return {};
}

// The hardware table's conversions of bytes in words, of every byte at every place, beside those of the host.
template <class Narrow, class Wide>
void check_bytes(const char* row, Narrow (*of_bits)(uint8_t)) {
  const Row texts = row_of(row);
  for (uint32_t first = 0; first < 256; ++first) {
    const uint8_t bytes[4] = {uint8_t(first), uint8_t(first + 85), uint8_t(255 - first), uint8_t(first * 7)};
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= uint32_t(bytes[i]) << 8 * i;
    const std::vector<uint64_t> found = results_of(texts.assembly, texts.constraints, {word});
    for (int i = 0; i < 4; ++i) {
      const auto bits = uint16_t(found.at(size_t(i / 2)) >> 16 * (i % 2));
      const float value = float(of_bits(bytes[i]));
      EXPECT_EQ(bits, std::isnan(value) ? 0x7FFF : Wide(value).bits) << row << " of " << int(bytes[i]);
    }
  }
}

TEST(PtxInterpreter, BytesAsNumbersOf16Bits) {
  check_bytes<int8_t, float16>("cvt_f16x4_s8x4", [](uint8_t x) { return int8_t(x); });
  check_bytes<uint8_t, float16>("cvt_f16x4_u8x4", [](uint8_t x) { return x; });
  check_bytes<int8_t, bfloat16>("cvt_bf16x4_s8x4", [](uint8_t x) { return int8_t(x); });
  check_bytes<uint8_t, bfloat16>("cvt_bf16x4_u8x4", [](uint8_t x) { return x; });
  check_bytes<float8e4nv, float16>("cvt_f16x4_e4m3x4", float8e4nv::of_bits);
}

TEST(PtxInterpreter, Structure) {
  check({
      // A block that counts; scopes hide names of outer ones.
      {"{ .reg .u32 n, s; .reg .pred p; mov.u32 n, $1; mov.u32 s, 0;\n"
       "again: add.u32 s, s, n; sub.u32 n, n, 1; setp.ne.u32 p, n, 0; @p bra done;\n"
       "done: mov.u32 $0, s; }",
       {10},
       10},
      {"{ .reg .u32 a; mov.u32 a, 1; { .reg .u32 a; mov.u32 a, 2; } mov.u32 $0, a; }", {}, 1},
      {"// nothing\nmov.u32 $0, $1; /* behind */", {3}, 3},
      {"mov.u32 ${0}, ${1};", {3}, 3},
      {"{ .reg .b32 %r<2>; mov.b32 %r1, $1; mov.b32 $0, %r1; }", {3}, 3},
  });
  EXPECT_EQ(results_of("mov.b32 $0, 1; mov.b32 $1, $2;", "=r,=r,r", {5}), (std::vector<uint64_t>{1, 5}));
  EXPECT_EQ(results_of("add.u32 $0, $0, 1;", "=r,0", {5}), (std::vector<uint64_t>{6}));
}

TEST(PtxInterpreter, WhatItCannotRun) {
  EXPECT_EQ(message_of("wgmma.fence.sync.aligned;"), "the instruction 'wgmma.fence.sync.aligned;'");
  EXPECT_EQ(message_of("add.wide.u32 $0, $1, 1;"), "the instruction 'add.wide.u32 $0, $1, 1;'");
  EXPECT_EQ(message_of("{ mov.u32 $0, $1;\n  ld.shared.u32 $0, [$1]; }"),
            "the instruction 'ld.shared.u32 $0, [$1];' in line 2 of the assembly");
  EXPECT_EQ(message_of("{ // a comment\n  /* and\n another */ mov.u32 $0, $1;\n\n  ld.shared.u32 $0, [$1];\n}"),
            "the instruction 'ld.shared.u32 $0, [$1];' in line 5 of the assembly");
  EXPECT_EQ(message_of("shfl.b32 $0, $1, 1, 31, -1;"), "the instruction 'shfl.b32 $0, $1, 1, 31, -1;'");
  EXPECT_EQ(message_of("mov.u32 $0, $2;"), "the instruction 'mov.u32 $0, $2;': there is no operand $2");
  EXPECT_EQ(message_of("mov.u32 $0, x;"), "the instruction 'mov.u32 $0, x;': 'x' is no register");
  EXPECT_EQ(message_of("mul.f32 $0, $1, 2;"), "the instruction 'mul.f32 $0, $1, 2;': 2 is no floating-point number");
  EXPECT_EQ(message_of("add.u32 $0, $1;"), "the instruction 'add.u32 $0, $1;'");
  EXPECT_EQ(message_of("{ mov.u32 $0, $1;"), "a '{' without its '}'");
  EXPECT_EQ(message_of("bra away;"), "the label 'away' is not in the block");
  EXPECT_EQ(message_of("mov.u32 $0, $1;", "=r,n"), "the constraint 'n'");
  EXPECT_EQ(message_of("and.f32 $0, $1, $1;"), "the instruction 'and.f32 $0, $1, $1;'");
}

}  // namespace
}  // namespace tegula::emulator::ptx
