// label: device
// What the emulator warns of: arithmetic of integers whose result means nothing, and the first NaNs.
#include "codegen/exec/emulator.h"
#include "dsl/program.h"
#include "runtime/base/messages.h"
#include "tests/checks_off.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

std::string warnings_of(const std::string& body, int n, bool nans = false, int num_warps = 4) {
  auto device = make_emulator({.check_races = true, .check_nans = nans});
  Array<int32_t> x(*device, std::vector<int32_t>(256, 1));
  Array<float> y(*device, iota(4096));
  std::string warnings;
  const MessageHandler before =
      set_message_handler([&](MessageKind, std::string_view text) { warnings += std::string(text) + "\n"; });
  Program::parse(
      "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, y, n):\n"
      "    i = tl.arange(0, 128)\n    " +
          body + "\n",
      "k.py")
      .kernel("kernel")
      .launch(*device, {1}, {.num_warps = num_warps}, reinterpret_cast<int32_t*>(x.address()),
              reinterpret_cast<float*>(y.address()), n);
  set_message_handler(before);
  return warnings;
}

TEST(Warnings, OfIntegerArithmetic) {
  const std::string overflow =
      "kernel 'kernel', program (0, 0, 0), thread 0: the address of an access follows from a sum or product "
      "of "
      "int32 that does not fit; .to(tl.int64) of an operand gives the exact number\n";
  // 65536 * 65536 is 0 in 32 bits, where the store is allowed.
  EXPECT_EQ(warnings_of("tl.store(x + n * n + i, 2)", 65536), "k.py:6:5: " + overflow);
  EXPECT_EQ(warnings_of("tl.store(x + n * n + i, 2)", 3), "");
  EXPECT_EQ(warnings_of("tl.store(x + n * n + i, 2, mask=i < 0)", 65536), "");
  EXPECT_EQ(warnings_of("tl.store(x + i, 7 // (tl.load(x + i) - n))", 1),
            "k.py:6:21: kernel 'kernel', program (0, 0, 0), thread 0: integer division by 0; the result means "
            "nothing\n");
  EXPECT_EQ(warnings_of("tl.store(x + i, 7 // (tl.load(x + i) + n))", 1), "");
  EXPECT_CONTAINS(warnings_of("tl.store(x + i, 7 % (tl.load(x + i) - n))", 1), "integer division by 0");
  for (const char* shift : {"<<", ">>"}) {
    EXPECT_CONTAINS(warnings_of(fmt::format("tl.store(x + i, tl.load(x + i) {} n)", shift), 32),
                    "a shift by the width");
    EXPECT_EQ(warnings_of(fmt::format("tl.store(x + i, tl.load(x + i) {} n)", shift), 31), "");
  }
}

// By shuffles and by shared memory, where the elements of the next row lie behind those of a row. Lanes whose element
// is dropped may ask for any.
TEST(Warnings, OfIndicesThatGatherTakes) {
  const char* const kFound = "an index that tl.gather takes is negative or not less than the extent of the axis";
  for (const auto& [tile, at, axis, extent] :
       {std::tuple("tl.load(x + tl.arange(0, 32))", "tl.arange(0, 32)", 0, 32),
        {"tl.load(y + i).reshape([8, 16])", "tl.arange(0, 8)[:, None] * 2 + tl.arange(0, 2)[None, :]", 1, 16},
        {"(tl.load(x + i) == 1).reshape([8, 16])", "tl.arange(0, 8)[:, None] * 2 + tl.arange(0, 2)[None, :]", 1, 16}}) {
    SCOPED_TRACE(tile);
    const auto warned = [&](const char* index, const char* stored, int n) {
      const char* body = "v = {}\n    at = {}\n    g = tl.gather(v, {}, {})\n    tl.store(x + at, {})";
      return warnings_of(fmt::format(fmt::runtime(body), tile, at, index, axis, stored), n);
    };
    EXPECT_EQ(warned("tl.where(at < 4, n, 0)", "g.to(tl.int32)", extent - 1), "");
    for (const char* index : {"tl.where(at < 4, n, 0)", "tl.where(at < 4, n.to(tl.int64) << 32, 0)", "at * 0 - n"})
      EXPECT_CONTAINS(warned(index, "g.to(tl.int32)", extent), kFound);
    EXPECT_EQ(warned("tl.where(at < 4, n, 0)", "tl.where(at < 4, 7, g.to(tl.int32))", extent), "");
  }
  // By several shuffles, between whose results the index chooses, and in long sums.
  const char* const kSum =
      "at = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :]\n    g = tl.gather(tl.load(y + at), at % 64 + "
      "n, 1)\n"
      "    tl.store(y + tl.arange(0, 16), tl.sum(tl.where(tl.arange(0, 64) < 63, g, 0.0), 1))";
  EXPECT_EQ(warnings_of(kSum, 1, false, 1), "");
  EXPECT_CONTAINS(warnings_of(kSum, 2, false, 1), kFound);
  EXPECT_CONTAINS(warnings_of("at = tl.arange(0, 32)\n    tl.store(x + at, tl.gather(tl.load(x + at), at - n, 0))", 1),
                  kFound);
}

