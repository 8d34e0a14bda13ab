// Launches that overlap: when a kernel waits for those ahead of it in the stream, and when it lets the next one start.
#include <algorithm>

#include "codegen/ir/flow.h"
#include "codegen/ir/options.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

// To let the next kernel start takes a GPU some nanoseconds a program, one after the other (measured on an H200):
// as long as it takes to move this many bytes out of its caches. With more programs than these, that is more than the
// overlap gains. Code that has the instruction takes this time even where it skips the instruction.
constexpr int64_t kBytesWorthIt = 16 << 10;
constexpr int64_t kFewPrograms = 1024;
// The limit for programs whose loops may have many iterations: some move little all the same (rows of a sparse matrix),
// and more programs than this take much longer than what the overlap gains.
constexpr int64_t kFewWithLoops = 8192;

struct Moved {
  int64_t bytes;  ///< a program reads at once and writes, loops gone through once
  bool in_loops;  ///< some of them
};

// Only the largest tile that a program reads counts: others are often values of rows or channels, the same for many
// elements, which caches hold.
Moved bytes_moved(const ir::Block& block) {
  int64_t largest_read = 0, written = 0;
  bool in_loops = false;
  auto bytes_of = [](const ir::Type& tile) { return tile.num_elements() * elem_bytes(tile.elem); };
  for (const auto& op : block.ops) {
    if (op->opcode == ir::Opcode::Load || op->opcode == ir::Opcode::AsyncCopy)
      largest_read = std::max(largest_read, bytes_of(op->operand(0)->type));
    else if (op->opcode == ir::Opcode::BulkCopy)
      largest_read = std::max(largest_read, bytes_of(op->operand(1)->type));
    else if (op->opcode == ir::Opcode::Store || op->opcode == ir::Opcode::AtomicRmw ||
             op->opcode == ir::Opcode::BulkStore)
      written += bytes_of(op->operand(0)->type);
    const bool loops = op->info().loops();
    if (op->info().isolates()) continue;
    for (const auto& region : op->regions) {
      const Moved inside = bytes_moved(*region);
      written += inside.bytes;
      in_loops |= inside.in_loops || (loops && inside.bytes);
    }
  }
  return {largest_read + written, in_loops};
}

// The other operand of a product with at most so many rows or columns is read by one program alone, as a rule. Not so
// where warps of their own copy: such programs have a multiprocessor each, and those that start early, on the few that
// are free, lie side by side and share its way to memory; products of 17 to 29 rows take 8 to 11 % longer then
// (measured on an H200).
constexpr int64_t kReadByOne = 32;
// Programs whose loop has at most so many iterations take not much longer than a launch does.
constexpr int64_t kShortLoop = 16;

bool shares_operands(const ir::Op& op, int64_t read_by_one) {
  if (!ir::is_product(op)) return false;
  const ir::Ints& shape = op.result()->type.shape;
  return std::min(shape[shape.size() - 2], shape.back()) > read_by_one;
}

bool multiplies_itself(const ir::Op& op, int64_t read_by_one) {
  const auto& ops = op.regions[0]->ops;
  return std::any_of(ops.begin(), ops.end(), [&](const auto& inner) { return shares_operands(*inner, read_by_one); });
}

// The loop, or if it takes programs in turns the one in it whose bounds are known ahead of it, with products that share
// operands; null: none.
const ir::Op* loop_of_products(const ir::Func& func, const ir::Op& loop, int64_t read_by_one) {
  if (multiplies_itself(loop, read_by_one)) return &loop;
  if (!ir::loops_over_programs(func)) return nullptr;
  for (const auto& op : loop.regions[0]->ops) {
    if (op->opcode != ir::Opcode::For || !multiplies_itself(*op, read_by_one)) continue;
    for (const ir::Value* bound : ir::ForLoop(*op).bounds())
      if ((bound->def ? bound->def->parent : bound->block) != loop.parent) return nullptr;
    return op.get();
  }
  return nullptr;
}

bool has_shared_reads(const ir::Block& loop, int64_t read_by_one) {
  bool found = false;
  ir::walk(loop, [&](const ir::Op& op) { found |= shares_operands(op, read_by_one); });
  return found;
}

bool has_loop_over_shared_reads(const ir::Op& op, int64_t read_by_one) {
  if (op.info().isolates()) return false;
  const bool loop = op.info().loops();
  return std::any_of(op.regions.begin(), op.regions.end(), [&](const auto& region) {
    if (loop) return has_shared_reads(*region, read_by_one);
    return std::any_of(region->ops.begin(), region->ops.end(),
                       [&](const auto& o) { return has_loop_over_shared_reads(*o, read_by_one); });
  });
}

int64_t read_by_one(const ir::Func& func) { return ir::copy_warps_of(func) ? 0 : kReadByOne; }

