// wgmma: a warpgroup (four warps) multiplies 64 rows with up to 256 columns, while the warps go on. It reads B from
// shared memory by itself, and A from there or from registers.
#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "codegen/ir/flow.h"
#include "codegen/layout/layout_builder.h"
#include "codegen/lower/lowering.h"
#include "codegen/product/hw_rows.h"
#include "codegen/product/operands.h"
#include "codegen/product/plan.h"
#include "codegen/product/wgmma_descriptor.h"

namespace tegula {

namespace {

using lower::HwInfo;
using lower::Lowering;
using lower::Regs;

constexpr const char* kName = "wgmma";
constexpr int kWarpsOfGroup = 4;
constexpr int kRows = 64;                          // of an instruction
constexpr int kColumnStep = 8;                     // its columns are a multiple
constexpr size_t kMostSums = kMmaMostColumns / 2;  // of an instruction, in a thread

// ------------------------------------------------------------------------------------------------------------- plan

// Whether there is an instruction with `n` columns. Of integers there is every second width above 32.
bool has_columns(const MmaInstruction& x, int64_t n) {
  const int step = is_integer(x.a) && n > 32 ? 2 * kColumnStep : kColumnStep;
  return n >= kColumnStep && n <= kMmaMostColumns && n % step == 0;
}

// Registers of a thread that hold the sums of an instruction.
int registers_of_sums(const MmaInstruction& x, int64_t columns) { return int(columns / 2 / x.sums_packed()); }

// The widest instruction that divides `columns` and leaves enough of the thread's registers; 0 if there is none.
int64_t widest_columns(const MmaInstruction& instruction, int64_t columns, int registers) {
  for (int64_t parts = 1; columns / parts >= kColumnStep; ++parts)
    if (columns % parts == 0 && has_columns(instruction, columns / parts) &&
        registers_of_sums(instruction, columns / parts) + kBesideSums <= registers)
      return columns / parts;
  return 0;
}

// How warpgroups divide a dot's result: with the fewest copies, then into the squarest parts, which have the smallest
// operands.
std::optional<ProductPlan> share_groups(const ir::Op& dot, const MmaInstruction& instruction,
                                        const ProductContext& context) {
  const int groups = context.num_warps / kWarpsOfGroup;
  const ir::Shape& shape = dot.operand(2)->type.shape;
  const int64_t m = shape[0], n = shape[1], block_m = block_of(m), block_n = block_of(n);
  std::optional<ProductPlan> best;
  std::tuple<int64_t, int64_t> best_cost;
  for (int groups_m = groups; groups_m > 0; groups_m /= 2) {
    const int groups_n = groups / groups_m;
    if (block_m / groups_m < kRows || block_n / groups_n < kColumnStep) continue;
    const int64_t part_m = m / groups_m, part_n = n / groups_n;
    // Groups divide a block of columns, so that theirs lie side by side within blocks alone.
    const int64_t columns = widest_columns(instruction, groups_n == 1 ? n : block_n / groups_n, context.registers);
    if (!columns) continue;
    // What the tensor cores read of A and B for each part.
    const int64_t read = part_m * (part_n / columns) + part_n * (part_m / kRows);
    if (!best || std::tuple(read, part_m) < best_cost) {
      best = ProductPlan{nullptr, &instruction, groups_m, groups_n, int(columns)};
      best_cost = {read, part_m};
    }
  }
  return best;
}

// Whether a value of A's shape follows, element by element, from sums of a dot whose warps have whole rows.
class SumSearch {
 public:
  explicit SumSearch(const ProductFamily& family) : family_(family) {}

  bool finds(const ir::Value* v) {
    if (!visited_.insert(v).second) return false;
    const ir::Op* op = v->def;
    if (op && op->opcode == ir::Opcode::MmaWait) op = op->operand(0)->def;
    if (op && ir::is_product(*op)) {
      const ProductPlan plan = plan_of(*op);
      return plan.family == &family_ && plan.parts_n == 1;
    }
    const std::vector<ir::Value*> from = op && op->has(ir::Elementwise) ? op->operands : ir::origins(v);
    return std::any_of(from.begin(), from.end(), [&](const ir::Value* x) { return finds(x); });
  }