// What is made of a number that does not fit means as little; numbers without a sign wrap around on purpose.
TEST(Warnings, OfIndicesBehindOtherArithmetic) {
  for (const char* index : {"(i + n) * n // 65536 - n + 8", "(i + n) * n % 64", "((i + n) * n >> 20) + 2048",
                            "tl.minimum((i + n) * n, 255) + 0 * i", "tl.maximum((i + n) * n, 0)",
                            "tl.where(i < n, (i + n) * n, 0)", "(i + n) * n // (n - 65538)"}) {
    SCOPED_TRACE(index);
    const std::string body = fmt::format("at = {}\n    tl.store(x + at, 2, mask=(at >= 0) & (at < 256))", index);
    const std::string masked = fmt::format("at = {}\n    tl.store(x + at, 2, mask=i < 0)", index);
    EXPECT_EQ(warnings_of(masked, 65537), "");
    EXPECT_EQ(warnings_of(body, 3), "");
  }
  const char* const kFound = "int32 that does not fit";
  EXPECT_CONTAINS(warnings_of("tl.store(x + (i + n) * n // 33554432, 2)", 65536), kFound);
  EXPECT_CONTAINS(warnings_of("tl.store(x + (i + n) * n % 100, 2)", 65536), kFound);
  EXPECT_CONTAINS(warnings_of("tl.store(x + ((i + n) * n >> 25), 2)", 65536), kFound);
  EXPECT_CONTAINS(warnings_of("tl.store(x + tl.minimum(tl.maximum((i + n) * n, 0), 255), 2)", 50000), kFound);
  EXPECT_CONTAINS(warnings_of("tl.store(x + tl.where(i < n, (i + n) * n // 65536, 0), 2)", 65536), kFound);
  EXPECT_CONTAINS(warnings_of("tl.store(x + (i + n) * n // (n * 600), 2)", 65536), kFound);
  EXPECT_EQ(warnings_of("tl.store(x + ((i * 40503).to(tl.uint32) * 2654435761 >> 24).to(tl.int32), 2)", 65537), "");
}

TEST(Warnings, OfNumbersOfEveryWidth) {
  for (const auto& [type, bits] :
       {std::pair("int8", 8), {"uint8", 8}, {"int16", 16}, {"uint16", 16}, {"uint32", 32}, {"int64", 64}}) {
    SCOPED_TRACE(type);
    const std::string v = fmt::format("v = tl.load(x + i).to(tl.{})\n    ", type);
    for (const char* shift : {"<<", ">>"}) {
      EXPECT_CONTAINS(warnings_of(fmt::format("{}tl.store(x + i, (v {} {}).to(tl.int32))", v, shift, bits), 1),
                      "a shift by the width");
      EXPECT_EQ(warnings_of(fmt::format("{}tl.store(x + i, (v {} {}).to(tl.int32))", v, shift, bits - 1), 1), "");
    }
    EXPECT_CONTAINS(warnings_of(v + "tl.store(x + i, (v // (v - v)).to(tl.int32))", 1), "integer division by 0");
    EXPECT_CONTAINS(warnings_of(v + "tl.store(x + i, (v % (v - v)).to(tl.int32))", 1), "integer division by 0");
    EXPECT_EQ(warnings_of(v + "tl.store(x + i, (v // (v - v + 1)).to(tl.int32))", 1), "");
  }
}

