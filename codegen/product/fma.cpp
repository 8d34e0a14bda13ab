// Products element by element: each thread multiplies the rows and columns of its own sums. Fits any product.
#include "codegen/layout/layout_builder.h"
#include "codegen/product/element_product.h"
#include "codegen/product/fragment.h"

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

  ProductCost cost(const ir::Op& dot, const Target&) const override { return lower::cost_by_elements(dot); }

  void lower(Lowering& l, const ir::Op& dot) const override {
    const ir::Type& type = dot.operand(0)->type;
    Fragment a(l, dot.operand(0)), b(l, dot.operand(1)), acc(l, dot.operand(2));
    if (is_float8(type.elem)) {
      a.widen_float8(l);
      b.widen_float8(l);
    }
    lower::ElementProduct product(l, dot);
    const auto sums = acc.registers();
    for (auto& [place, start] : sums) {
      const int64_t m = place[place.size() - 2], n = place.back();
      llvm::Value* x = product.widen(start);
      for (int64_t k = 0; k < type.shape.back(); ++k) x = product.add(x, a.at(place, m, k), b.at(place, k, n));
      acc.at(place, m, n) = product.finish(x);
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