 private:
  const ProductFamily& family_;
  std::unordered_set<const ir::Value*> visited_;
};

// --------------------------------------------------------------------------------------------------------- lowering

// The registers of an instruction's result that begins at (m, n), in its order: lane 0 holds rows {0, 8} and pairs of
// columns of every eight, of which a register holds one or, `packed`, both.
std::vector<int> instruction_registers(const LinearLayout& acc, int64_t m, int64_t n, int columns, int packed) {
  std::map<LinearLayout::Basis, int> by_coordinate;
  for (int r = acc.in_size(Dim::Register); r-- > 0;) by_coordinate[acc.apply({{Dim::Register, r}})] = r;
  std::vector<int> out;
  for (int column = 0; column < columns; column += 8)
    for (int row : {0, 8})
      for (int pair = 0; pair < 2; pair += packed)
        out.push_back(by_coordinate.at({int32_t(m + row), int32_t(n + column + pair)}) / packed);
  return out;
}

// A's fragments in registers for the instructions that begin at row m: 16 rows a warp by `depth`, as of mma.sync. fp32
// is rounded to tf32.
class RowFragments {
 public:
  RowFragments(Lowering& l, const ir::Value* a) : l_(l), per_word_(32 / a->type.bits()) {
    const Regs& regs = l.get(a);
    for (int r = 0; r < int(regs.size()); ++r) {
      registers_.try_emplace(a->type.layout->apply({{Dim::Register, r}}), regs[r]);
    }
  }
  llvm::SmallVector<llvm::Value*> at(int64_t m, int64_t k, int depth) {
    llvm::SmallVector<llvm::Value*> words;
    for (int half : {0, depth / 2})
      for (int row : {0, 8}) {
        llvm::SmallVector<llvm::Value*> elements;
        for (int i = 0; i < per_word_; ++i)
          elements.push_back(registers_.at({int32_t(m + row), int32_t(k + half + i)}));
        words.push_back(l_.pack(elements, 32)[0]);
      }
    return words;
  }

 private:
  Lowering& l_;
  int per_word_;
  std::map<LinearLayout::Basis, llvm::Value*> registers_;
};

// Of `steps` instructions along K that add to the same sums, one after another. They are one row, so that the back end
// handles the sums' registers once.
std::string row_name(const MmaInstruction& x, int columns, bool a_in_registers, int64_t steps) {
  return fmt::format("wgmma_m64n{}k{}_{}_{}{}", columns, x.k, x.types("_"), a_in_registers ? "rs" : "ss",
                     steps == 1 ? "" : fmt::format("_x{}", steps));
}

// The sums, once all products but the last `pending` are over. As many at a time as an instruction has at most: more
// registers than a thread has cannot pass at once. `wave`: what follows from them is to come before the next wave.
Regs wait_for(Lowering& l, llvm::ArrayRef<llvm::Value*> sums, Elem elem, int64_t pending, bool wave = false) {
  const char* kind = elem == Elem::F32 ? "" : elem == Elem::F16 ? "pairs_" : "i32_";
  Regs out;
  while (!sums.empty()) {
    llvm::ArrayRef<llvm::Value*> some = sums.take_front(std::min(sums.size(), kMostSums));
    const std::string row = fmt::format("wgmma_wait_{}n{}", kind, some.size());
    llvm::Value* done = l.hw(row, some, fmt::format(".{}", pending));
    if (wave)
      llvm::cast<llvm::Instruction>(done)->setMetadata(lower::kWaveMetadata, llvm::MDNode::get(l.b.getContext(), {}));
    for (unsigned i = 0; i < some.size(); ++i) out.push_back(l.b.CreateExtractValue(done, i));
    sums = sums.drop_front(some.size());
  }
  return out;
}

// Sums as they are in flight: two of f16 in a register.
Regs sums_in_flight(Lowering& l, const ir::Value* sums) {
  const Regs& registers = l.get(sums);
  if (sums->type.is_in_flight() || sums->type.elem != Elem::F16) return registers;
  const llvm::SmallVector<llvm::Value*> words = l.pack(registers, 32);
  return Regs(words.begin(), words.end());
}
// ptxas takes the halves of a register for the register itself: it would have them at hand as soon as products begin,
// and wait for these at once, unless they are those of a copy.
Regs unpack_sums(Lowering& l, const Regs& sums, Elem elem) {
  if (elem != Elem::F16) return sums;
  llvm::SmallVector<llvm::Value*> words;
  for (llvm::Value* word : sums) words.push_back(l.hw("copied_b32", {word}));
  return l.unpack(words, l.element_type(elem), 2 * int(sums.size()));
}

// Whether elements of a thread may be one and the same value.
bool may_repeat(const ir::Value* v) {
  const ir::Op* op = v->def;
  if (!v->type.is_tile() || !op) return !v->type.is_tile();
  if (op->opcode == ir::Opcode::Constant || op->opcode == ir::Opcode::Splat || op->opcode == ir::Opcode::Broadcast)
    return true;
  return op->has(ir::Elementwise) && std::ranges::all_of(op->operands, may_repeat);
}

// The instructions of one mma_start.
class Product {
 public:
  Product(Lowering& l, const ir::Op& op)
      : l_(l),
        op_(op),
        acc_(*op.result()->type.layout),
        instruction_(*plan_of(op).instruction),
        b_(l, op.operand(1), 1),
        columns_(columns_at_once(op)) {
    b_.add_group_part(acc_, 1);
    const bool a_in_registers = !op.operand(0)->type.is_place();
    row_ = row_name(instruction_, columns_, a_in_registers, depth_of(op).size() / instruction_.k);
    a_in_registers ? find_fragments() : find_place();
    note_order(b_);
  }