// LLVM makes bits of constants 0 that a shift to the left drops: -2 is 134217726 ahead of one by 5.
TEST(Warnings, OfIndicesThatWerePartsOfWords) {
  const auto warned = [](const char* steps) {
    KernelImage image = make_image({pointer("x", Elem::I32)}, fmt::format(R"(
  %t = call i32 @tegula.hw.thread_id()
  %l = and i32 %t, 3
  {}
  %index = add i32 %moved, 255
  %wide = zext nneg i32 %index to i64
  %p = getelementptr i32, ptr addrspace(1) %x, i64 %wide
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %index, i1 true, i32 1), !dbg !9
  ret void)",
                                                                          steps));
    auto device = make_emulator({.check_races = true});
    Array<int32_t> x(*device, 256);
    std::string warnings;
    const MessageHandler before =
        set_message_handler([&](MessageKind, std::string_view message) { warnings += std::string(message) + "\n"; });
    EXPECT_EQ(error_of_launch(*device->load(with_places(image, "k.py", {{12, 3}})), {1}, x.address()), "no error");
    set_message_handler(before);
    return warnings;
  };
  EXPECT_EQ(warned("%times = mul nuw nsw i32 %l, 134217726\n  %moved = shl i32 %times, 5"), "");
  EXPECT_EQ(warned("%times = mul nsw i32 %l, -2\n  %moved = shl nsw i32 %times, 5"), "");
  EXPECT_CONTAINS(warned("%times = mul i32 %l, 65536\n  %moved = shl i32 %times, 16"), "int32 that does not fit");
}

// x holds ones: sums of n * 1 by lanes, warps and programs, and what loops carry. Those of 2^32 are 0 in 32 bits, where
// the store is allowed.
TEST(Warnings, OfIndicesThatThreadsComputeTogether) {
  const char* kOverflow = "the address of an access follows from a sum or product of int32 that does not fit";
  struct Case {
    const char* body;
    int n;
    bool warns;
  };
  for (const Case& c : {
           Case{"tl.store(x + tl.sum(tl.load(x + i) * n), 2)", 1 << 25, true},
           {"tl.store(x + tl.sum(tl.load(x + i) * n), 2)", 1, false},
           {"tl.store(x + tl.sum(tl.load(x + i) * n), 2, mask=n < 0)", 1 << 25, false},
           // Parts of the sum do not fit, but all of it does.
           {"tl.store(x + tl.sum(tl.where(i % 2 == 0, n, -n)), 2)", 1 << 30, false},
           {"tl.store(x + tl.sum(tl.where(i < 64, n, -n)), 2)", 1 << 30, false},
           {"at = tl.sum(tl.load(x + i).to(tl.int64) * n)\n    tl.store(x + at, 2, mask=at < 256)", 1 << 25, false},
           {"at = tl.cumsum(tl.load(x + i) * n)\n    tl.store(x + at, at, mask=(at >= 0) & (at < 256))", 1 << 25, true},
           {"at = tl.cumsum(tl.load(x + i) * n)\n    tl.store(x + at, at, mask=(at >= 0) & (at < 256))", 1, false},
           {"tl.store(x + tl.xor_sum(tl.load(x + i) * n), 2)", 3, false},
           {"tl.atomic_add(x + 200, n)\n    at = tl.atomic_add(x + 200, 1)\n    tl.store(x + (at + n + 6), 2)",
            2147483647, true},
           {"tl.atomic_add(x + 200, n)\n    at = tl.atomic_add(x + 200, 1)\n    tl.store(x + at, 2)", 7, false},
           {"at = 0\n    for k in range(9):\n        tl.store(x + at + i, 2, mask=at == 0)\n        at += n", 1 << 30,
            true},
           {"at = 0\n    for k in range(2):\n        tl.store(x + at + i, 2, mask=at == 0)\n        at += n", 1 << 30,
            false},
           {"m = tl.arange(0, 16)[:, None] + tl.arange(0, 16)[None, :] * n\n"
            "    tl.store(x + tl.trans(m) * n + 0 * m, 2, mask=tl.trans(m) * n == 0)",
            65536, true},
           {"at, more = tl.split(tl.join(tl.load(x + i), i) * n * n)\n    tl.store(x + at + more, 2, mask=i < 9)",
            65536, true},
           {"at, more = tl.split(tl.join(tl.load(x + i), i) * n * n)\n    tl.store(x + at + more, 2, mask=i < 9)", 1,
            false},
           {"at = tl.sort(tl.load(x + i) * n * n)\n    tl.store(x + at + i, 2, mask=i < 9)", 65536, true},
           {"at = tl.sort((tl.load(x + i) - i) * n * n, descending=True)\n    tl.store(x + at + i, 2, mask=i < 1)", 3,
            false},
           {"tl.store(x + ((i * n) ^ 5), 2, mask=i < 9)", 7, false},
       }) {
    SCOPED_TRACE(c.body);
    const std::string found = warnings_of(c.body, c.n);
    if (c.warns)
      EXPECT_CONTAINS(found, kOverflow);
    else
      EXPECT_EQ(found, "");
  }
}

