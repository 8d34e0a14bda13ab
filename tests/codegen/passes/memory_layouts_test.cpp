// Layouts of loads and stores: what is asked of the places that they access.
#include <gtest/gtest.h>

#include "tests/codegen/passes/layouts_fixture.h"

namespace tegula {
namespace {

// Each of these values goes twice into the next: 2^100 ways lead from the places to the first.
TEST_F(Layouts, PlacesThatManyWaysLeadTo) {
  Value *v = b.arange(0, 1024), *p = pointer();
  for (int i = 0; i < 100; ++i) v = b.mul(v, v);
  b.load(b.addptr(b.splat(p, {1024}), v), nullptr, nullptr);
  assign();
  EXPECT_EQ(ops(Opcode::Load)[0]->get(ir::attr::vector), 1);
}

}  // namespace
}  // namespace tegula
