#include "codegen/analysis/conversion.h"

#include "runtime/base/check.h"

namespace tegula {

namespace {

// A basis of `map` for input (dim, bit) with its `out` coordinate replaced.
LinearLayout with_coordinate(const LinearLayout& map, Dim dim, int bit, Dim out, int32_t value) {
  auto ins = map.ins();
  size_t index = 0;
  while (map.outs()[index].dim != out) ++index;
  for (auto& in : ins)
    if (in.dim == dim) in.bases[bit][index] = value;
  return LinearLayout(std::move(ins), map.outs());
}

// Where the source holds copies (a lane or warp bit that does not matter), each thread reads its own copy rather than
// that of lane or warp 0.
LinearLayout prefer_own_copy(LinearLayout map, const LinearLayout& source, const LinearLayout& destination, Dim dim) {
  for (int bit = 0; bit < std::min(source.in_bits(dim), destination.in_bits(dim)); ++bit) {
    bool copy = true;
    for (int32_t coordinate : source.basis(dim, bit)) copy &= coordinate == 0;
    if (copy) map = with_coordinate(map, dim, bit, dim, map.basis(dim, bit, dim) ^ (1 << bit));
  }
  return map;
}

bool keeps(const LinearLayout& map, Dim dim) {
  for (auto& in : map.ins())
    for (int bit = 0; bit < int(in.bases.size()); ++bit)
      if (map.basis(in.dim, bit, dim) != (in.dim == dim ? 1 << bit : 0)) return false;
  return true;
}

}  // namespace

Conversion plan_conversion(const LinearLayout& source, const LinearLayout& destination) {
  LinearLayout map = destination.invert_and_compose(source);
  map = prefer_own_copy(std::move(map), source, destination, Dim::Lane);
  map = prefer_own_copy(std::move(map), source, destination, Dim::Warp);
  using enum Conversion::Route;
  Conversion::Route route = Shared;
  if (keeps(map, Dim::Warp)) {
    int lane_bits_in_register = 0;  // source registers that depend on the reading lane
    bool warp_in_register = false;
    for (auto& in : map.ins())
      for (int bit = 0; bit < int(in.bases.size()); ++bit)
        if (map.basis(in.dim, bit, Dim::Register) != 0) {
          lane_bits_in_register += in.dim == Dim::Lane;
          warp_in_register |= in.dim == Dim::Warp;
        }
    if (!warp_in_register) {
      if (lane_bits_in_register == 0 && keeps(map, Dim::Lane))
        route = Registers;
      else if (lane_bits_in_register <= 1)
        route = Shuffle;
    }
  }
  return {route, std::move(map)};
}

LinearLayout operand_view(const ir::Op& op) {
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  switch (op.opcode) {
    case ir::Opcode::ExpandDims:
      return to.layout->drop_tile_dim(int(op.attr_int("axis")));
    case ir::Opcode::Broadcast: {
      auto ins = to.layout->ins();
      auto outs = to.layout->outs();
      for (size_t o = 0; o < outs.size(); ++o) {
        if (from.shape[int(outs[o].dim) - int(Dim::Dim0)] != 1) continue;
        outs[o].size = 1;
        for (auto& in : ins)
          for (auto& basis : in.bases) basis[o] = 0;
      }
      return LinearLayout(std::move(ins), std::move(outs));
    }
    case ir::Opcode::Reshape:
      return to.layout->reshape_tile(from.shape);
    case ir::Opcode::Trans: {
      auto order = op.attr_ints("order");
      std::vector<int> inverse(order.size());
      for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = int(i);
      return to.layout->permute_tile(inverse);
    }
    case ir::Opcode::ConvertLayout:
      return *to.layout;
    default:
      TEGULA_UNREACHABLE("operand_view of '{}'", op.info().text);
  }
}

}  // namespace tegula