/// How many programs a launch may have for it to pay that they let the next kernel start; 0: any number.
int64_t most_that_let_start(const ir::Func& func) {
  const Moved moved = bytes_moved(func.body);
  bool multiplies = false;  // products take long, and their code is long
  ir::walk(func.body, [&](const ir::Op& op) { multiplies |= ir::is_product(op); });
  if (moved.bytes >= kBytesWorthIt || (moved.in_loops && multiplies)) return 0;
  return moved.in_loops ? kFewWithLoops : kFewPrograms;
}

/// Bits of the number of programs of a launch; 0: not known.
int64_t program_bits(const ir::Func& func) {
  const auto found = func.attrs.find(ir::option::program_bits.name);
  return found == func.attrs.end() ? 0 : std::get<int64_t>(found->second);
}

bool lets_next_start(const ir::Func& func) {
  const int64_t most = most_that_let_start(func), bits = program_bits(func);
  return !most || !bits || int64_t(1) << (bits - 1) < most;
}

}  // namespace

bool Lowering::dependent_launch() const { return func.dependent_launch() && target.has(Feature::DependentLaunch); }

int64_t Lowering::few_programs() const {
  return dependent_launch() && !program_bits(func) ? most_that_let_start(func) : 0;
}

// Blocks of the next kernel that start one by one, as multiprocessors get free, lie on the GPU in no order. Programs
// that read the same rows and columns at the same time lie apart then, and the L2 cache serves each of them where it
// would have served neighbours at once: products take up to a third longer (measured on an H200). So such a kernel lets
// the next one start when its programs end, all of which come first; or at once if its only loop turns out to be short.
std::vector<const ir::Op*> Lowering::loops_over_shared_reads() const {
  const int64_t by_one = read_by_one(func);
  std::vector<const ir::Op*> found;
  for (const auto& op : func.body.ops)
    if (has_loop_over_shared_reads(*op, by_one)) found.push_back(op.get());
  return found;
}

// The wait stands before the first op that may touch memory, so that what comes before overlaps the kernel ahead; every
// program waits, also one that touches none, or the next kernel could overtake the one ahead. The next kernel is let go
// after the wait, or later: what it does before its own wait then sees all that is older than this kernel.
void Lowering::wait_for_earlier() {
  if (!dependent_launch()) return;
  hw("wait_for_earlier", {});
  if (shared_reads_.empty() && lets_next_start(func)) hw("let_next_start", {});
}

// Where blocks take programs in turns, those do that have one program.
void Lowering::let_next_start_if_short(const ir::Op& op) {
  if (!dependent_launch() || shared_reads_ != std::vector{&op} || op.opcode != ir::Opcode::For) return;
  const ir::Op* multiplies = loop_of_products(func, op, read_by_one(func));
  if (!multiplies) return;
  const auto iterations_at_most = [&](const ir::ForLoop& loop, int64_t count) {
    llvm::Value* step = scalar(loop.step());
    llvm::Value* most = b.CreateMul(step, llvm::ConstantInt::get(step->getType(), uint64_t(count)));
    return b.CreateICmpSLE(b.CreateSub(scalar(loop.upper()), scalar(loop.lower())), most);
  };
  llvm::Value* shortly = iterations_at_most(ir::ForLoop(*multiplies), kShortLoop);
  if (multiplies != &op) shortly = b.CreateAnd(shortly, iterations_at_most(ir::ForLoop(op), 1));
  auto* is_short = llvm::BasicBlock::Create(context, "short", function_);
  auto* after = llvm::BasicBlock::Create(context, "after", function_);
  b.CreateCondBr(shortly, is_short, after);
  b.SetInsertPoint(is_short);
  hw("let_next_start", {});
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

// What is left behind the last loop over shared reads is stores, under which the next kernel gets ready: clusters
// alone, whose blocks share what they read among themselves. Others would start one by one, apart from those that read
// the same (up to 10 % longer), and so would clusters of few rows, on the part of the GPU that is free (measured on an
// H200). Programs that wait for each other behind the loop have their multiprocessors to themselves.
void Lowering::let_next_start_behind(const ir::Op& loop) {
  if (!dependent_launch() || func.num_ctas() == 1 || shared_reads_.empty() || shared_reads_.back() != &loop) return;
  if (!multiplies_itself(loop, kReadByOne)) return;
  bool behind = false;
  for (const auto& op : func.body.ops) {
    const bool waits =
        op->opcode == ir::Opcode::AtomicRmw || (!op->regions.empty() && op->opcode != ir::Opcode::CopyWarps);
    if (behind && waits) return;
    behind |= op.get() == &loop;
  }
  hw("let_next_start", {});
}

}  // namespace tegula::lower
