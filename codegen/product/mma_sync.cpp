// mma.sync: a warp multiplies 16 rows with 8 columns, all in its registers.
#include <algorithm>
#include <array>

#include "codegen/layout/layout_builder.h"
#include "codegen/lower/lowering.h"
#include "codegen/product/fragment.h"
#include "codegen/product/hw_rows.h"
#include "codegen/product/plan.h"

namespace tegula {

namespace {

using lower::Fragment;
using lower::HwInfo;
using lower::Lowering;
using lower::Regs;

constexpr const char* kName = "mma_sync";
constexpr int kRows = 16, kColumns = 8;  // of an instruction

std::string row_name(const MmaInstruction& x) { return fmt::format("mma_m16n8k{}_{}", x.k, x.types("_")); }

// ------------------------------------------------------------------------------------------------------------- plan

// Whether fragments of a warp fill the tile's blocks, where it has several: what lies beyond a block is another one, no
// copy. Along K four lanes hold 32 bits each; further registers may belong to the next block, or to none.
bool fills_blocks(const ir::Op& dot) {
  const ir::Type &a = dot.operand(0)->type, &sums = dot.result()->type;
  auto fills = [](int64_t extent, int64_t tile) { return repeats_of(extent) == 1 || block_of(extent) >= tile; };
  return fills(sums.shape[size_t(sums.rank()) - 2], kRows) && fills(sums.shape.back(), kColumns) &&
         fills(a.shape.back(), 4 * 32 / a.bits());
}

// The instruction. Where f8 has none, f8 operands are widened for that of f16; where sums of f16 have none, they are
// accumulated in f32 and rounded at the end.
const MmaInstruction* find(const ir::Op& dot, const Target& target) {
  if (!fills_blocks(dot)) return nullptr;
  const Elem a = dot.operand(0)->type.elem, b = dot.operand(1)->type.elem, result = dot.result()->type.elem;
  auto of = [&](Elem a, Elem b) {
    const MmaInstruction* found = find_instruction(kName, dot, a, b, result, target);
    return found || result != Elem::F16 ? found : find_instruction(kName, dot, a, b, Elem::F32, target);
  };
  const MmaInstruction* instruction = of(a, b);
  return instruction || !is_float8(a) || !is_float8(b) ? instruction : of(Elem::F16, Elem::F16);
}

// The arrangement of the warps with the fewest copies, then with whole rows where that is wanted, then with the least
// to load for a warp: products of a batch of its own, and the squarest tiles of these.
ProductPlan arrange_warps(const ir::Shape& shape, const ProductContext& context) {
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  const bool whole_rows = context.whole_rows.contains(rows);
  const int64_t batch = shape.size() > 2 ? shape[shape.size() - 3] : 1;
  std::optional<ProductPlan> best;
  std::array<int64_t, 3> best_cost{};
  for (int parts = 1; parts <= std::min<int64_t>(context.num_warps, block_of(batch)); parts *= 2)
    for (int m = 1; parts * m <= context.num_warps; m *= 2) {
      const int n = context.num_warps / (parts * m);
      const int64_t tile_m = std::max<int64_t>(kRows, block_of(rows) / m) * repeats_of(rows);
      const int64_t tile_n = std::max<int64_t>(kColumns, block_of(columns) / n) * repeats_of(columns);
      const int64_t copies = (tile_m * m / rows) * (tile_n * n / columns);
      const std::array<int64_t, 3> cost = {copies, whole_rows ? n : 0, (tile_m + tile_n) * (batch / parts)};
      if (!best || cost < best_cost) {
        best = ProductPlan{.parts_m = m, .parts_n = n, .parts_batch = parts};
        best_cost = cost;
      }
    }
  return *best;
}

// Divides the columns (of the sums, or of B) over the warps: each has neighbours, whose rows it stores and loads in
// pieces as long as there are.
void divide_columns(LayoutBuilder& layout, const ProductPlan& plan, int axis, int64_t columns) {
  constexpr int kOfInstruction = 3;
  layout.extend(Dim::Register, axis, block_bits(columns) - kOfInstruction - log2_of(plan.parts_n));
  layout.extend(Dim::Warp, axis, log2_of(plan.parts_n));
}

void divide_batch(LayoutBuilder& layout, const ProductPlan& plan, int rank) {
  if (plan.parts_batch > 1) layout.extend(Dim::Warp, rank - 3, log2_of(plan.parts_batch));
}

// --------------------------------------------------------------------------------------------------------- lowering

// Whether each operand is taken apart into two numbers.
bool in_parts(const ir::Op& dot, const MmaInstruction& x) {
  return x.a == Elem::F32 && precision_of(dot) == MmaPrecision::Tf32x3;
}

// How many neighbours along K a thread has side by side in operand A, as in B.
int64_t run_of(const ir::Type& a) {
  const Dim k = tile_dim(a.rank() - 1);
  int64_t run = 1;
  for (int bit = 0; bit < a.layout->in_bits(Dim::Register) && a.layout->basis(Dim::Register, bit, k) == run; ++bit)
    run *= 2;
  return run;
}

// One instruction for each block of m16n8 by its K that the warp owns. A 32-bit register holds neighbours along K, as
// many as fit; a thread has runs of as many (`run_`), or more. Fragment registers are found by coordinate: in lane 0
// they begin at rows {0, 8} and k {0, 4 run_} (A), k {0, 4 run_} (B), and sums are at rows {0, 8} and columns {0, 1}.
// Operands that the instruction takes in wider form than they were loaded in have longer runs than its registers hold:
// then it takes parts of each run, since the order of K does not matter. Tiles smaller than a block: rows and columns
// beyond them are copies and give copies of the sums; beyond K both operands are zero.
//
// Of fp32 operands the instruction takes the first 10 bits of mantissa, as wgmma does of those in shared memory. For
// tf32x3 each operand is the sum of two numbers of so many bits, and all products of these but the smallest are summed
// up, the small ones apart from the others: where operands are infinite these give NaNs, and do not count.
class MmaProduct {
 public:
  MmaProduct(Lowering& l, const ir::Op& op, const MmaInstruction& instruction)
      : l_(l),
        row_(row_name(instruction)),
        k_extent_(op.operand(0)->type.shape.back()),
        run_(run_of(op.operand(0)->type)),
        packed_(instruction.k / 8),
        sum_(l.element_type(instruction.sums)),
        in_parts_(in_parts(op, instruction)) {
    if (k_extent_ < 4 * run_) lane_k_ = l.b.CreateMul(l.b.CreateAnd(l.thread(), l.i32(3)), l.i32(run_));
  }

