// Products in loops that compute with each iteration's sums: promoted ones, and such with scales of blocks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

#include "dsl/tegula.h"
#include "tests/assembler.h"

namespace tegula {
namespace {

ArgType array(Elem elem) { return {.elem = elem, .pointer = true, .divisible_by = 16}; }
ArgType number() { return {.elem = Elem::I32, .divisible_by = 16}; }

Kernel kernel_of(const char* name) {
  static Program program = Program::load(TEGULA_SOURCE_DIR "/tests/kernels/dot_types.py");
  return program.kernel(name);
}

KernelImage scaled_blocks(int block_m, int num_warps) {
  const std::vector<ArgType> types{array(Elem::F8E4M3),
                                   array(Elem::F8E4M3),
                                   array(Elem::F32),
                                   array(Elem::F32),
                                   array(Elem::F32),
                                   number(),
                                   number(),
                                   number()};
  const LaunchOptions options{.constexprs = {{"BLOCK_M", block_m}, {"BLOCK_N", 128}, {"BLOCK_K", 128}, {"GROUP", 128}},
                              .num_warps = num_warps,
                              .num_stages = 3};
  return kernel_of("scaled_blocks").compile(types, options, "sm_90a");
}

// From the first product to the branch back.
std::string_view loop_of_products(std::string_view ptx) {
  const size_t first = ptx.find("wgmma.fence");
  const size_t begin = ptx.rfind("\n$L__BB", first), label = begin + 1;
  const std::string name(ptx.substr(label, ptx.find(':', label) - label));
  return ptx.substr(begin, ptx.find("bra \t" + name, begin) - begin);
}

// What the next iterations are scaled by is loaded while the first wave is under way.
TEST(OwnSums, LoadsOfScalesAreBesideTheFirstWave) {
  const KernelImage image = scaled_blocks(128, 4);
  const std::string_view loop = loop_of_products(image.ptx);
  const size_t started = loop.find("wgmma.commit_group"), load = loop.find("ld.global"),
               over = loop.find("wgmma.wait_group");
  EXPECT_LT(started, load);
  EXPECT_LT(load, over);
  EXPECT_NE(loop.find("wgmma.wait_group", over + 1), loop.npos) << "a second wave";
}

// A slot's descriptors are a multiplication and an addition away from its number.
TEST(OwnSums, DescriptorsOfSlotsAreSums) {
  const KernelImage image = scaled_blocks(128, 4);
  EXPECT_EQ(loop_of_products(image.ptx).find(", 16383;"), std::string_view::npos);
}

// Two waves of 64 rows leave registers for warps that copy.
TEST(OwnSums, PromotedSumsLeaveRegistersForWarpsThatCopy) {
  const std::vector<ArgType> types{array(Elem::F8E4M3), array(Elem::F8E4M3), array(Elem::F32), number()};
  const LaunchOptions options{.constexprs = {{"M", 256}, {"N", 128}, {"BLOCK_K", 128}, {"ADD", false}, {"LIMIT", 128}},
                              .num_warps = 8,
                              .num_stages = 4};
  const KernelImage image = kernel_of("float8_sums").compile(types, options, "sm_90a");
  EXPECT_NE(image.ptx.find("setmaxnreg"), std::string::npos);
}

// Registers that are set between the fence and the products would have the assembler put in a fence of its own.
TEST(OwnSums, BeginAheadOfTheFence) {
  SKIP_WITHOUT_PTXAS();
  const std::vector<ArgType> types{array(Elem::F16), array(Elem::F16), array(Elem::F32), array(Elem::F32), number()};
  for (const char* form : {"constant", "number", "row", "same"}) {
    SCOPED_TRACE(form);
    const LaunchOptions options{.constexprs = {{"FORM", form}}, .num_stages = 3};
    const PtxasRun run = assemble(kernel_of("begun_sums").compile(types, options, "sm_90a").ptx, "sm_90a");
    EXPECT_EQ(run.status, 0) << run.log;
    EXPECT_EQ(run.log.find("C75"), run.log.npos) << run.log;
  }
}

// Two sums of 16 bits in a register are taken apart once the product is over.
TEST(OwnSums, SumsOfFloat16AreNotWaitedForAtOnce) {
  SKIP_WITHOUT_PTXAS();
  for (const Elem elem : {Elem::F16, Elem::F8E4M3}) {
    const std::vector<ArgType> types{array(elem), array(elem), array(Elem::F16), number()};
    for (const auto& [m, n, num_warps] : {std::array{64, 8, 4}, {128, 64, 8}, {128, 128, 4}, {64, 256, 4}}) {
      SCOPED_TRACE(fmt::format("{} x {}", m, n));
      const LaunchOptions options{.constexprs = {{"M", m}, {"N", n}, {"BLOCK_K", 64}, {"OUT", Elem::F16}},
                                  .num_warps = num_warps,
                                  .num_stages = 3};
      const PtxasRun run = assemble(kernel_of("added_products").compile(types, options, "sm_90a").ptx, "sm_90a");
      EXPECT_EQ(run.status, 0) << run.log;
      EXPECT_EQ(run.log.find("C75"), run.log.npos) << run.log;
    }
  }
}

}  // namespace
}  // namespace tegula
