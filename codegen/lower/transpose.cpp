// Transposes tiles of bytes in shared memory.
#include "codegen/layout/byte_transpose.h"
#include "codegen/lower/lowering.h"
#include "runtime/base/check.h"

namespace tegula::lower {

namespace {

constexpr int kRowBytes = 16;  // of a matrix

// The axis along which the place is contiguous.
int contiguous_axis(const ir::Type& place) { return place.layout->basis(Dim::Offset, 0, Dim::Dim0) == 1 ? 0 : 1; }

// Which bytes of two words a lane gives to the first matrix of a pair, and which to the second one (ByteTranspose).
std::pair<llvm::Value*, llvm::Value*> byte_selectors(Lowering& l) {
  auto lane_bit = [&](int bit) { return l.b.CreateTrunc(l.b.CreateLShr(l.thread(), uint64_t(bit)), l.b.getInt1Ty()); };
  llvm::Value* even = l.b.CreateSelect(lane_bit(1), l.i32(0x2064), l.i32(0x6420));
  llvm::Value* odd = l.b.CreateOr(even, l.i32(0x1111));
  llvm::Value* swaps = lane_bit(4);
  return {l.b.CreateSelect(swaps, odd, even), l.b.CreateSelect(swaps, even, odd)};
}

}  // namespace

void lower_SharedTranspose(Lowering& l, const ir::Op& op) {
  const ir::Type &from = op.operand(0)->type, &to = op.operand(1)->type;
  const int axis = contiguous_axis(from);
  TEGULA_CHECK(contiguous_axis(to) != axis, "shared_transpose between places of one order");
  const ByteTranspose plan = plan_byte_transpose(from.shape, axis, l.num_warps());
  const LinearLayout load = plan.load.invert_and_compose(*from.layout);
  const LinearLayout store = plan.store.invert_and_compose(*to.layout);
  llvm::Value *source = l.scalar(op.operand(0)), *target = l.scalar(op.operand(1)), *site = l.site(op.loc);
  const auto [first, second] = byte_selectors(l);
  for (int r = 0; r < load.in_size(Dim::Register); r += kRowBytes) {
    llvm::Value* words = l.hw("ldmatrix_x4_trans", {l.element_address(source, load, r, 1), site});
    llvm::SmallVector<llvm::Value*> args{l.element_address(target, store, r, 1)};
    for (unsigned pair : {0u, 2u}) {
      llvm::Value *low = l.b.CreateExtractValue(words, pair), *high = l.b.CreateExtractValue(words, pair + 1);
      for (llvm::Value* selector : {first, second}) args.push_back(l.hw("select_bytes", {low, high, selector}));
    }
    args.push_back(site);
    l.hw("stmatrix_x4", args);
  }
}

}  // namespace tegula::lower