  void run(Fragment& a, Fragment& b, Fragment& acc) {
    // Origins of the blocks: accumulator registers whose coordinates are multiples of the instruction's.
    const auto origins = acc.registers();
    for (const auto& element : origins) {
      const auto& origin = element.first;
      const int64_t m = origin[origin.size() - 2], n = origin.back();
      if (m % 16 || n % 8) continue;
      llvm::Type* result = element.second->getType();
      Regs sums, rest(4, llvm::Constant::getNullValue(sum_));
      for (int64_t i : {0, 8})
        for (int64_t j : {0, 1}) {
          llvm::Value* x = acc.at(origin, m + i, n + j);
          sums.push_back(result == sum_ ? x : l_.b.CreateFPExt(x, sum_));
        }
      for (int64_t block = 0; block < k_extent_; block += 8 * run_)
        for (int64_t k = block; k < block + run_; k += packed_) {
          std::vector<Parts> left, right;
          for (int64_t half : {0, 4})
            for (int64_t i : {0, 8})
              left.push_back(word(k + half * run_, [&](int64_t at) { return a.at(origin, m + i, at); }));
          for (int64_t half : {0, 4})
            right.push_back(word(k + half * run_, [&](int64_t at) { return b.at(origin, at, n); }));
          if (in_parts_) {
            multiply(left, 1, right, 0, rest);
            multiply(left, 0, right, 1, rest);
          }
          multiply(left, 0, right, 0, sums);
        }
      for (size_t r = 0; r < 4; ++r) {
        llvm::Value* x = sums[r];
        if (in_parts_) {
          llvm::Value* exists = l_.b.CreateFCmpORD(rest[r], rest[r]);
          x = l_.b.CreateFAdd(x, l_.b.CreateSelect(exists, rest[r], llvm::Constant::getNullValue(sum_)));
        }
        acc.at(origin, m + 8 * int64_t(r / 2), n + int64_t(r % 2)) = result == sum_ ? x : l_.b.CreateFPTrunc(x, result);
      }
    }
  }

 private:
  /// A value as the instruction takes it, and for tf32x3 what that leaves of it.
  using Parts = std::array<llvm::Value*, 2>;

  void multiply(const std::vector<Parts>& a, size_t part_a, const std::vector<Parts>& b, size_t part_b, Regs& sums) {
    llvm::SmallVector<llvm::Value*> args;
    for (const Parts& x : a) args.push_back(x[part_a]);
    for (const Parts& x : b) args.push_back(x[part_b]);
    const bool in_pairs = sum_->isHalfTy();
    args.append(in_pairs ? l_.pack(sums, 32) : llvm::SmallVector<llvm::Value*>(sums.begin(), sums.end()));
    const llvm::SmallVector<llvm::Value*> d = l_.results(l_.hw(row_, args));
    sums = in_pairs ? l_.unpack(d, sum_, 4) : Regs(d.begin(), d.end());
  }

