// Structured control flow to LLVM blocks; carried values become phis, one for each distinct register.
#include <algorithm>
#include <unordered_map>

#include "codegen/analysis/op_cost.h"
#include "codegen/ir/flow.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

// Phis for values that arrive from several predecessors.
class Merge {
 public:
  Merge(Lowering& l, std::vector<const ir::Value*> values) : l_(l), values_(std::move(values)) {}

  /// Makes the phis at the insertion point and binds them to the values.
  void create() {
    for (const ir::Value* v : values_)
      l_.set(v, l_.map_registers(v->type, [&](int) {
        phis_.push_back(l_.b.CreatePHI(l_.element_type(v->type), 2));
        return phis_.back();
      }));
  }
  /// Adds the values that arrive from the current block.
  void add_incoming(const std::vector<Regs>& incoming) {
    size_t next = 0;
    for (size_t i = 0; i < values_.size(); ++i)
      for (int r = 0; r < int(incoming[i].size()); ++r)
        if (Lowering::canonical_register(values_[i]->type, r) == r)
          phis_[next++]->addIncoming(incoming[i][r], l_.b.GetInsertBlock());
  }

 private:
  Lowering& l_;
  std::vector<const ir::Value*> values_;
  std::vector<llvm::PHINode*> phis_;
};

std::vector<Regs> registers_of(Lowering& l, const std::vector<ir::Value*>& values) {
  std::vector<Regs> out;
  for (const ir::Value* v : values) out.push_back(l.get(v));
  return out;
}

std::vector<const ir::Value*> pointers(const std::vector<std::unique_ptr<ir::Value>>& values) {
  std::vector<const ir::Value*> out;
  for (auto& v : values) out.push_back(v.get());
  return out;
}

/// Continues in a loop's header, where the carried values have their initial registers.
void enter_loop(Lowering& l, llvm::BasicBlock* header, Merge& carried, const std::vector<Regs>& initial) {
  llvm::BasicBlock* before = l.b.GetInsertBlock();
  l.b.CreateBr(header);
  l.b.SetInsertPoint(header);
  carried.create();
  Builder::InsertPointGuard guard(l.b);
  l.b.SetInsertPoint(before);
  carried.add_incoming(initial);
}

llvm::BasicBlock* new_block(Lowering& l, const char* name) {
  return llvm::BasicBlock::Create(l.context, name, l.b.GetInsertBlock()->getParent());
}

// Whether the loop contains another one whose dot's sums fill the registers: values that the outer loop does not change
// are then better recomputed in each of its iterations than kept.
bool has_inner_dots(const ir::Op& loop) {
  bool found = false;
  const ir::Block& body = ir::ForLoop(loop).body();
  ir::walk(body, [&](const ir::Op& op) { found |= ir::is_product(op) && op.parent != &body; });
  return found;
}

// Whether copies run ahead in the loop. Their addresses are a scalar pointer and distances that stay: an addition each.
// Loop strength reduction would carry some of the sums as well, in registers that ptxas moves in pairs ahead of each
// copy.
bool copies_ahead(const ir::Block& body) {
  return std::any_of(body.ops.begin(), body.ops.end(),
                     [](const auto& op) { return op->opcode == ir::Opcode::AsyncCopy; });
}

// Whether a loop runs the iteration with the induction variable `i`.
llvm::Value* runs_iteration(Lowering& l, llvm::Value* i, llvm::Value* upper, llvm::Value* step, bool sign) {
  if (!sign) return l.b.CreateICmpULT(i, upper);
  llvm::Value* forward = l.b.CreateICmpSGT(step, llvm::Constant::getNullValue(step->getType()));
  llvm::Value* above = l.b.CreateICmpSGT(i, upper);
  return l.b.CreateSelect(forward, l.b.CreateICmpSLT(i, upper), above);
}

// A thread that has so many bytes on their way keeps memory busy where its SM runs a quarter of the threads that it
// could.
constexpr int kBytesOnTheirWay = 32;
constexpr int kMostInstructions = 512;  ///< in iterations that follow each other: 8 KB