  // In waves: the first one.
  void start() {
    Regs sums = sums_in_flight(l_, op_.operand(2));
    const std::vector<Part> parts = parts_of_sums();
    issue(sums, op_.get(ir::attr::waves) ? std::vector<Part>{parts.front()} : parts);
    l_.set(op_.result(), std::move(sums));
  }

  // Waits for the first wave, and multiplies the others: what the program does between the two is beside the product.
  Regs go_on_in_waves() {
    Regs sums = l_.get(op_.result()), done;  // the sums of the wave before, in whose registers the next one's come
    bool issued = true;
    for (const Part& part : parts_of_sums()) {
      for (size_t i = 0; i < done.size(); ++i) sums[part.registers[i]] = done[i];
      if (!std::exchange(issued, false)) issue(sums, {part});
      done.clear();
      for (int i : part.registers) done.push_back(sums[i]);
      done = wait_for(l_, done, instruction_.sums, 0, true);
      for (size_t i = 0; i < done.size(); ++i) sums[part.registers[i]] = done[i];
    }
    return unpack_sums(l_, sums, instruction_.sums);
  }

 private:
  // Rows and columns that an instruction multiplies.
  struct Part {
    int32_t m, n;
    std::vector<int> registers;  // of their sums
  };

  std::vector<Part> parts_of_sums() const {
    std::vector<Part> parts;
    for (int r = 0; r < acc_.in_size(Dim::Register); ++r) {
      const LinearLayout::Basis origin = acc_.apply({{Dim::Register, r}});
      if (origin[0] % kRows || origin[1] % columns_) continue;
      parts.push_back({origin[0], origin[1],
                       instruction_registers(acc_, origin[0], origin[1], columns_, instruction_.sums_packed())});
    }
    return parts;
  }

  void issue(Regs& sums, const std::vector<Part>& parts) {
    if (need_own_registers())
      for (const Part& part : parts) own_registers(sums, part);
    l_.hw("wgmma_fence", {});
    for (const Part& part : parts) multiply(sums, part);
    l_.hw("wgmma_commit", {});
  }

