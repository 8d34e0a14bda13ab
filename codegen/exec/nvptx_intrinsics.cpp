#include "codegen/exec/nvptx_intrinsics.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <iterator>

namespace tegula {

namespace {

enum class Operands { Same, OfType, Shuffle, Barrier, Pairs };

struct Row {
  std::string_view instruction;  ///< the row's assembly up to its operands
  llvm::Intrinsic::ID intrinsic;
  Operands operands;
};
constexpr Row kRows[] = {
    {"shfl.sync.bfly.b32", llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, Operands::Shuffle},
    {"shfl.sync.idx.b32", llvm::Intrinsic::nvvm_shfl_sync_idx_i32, Operands::Shuffle},
    {"cvt.rna.tf32.f32", llvm::Intrinsic::nvvm_f2tf32_rna, Operands::Same},
    {"ex2.approx.f32", llvm::Intrinsic::nvvm_ex2_approx, Operands::OfType},
    {"ex2.approx.ftz.f32", llvm::Intrinsic::nvvm_ex2_approx_ftz, Operands::OfType},
    {"rcp.approx.ftz.f32", llvm::Intrinsic::nvvm_rcp_approx_ftz_f, Operands::Same},
    {"div.full.f32", llvm::Intrinsic::nvvm_div_full, Operands::Same},
    {"bar.sync 0;", llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, Operands::Barrier},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32,
     Operands::Same},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32,
     Operands::Pairs},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16,
     Operands::Same},
};

const Row* find(const lower::HwInfo& row) {
  const std::string_view text = row.assembly;
  if (!row.assembly_on.empty()) return nullptr;
  auto it = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) {
    return text.starts_with(r.instruction) && (r.instruction == text || text[r.instruction.size()] == ' ');
  });
  return it == std::end(kRows) ? nullptr : it;
}

llvm::SmallVector<llvm::Value*> operands_of(llvm::IRBuilder<>& b, const llvm::CallInst& call, Operands operands) {
  switch (operands) {
    case Operands::Shuffle:  // of all lanes of a warp
      return {b.getInt32(~0u), call.getArgOperand(0), call.getArgOperand(1), b.getInt32(0x1f)};
    case Operands::Barrier:
      return {b.getInt32(0)};
    case Operands::Pairs: {  // words of two float16 each
      llvm::Type* pair = llvm::FixedVectorType::get(b.getHalfTy(), 2);
      llvm::SmallVector<llvm::Value*> operands(call.args());
      for (llvm::Value*& operand : operands)
        if (operand->getType()->isIntegerTy(32)) operand = b.CreateBitCast(operand, pair);
      return operands;
    }
    default:
      return llvm::SmallVector<llvm::Value*>(call.args());
  }
}

}  // namespace

bool call_intrinsic(llvm::Function& f, const lower::HwInfo& row) {
  const Row* found = find(row);
  if (!found) return false;
  for (llvm::User* user : llvm::make_early_inc_range(f.users())) {
    auto& call = *llvm::cast<llvm::CallInst>(user);
    llvm::IRBuilder<> b(&call);
    llvm::SmallVector<llvm::Type*> types;
    if (found->operands == Operands::OfType) types.push_back(call.getType());
    llvm::CallInst* result = b.CreateIntrinsic(found->intrinsic, types, operands_of(b, call, found->operands));
    call.replaceAllUsesWith(result);
    call.eraseFromParent();
  }
  f.eraseFromParent();
  return true;
}

}  // namespace tegula