// Lanes that a mask or a tl.where leaves out compute as well.
TEST(Warnings, OfResultsThatAreUsed) {
  const char* kDivision = "integer division by 0";
  const char* kShift = "a shift by the width";
  struct Case {
    const char* body;  ///< x holds ones
    int n;
    const char* found;  ///< null: nothing
  };
  for (const Case& c : {
           Case{"tl.store(x + i, 7 // (tl.load(x + i) - n), mask=i < n - 1)", 1, nullptr},
           {"tl.store(x + i, 7 // (tl.load(x + i) - n), mask=i < n + 4)", 1, "thread 0: integer division by 0"},
           {"tl.store(x + i, 7 // (tl.load(x + i) - n), mask=i == n + 4)", 1, "thread 5: integer division by 0"},
           {"v = tl.load(x + i, mask=i < n, other=0)\n    tl.store(x + i, 7 // v, mask=i < n)", 100, nullptr},
           {"v = tl.load(x + i, mask=i < n, other=0)\n    tl.store(x + i, 7 // v)", 100, kDivision},
           {"v = tl.load(x + i) - n\n    tl.store(x + i, tl.where(v != 0, 7 // v, 0))", 1, nullptr},
           {"v = tl.load(x + i) - n\n    tl.store(x + i, tl.where(v == 0, 7 // v, 0))", 1, kDivision},
           {"v = tl.load(x + i) - n\n    tl.store(x, tl.sum(tl.where(v != 0, 7 % v, 0), 0))", 1, nullptr},
           {"v = tl.load(x + i) - n\n    tl.store(x, tl.sum(7 % v, 0))", 1, kDivision},
           {"v = tl.load(x + i) - n\n    tl.store(x + i, i, mask=(v != 0) & (7 // v > 2))", 1, nullptr},
           {"v = tl.load(x + i) - n\n    tl.store(x + i, i, mask=(v == 0) & (7 // v > 2))", 1, kDivision},
           {"v = tl.load(x + i) - n\n    tl.store(x + i, tl.load(x + 7 // v, mask=v > 0, other=3))", 1, nullptr},
           {"v = tl.load(x + i) - n\n    tl.store(x + i, tl.load(x + i, mask=v == 0, other=7 // v))", 1, nullptr},
           {"v = tl.load(x + i) - n\n    tl.store(x + i, tl.load(x + i, mask=v > 0, other=7 // v))", 1, kDivision},
           {"v = n\n    for k in range(n + 2):\n        v = 7 // (k - n)\n    tl.store(x + i, v)", 1, nullptr},
           {"v = n\n    for k in range(n + 1):\n        v = 7 // (k - n)\n    tl.store(x + i, v)", 1, kDivision},
           // Behind sums over rows, and behind exchanges between threads.
           {"r = tl.arange(0, 16)\n    v = tl.load(x + r[:, None] * 16 + tl.arange(0, 16)[None, :]) * r[:, None]\n"
            "    s = tl.sum(7 // v, 1)\n    tl.store(x + r, tl.where(r > n, s, 0))",
            0, nullptr},
           {"r = tl.arange(0, 16)\n    v = tl.load(x + r[:, None] * 16 + tl.arange(0, 16)[None, :]) * r[:, None]\n"
            "    s = tl.sum(7 // v, 1)\n    tl.store(x + r, tl.where(r < n, s, 0))",
            1, kDivision},
           {"s = tl.cumsum(7 // (tl.load(x + i) - (i == 100)), 0)\n    tl.store(x + i, s, mask=i < n)", 100, nullptr},
           {"s = tl.cumsum(7 // (tl.load(x + i) - (i == 100)), 0)\n    tl.store(x + i, s, mask=i < n)", 101, kDivision},
           {"v = tl.flip(7 // (tl.load(x + i) - (i == 3)))\n    tl.store(x + i, v, mask=i != 124)", 0, nullptr},
           {"if n > 1:\n        tl.store(x + i, 7 // (n - 1))", 1, nullptr},
           {"s = i\n    for k in range(n):\n        s += 7 // (n - k - 1)\n    tl.store(x + i, s)", 3, kDivision},
           {"tl.store(x + i, tl.load(x + i) << n, mask=i < n - 40)", 32, nullptr},
           {"tl.store(x + i, tl.load(x + i) << n, mask=i < n - 20)", 32, kShift},
           {"tl.store(x + i, tl.where(i < n - 40, tl.load(x + i) >> n, 1))", 32, nullptr},
           {"tl.store(x + i, tl.where(i > n - 40, tl.load(x + i) >> n, 1))", 32, kShift},
           {"tl.store(x + i, tl.where(n < 32, tl.load(x + i) << n, 0))", 32, nullptr},
           {"s = i\n    for k in range(9):\n        s += tl.where(k < 8, tl.load(x + i) << (k * 4), 0)\n"
            "    tl.store(x + i, s)",
            1, nullptr},
       }) {
    SCOPED_TRACE(c.body);
    const std::string found = warnings_of(c.body, c.n);
    if (c.found)
      EXPECT_CONTAINS(found, c.found);
    else
      EXPECT_EQ(found, "");
  }
}