  // Gives sums whose initial values are shared with other sums, or used again, registers of their own before the fence,
  // by a no-op wait. If they were set after it, the assembler would insert another fence.
  void own_registers(Regs& sums, const Part& part) {
    constexpr int64_t kAnyNumber = 7;  // of groups under way
    Regs own;
    for (int i : part.registers) own.push_back(sums[i]);
    own = wait_for(l_, own, instruction_.sums, kAnyNumber);
    for (size_t i = 0; i < own.size(); ++i) sums[part.registers[i]] = own[i];
  }

  bool need_own_registers() const {
    const ir::Value* sums = op_.operand(2);
    const auto* adds = op_.operand(3) ? llvm::dyn_cast<llvm::ConstantInt>(l_.scalar(op_.operand(3))) : nullptr;
    if ((adds && adds->isZero()) || sums->type.is_in_flight()) return false;
    const bool of_this_block = (sums->def ? sums->def->parent : sums->block) == op_.parent;
    return !of_this_block || l_.users.at(sums).size() > 1 || may_repeat(sums);
  }

  // As many as the plan says, if instructions can begin at all multiples of it; else the most of which that is so.
  int columns_at_once(const ir::Op& op) const {
    const ProductPlan plan = plan_of(op);
    const int64_t extent = op.result()->type.shape[1] / plan.parts_n;
    for (int64_t columns = plan.columns; columns > kColumnStep; columns -= kColumnStep)
      if (extent % columns == 0 && has_columns(instruction_, columns) && b_.can_part(columns, extent))
        return int(columns);
    return kColumnStep;
  }

  // The instructions along K.
  void multiply(Regs& sums, const Part& part) {
    const auto& [m, n, registers] = part;
    const DepthRange depth = depth_of(op_);
    llvm::SmallVector<llvm::Value*> args, of_b;
    for (int64_t k = depth.begin; k < depth.end; k += instruction_.k) {
      args.append(a_(m, k));
      of_b.push_back(b_.at(k, n));
    }
    args.append(of_b);
    for (int i : registers) args.push_back(sums[i]);
    args.push_back(op_.operand(3) ? l_.scalar(op_.operand(3)) : l_.b.getTrue());
    args.push_back(l_.site(op_.loc));
    llvm::Value* d = l_.hw(row_, args, orders_);
    for (size_t i = 0; i < registers.size(); ++i) sums[registers[i]] = l_.b.CreateExtractValue(d, unsigned(i));
  }

  void find_place() {
    auto place = std::make_shared<WgmmaDescriptor>(l_, op_.operand(0), 0);
    place->add_group_part(acc_, 0);
    note_order(*place);
    a_ = [place](int64_t m, int64_t k) { return llvm::SmallVector<llvm::Value*>{place->at(m, k)}; };
  }

  // All fragments must be ready before the fence.
  void find_fragments() {
    const ir::Value* a = op_.operand(0);
    std::map<std::pair<int64_t, int64_t>, llvm::SmallVector<llvm::Value*>> words;
    RowFragments fragments(l_, a);
    for (int r = 0; r < acc_.in_size(Dim::Register); ++r)
      if (int32_t m = acc_.apply({{Dim::Register, r}})[0]; m % kRows == 0)
        for (int64_t k = depth_of(op_).begin; k < depth_of(op_).end; k += instruction_.k)
          if (auto& of = words[{m, k}]; of.empty()) of = fragments.at(m, k, instruction_.k);
    if (depth_of(op_).begin > 0) compute_here(words);
    a_ = [words = std::move(words)](int64_t m, int64_t k) { return words.at({m, k}); };
  }

