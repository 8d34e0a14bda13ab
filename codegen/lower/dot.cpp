// Matrix products on registers: by mma.sync, or element by element.
#include "codegen/lower/lowering.h"

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

bool by_mma(const ir::Type& a, const ir::Type& acc) {
  return (a.elem == Elem::F16 || a.elem == Elem::BF16 || is_float8(a.elem)) && acc.elem == Elem::F32;
}

// One m16n8k16 instruction for each 16 x 8 x 16 block that the warp owns. Fragment registers are found by coordinate:
// in lane 0 they hold rows {0, 8}, and pairs of columns {0, 1} and {8, 9} (A), k {0, 1} and {8, 9} (B). Tiles smaller
// than a block: rows and columns beyond them are copies and give copies of the sums; beyond K both operands are zero.
// Operands of 8 bits that were widened hold runs of 4 instead of 2 along K, so 32 for the two instructions that take
// two of each run: the sums do not depend on the order of K.
void multiply_mma(Lowering& l, const ir::Op& op, Fragment& a, Fragment& b, Fragment& acc) {
  const ir::Type& type = op.operand(0)->type;
  const char* row = type.elem == Elem::BF16 ? "mma_m16n8k16_bf16" : "mma_m16n8k16_f16";
  const int64_t k_extent = type.shape.back();
  const int64_t run = 32 / type.bits(), step = 8 * run;
  llvm::Value* lane_k = nullptr;  // the thread's first k
  if (k_extent < 4 * run) lane_k = l.b.CreateMul(l.b.CreateAnd(l.thread(), l.i32(3)), l.i32(run));
  auto within_k = [&](llvm::Value* x, int64_t k) -> llvm::Value* {
    llvm::Value* zero = llvm::Constant::getNullValue(x->getType());
    if (k % step >= k_extent) return zero;
    if (!lane_k) return x;
    return l.b.CreateSelect(l.b.CreateICmpULT(l.b.CreateAdd(lane_k, l.i32(k)), l.i32(k_extent)), x, zero);
  };
  auto pair = [&](llvm::Value* low, llvm::Value* high, int64_t k) {
    return l.pack({within_k(low, k), within_k(high, k + 1)}, 32)[0];
  };
  // Origins of the blocks: accumulator registers whose coordinates are multiples of the instruction's.
  const auto origins = acc.registers();
  for (auto& [origin, unused] : origins) {
    const int64_t m = origin[origin.size() - 2], n = origin.back();
    if (m % 16 || n % 8) continue;
    llvm::SmallVector<llvm::Value*, 4> c;
    for (int64_t i : {0, 8})
      for (int64_t j : {0, 1}) c.push_back(acc.at(origin, m + i, n + j));
    for (int64_t at = 0; at < k_extent; at += step)
      for (int64_t k = at; k < at + run; k += 2) {
        llvm::SmallVector<llvm::Value*> args;
        for (int64_t half : {int64_t(0), step / 2})
          for (int64_t i : {0, 8})
            args.push_back(pair(a.at(origin, m + i, k + half), a.at(origin, m + i, k + half + 1), k + half));
        for (int64_t half : {int64_t(0), step / 2})
          args.push_back(pair(b.at(origin, k + half, n), b.at(origin, k + half + 1, n), k + half));
        args.append(c.begin(), c.end());
        llvm::Value* d = l.hw(row, args);
        for (unsigned i = 0; i < 4; ++i) c[i] = l.b.CreateExtractValue(d, i);
      }
    for (int64_t i : {0, 1})
      for (int64_t j : {0, 1}) acc.at(origin, m + 8 * i, n + j) = c[size_t(2 * i + j)];
  }
}

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
  if (op.operand(0)->type.shared) return lower_wgmma(l, op);
  Fragment a(l, op.operand(0)), b(l, op.operand(1)), acc(l, sums);
  if (is_float8(op.operand(0)->type.elem)) {
    a.widen_float8(l, op.operand(0)->type.elem);
    b.widen_float8(l, op.operand(1)->type.elem);
  }
  (by_mma(op.operand(0)->type, sums->type) ? multiply_mma : multiply_elements)(l, op, a, b, acc);
  Regs out;
  for (int r = 0; r < Lowering::num_registers(sums->type); ++r)
    out.push_back(acc.registers().at(sums->type.layout->apply({{Dim::Register, r}})));
  l.set(op.result(), std::move(out));
}

}  // namespace tegula::lower
