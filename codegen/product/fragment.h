// Registers of a product's tiles by coordinate, for the families that multiply from registers.
#pragma once

#include <map>
#include <vector>

#include "codegen/lower/lowering.h"

namespace tegula::lower {

/// Registers of a tile by the register part of their coordinates, the last two of which wrap around at the tile's
/// extents: what lies beyond is a copy.
class Fragment {
 public:
  using Coordinates = LinearLayout::Basis;

  Fragment(Lowering& l, const ir::Value* x) : type_(x->type) {
    const Regs& regs = l.get(x);
    for (int r = 0; r < int(regs.size()); ++r) map_.try_emplace(type_.layout->apply({{Dim::Register, r}}), regs[r]);
  }

  /// Element (i, j) of the matrix that `batch` selects; the last two coordinates in `batch` are ignored.
  llvm::Value*& at(Coordinates batch, int64_t i, int64_t j) {
    const size_t rank = batch.size();
    const ir::Shape& shape = type_.shape;
    batch[rank - 2] = int32_t(i % shape[rank - 2]), batch[rank - 1] = int32_t(j % shape[rank - 1]);
    auto it = map_.find(batch);
    TEGULA_CHECK(it != map_.end(), "a dot operand's layout is no fragment: no register at ({}, {})", i, j);
    return it->second;
  }
  const std::map<Coordinates, llvm::Value*>& registers() const { return map_; }

  /// Converts float8 to half, exactly. It goes in the order of registers, so that the pairs that are converted together
  /// come from one word.
  void widen_float8(Lowering& l) {
    Regs x;
    std::vector<llvm::Value**> values;
    for (int r = 0; r < Lowering::num_registers(type_); ++r)
      if (Lowering::canonical_register(type_, r) == r) {
        values.push_back(&map_.at(type_.layout->apply({{Dim::Register, r}})));
        x.push_back(*values.back());
      }
    x = l.widen_float8(type_.elem, x);
    for (size_t i = 0; i < values.size(); ++i) *values[i] = x[i];
  }

  /// The registers in the tile's order.
  Regs in_order() const {
    Regs out;
    for (int r = 0; r < Lowering::num_registers(type_); ++r)
      out.push_back(map_.at(type_.layout->apply({{Dim::Register, r}})));
    return out;
  }

 private:
  ir::Type type_;
  std::map<Coordinates, llvm::Value*> map_;
};

}  // namespace tegula::lower
