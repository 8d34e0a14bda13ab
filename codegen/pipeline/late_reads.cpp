#include "codegen/pipeline/late_reads.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "codegen/ir/flow.h"
#include "codegen/pipeline/edit.h"

namespace tegula {

using namespace ir;

namespace {

using Position = std::list<std::unique_ptr<Op>>::iterator;

// Accesses to global memory and exchanges between threads leave places as they are. Products that run beside the
// program are timed by what stands around them.
bool is_passed(const Op& op) {
  const bool beside = op.opcode == Opcode::MmaStart || op.opcode == Opcode::MmaWait;
  return !beside && (op.regions.empty() || op.info().combines()) && !op.has(WritesShared) && !op.has(Synchronizes) &&
         !op.has(Terminator);
}

// The position to which the read moves; its own position if it stays.
Position place_of(Block& block, Position read) {
  bool exchanges = false;
  for (auto op = std::next(read); op != block.ops.end(); ++op) {
    if (uses(**op, (*read)->result()) || !is_passed(**op)) return exchanges ? op : read;
    exchanges |= (*op)->opcode == Opcode::ConvertLayout || (*op)->opcode == Opcode::Dot || (*op)->info().combines();
  }
  return read;
}

void read_late(Block& block) {
  std::vector<Position> reads;
  for (auto op = block.ops.begin(); op != block.ops.end(); ++op) {
    if (!(*op)->info().isolates())
      for (auto& region : (*op)->regions) read_late(*region);
    if ((*op)->opcode == Opcode::SharedRead) reads.push_back(op);
  }
  for (auto read = reads.rbegin(); read != reads.rend(); ++read)  // reads that follow have gone already
    if (const Position at = place_of(block, *read); at != *read) block.ops.splice(at, block.ops, *read);
}

}  // namespace

void read_late(Func& func) { read_late(func.body); }

}  // namespace tegula
