// label: device
// What the emulator warns of: arithmetic of integers whose result means nothing, and the first NaNs.
#include "codegen/exec/emulator.h"
#include "dsl/program.h"
#include "runtime/base/messages.h"
#include "tests/codegen/exec/emulator_kernels.h"

namespace tegula {
namespace {

std::string warnings_of(const std::string& body, int n, bool nans = false) {
  auto device = make_emulator({.check_races = true, .check_nans = nans});
  Array<int32_t> x(*device, std::vector<int32_t>(256, 1));
  Array<float> y(*device, iota(256));
  std::string warnings;
  const MessageHandler before =
      set_message_handler([&](MessageKind, std::string_view text) { warnings += std::string(text) + "\n"; });
  Program::parse(
      "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, y, n):\n"
      "    i = tl.arange(0, 128)\n    " +
          body + "\n",
      "k.py")
      .kernel("kernel")
      .launch(*device, {1}, {.num_warps = 4}, reinterpret_cast<int32_t*>(x.address()),
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

TEST(Warnings, OfNansWhereTheyAreBorn) {
  const char* const kBody = "v = tl.load(y + i)\n    w = tl.sqrt(v - n)\n    tl.store(y + i, w + 1)";
  EXPECT_EQ(warnings_of(kBody, 1), "");
  EXPECT_EQ(warnings_of(kBody, 0, true), "");
  EXPECT_EQ(warnings_of(kBody, 1, true),
            "k.py:7:9: kernel 'kernel', program (0, 0, 0), thread 0: the result is a NaN, of operands that are "
            "none\n");
}

}  // namespace
}  // namespace tegula
