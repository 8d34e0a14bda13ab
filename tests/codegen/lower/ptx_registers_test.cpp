// The check of PTX itself (tests/ptx_registers.h), and PTX in which instructions have been moved behind their uses.
#include "tests/ptx_registers.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "dsl/tegula.h"

namespace tegula {
namespace {

std::string of_body(const std::string& body) {
  return ptx::read_too_early(
      "//\n.version 8.7\n.target sm_90a\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n.maxntid 32, 1, 1\n{\n"
      "\t.reg .pred \t%p<4>;\n\t.reg .b32 \t%r<8>;\n\t.reg .b64 \t%rd<4>;\n" +
      body + "\tret;\n}\n");
}

std::string early(int line, const std::string& name, const std::string& statement) {
  return fmt::format("k, line {}: {} may be read before it is set: {}\n", line, name, statement);
}

TEST(PtxRegisters, StraightCode) {
  EXPECT_EQ(of_body("\tmov.u32 %r1, %tid.x;\n\tadd.s32 %r2, %r1, 1;\n\tst.global.b32 [%rd0+4], %r2;\n"),
            early(14, "%rd0", "st.global.b32 [%rd0+4], %r2;"));
  EXPECT_EQ(of_body("\tadd.s32 %r2, %r1, 1;\n\tmov.u32 %r1, 3;\n"), early(12, "%r1", "add.s32 %r2, %r1, 1;"));
  EXPECT_EQ(of_body("\tld.param.b64 %rd1, [k_param_0];\n\tld.global.v2.b32 {%r1, %r2}, [%rd1];\n"
                    "\tsetp.lt.s32 %p1|%p2, %r1, %r2;\n\tselp.b32 %r3, %r1, %r2, %p2;\n\tmov.b64 {%r4, %r5}, %rd1;\n"
                    "\tmov.b64 %rd2, {%r5, %r4};\n\tred.global.add.u32 [%rd2], %r3;\n"),
            "");
  const std::string product = "wgmma.mma_async.sync {%r1, %r2}, 0, 0, %p1, 1, 1;";
  EXPECT_EQ(of_body("\tmov.pred %p1, -1;\n\tmov.b32 %r1, 0;\n\t" + product + "\n"), early(14, "%r2", product));
  EXPECT_EQ(of_body("\tmov.pred %p1, 0;\n\t" + product + "\n"), "");
}

TEST(PtxRegisters, Branches) {
  const std::string one = "\tmov.b32 %r1, 0;\n\tsetp.eq.s32 %p1, %r1, 0;\n\t@%p1 bra $L__BB0_2;\n\tmov.b32 %r2, 1;\n";
  EXPECT_EQ(of_body(one + "$L__BB0_2:\n\tadd.s32 %r3, %r2, 1;\n"), early(17, "%r2", "add.s32 %r3, %r2, 1;"));
  EXPECT_EQ(of_body(one + "\tbra.uni $L__BB0_3;\n$L__BB0_2:\n\tmov.b32 %r2, 2;\n$L__BB0_3:\n\tadd.s32 %r3, %r2, 1;\n"),
            "");
  EXPECT_EQ(of_body(one + "\tbra.uni $L__BB0_3;\n$L__BB0_2:\n\ttrap;\n$L__BB0_3:\n\tadd.s32 %r3, %r2, 1;\n"), "");
  // In a loop's first iteration, and behind it.
  EXPECT_EQ(of_body("\tmov.b32 %r1, 0;\n$L1:\n\tadd.s32 %r1, %r1, %r2;\n\tmov.b32 %r2, 1;\n\tsetp.lt.s32 %p1, %r1, 9;\n"
                    "\t@%p1 bra $L1;\n\tadd.s32 %r3, %r2, 0;\n"),
            early(14, "%r2", "add.s32 %r1, %r1, %r2;"));
}

TEST(PtxRegisters, Predicates) {
  const std::string load = "\tsetp.eq.s32 %p1, 0, 0;\n\t@%p1 ld.global.b32 %r1, [0];\n";
  EXPECT_EQ(of_body(load + "\t@%p1 add.s32 %r2, %r1, 1;\n\tselp.b32 %r3, %r1, 3, %p1;\n"), "");
  EXPECT_EQ(of_body(load + "\tselp.b32 %r3, 3, %r1, %p1;\n"), early(14, "%r1", "selp.b32 %r3, 3, %r1, %p1;"));
  EXPECT_EQ(of_body(load + "\t@!%p1 mov.b32 %r1, 0;\n\tadd.s32 %r2, %r1, 1;\n"), "");
  EXPECT_EQ(of_body(load + "\tadd.s32 %r2, %r1, 1;\n"), early(14, "%r1", "add.s32 %r2, %r1, 1;"));
  EXPECT_EQ(of_body(load + "\tsetp.ne.s32 %p1, 0, 0;\n\t@%p1 add.s32 %r2, %r1, 1;\n"),
            early(15, "%r1", "@%p1 add.s32 %r2, %r1, 1;"));
}

// Inline assembly, and functions that are written out, have registers and labels of their own.
TEST(PtxRegisters, Blocks) {
  const std::string block =
      "\t{ .reg .b32 t<2>; .reg .pred p;\n\tsetp.eq.s32 p, 0, 0;\n\t@p bra L;\n\tmov.b32 t1, 1;\n\tL: }\n";
  EXPECT_EQ(of_body(block + block), "");
  EXPECT_EQ(of_body("\t{ .reg .b32 t; mov.b32 t, 1; }\n\t{ .reg .b32 t; add.s32 %r1, t, 1; }\n"),
            early(13, "t", "add.s32 %r1, t, 1;"));
  // Parts of a word that have no use.
  EXPECT_EQ(of_body("\tmov.b32 %r1, 1;\n\tprmt.b32 %r2, %r1, %r3, 0x3340U;\n"), "");
  EXPECT_EQ(of_body("\tmov.b32 %r1, 1;\n\tprmt.b32 %r2, %r1, %r3, 0x3340U;\n\tmov.b32 %r3, 1;\n"),
            early(13, "%r3", "prmt.b32 %r2, %r1, %r3, 0x3340U;"));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    lines.push_back(text.substr(at, text.find('\n', at) - at));
  return lines;
}

// The lines with one instruction moved behind the first one of its block that reads what it alone sets, and the name of
// that register; empty if there is none such.
std::string moved_behind_its_use(std::vector<std::string>& lines, size_t at) {
  static const std::regex kSets("\t[a-z0-9.]+ *\t?(%[a-z]+[0-9]+), .*;");
  std::smatch found;
  if (lines[at].starts_with("\tst.") || !std::regex_match(lines[at], found, kSets)) return "";
  const std::string name = found[1].str();
  const std::regex word("(^|[^0-9a-z])" + name + "\\b");
  const auto sets = [&](const std::string& line) {
    std::smatch parts;
    return std::regex_match(line, parts, kSets) && parts[1].str() == name;
  };
  if (std::count_if(lines.begin(), lines.end(), sets) != 1) return "";
  for (size_t use = at + 1; use < lines.size() && !lines[use].starts_with("$L__BB"); ++use) {
    if (!std::regex_search(lines[use], word)) continue;
    const auto begin = lines.begin();
    std::rotate(begin + ptrdiff_t(at), begin + ptrdiff_t(at) + 1, begin + ptrdiff_t(use) + 1);
    return name;
  }
  return "";
}

// Instructions of a kernel that are moved behind the first one that reads what they set are found.
TEST(PtxRegisters, MovedInstructionsAreFound) {
  const Kernel kernel = Program::parse(R"(
import triton
import triton.language as tl

@triton.jit
def kernel(out_ptr, x_ptr, n, d, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, ), tl.int64)
    for first in range(0, n, BLOCK):
        x = tl.load(x_ptr + first + i, mask=first + i < n, other=1)
        if first % 3 == 1:
            x = x * d
        total += (x + first) // d * 3 + x % d
    tl.store(out_ptr + i, total)
)",
                                       "kernel.py")
                            .kernel("kernel");
  const ArgType numbers{.elem = Elem::I64, .pointer = true, .divisible_by = 16};
  const std::string ptx = kernel
                              .compile(std::vector<ArgType>{numbers, numbers, {.elem = Elem::I32}, {.elem = Elem::I64}},
                                       {.constexprs = {{"BLOCK", int64_t{256}}}, .num_warps = 2}, "sm_90a")
                              .ptx;
  EXPECT_EQ(ptx::read_too_early(ptx), "") << ptx;
  const std::vector<std::string> lines = lines_of(ptx.substr(0, ptx.find("\n}\n") + 3));  // one function of two
  int moved = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::vector<std::string> changed = lines;
    const std::string name = moved_behind_its_use(changed, i);
    if (name.empty()) continue;
    ++moved;
    const std::string found = ptx::read_too_early(fmt::format("{}", fmt::join(changed, "\n")));
    EXPECT_NE(found.find(name + " may be read"), std::string::npos) << lines[i];
  }
  EXPECT_GT(moved, 50);
}

}  // namespace
}  // namespace tegula
