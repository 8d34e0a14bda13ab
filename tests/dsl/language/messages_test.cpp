// What kernels print while they are compiled, and warnings: who is told, and how often; f-strings.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "dsl/tegula.h"

namespace tegula {
namespace {

using Told = std::vector<std::pair<MessageKind, std::string>>;

class Messages : public testing::Test {
 protected:
  Messages() {
    set_message_handler([this](MessageKind kind, std::string_view text) { told_.emplace_back(kind, text); });
  }
  ~Messages() override { set_message_handler(nullptr); }

  Told told_;
};

Kernel kernel_of(const std::string& body, const std::string& params = "x, B: tl.constexpr") {
  return Program::parse("import triton.language as tl\n@triton.jit\ndef k(" + params + "):\n" + body, "k.py")
      .kernel("k");
}

/// The first mistake of a kernel of one pointer and B = 4, with its hint.
std::string error_of(const std::string& body) {
  try {
    kernel_of(body).tile_ir(std::vector<ArgType>{{Elem::F32, true, 16}}, {.constexprs = {{"B", 4}}});
  } catch (const CompileError& error) {
    const Diag& d = error.diags().front();
    return d.message + (d.hint.empty() ? "" : " (" + d.hint + ")");
  }
  return "no error";
}

TEST_F(Messages, OnceAKernel) {
  const Kernel kernel = kernel_of(
      "    tl.static_print('B is', B, sep=' = ')\n    y = tl.program_id(0) % (B - B)\n    tl.store(x, 1.0)\n");
  const std::vector<ArgType> types{{Elem::F32, true, 16}};
  for (int b : {1, 1, 2}) kernel.tile_ir(types, {.constexprs = {{"B", b}}});
  const std::string warning =
      "k.py:5:29: the divisor is 0: what this gives is undefined\n        y = tl.program_id(0) % (B - B)\n"
      "                                ^~~~~\n  hint: it follows from compile-time values of this launch\n"
      "  see docs/language.md#statements";
  EXPECT_EQ(
      told_,
      (Told{{MessageKind::Print, "B is = 1"}, {MessageKind::Warning, warning}, {MessageKind::Print, "B is = 2"}}));
}

TEST_F(Messages, WarningsThatAreOff) {
  setenv("TEGULA_WARNINGS", "off", 1);
  tell(MessageKind::Warning, "a warning");
  tell(MessageKind::Print, "a print");
  unsetenv("TEGULA_WARNINGS");
  tell(MessageKind::Warning, "another");
  EXPECT_EQ(told_, (Told{{MessageKind::Print, "a print"}, {MessageKind::Warning, "another"}}));
}

TEST_F(Messages, StandardErrorWithoutAHandler) {
  set_message_handler(nullptr);
  testing::internal::CaptureStderr();
  tell(MessageKind::Warning, "a warning\n  of two lines");
  tell(MessageKind::Print, "a print");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tegula: warning: a warning\n  of two lines\na print\n");
}

// What prints and asserts at run time take.
TEST_F(Messages, PrintsAndAssertsOfValues) {
  EXPECT_EQ(error_of("    print(x)\n"),
            "device_print begins with a string, found pointer to float32 (print('x', x) prints x)");
  EXPECT_EQ(error_of("    tl.device_print('é', x)\n"), "device_print prints ASCII text, found 'é'");
  EXPECT_EQ(error_of("    tl.device_print('a', 1, hex=2)\n"),
            "the hex of device_print is True or False, found the int 2");
  EXPECT_EQ(error_of("    tl.device_print('a', 'b')\n"),
            "an argument of device_print must be a number or a tile, found 'b'");
  EXPECT_EQ(error_of("    tl.device_assert(B > 1, 3)\n"), "no error");
  EXPECT_EQ(error_of("    tl.device_assert(B > 1, tl.arange(0, B))\n"),
            "the msg of device_assert is a string, found tile of [4] int32");
}

// Errors have the warnings beside them in their text; prints come as they are made.
TEST_F(Messages, OfKernelsThatDoNotCompile) {
  EXPECT_EQ(error_of("    tl.static_print(1)\n    tl.static_assert(B == 5)\n    y = tl.program_id(0) % 0\n    "
                     "tl.static_print(2)\n"),
            "static_assert failed");
  EXPECT_EQ(told_, (Told{{MessageKind::Print, "1\n2"}}));
}

TEST_F(Messages, PrintsAreStrOfConstantsAndTypesOfTheRest) {
  kernel_of(
      "    v = tl.load(x + tl.arange(0, B)[:, None] + tl.arange(0, 2)[None, :])\n"
      "    tl.static_print(v, tl.sum(tl.sum(v, 0), 0), v.dtype, x, v.shape, (1,), 'a', None, True, 2, 2.0, 1e-05)\n")
      .tile_ir(std::vector<ArgType>{{Elem::F32, true, 16}}, {.constexprs = {{"B", 4}}});
  EXPECT_EQ(told_,
            (Told{{MessageKind::Print, "fp32[4, 2] fp32[] fp32 pointer<fp32>[] (4, 2) (1,) a None True 2 2.0 1e-05"}}));
}

// A divisor that is 0 in the text is an error; one that compile-time values make 0 is not, as Triton compiles it.
TEST_F(Messages, OfDivisorsThatAreZero) {
  EXPECT_EQ(error_of("    n = tl.program_id(0)\n    tl.store(x, n % 0)\n"), "division by zero");
  EXPECT_EQ(error_of("    tl.store(x, 3 // (B - 4))\n"), "division by zero");
  EXPECT_EQ(told_, Told());
  const char* body =
      "    n = tl.program_id(0) + 7\n    m = n // (B // 8)\n    n %= B - B\n    tl.store(x, m * 0 + n * 0)\n";
  auto device = default_device();
  Buffer x(*device, std::vector<float>{1});
  kernel_of(body).launch(*device, {1}, {.constexprs = {{"B", 4}}}, x.as<float>());
  EXPECT_EQ(x.download<float>()[0], 0);
  const std::string hint =
      "\n  hint: it follows from compile-time values of this launch\n  see docs/language.md#statements";
  EXPECT_EQ(told_, (Told{{MessageKind::Warning,
                          "k.py:5:15: the divisor is 0: what this gives is undefined\n        m = n // (B // 8)\n"
                          "                  ^~~~~~" +
                              hint},
                         {MessageKind::Warning,
                          "k.py:6:10: the divisor is 0: what this gives is undefined\n        n %= B - B\n"
                          "             ^~~~~" +
                              hint}}));
}

TEST_F(Messages, OfStepsThatAreZero) {
  EXPECT_EQ(error_of("    for i in range(0, 8, 0):\n        tl.store(x + i, 1.0)\n"), "the step of range is 0");
  EXPECT_EQ(error_of("    for i in tl.range(0, 8, step=0):\n        tl.store(x + i, 1.0)\n"),
            "the step of tl.range is 0");
  EXPECT_EQ(error_of("    for i in tl.static_range(0, 8, B - 4):\n        tl.store(x + i, 1.0)\n"),
            "the step of tl.static_range is 0");
  EXPECT_EQ(told_, Told());
  const char* body =
      "    n = tl.program_id(0) + 7\n    for i in range(0, n, B // 8):\n        tl.store(x, 3.0)\n"
      "    for i in tl.range(0, 8, step=B // 8):\n        tl.store(x, tl.cdiv(n, B // 8) * 1.0)\n";
  auto device = default_device();
  Buffer x(*device, std::vector<float>{1});
  kernel_of(body).launch(*device, {1}, {.constexprs = {{"B", 4}}}, x.as<float>());
  EXPECT_EQ(x.download<float>()[0], 1);
  const std::string hint = "\n  hint: it follows from compile-time values of this launch",
                    statements = "\n  see docs/language.md#statements";
  EXPECT_EQ(told_, (Told{{MessageKind::Warning,
                          "k.py:5:26: the step of range is 0: what this loop does is undefined\n"
                          "        for i in range(0, n, B // 8):\n                             ^~~~~~" +
                              hint + "; the loop is left out" + statements},
                         {MessageKind::Warning,
                          "k.py:7:29: the step of tl.range is 0: what this loop does is undefined\n"
                          "        for i in tl.range(0, 8, step=B // 8):\n                                ^~~~" +
                              hint + "; the loop is left out" + statements},
                         {MessageKind::Warning,
                          "k.py:8:21: the divisor is 0: what this gives is undefined\n"
                          "            tl.store(x, tl.cdiv(n, B // 8) * 1.0)\n"
                          "                        ^~~~~~~~~~~~~~~~~~" +
                              hint + "\n  see docs/language.md#functions"}}));
}

// A flag counts as a number of stages, as in Python.
TEST_F(Messages, StagesByAFlag) {
  EXPECT_EQ(error_of("    for i in tl.range(0, 8, num_stages=B == 4):\n        tl.store(x + i, 1.0)\n"), "no error");
  EXPECT_EQ(error_of("    for i in tl.range(0, 8, num_stages='a'):\n        tl.store(x + i, 1.0)\n"),
            "num_stages takes a compile-time integer, found 'a'");
  EXPECT_EQ(error_of("    for i in tl.range(0, 8, warp_specialize=B == 4):\n        tl.store(x + i, 1.0)\n"),
            "no error");
  told_.clear();
  EXPECT_EQ(error_of("    for i in tl.range(0, 8, warp_specialize=2):\n        tl.store(x + i, 1.0)\n"), "no error");
  EXPECT_EQ(told_,
            (Told{{MessageKind::Warning,
                   "k.py:4:29: warp_specialize takes a bool, found the int 2, which counts as True as in Triton\n"
                   "        for i in tl.range(0, 8, warp_specialize=2):\n"
                   "                                ^~~~~~~~~~~~~~~\n"
                   "  hint: how many warps copy is not chosen here\n"
                   "  see docs/language.md#statements"}}));
  EXPECT_EQ(error_of("    for i in tl.range(0, 8, warp_specialize=tl.program_id(0)):\n        tl.store(x + i, 1.0)\n"),
            "warp_specialize takes a compile-time bool, found int32");
  for (const char* factor : {"4", "None", "1", "0", "-1", "1000", "B == 4"})
    EXPECT_EQ(error_of(fmt::format(
                  "    for i in tl.range(0, 8, loop_unroll_factor={}):\n        tl.store(x + i, 1.0)\n", factor)),
              "no error");
  EXPECT_EQ(error_of("    for i in tl.range(0, 8, loop_unroll_factor=1.5):\n        tl.store(x + i, 1.0)\n"),
            "loop_unroll_factor takes a compile-time integer, found the float 1.5");
}

TEST_F(Messages, KernelsInCpp) {
  const auto k = kernel("k", [](Ptr<"x"> x, Const<"B"> B) {
    Tile sum = 0.0f;
    for (Tile i : range(0, 4)) sum += i.to(tl::float32);
    static_print("B is", B, sum);
    store(x, sum);
  });
  k.kernel().tile_ir(std::vector<ArgType>{{Elem::F32, true, 16}}, {.constexprs = {{"B", 4}}});
  EXPECT_EQ(told_, (Told{{MessageKind::Print, "B is 4 fp32[]"}}));
}

TEST(FString, OfCompileTimeValues) {
  auto text = [](const std::string& literal) {
    const std::string found = error_of("    tl.static_assert(False, " + literal + ")\n");
    return found.substr(found.find(": ") + 2);
  };
  EXPECT_EQ(text("f'{B} and { B * 2 }'"), "4 and 8");
  EXPECT_EQ(text("f'{B=} {B + 1 = }'"), "B=4 B + 1 = 5");
  EXPECT_EQ(text("f'{{{B}}} }}'"), "{4} }");
  EXPECT_EQ(text("f'{B:>4}|{B:#06x}|{2.5:.3f}|{0.25:.0%}|{B!r}|{\"a\"!r:>5}'"), "   4|0x0004|2.500|25%|4|  'a'");
  EXPECT_EQ(text("'{B}' f\"{x.dtype}\\t|\" rf'{B}\\t'"), "{B}pointer<fp32>\t|4\\t");
  EXPECT_EQ(text("f\"\"\"{(B, 1.0, 'a')}\"\"\""), "(4, 1.0, 'a')");
  EXPECT_EQ(error_of("    tl.static_assert(B == 5, f'B is {B}')\n").substr(0, 29), "static_assert failed: B is 4");
  EXPECT_EQ(error_of("    if B == 4:\n        raise ValueError(f'B is {B}')\n").substr(0, 33),
            "this 'raise' is reached: B is 4 (");
}

TEST(FString, WhatItDoesNotTake) {
  EXPECT_EQ(
      error_of("    s = f'{tl.load(x)}'\n"),
      "an f-string takes compile-time values, found float32 (print('x', x) prints its elements when the kernel runs, "
      "tl.static_print(x) its type)");
  for (const char* literal : {"f'{B +}'", "f'{}'", "f'{B'", "f'{B:{B}}'"})
    EXPECT_EQ(error_of(std::string("    s = ") + literal + "\n"), "an f-string takes expressions between its braces")
        << literal;
  EXPECT_EQ(error_of("    s = f'{wrong}'\n"), "unknown name 'wrong'");
  // Only where it is evaluated.
  EXPECT_NO_THROW(Program::parse("NAME = f'{1:>4}'\ndef host(n):\n    print(f'{n:>4}')\n"));
}

}  // namespace
}  // namespace tegula