  // A row of blocks takes the same words of A, a column the same of B: each is packed once.
  template <class Element>
  Parts word(int64_t k, Element element) {
    std::vector<llvm::Value*> whole;
    for (int64_t at = k; at < k + packed_; ++at) whole.push_back(element(at));
    Parts& packed = words_[{k, whole}];
    if (packed[0]) return packed;
    llvm::SmallVector<llvm::Value*, 4> elements[2];
    for (int64_t i = 0; i < packed_; ++i) {
      const Parts parts = parts_of(whole[size_t(i)]);
      for (size_t part : {0, 1})
        if (parts[part]) elements[part].push_back(within_k(parts[part], k + i));
    }
    return packed = {l_.pack(elements[0], 32)[0], in_parts_ ? l_.pack(elements[1], 32)[0] : nullptr};
  }

  Parts parts_of(llvm::Value* x) {
    if (!in_parts_) return {x, nullptr};
    Parts& parts = parts_[x];
    if (parts[0]) return parts;
    parts[0] = l_.hw("cvt_rna_tf32_f32", {x});
    llvm::Value* rest = l_.b.CreateFSub(x, l_.b.CreateBitCast(parts[0], x->getType()));
    parts[1] = l_.hw("cvt_rna_tf32_f32", {rest});
    return parts;
  }

  llvm::Value* within_k(llvm::Value* x, int64_t k) {
    llvm::Value* zero = llvm::Constant::getNullValue(x->getType());
    if (k >= k_extent_) return zero;
    if (!lane_k_) return x;
    return l_.b.CreateSelect(l_.b.CreateICmpULT(l_.b.CreateAdd(lane_k_, l_.i32(k)), l_.i32(k_extent_)), x, zero);
  }

  Lowering& l_;
  const std::string row_;
  const int64_t k_extent_;
  const int64_t run_;
  const int packed_;
  llvm::Type* const sum_;
  const bool in_parts_;
  llvm::Value* lane_k_ = nullptr;  // the thread's first k, where it may be beyond K
  std::map<llvm::Value*, Parts> parts_;
  std::map<std::pair<int64_t, std::vector<llvm::Value*>>, Parts> words_;  // by k and the elements from there
};

// ----------------------------------------------------------------------------------------------------------- family

class MmaSync final : public ProductFamily {
 public:
  MmaSync() : ProductFamily(kName, false) {}

  std::optional<ProductPlan> plan(const ir::Op& dot, const ProductContext& context) const override {
    const MmaInstruction* instruction = find(dot, context.target);
    if (!instruction) return std::nullopt;
    ProductPlan plan = arrange_warps(dot.result()->type.shape, context);
    plan.family = this;
    plan.instruction = instruction;
    return plan;
  }

  /// M and N are the last two dimensions (those before them are repeated in registers). Within one instruction tile,
  /// with g = lane / 4 and t = lane % 4, registers 0 to 3 hold (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1): the
  /// order of the PTX fragment. The warps tile the block above the instruction tile, along N first (warp =
  /// (warp_batch * parts_m + warp_m) * parts_n + warp_n). The rest of the tile repeats in registers, over N, then over
  /// M. Where the tile is smaller than the block, bits are free.
  std::optional<LinearLayout> sums_layout(const ProductPlan& plan, const ir::Shape& shape) const override {
    const int rank = int(shape.size()), m = rank - 2, n = rank - 1;
    LayoutBuilder layout(shape);
    layout.place_fragment(m, n, 1);
    divide_columns(layout, plan, n, shape[size_t(n)]);
    layout.extend(Dim::Warp, m, log2_of(plan.parts_m));
    divide_batch(layout, plan, rank);
    layout.repeat_matrix(n, m);
    return layout.threads();
  }