// Loads of the next tiles are issued ahead, also where there are no more; and of a program without tiles.
TEST(Warnings, OfTilesThatThereAre) {
  const auto product = [](const char* tile) {
    return fmt::format(
        "m = tl.arange(0, 16)\n    for t in range(tl.program_id(0), n, tl.num_programs(0)):\n        u = {}\n"
        "        acc = tl.zeros((16, 16), tl.float32)\n        for k in range(0, 64, 16):\n"
        "            a = tl.load(y + ((u & 1) * 16 + m)[:, None] * 64 + k + m).to(tl.float16)\n"
        "            acc = tl.dot(a, a, acc)\n        tl.store(y + 3072 + m[:, None] * 16 + m, acc)",
        tile);
  };
  for (int tiles : {0, 1, 2}) {
    SCOPED_TRACE(tiles);
    for (const char* tile : {"t % (n - t)", "(8 >> (31 - n + t)) * 0 + t", "tl.sqrt(n - 1.0 - t).to(tl.int32)",
                             "t // 2 * 2 + t % min(n - t // 2 * 2, 2)"})
      EXPECT_EQ(warnings_of(product(tile), tiles, true), "") << tile;
  }
  EXPECT_CONTAINS(warnings_of(product("t % (n - 1 - t)"), 2), "k.py:8:13: kernel 'kernel', program (0, 0, 0)");
  EXPECT_CONTAINS(warnings_of(product("t % (n - 2 - t)"), 2), "k.py:8:13: kernel 'kernel', program (0, 0, 0)");
}

/// What is warned of where both kinds of births are: "k.py:LINE: NaN" or "... infinity", in the order of lines.
/// `functions` stand ahead of the kernel.
std::string births_of(const std::string& body, bool infinities = false, LaunchOptions options = {.num_warps = 4},
                      const std::string& functions = "") {
  auto device = make_emulator({.check_nans = !infinities, .check_infinities = infinities});
  Array<float> x(*device, std::vector<float>(4096, -2.0f)), y(*device, 4096);
  std::string births;
  const MessageHandler before = set_message_handler([&](MessageKind, std::string_view text) {
    births += fmt::format("{} {}; ", text.substr(5, text.find(':', 5) - 5),
                          text.find("a NaN") != text.npos ? "NaN" : "infinity");
  });
  Program::parse(
      "import triton\nimport triton.language as tl\nfrom triton.language.extra.cuda import libdevice\n" + functions +
          "@triton.jit\ndef kernel(x, y):\n    i = tl.arange(0, 256)\n    v = tl.load(x + i)\n    " + body + "\n",
      "k.py")
      .kernel("kernel")
      .launch(*device, {1}, options, reinterpret_cast<float*>(x.address()), reinterpret_cast<float*>(y.address()));
  set_message_handler(before);
  return births;
}

