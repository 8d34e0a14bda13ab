// Cells of what is known of accesses: as large as all accesses to a page are.
#include "codegen/exec/emulator/races/cells.h"

#include <gtest/gtest.h>

namespace tegula::emulator {
namespace {

Slot slot_of(uint32_t program) {
  Slot slot;
  slot.program = program;
  slot.bytes = 15;
  return slot;
}

TEST(Cells, AreAsLargeAsAccesses) {
  Cells cells = Cells::of(4096);
  cells.fit(4096 + 32, 16);
  cells.fit(4096 + 64, 512);
  EXPECT_EQ(cells.bytes, 16u);
  EXPECT_EQ(cells.count, 256u);
  cells.fit(4096 + 8, 8);
  EXPECT_EQ(cells.bytes, 8u);
  EXPECT_EQ(cells.count, 512u);
  cells.fit(4096 + 6, 2);  // none is less than 4 bytes
  EXPECT_EQ(cells.bytes, 4u);
  EXPECT_EQ(cells.count, 1024u);
  cells.fit(4096 + 7, 1);
  cells.fit(4096, 16);  // nor do they grow
  EXPECT_EQ(cells.bytes, 4u);
}

TEST(Cells, KeepWhatIsKnownWhenTheyAreDivided) {
  Cells cells = Cells::of(64);
  cells.writes.at(0, 1, cells.count) = slot_of(7);
  cells.reads.at(1, 3, cells.count) = slot_of(9);
  cells.fit(20, 4);
  for (size_t cell = 0; cell < cells.count; ++cell) {
    EXPECT_EQ(cells.writes.find(0, cell)->program, cell / 4 == 1 ? 7u : 0u) << cell;
    EXPECT_EQ(cells.reads.find(1, cell)->program, cell / 4 == 3 ? 9u : 0u) << cell;
    EXPECT_EQ(cells.writes.find(1, cell), nullptr);
  }
}

}  // namespace
}  // namespace tegula::emulator