  // Of the later part of K: what is computed for these fragments alone is computed here, beside the product of the
  // part before.
  void compute_here(const std::map<std::pair<int64_t, int64_t>, llvm::SmallVector<llvm::Value*>>& words) {
    std::unordered_set<const llvm::Value*> wanted;
    for (const auto& [at, of] : words) wanted.insert(of.begin(), of.end());
    llvm::BasicBlock* block = l_.b.GetInsertBlock();
    std::unordered_set<const llvm::Value*> moved;
    llvm::Instruction* next = nullptr;  // of what is moved, before which the other goes
    for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::reverse(*block))) {
      const bool used_here =
          std::ranges::all_of(i.users(), [&](const llvm::User* user) { return moved.contains(user); });
      if (!wanted.contains(&i) || (!i.use_empty() && !used_here) || !may_move(i)) continue;
      next ? i.moveBefore(next->getIterator()) : i.moveBefore(*block, block->end());
      next = &i;
      moved.insert(&i);
      wanted.insert(i.value_op_begin(), i.value_op_end());
    }
  }
  static bool may_move(const llvm::Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    return !llvm::isa<llvm::PHINode>(i) && !i.mayHaveSideEffects() && !i.mayReadFromMemory() &&
           !(call && call->isConvergent());
  }

  // An operand that does not lie along K is transposed.
  void note_order(const WgmmaDescriptor& operand) {
    if (instruction_.order == MmaOrder::AnyOrder)
      orders_ += fmt::format(".{}", int(!operand.k_major()));
    else
      TEGULA_CHECK(operand.k_major(), "{} wants operands that lie along K", instruction_.name());
  }

  Lowering& l_;
  const ir::Op& op_;
  const LinearLayout& acc_;
  const MmaInstruction& instruction_;
  WgmmaDescriptor b_;
  const int columns_;
  std::string row_, orders_;
  std::function<llvm::SmallVector<llvm::Value*>(int64_t, int64_t)> a_;  // the arguments for A from (m, k) on
};

// ------------------------------------------------------------------------------------------------- hardware's rows

// D = A B + D of a warpgroup, or A B where scale-d is 0: 64 by n; further steps add to that. What may lie in either
// order has an immediate that says so; what is no integer has factors of the operands, 1 here.
HwInfo product_row(const std::string& name, int n, const MmaInstruction& x, bool a_in_registers, int steps) {
  const int sums = n / 2 / x.sums_packed(), of_a = a_in_registers ? 4 : 1, first_b = sums + of_a * steps,
            scale = first_b + steps + sums;
  const bool ordered = x.order == MmaOrder::AnyOrder;
  const std::string type = lower::sums_type(x), order = ordered ? "imm" : "0";
  std::string orders;
  if (ordered) orders = a_in_registers ? ", {imm}" : ", {imm}, {imm}";
  std::string text;
  for (int step = 0; step < steps; ++step) {
    std::string a = lower::operand_list(sums + of_a * step, of_a);
    if (a_in_registers) a = "{" + a + "}";
    text +=
        fmt::format("{}wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} {{{}}}, {}, ${}, {}{}{};", step ? "\n\t" : "", n,
                    x.k, lower::sums_ptx(x), x.type_a, x.type_b, lower::operand_list(0, sums), a, first_b + step,
                    step ? "adds" : fmt::format("${}", scale), is_float(x.sums) ? ", 1, 1" : "", orders);
  }
  if (steps > 1) text = fmt::format("{{\n\t.reg .pred adds;\n\tmov.pred adds, -1;\n\t{}\n\t}}", text);
  return lower::make_hw_info(
      name, (a_in_registers ? "wgmma_rs_" : "wgmma_ss_") + type,
      fmt::format("{{{0} * {1}}}({2} * {3}, i64 * {4}, {0} * {1}, i1, site, {4}, {5}, {6}, {7}{8})", type, sums,
                  a_in_registers ? "i32" : "i64", of_a * steps, steps, n, x.row(), order,
                  a_in_registers ? "" : ", " + order),
      x.feature, lower::Read | lower::Write | lower::Convergent, text,
      lower::repeated("=" + lower::sums_constraint(x), sums) +
          lower::repeated(a_in_registers ? "r" : "l", of_a * steps) + lower::repeated("l", steps) + lower::ties(sums) +
          "b");
}

HwInfo wait_row(const std::string& name, int count, const char* kind, const char* type, const char* constraint) {
  std::string constraints = lower::repeated(constraint, count) + lower::ties(count);
  constraints.pop_back();
  return lower::make_hw_info(name, fmt::format("wgmma_wait_{}", kind),
                             fmt::format("{{{0} * {1}}}({0} * {1}, {1}, imm)", type, count), Feature::Wgmma,
                             lower::Read | lower::Write | lower::Convergent, "wgmma.wait_group.sync.aligned {imm};",
                             constraints);
}