// x is -2 everywhere, the kernel's first line 8.
TEST(Warnings, OfNansOfEveryOperation) {
  for (const char* value :
       {"v % (v + 2)", "v % 0.0", "v.to(tl.float64) % 0.0", "v.to(tl.float16) % -0.0", "tl.sin(v * 1e38 * 10)",
        "tl.cos(v * 1e38 * 10)", "tl.math.pow(v, v * 0.25)", "tl.log(v)", "tl.log2(v)", "tl.sqrt(v)", "tl.rsqrt(v)",
        "libdevice.acos(v)", "libdevice.tgamma(v)", "libdevice.fmod(v, v + 2)", "(v + 2) / (v + 2)",
        "(v.to(tl.float16) * 60000 - v.to(tl.float16) * 60000)", "(v.to(tl.bfloat16) + 2) / (v.to(tl.bfloat16) + 2)",
        "tl.fma(v * 1e38 * 10, v + 2, v)"}) {
    SCOPED_TRACE(value);
    EXPECT_EQ(births_of(fmt::format("tl.store(y + i, ({}).to(tl.float32))", value)), "8 NaN; ");
  }
}

// Zeros times infinities, and sums that overflow, by each kind of matrix instruction.
TEST(Warnings, OfProductsOfMatrices) {
  const std::string load = "m = tl.arange(0, 64)\n    at = m[:, None] * 64 + m[None, :]\n    a = tl.load(x + at)\n    ";
  for (int warps : {1, 4}) {
    for (const char* type : {"tl.float16", "tl.bfloat16", "tl.float32"}) {
      SCOPED_TRACE(fmt::format("{} {}", warps, type));
      const std::string nan = fmt::format(
          "big = (a * 1e38 * 10).to({0})\n    c = tl.dot(big, (a + 2).to({0}))\n    tl.store(y + at, c)", type);
      EXPECT_EQ(births_of(load + nan, false, {.num_warps = warps}), "12 NaN; ");
    }
    const std::string infinity = "big = a * 1e30\n    c = tl.dot(big, big)\n    tl.store(y + at, c)";
    EXPECT_EQ(births_of(load + infinity, true, {.num_warps = warps}), "12 infinity; ");
    EXPECT_EQ(births_of(load + infinity, false, {.num_warps = warps}), "");
  }
}

// A softmax of rows of which some are masked altogether, times a matrix.
TEST(Warnings, OfNansInRowsOfProducts) {
  for (const char* type : {"tl.float16", "tl.float32"})
    for (int warps : {1, 4, 8})
      for (int steps : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} {} {}", type, warps, steps));
        const auto births = [&](int rows) {
          const std::string body = fmt::format(
              "m = tl.arange(0, 64)\n    at = m[:, None] * 64 + m[None, :]\n    a = tl.load(x + at).to({0})\n"
              "    acc = tl.zeros((64, 64), tl.float32)\n    for k in range({1}):\n"
              "        s = tl.where(m[:, None] < 5, tl.dot(a, a) + k, float('-inf'))\n"
              "        p = tl.exp(s - tl.max(s, 1)[:, None])\n        acc = tl.dot(p.to({0}), a, acc)\n"
              "    tl.store(y + at, acc, mask=m[:, None] < {2})",
              type, steps, rows);
          return births_of(body, false, {.num_warps = warps});
        };
        EXPECT_EQ(births(5), "");
        EXPECT_EQ(births(6), "14 NaN; ");
      }
}

