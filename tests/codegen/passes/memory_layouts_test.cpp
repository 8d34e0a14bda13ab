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

// Keys that are moved behind the beginnings of their digits lie side by side there: a warp stores neighbours, though
// its loads take four of them a thread otherwise.
TEST_F(Layouts, GatheredPlacesPutLanesSideBySide) {
  Value *keys = pointer(Elem::I32), *out = pointer(Elem::I32);
  Value* key = b.load(row_pointers(keys, 1024), nullptr, nullptr);
  Value* start = b.load(row_pointers(pointer(Elem::I32), 256), nullptr, nullptr);
  Value* gathered =
      b.create(Opcode::Gather, {start, key}, {Type::tile(Elem::I32, {1024})}, {{"axis", int64_t(0)}})->result();
  Value* place = b.add(gathered, b.arange(0, 1024));
  b.store(b.addptr(b.splat(out, {1024}), place), key, nullptr);
  assign();
  EXPECT_EQ(layout(key), "register=[[128],[256],[512]], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] -> dim0:1024");
  EXPECT_EQ(key->def->get(ir::attr::vector), 1);
}

}  // namespace
}  // namespace tegula
