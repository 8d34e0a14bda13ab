// Products element by element: each thread multiplies the rows and columns of its own sums. Fits any product.
#include "codegen/analysis/register_pressure.h"
#include "codegen/layout/layout_builder.h"
#include "codegen/lower/lowering.h"
#include "codegen/product/fragment.h"
#include "codegen/product/plan.h"

namespace tegula {

namespace {

using lower::Fragment;
using lower::Lowering;

class Fma final : public ProductFamily {
 public:
  Fma() : ProductFamily("fma", false) {}

  std::optional<ProductPlan> plan(const ir::Op&, const ProductContext&) const override { return ProductPlan{this}; }

  /// Each thread has all of K for the rows (A) or columns (B) of its sums, which lie in any layout.
  LinearLayout operand_layout(const ProductPlan&, int operand, const ir::Type& type,
                              const LinearLayout& sums) const override {
    const int rank = type.rank(), k = operand == 0 ? rank - 1 : rank - 2;
    std::vector<LinearLayout::Out> outs;
    for (int axis = 0; axis < rank; ++axis) outs.push_back({tile_dim(axis), int32_t(type.shape[axis])});
    std::vector<LinearLayout::In> ins = sums.ins();
    for (LinearLayout::In& in : ins) {
      for (LinearLayout::Basis& basis : in.bases) basis[k] = 0;
      for (LinearLayout::Repeat& repeat : in.repeats) repeat.image[k] = 0;
      if (in.dim != Dim::Register) continue;
      for (int bit = 0; bit < block_bits(type.shape[k]); ++bit) {
        LinearLayout::Basis along(rank, 0);
        along[k] = int32_t(1) << bit;
        in.bases.push_back(std::move(along));
      }
      for (LinearLayout::Repeat& repeat : repeats_of_tile(type.shape, {k})) in.repeats.push_back(std::move(repeat));
    }
    return LinearLayout(std::move(ins), std::move(outs)).remove_zero_registers();
  }

  ProductCost cost(const ir::Op& dot, const Target&) const override {
    const ir::Type& sums = dot.result()->type;
    const double k = double(dot.operand(0)->type.shape.back());
    return {.flops = flops_of(dot), .fmas = double(held_elements(sums)) * k * (sums.bits() == 64 ? 2 : 1)};
  }

  /// fp16 sums are kept in fp32 until the end.
  void lower(Lowering& l, const ir::Op& dot) const override {
    const ir::Type& type = dot.operand(0)->type;
    Fragment a(l, dot.operand(0)), b(l, dot.operand(1)), acc(l, dot.operand(2));
    if (is_float8(type.elem)) {
      a.widen_float8(l);
      b.widen_float8(l);
    }
    llvm::Type* result = l.element_type(dot.result()->type);
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
    l.set(dot.result(), acc.in_order());
  }
};

}  // namespace

const ProductFamily& fma_family() {
  static const Fma family;
  return family;
}

}  // namespace tegula