  /// Operand 0 (A, M x K) or 1 (B, K x N) of m16n8k(256/bits) for elements of 8, 16 or 32 bits: warps that differ only
  /// along the other operand's dimension hold copies. Register order is that of the PTX fragment; for 16 bits:
  ///   A: (g, 2t + {0, 1}), (g + 8, 2t + {0, 1}), (g, 2t + 8 + {0, 1}), (g + 8, 2t + 8 + {0, 1}): 8 registers;
  ///   B: (2t + {0, 1}, g), (2t + 8 + {0, 1}, g): 4 registers.
  /// Instruction tiles then repeat along K, after that along M (A) or N (B).
  LinearLayout operand_layout(const ProductPlan& plan, int operand, const ir::Type& type,
                              const LinearLayout&) const override {
    const int bits = type.bits(), rank = type.rank();
    TEGULA_CHECK(bits == 8 || bits == 16 || bits == 32, "mma operands of {} bits", bits);
    const int k = operand == 0 ? rank - 1 : rank - 2, other = operand == 0 ? rank - 2 : rank - 1;
    const int packed = log2_of(32 / bits);  // a 32-bit register holds 2^packed neighbours along K
    LayoutBuilder layout(type.shape);
    layout.place_fragment(other, k, packed, operand == 0);
    layout.place(Dim::Register, k, packed + 2);
    auto free_warps = [&](int warps) {
      for (int i = 0; i < log2_of(warps); ++i) layout.place(Dim::Warp, k, LayoutBuilder::kBeyond);
    };
    if (operand == 0) {
      free_warps(plan.parts_n);
      layout.extend(Dim::Warp, other, log2_of(plan.parts_m));
    } else {
      layout.fill(Dim::Register, k);
      divide_columns(layout, plan, other, type.shape[size_t(other)]);
      free_warps(plan.parts_m);
    }
    divide_batch(layout, plan, rank);
    layout.repeat_matrix(k, other);
    return layout.threads();
  }

  ProductCost cost(const ir::Op& dot, const Target& target) const override {
    // What these instructions reach of the rate of those beside the program where there are both: docs/benchmarks.md.
    constexpr double kRateBesideOthers = 0.5;
    const MmaInstruction& x = *plan_of(dot).instruction;
    const ir::Type& sums = dot.result()->type;
    const int64_t m = sums.shape[size_t(sums.rank()) - 2], n = sums.shape.back(), k = dot.operand(0)->type.shape.back();
    auto filled_up = [](int64_t extent, int64_t step) { return double((extent + step - 1) / step * step); };
    const double products = double(sums.num_elements() / (m * n)) * filled_up(m, kRows) * filled_up(n, kColumns) *
                            filled_up(k, x.k) * (in_parts(dot, x) ? 3 : 1);
    // Instructions take the same time whatever their types: fp16's have a K of 16.
    const double rate = multiplies_asynchronously(target) ? kRateBesideOthers : 1;
    return {.flops = flops_of(dot),
            .tensor_flops = 2 * products * 16 / x.k / rate,
            .steps = products / (double(kRows) * kColumns * x.k)};
  }

  void lower(Lowering& l, const ir::Op& dot) const override {
    const MmaInstruction& instruction = *plan_of(dot).instruction;
    Fragment a(l, dot.operand(0)), b(l, dot.operand(1)), acc(l, dot.operand(2));
    if (is_float8(dot.operand(0)->type.elem) && !is_float8(instruction.a)) {
      a.widen_float8(l);
      b.widen_float8(l);
    }
    MmaProduct(l, dot, instruction).run(a, b, acc);
    l.set(dot.result(), acc.in_order());
  }

  /// mma_m16n8k<K>_<types>: "{S * R}(i32 * 4 of A, i32 * 2 of B, S * R)" with S the type of the sums' R registers, 4
  /// or, of f16, 2. D = A B + C of a warp. Sums of integers end at the largest and the smallest one.
  std::optional<HwInfo> hw_row(const std::string& name) const override {
    for (const MmaInstruction& x : mma_instructions()) {
      if (x.family != kName || name != row_name(x)) continue;
      const std::string type = lower::sums_type(x), c = lower::sums_constraint(x), ptx = lower::sums_ptx(x);
      const int sums = 4 / x.sums_packed();
      const std::string constraints =
          lower::repeated("=" + c, sums) + lower::repeated("r", 6) + lower::repeated(c, sums);
      return lower::make_hw_info(
          name, fmt::format("mma_{}{}", type, x.sums == Elem::F16 ? "_pairs" : ""),
          fmt::format("{{{0} * {1}}}(i32 * 4, i32 * 2, {0} * {1}, {2})", type, sums, x.row()), x.feature,
          lower::Convergent,
          fmt::format("mma.sync.aligned.m16n8k{}.row.col{}.{}.{}.{}.{} {{{}}}, {{{}}}, {{{}}}, {{{}}};", x.k,
                      x.saturates() ? ".satfinite" : "", ptx, x.type_a, x.type_b, ptx, lower::operand_list(0, sums),
                      lower::operand_list(sums, 4), lower::operand_list(sums + 4, 2),
                      lower::operand_list(sums + 6, sums)),
          constraints.substr(0, constraints.size() - 1));
    }
    return std::nullopt;
  }
};

}  // namespace

const ProductFamily& mma_sync_family() {
  static const MmaSync family;
  return family;
}

}  // namespace tegula
