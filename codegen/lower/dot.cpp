// Matrix products on registers: by mma.sync, or element by element.
#include <array>

#include "codegen/lower/lowering.h"
#include "codegen/target/mma.h"

namespace tegula::lower {

namespace {

using Coordinates = std::vector<int32_t>;

// Registers of a tile by the register part of their coordinates, the last two of which wrap around at the tile's
// extents: what lies beyond is a copy.
class Fragment {
 public:
  Fragment(Lowering& l, const ir::Value* x) : shape_(x->type.shape) {
    const Regs& regs = l.get(x);
    for (int r = 0; r < int(regs.size()); ++r) map_.try_emplace(x->type.layout->apply({{Dim::Register, r}}), regs[r]);
  }
  /// Element (i, j) of the matrix that `batch` (i and j in it do not matter) is in.
  llvm::Value*& at(Coordinates batch, int64_t i, int64_t j) {
    const size_t rank = batch.size();
    batch[rank - 2] = int32_t(i % shape_[rank - 2]), batch[rank - 1] = int32_t(j % shape_[rank - 1]);
    auto it = map_.find(batch);
    TEGULA_CHECK(it != map_.end(), "a dot operand's layout is no fragment: no register at ({}, {})", i, j);
    return it->second;
  }
  const std::map<Coordinates, llvm::Value*>& registers() const { return map_; }
  /// float8 as half, exactly.
  void widen_float8(Lowering& l, Elem from) {
    Regs x;
    for (auto& [place, value] : map_) x.push_back(value);
    x = l.widen_float8(from, x);
    auto next = x.begin();
    for (auto& [place, value] : map_) value = *next++;
  }

 private:
  ir::Shape shape_;
  std::map<Coordinates, llvm::Value*> map_;
};

// One instruction for each block of m16n8 by its K that the warp owns. A 32-bit register holds neighbours along K, as
// many as fit (`run_`); fragment registers are found by coordinate: in lane 0 they begin at rows {0, 8} and k {0, 4
// run_} (A), k {0, 4 run_} (B), and sums are at rows {0, 8} and columns {0, 1}. Operands that the instruction takes in
// wider form have longer runs than its registers hold: then it takes parts of each run, since the order of K does not
// matter. Tiles smaller than a block: rows and columns beyond them are copies and give copies of the sums; beyond K
// both operands are zero.
//
// fp32 operands are rounded to tf32. For tf32x3 each is the sum of two such numbers, and all products of these but the
// smallest are summed up, the small ones apart from the others: where operands are infinite these give NaNs, and do not
// count.
class MmaProduct {
 public:
  MmaProduct(Lowering& l, const ir::Op& op, const MmaInstruction& instruction)
      : l_(l),
        row_(instruction.hw_name(8)),
        k_extent_(op.operand(0)->type.shape.back()),
        run_(32 / op.operand(0)->type.bits()),
        packed_(instruction.k / 8),
        in_tf32_(instruction.a == Elem::F32),
        in_parts_(in_tf32_ && precision_of(op) == MmaPrecision::Tf32x3) {
    if (k_extent_ < 4 * run_) lane_k_ = l.b.CreateMul(l.b.CreateAnd(l.thread(), l.i32(3)), l.i32(run_));
  }

  void run(Fragment& a, Fragment& b, Fragment& acc) {
    // Origins of the blocks: accumulator registers whose coordinates are multiples of the instruction's.
    const auto origins = acc.registers();
    for (auto& [origin, first] : origins) {
      const int64_t m = origin[origin.size() - 2], n = origin.back();
      if (m % 16 || n % 8) continue;
      llvm::Type* result = first->getType();
      llvm::Type* sum = result->isHalfTy() ? l_.b.getFloatTy() : result;
      Regs sums, rest(4, llvm::Constant::getNullValue(sum));
      for (int64_t i : {0, 8})
        for (int64_t j : {0, 1}) {
          llvm::Value* x = acc.at(origin, m + i, n + j);
          sums.push_back(result == sum ? x : l_.b.CreateFPExt(x, sum));
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
          x = l_.b.CreateFAdd(x, l_.b.CreateSelect(exists, rest[r], llvm::Constant::getNullValue(sum)));
        }
        acc.at(origin, m + 8 * int64_t(r / 2), n + int64_t(r % 2)) = result == sum ? x : l_.b.CreateFPTrunc(x, result);
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
    args.append(sums.begin(), sums.end());
    llvm::Value* d = l_.hw(row_, args);
    for (unsigned i = 0; i < 4; ++i) sums[i] = l_.b.CreateExtractValue(d, i);
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
    if (!in_tf32_) return {x, nullptr};
    Parts& parts = parts_[x];
    if (parts[0]) return parts;
    parts[0] = l_.hw("cvt_rna_tf32_f32", {x});
    if (!in_parts_) return parts;
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
  const int run_, packed_;
  const bool in_tf32_, in_parts_;
  llvm::Value* lane_k_ = nullptr;  // the thread's first k, where it may be beyond K
  std::map<llvm::Value*, Parts> parts_;
  std::map<std::pair<int64_t, std::vector<llvm::Value*>>, Parts> words_;  // by k and the elements from there
};

// Each thread multiplies the rows and columns of its own sums; fp16 sums are kept in fp32 until the end.
void multiply_elements(Lowering& l, const ir::Op& op, Fragment& a, Fragment& b, Fragment& acc) {
  const ir::Type& type = op.operand(0)->type;
  llvm::Type* result = l.element_type(op.result()->type);
  llvm::Type* sum = result->isHalfTy() ? l.b.getFloatTy() : result;
  const bool is_signed = tegula::is_signed(type.elem);
  std::map<llvm::Value*, llvm::Value*> widened;
  auto widen = [&](llvm::Value* x) {
    llvm::Value*& wide = widened[x];
    if (!wide) wide = sum->isIntegerTy() ? l.b.CreateIntCast(x, sum, is_signed) : l.b.CreateFPCast(x, sum);
    return wide;
  };
  const auto sums = acc.registers();
  for (auto& [place, start] : sums) {
    const int64_t m = place[place.size() - 2], n = place.back();
    llvm::Value* x = widen(start);
    for (int64_t k = 0; k < type.shape.back(); ++k) {
      llvm::Value *left = widen(a.at(place, m, k)), *right = widen(b.at(place, k, n));
      x = sum->isIntegerTy() ? l.b.CreateAdd(l.b.CreateMul(left, right), x)
                             : l.b.CreateIntrinsic(llvm::Intrinsic::fma, {sum}, {left, right, x});
    }
    acc.at(place, m, n) = sum->isIntegerTy() ? x : l.b.CreateFPCast(x, result);
  }
}

}  // namespace

void lower_Dot(Lowering& l, const ir::Op& op) {
  const ir::Value* sums = op.operand(2);
  Fragment a(l, op.operand(0)), b(l, op.operand(1)), acc(l, sums);
  const MmaInstruction* instruction = find_mma(op, MmaPath::Sync, l.target);
  if (is_float8(op.operand(0)->type.elem) && (!instruction || !is_float8(instruction->a))) {
    a.widen_float8(l, op.operand(0)->type.elem);
    b.widen_float8(l, op.operand(1)->type.elem);
  }
  if (instruction)
    MmaProduct(l, op, *instruction).run(a, b, acc);
  else
    multiply_elements(l, op, a, b, acc);
  Regs out;
  for (int r = 0; r < Lowering::num_registers(sums->type); ++r)
    out.push_back(acc.registers().at(sums->type.layout->apply({{Dim::Register, r}})));
  l.set(op.result(), std::move(out));
}

}  // namespace tegula::lower