// ----------------------------------------------------------------------------------------------------------- family

class Wgmma final : public ProductFamily {
 public:
  Wgmma() : ProductFamily(kName, true) {}

  std::optional<ProductPlan> plan(const ir::Op& dot, const ProductContext& context) const override {
    const ir::Type &a = dot.operand(0)->type, &acc = dot.operand(2)->type;
    const MmaInstruction* instruction =
        find_instruction(kName, dot, a.elem, dot.operand(1)->type.elem, acc.elem, context.target);
    if (!instruction || context.num_warps % kWarpsOfGroup || acc.rank() != 2) return std::nullopt;
    if (block_of(acc.shape[0]) < kRows || block_of(acc.shape[1]) < kColumnStep || block_of(a.shape[1]) < instruction->k)
      return std::nullopt;
    std::optional<ProductPlan> plan = share_groups(dot, *instruction, context);
    if (plan) plan->family = this;
    return plan;
  }

  /// A warpgroup (group = group_m * parts_n + group_n) has 64 rows at least. Four warps have 16 rows each; inside a
  /// warp registers are as of mma.sync. Each group has columns of its own side by side; its rows repeat in registers.
  std::optional<LinearLayout> sums_layout(const ProductPlan& plan, const ir::Shape& shape) const override {
    const int rank = int(shape.size()), m = rank - 2, n = rank - 1;
    LayoutBuilder layout(shape);
    layout.place_fragment(m, n, 1);
    for (int bit : {4, 5}) layout.place(Dim::Warp, m, bit);
    layout.extend(Dim::Register, n, block_bits(shape[n]) - 3 - log2_of(plan.parts_n));
    layout.extend(Dim::Warp, n, log2_of(plan.parts_n));
    layout.extend(Dim::Warp, m, log2_of(plan.parts_m));
    layout.repeat_matrix(n, m);
    return layout.threads();
  }

  /// Of A: each warp has the fragments of mma.sync for its 16 rows; groups that differ only along N hold copies.
  LinearLayout operand_layout(const ProductPlan& plan, int operand, const ir::Type& type,
                              const LinearLayout&) const override {
    TEGULA_CHECK(operand == 0, "B in registers");
    const int m = 0, k = 1, packed = log2_of(32 / type.bits());
    LayoutBuilder layout(type.shape);
    layout.place_fragment(m, k, packed);
    layout.place(Dim::Register, k, packed + 2);
    for (int bit : {4, 5}) layout.place(Dim::Warp, m, bit);
    for (int i = 0; i < log2_of(plan.parts_n); ++i) layout.place(Dim::Warp, k, LayoutBuilder::kBeyond);
    layout.extend(Dim::Warp, m, log2_of(plan.parts_m));
    layout.repeat_matrix(k, m);
    return layout.threads();
  }

  /// A, if it is computed from the sums of another product (the weights of attention), whose registers are fragments,
  /// or from bytes in shared memory, which can be read as fragments.
  bool takes_registers(const ir::Op& dot, int operand) const override {
    if (operand != 0 || plan_of(dot).parts_n != 1) return false;
    const auto is_read = [](const ir::Op& op) { return op.opcode == ir::Opcode::SharedRead; };
    return (can_widen(dot, 0) && is_widened_from(dot.operand(0), is_read)) || SumSearch(*this).finds(dot.operand(0));
  }

  /// A, of products whose sums a loop carries. Others are added to other sums afterwards: two sets of registers, which
  /// leave none for fragments.
  bool can_widen(const ir::Op& dot, int operand) const override {
    return operand == 0 && plan_of(dot).parts_n == 1 && !dot.operand(2)->def;
  }

  int registers(const ProductPlan& plan) const override { return registers_of_sums(*plan.instruction, plan.columns); }