// How many iterations of a loop follow each other without a branch: what the text asks for, or else so many that their
// loads keep memory busy. That is 1 where threads meet or store between them. The assembler would do so by itself, but
// not where loads have predicates. Iterations that are left over run one by one: few where the number is not known,
// since then they can be all there are.
int iterations_at_once(const ir::ForLoop& loop) {
  if (const int64_t asked = loop.op().get(ir::attr::unroll)) return int(asked);
  int bytes = 0;
  double instructions = 1;
  for (const auto& op : loop.body().ops) {
    if (op->has(ir::Terminator)) continue;
    const bool is_load = op->opcode == ir::Opcode::Load && !op->get(ir::attr::volatile_);
    if ((!is_load && !op->has(ir::Pure)) || !op->regions.empty() || scratch_bytes(*op) > 0) return 1;
    const ir::Value* tile = largest_tile(*op);
    if (!tile) continue;
    const int registers = Lowering::num_registers(tile->type);
    instructions += registers * slots_of_element(*op);
    if (is_load) bytes += registers * std::max(op->result()->type.bits(), 8) / 8;
  }
  if (bytes == 0) return 1;
  const std::vector<ir::Value*> bounds = loop.bounds();
  const bool known = std::all_of(bounds.begin(), bounds.end(), [](const ir::Value* v) { return constant_integer(v); });
  const int most = std::min(known ? 16 : 8, int(kMostInstructions / instructions));
  int count = 1;
  while (2 * count <= most && count * bytes < kBytesOnTheirWay) count *= 2;
  return count;
}

struct LoopHints {
  bool keep_invariants_inside = false;
  int iterations_at_once = 1;
};

void set_hints(llvm::Instruction* latch, const LoopHints& hints) {
  llvm::LLVMContext& context = latch->getContext();
  llvm::SmallVector<llvm::Metadata*> nodes{nullptr};
  const auto add = [&](const char* name, llvm::ArrayRef<llvm::Metadata*> values = {}) {
    llvm::SmallVector<llvm::Metadata*> node{llvm::MDString::get(context, name)};
    node.append(values.begin(), values.end());
    nodes.push_back(llvm::MDNode::get(context, node));
  };
  if (hints.keep_invariants_inside) add("llvm.licm.disable");
  if (hints.iterations_at_once > 1) {
    llvm::Type* i32 = llvm::Type::getInt32Ty(context);
    add("llvm.loop.unroll.count",
        llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(i32, unsigned(hints.iterations_at_once))));
  }
  if (nodes.size() == 1) return;
  llvm::MDNode* loop = llvm::MDNode::getDistinct(context, nodes);
  loop->replaceOperandWith(0, loop);
  latch->setMetadata(llvm::LLVMContext::MD_loop, loop);
}

}  // namespace

// The last of the loads whose values are those of a later iteration alone, in programs of one block without products
// (in others it was measured to lose, or the order of use is better); null if there is none.
const ir::Op* last_load_ahead(const Lowering& l, const ir::Block& body) {
  if (l.func.num_ctas() > 1) return nullptr;
  std::unordered_map<const ir::Value*, int> uses = ir::count_uses(body);
  const auto& next = body.terminator()->operands;
  const ir::Op* last = nullptr;
  for (const auto& op : body.ops) {
    if (ir::is_product(*op)) return nullptr;
    if (op->opcode == ir::Opcode::Load && uses[op->result()] > 0 &&
        uses[op->result()] == std::count(next.begin(), next.end(), op->result()))
      last = op.get();
  }
  return last;
}

