#include "codegen/analysis/conversion.h"

#include <algorithm>
#include <bit>

#include "codegen/layout/axis_order.h"
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

// The layout with as many bits of `block` as the other one has, where it has none: each block holds the whole tile.
LinearLayout with_blocks_of(const LinearLayout& layout, const LinearLayout& other) {
  if (!other.in_bits(Dim::Block) || layout.in_bits(Dim::Block)) return layout;
  std::vector<LinearLayout::In> ins = layout.ins();
  std::erase_if(ins, [](const LinearLayout::In& in) { return in.dim == Dim::Block; });
  const LinearLayout::Basis copy(layout.outs().size(), 0);
  ins.push_back({Dim::Block, std::vector<LinearLayout::Basis>(size_t(other.in_bits(Dim::Block)), copy)});
  return LinearLayout(std::move(ins), layout.outs());
}

bool keeps(const LinearLayout& map, Dim dim) {
  for (auto& in : map.ins())
    for (int bit = 0; bit < int(in.bases.size()); ++bit)
      if (map.basis(in.dim, bit, dim) != (in.dim == dim ? 1 << bit : 0)) return false;
  return true;
}

constexpr size_t kMostSwaps = 2;  // beyond, shared memory is cheaper
constexpr int kMostBitsToSelectBy = 5, kMostSelections = 64;

// The swaps that make up a map within warps which only permutes bits; none where it is more than that.
std::vector<Conversion::Swap> find_swaps(const LinearLayout& map) {
  std::vector<Conversion::Swap> swaps;
  uint32_t from_lanes = 0, seen_registers = 0;
  for (auto& in : map.ins()) {
    for (int bit = 0; bit < int(in.bases.size()); ++bit) {
      const auto lane = uint32_t(map.basis(in.dim, bit, Dim::Lane)),
                 reg = uint32_t(map.basis(in.dim, bit, Dim::Register));
      if (in.dim == Dim::Warp || in.dim == Dim::Block) {
        if (lane || reg) return {};
        continue;
      }
      if (std::popcount(lane) + std::popcount(reg) != 1) return {};
      if (reg & seen_registers) return {};
      seen_registers |= reg;
      if (in.dim == Dim::Register) {
        from_lanes |= lane;
      } else if (lane && lane != 1u << bit) {
        return {};
      } else if (reg) {
        swaps.push_back({std::countr_zero(reg), bit});
      }
    }
  }
  uint32_t to_lanes = 0;
  for (auto& swap : swaps) to_lanes |= 1u << swap.lane_bit;
  return to_lanes == from_lanes && swaps.size() <= kMostSwaps ? swaps : std::vector<Conversion::Swap>();
}

}  // namespace

Conversion plan_conversion(const LinearLayout& from, const LinearLayout& to) {
  using enum Conversion::Route;
  const LinearLayout source = with_blocks_of(from, to), destination = with_blocks_of(to, from);
  // Where nothing is known of how the two are related, elements may come from anywhere.
  const bool divided = source.in_bits(Dim::Block) && source.free_mask(Dim::Block) + 1 != source.in_size(Dim::Block);
  Conversion::Route route = divided ? Cluster : Shared;
  auto found = destination.try_invert_and_compose(source);
  if (!found) return {route, {}, {}};
  LinearLayout map = prefer_own_copy(std::move(*found), source, destination, Dim::Lane);
  map = prefer_own_copy(std::move(map), source, destination, Dim::Warp);
  map = prefer_own_copy(std::move(map), source, destination, Dim::Block);
  if (map.in_bits(Dim::Block)) {
    if (!keeps(map, Dim::Block)) return {Cluster, {}, {}};
    route = Shared;
  }
  std::vector<Conversion::Swap> swaps;
  if (keeps(map, Dim::Warp)) {
    int lane_bits_in_register = 0, warp_bits_in_register = 0;  // on which the source's register depends
    bool block_in_register = false;
    for (auto& in : map.ins())
      for (int bit = 0; bit < int(in.bases.size()); ++bit)
        if (map.basis(in.dim, bit, Dim::Register) != 0) {
          lane_bits_in_register += in.dim == Dim::Lane;
          warp_bits_in_register += in.dim == Dim::Warp;
          block_in_register |= in.dim == Dim::Block;
        }
    const int bits = lane_bits_in_register + warp_bits_in_register;
    const bool own = keeps(map, Dim::Lane) && !block_in_register;
    const auto selections = [&] { return destination.remove_zero_registers().in_size(Dim::Register) << bits; };
    if (own && (bits == 0 || (bits <= kMostBitsToSelectBy && selections() <= kMostSelections))) {
      route = Registers;
    } else if (warp_bits_in_register == 0 && !block_in_register) {
      if (!(swaps = find_swaps(map)).empty())
        route = Exchange;
      else if (lane_bits_in_register <= 1)
        route = Shuffle;
    }
  }
  return {route, std::move(map), std::move(swaps)};
}

bool crosses_blocks(const ir::Op& op, int num_ctas) {
  if (num_ctas == 1 || op.results.empty()) return false;
  const ir::Type& from = op.operands.empty() || !op.operand(0) ? op.result()->type : op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  switch (op.opcode) {
    case ir::Opcode::Reduce:
      return from.layout && !bits_along(*from.layout, Dim::Block, int(op.get(ir::attr::axis))).empty();
    case ir::Opcode::Load:
    case ir::Opcode::AtomicRmw:
      return ir::is_by_owners(op) && !ir::is_per_block(op) &&
             (!to.layout || !to.layout->in_bits(Dim::Block) || to.layout->free_mask(Dim::Block));
    case ir::Opcode::ExpandDims:
    case ir::Opcode::Broadcast:
    case ir::Opcode::Reshape:
    case ir::Opcode::Trans:
    case ir::Opcode::ConvertLayout: {
      if (!from.layout || !to.layout || from.is_place()) return false;
      const auto view = operand_view(op);
      // Without a view the tile goes through shared memory in row-major order.
      return view ? plan_conversion(*from.layout, *view).route == Conversion::Route::Cluster
                  : from.layout->in_bits(Dim::Block) > 0;
    }
    default:
      return false;
  }
}

std::optional<LinearLayout> operand_view(const ir::Op& op) {
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  switch (op.opcode) {
    case ir::Opcode::ExpandDims:
      return to.layout->drop_tile_dim(int(op.get(ir::attr::axis)));
    case ir::Opcode::Broadcast: {
      LinearLayout view = *to.layout;
      for (int axis = 0; axis < from.rank(); ++axis)
        if (from.shape[axis] == 1) view = view.hold_tile_dim(axis);
      return view;
    }
    case ir::Opcode::Reshape:
      return to.layout->reshape_tile(from.shape);
    case ir::Opcode::Trans: {
      auto order = op.get(ir::attr::order);
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