  ProductCost cost(const ir::Op& product, const Target&) const override {
    const ProductPlan plan = plan_of(product);
    const ir::Type &a = product.operand(0)->type, &sums = product.result()->type;
    const double m = double(sums.shape[0]), n = double(sums.shape[1]), k = double(depth_of(product).size());
    // Each instruction reads its rows of A, if they are in shared memory, and its columns of B.
    const double rows = a.is_place() ? kRows : 0, columns = plan.columns;
    const double instructions = m * n / (kRows * columns);
    // Instructions take the same time whatever their types: fp16's have a K of 16.
    const double flops = flops_of(product);
    return {.flops = flops,
            .tensor_flops = flops * 16 / plan.instruction->k,
            .shared_bytes = instructions * (rows + columns) * k * product.operand(1)->type.bits() / 8,
            .steps = instructions * k / plan.instruction->k};
  }

  void lower(Lowering& l, const ir::Op& product) const override { Product(l, product).start(); }

  void lower_wait(Lowering& l, const ir::Op& wait) const override {
    const ir::Op* start = wait.operand(0)->def;
    if (start && start->opcode == ir::Opcode::MmaStart && start->get(ir::attr::waves))
      return l.set(wait.result(), Product(l, *start).go_on_in_waves());
    const ir::Type& type = wait.result()->type;
    Regs sums = wait_for(l, sums_in_flight(l, wait.operand(0)), type.elem, wait.get(ir::attr::pending));
    l.set(wait.result(), type.is_in_flight() ? sums : unpack_sums(l, sums, type.elem));
  }

  /// With S the type of the sums' R registers, N = 8, 16 .. 256, and R = N/2 or, for sums of f16, N/4:
  ///   wgmma_m64n<N>k<K>_<types>_ss   "{S * R}(i64 a, i64 b, S * R, i1 scale-d, site)"  .trans-a.trans-b
  ///   wgmma_m64n<N>k<K>_<types>_rs   "{S * R}(i32 * 4 of A, i64 b, S * R, i1 scale-d, site)"  .trans-b
  ///   ..._x<steps>                   as many instructions, with as many a (fragments of A) and b in their order
  ///   wgmma_wait_n<count>            "{f32 * count}(f32 * count)"  .pending groups
  ///   wgmma_wait_i32_n<count>        "{i32 * count}(i32 * count)"  .pending groups
  ///   wgmma_wait_pairs_n<count>      the same, for pairs of sums of f16
  /// a and b are descriptors of operands in shared memory (wgmma.h of the emulator says how they are read); trans is 1
  /// for an MN-major operand, and is not there where K-major ones alone are taken; scale-d 0 begins with zeros instead
  /// of the accumulators given. The sums are not there before the wait, which hands them on: whatever is in flight
  /// passes through it, or registers may be copied while they are written.
  std::optional<HwInfo> hw_row(const std::string& name) const override {
    int n = 0, steps = 1;
    std::sscanf(name.c_str(), "wgmma_m64n%3d", &n);
    if (const size_t at = name.find("s_x"); at != name.npos) std::sscanf(name.c_str() + at, "s_x%3d", &steps);
    for (const MmaInstruction& x : mma_instructions())
      if (x.family == kName && has_columns(x, n))
        for (bool a_in_registers : {false, true})
          if (name == row_name(x, n, a_in_registers, steps)) return product_row(name, n, x, a_in_registers, steps);
    const size_t at = name.rfind('n');
    n = 0;
    if (at != name.npos) std::sscanf(name.c_str() + at, "n%3d", &n);
    if (n < 1 || n > kMmaMostColumns) return std::nullopt;
    if (name == fmt::format("wgmma_wait_n{}", n)) return wait_row(name, n, "f32", "f32", "=f");
    for (const char* kind : {"i32", "pairs"})
      if (name == fmt::format("wgmma_wait_{}_n{}", kind, n)) return wait_row(name, n, kind, "i32", "=r");
    return std::nullopt;
  }
};

}  // namespace

const ProductFamily& wgmma_family() {
  static const Wgmma family;
  return family;
}

}  // namespace tegula