void lower_For(Lowering& l, const ir::Op& op) {
  const ir::ForLoop loop(op);
  const ir::Block& body = loop.body();
  llvm::Value *lower = l.scalar(loop.lower()), *upper = l.scalar(loop.upper()), *step = l.scalar(loop.step());
  const bool sign = tegula::is_signed(loop.lower()->type.elem);
  llvm::BasicBlock *header = new_block(l, "for"), *done = llvm::BasicBlock::Create(l.context, "for.done");

  Merge carried(l, pointers(body.args)), results(l, pointers(op.results));
  std::vector<Regs> initial{Regs{lower}};
  for (size_t i = 0; i < loop.carried(); ++i) initial.push_back(l.get(loop.init(i)));
  llvm::BasicBlock* before = l.b.GetInsertBlock();
  l.b.SetInsertPoint(done);
  results.create();
  l.b.SetInsertPoint(before);
  enter_loop(l, header, carried, initial);

  llvm::BasicBlock* inside = new_block(l, "for.body");
  llvm::Value* i = l.scalar(loop.induction());
  std::vector<Regs> carried_here;
  for (size_t r = 0; r < loop.carried(); ++r) carried_here.push_back(l.get(loop.arg(r)));
  results.add_incoming(carried_here);
  l.b.CreateCondBr(runs_iteration(l, i, upper, step, sign), inside, done);
  l.b.SetInsertPoint(inside);
  const ir::Op* ahead = last_load_ahead(l, body);
  for (const auto& of_body : body.ops) {
    l.lower_op(*of_body);
    if (of_body.get() == ahead) l.hw("loads_stay", {});
  }
  std::vector<Regs> next = registers_of(l, body.terminator()->operands);
  if (copies_ahead(body))
    for (size_t r = 0; r < loop.carried(); ++r)
      if (const ir::Type& type = loop.arg(r)->type; type.pointer && type.is_scalar())
        next[r] = {l.hw("opaque_pointer", next[r])};
  next.insert(next.begin(), Regs{l.b.CreateAdd(i, step, "", false, sign)});
  carried.add_incoming(next);
  llvm::Instruction* latch = l.b.CreateBr(header);
  set_hints(latch, {.keep_invariants_inside = has_inner_dots(op), .iterations_at_once = iterations_at_once(loop)});
  done->insertInto(header->getParent());  // after the bodies: the assembler's code lies in this order
  l.b.SetInsertPoint(done);
}

void lower_While(Lowering& l, const ir::Op& op) {
  const ir::WhileLoop loop(op);
  const ir::Block &test = loop.test(), &body = loop.body();
  llvm::BasicBlock *header = new_block(l, "while"), *inside = new_block(l, "while.body"),
                   *done = new_block(l, "while.done");
  Merge carried(l, pointers(test.args));
  std::vector<Regs> initial = registers_of(l, op.operands);
  enter_loop(l, header, carried, initial);
  l.lower_block(test);
  for (size_t i = 0; i < loop.num_passed(); ++i) {
    const Regs passed = l.get(loop.passed(i));
    l.set(loop.taken(i), passed);
    l.set(loop.result(i), passed);
  }
  l.b.CreateCondBr(l.scalar(loop.condition()), inside, done);
  l.b.SetInsertPoint(inside);
  l.lower_block(body);
  carried.add_incoming(registers_of(l, body.terminator()->operands));
  l.b.CreateBr(header);
  l.b.SetInsertPoint(done);
}

void lower_If(Lowering& l, const ir::Op& op) {
  llvm::BasicBlock *then = new_block(l, "then"), *otherwise = new_block(l, "else"), *join = new_block(l, "join");
  l.b.CreateCondBr(l.scalar(op.operand(0)), then, otherwise);
  std::vector<std::pair<std::vector<Regs>, llvm::BasicBlock*>> arrivals;
  for (int side = 0; side < 2; ++side) {
    l.b.SetInsertPoint(side == 0 ? then : otherwise);
    l.lower_block(*op.regions[side]);
    arrivals.emplace_back(registers_of(l, op.regions[side]->terminator()->operands), l.b.GetInsertBlock());
    l.b.CreateBr(join);
  }
  l.b.SetInsertPoint(join);
  Merge results(l, pointers(op.results));
  results.create();
  for (auto& [regs, block] : arrivals) {
    Builder::InsertPointGuard guard(l.b);
    l.b.SetInsertPoint(block);
    results.add_incoming(regs);
  }
}

// The enclosing op reads the terminator's operands itself.
void lower_Yield(Lowering&, const ir::Op&) {}
void lower_Condition(Lowering&, const ir::Op&) {}

void lower_Return(Lowering& l, const ir::Op&) { l.b.CreateRetVoid(); }

}  // namespace tegula::lower
