// Matrix products by mma.sync on register fragments.
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

// Registers of a tile by the register part of their coordinates.
std::map<std::vector<int32_t>, llvm::Value*> by_coordinate(Lowering& l, const ir::Value* x) {
  std::map<std::vector<int32_t>, llvm::Value*> out;
  const Regs& regs = l.get(x);
  for (int r = 0; r < int(regs.size()); ++r) out.try_emplace(x->type.layout->apply({{Dim::Register, r}}), regs[r]);
  return out;
}

}  // namespace

// One m16n8k16 instruction for each 16 x 8 x 16 block that the warp owns. Fragment registers are found by coordinate:
// in lane 0 they hold rows {0, 8}, and pairs of columns {0, 1} and {8, 9} (A), k {0, 1} and {8, 9} (B).
void lower_Dot(Lowering& l, const ir::Op& op) {
  const ir::Value *a = op.operand(0), *b = op.operand(1), *acc = op.operand(2);
  if (a->type.shared) return lower_wgmma(l, op);
  auto a_regs = by_coordinate(l, a), b_regs = by_coordinate(l, b), acc_regs = by_coordinate(l, acc);
  const char* row = a->type.elem == Elem::BF16 ? "mma_m16n8k16_bf16" : "mma_m16n8k16_f16";
  auto at = [](auto& regs, int64_t i, int64_t j) {
    auto it = regs.find({int32_t(i), int32_t(j)});
    TEGULA_CHECK(it != regs.end(), "a dot operand's layout is no fragment: no register at ({}, {})", i, j);
    return it->second;
  };
  auto pair = [&](llvm::Value* low, llvm::Value* high) { return l.pack({low, high}, 32)[0]; };
  int64_t k_extent = a->type.shape[1];
  // Origins of the blocks: accumulator registers whose coordinates are multiples of the instruction's.
  std::map<std::vector<int32_t>, llvm::Value*> result = acc_regs;
  for (auto& [origin, unused] : acc_regs) {
    int64_t m = origin[0], n = origin[1];
    if (m % 16 || n % 8) continue;
    llvm::SmallVector<llvm::Value*, 4> c = {at(acc_regs, m, n), at(acc_regs, m, n + 1), at(acc_regs, m + 8, n),
                                            at(acc_regs, m + 8, n + 1)};
    for (int64_t k = 0; k < k_extent; k += 16) {
      llvm::SmallVector<llvm::Value*> args;
      for (int64_t half : {0, 8})
        for (int64_t row_offset : {0, 8})
          args.push_back(pair(at(a_regs, m + row_offset, k + half), at(a_regs, m + row_offset, k + half + 1)));
      for (int64_t half : {0, 8}) args.push_back(pair(at(b_regs, k + half, n), at(b_regs, k + half + 1, n)));
      args.append(c.begin(), c.end());
      llvm::Value* d = l.hw(row, args);
      for (unsigned i = 0; i < 4; ++i) c[i] = l.b.CreateExtractValue(d, i);
    }
    result[{int32_t(m), int32_t(n)}] = c[0];
    result[{int32_t(m), int32_t(n + 1)}] = c[1];
    result[{int32_t(m + 8), int32_t(n)}] = c[2];
    result[{int32_t(m + 8), int32_t(n + 1)}] = c[3];
  }
  Regs out;
  for (int r = 0; r < Lowering::num_registers(acc->type); ++r)
    out.push_back(result.at(acc->type.layout->apply({{Dim::Register, r}})));
  l.set(op.result(), std::move(out));
}

}  // namespace tegula::lower
