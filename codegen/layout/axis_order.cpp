#include "codegen/layout/axis_order.h"

#include <bit>
#include <map>

namespace tegula {

namespace {

struct Place {
  Dim dim;
  int bit;
};

// Where each bit of the coordinate comes from, if each comes from one bit that moves along nothing else.
std::optional<std::vector<Place>> find_places(const LinearLayout& layout, int axis) {
  std::map<int, Place> found;
  for (const LinearLayout::In& in : layout.ins())
    for (int bit = 0; bit < int(in.bases.size()); ++bit) {
      const int32_t moved = layout.basis(in.dim, bit, tile_dim(axis));
      if (!moved) continue;
      for (const LinearLayout::Out& out : layout.outs())
        if (out.dim != tile_dim(axis) && layout.basis(in.dim, bit, out.dim)) return std::nullopt;
      if (!std::has_single_bit(uint32_t(moved))) return std::nullopt;
      if (!found.emplace(std::countr_zero(uint32_t(moved)), Place{in.dim, bit}).second) return std::nullopt;
    }
  std::vector<Place> places;
  for (auto& [at, place] : found) places.push_back(place);
  return places;
}

}  // namespace

std::vector<int> bits_along(const LinearLayout& layout, Dim in, int axis) {
  std::vector<int> bits;
  for (int bit = 0; bit < layout.in_bits(in); ++bit)
    if (layout.basis(in, bit, tile_dim(axis))) bits.push_back(bit);
  return bits;
}

std::optional<AxisOrder> axis_order(const LinearLayout& layout, int axis) {
  const auto places = find_places(layout, axis);
  if (!places) return std::nullopt;
  AxisOrder order;
  size_t at = 0;
  auto take = [&](Dim dim, auto&& each) {
    for (; at < places->size() && (*places)[at].dim == dim; ++at) each((*places)[at].bit);
  };
  take(Dim::Register, [&](int) { order.run *= 2; });
  take(Dim::Lane, [&](int bit) { order.lane_bits.push_back(bit); });
  take(Dim::Warp, [&](int bit) { order.warp_bits.push_back(bit); });
  take(Dim::Register, [&](int) { order.rounds *= 2; });
  if (at < places->size()) return std::nullopt;
  order.rounds *= int(repeats_of(layout.out_size(tile_dim(axis))));
  return order;
}

}  // namespace tegula
