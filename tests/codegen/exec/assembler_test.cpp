// What the tests' assembler keeps (tests/assembler.h).
#include "tests/assembler.h"

#include <gtest/gtest.h>

#include <string>

namespace tegula {
namespace {

const std::string kReturns = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n";

TEST(Assembler, SaysTheSameOfTheSameText) {
  SKIP_WITHOUT_PTXAS();
  const PtxasRun direct = run_ptxas(*installed_ptxas(), kReturns, "sm_90a");
  for (int i = 0; i < 2; ++i) {
    const PtxasRun run = assemble(kReturns, "sm_90a");
    EXPECT_EQ(run.status, 0);
    EXPECT_EQ(run.registers, direct.registers);
    EXPECT_EQ(run.spill_bytes, direct.spill_bytes);
    EXPECT_FALSE(spills(run));
    EXPECT_NE(run.cubin, "");
  }
}

TEST(Assembler, RefusesEachTime) {
  SKIP_WITHOUT_PTXAS();
  for (int i = 0; i < 2; ++i) EXPECT_NE(assemble(kReturns + "what is this\n", "sm_90a").status, 0);
}

}  // namespace
}  // namespace tegula