TEST(Warnings, OfNansThatNobodyUses) {
  EXPECT_EQ(births_of("tl.store(y + i, tl.where(v > 0, tl.log(v), 0.0))"), "");
  EXPECT_EQ(births_of("tl.store(y + i, tl.where(v < 0, tl.log(v), 0.0))"), "8 NaN; ");
  EXPECT_EQ(births_of("tl.store(y + i, tl.log(v), mask=v > 0)"), "");
  EXPECT_EQ(births_of("j = tl.arange(0, 32)\n    tl.store(y + j, tl.sort((tl.load(x + j) + j) * 0.5))"), "");
  EXPECT_EQ(births_of("tl.store(y + i, tl.where(v > 0, v, float('nan')))"), "");
  // A thread whose numbers are all of a kind computes them in another way.
  for (const char* function : {"tl.exp", "tl.log", "tl.sin"})
    EXPECT_EQ(births_of(fmt::format("j = tl.arange(0, 256)\n    m = j < 248\n    a = tl.load(x + j, m, float('-inf'))\n"
                                    "    b = tl.load(x + 1 + j, m, float('-inf'))\n"
                                    "    tl.store(y + j, {}(a - tl.maximum(a, b) + 1), m)",
                                    function),
                        false, {.num_warps = 1}),
              "");
  EXPECT_EQ(births_of("tl.store(y + i, tl.sin(v) + tl.exp(v) + tl.sqrt(-v) + tl.math.pow(v, 3.0) + v % 3.0)"), "");
}

// Cosine and sine of one angle share steps that only large angles take.
TEST(Warnings, OfNansBehindStepsThatFewNumbersTake) {
  for (int num_warps : {1, 4}) {
    EXPECT_EQ(
        births_of("a = tl.arange(0, 256) / -80.0\n    tl.store(y + i, tl.cos(a))\n    tl.store(y + 256 + i, tl.sin(a))",
                  false, {.num_warps = num_warps}),
        "");
    EXPECT_EQ(births_of("a = v * 1e38 * 10\n    tl.store(y + i, tl.cos(a))\n    tl.store(y + 256 + i, tl.sin(a))",
                        false, {.num_warps = num_warps}),
              "9 NaN; 10 NaN; ");
  }
}

// What is looked at is computed as it is without.
TEST(Warnings, OfNansLeaveNumbersAsTheyAre) {
  const auto numbers = [](bool nans) {
    auto device = make_emulator({.check_nans = nans});
    Array<float> x(*device, iota(256)), y(*device, 256);
    Program::parse(
        "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, y):\n"
        "    i = tl.arange(0, 256)\n    v = tl.load(x + i) / 3\n    tl.store(y + i, v * v - 0.1)\n",
        "k.py")
        .kernel("kernel")
        .launch(*device, {1}, {.num_warps = 1}, reinterpret_cast<float*>(x.address()),
                reinterpret_cast<float*>(y.address()));
    return y.values();
  };
  EXPECT_EQ(numbers(true), numbers(false));
}

TEST(Warnings, OfInfinitiesWhereTheyAreBorn) {
  for (const char* value :
       {"v / (v + 2)", "tl.exp(-v * 1000)", "tl.log(v + 2)", "v * -1e38 * 10", "v.to(tl.float16) * 60000",
        "(v * 40000).to(tl.float16)", "tl.rsqrt(v + 2)", "libdevice.exp10(-v * 30)"}) {
    SCOPED_TRACE(value);
    EXPECT_EQ(births_of(fmt::format("tl.store(y + i, ({}).to(tl.float32))", value), true), "8 infinity; ");
    EXPECT_EQ(births_of(fmt::format("tl.store(y + i, ({}).to(tl.float32))", value)), "");
  }
  EXPECT_EQ(births_of("w = tl.where(i < 100, v, float('-inf'))\n    e = tl.exp(w - tl.max(w, 0))\n"
                      "    tl.store(y + i, e / tl.sum(e, 0))",
                      true),
            "");
}

TEST(Warnings, OfNansWhereTheyAreBorn) {
  const ChecksOff checks_off;
  const char* const kBody = "v = tl.load(y + i)\n    w = tl.sqrt(v - n)\n    tl.store(y + i, w + 1)";
  EXPECT_EQ(warnings_of(kBody, 1), "");
  EXPECT_EQ(warnings_of(kBody, 0, true), "");
  EXPECT_EQ(warnings_of(kBody, 1, true),
            "k.py:7:9: kernel 'kernel', program (0, 0, 0), thread 0: the result is a NaN, of operands that are "
            "none\n");
}

}  // namespace
}  // namespace tegula
