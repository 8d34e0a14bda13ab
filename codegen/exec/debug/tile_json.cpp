#include "codegen/exec/debug/tile_json.h"

#include <cmath>

namespace tegula {

namespace {

using Json = nlohmann::ordered_json;

Json json_number(const TileView& tile, int64_t element) {
  if (!tile.has(element)) return nullptr;
  const double x = tile.number(element);
  if (tile.place().pointer || !std::isfinite(x)) return tile.text(element);
  if (tile.place().elem == Elem::I1) return x != 0;
  return is_float(tile.place().elem) ? Json(x) : Json(int64_t(x));
}

Json json_values(const TileView& tile, const TileSlice& slice, std::vector<int64_t>& at) {
  if (at.size() == slice.axes.size()) return json_number(tile, tile.element_at(at));
  Json out = Json::array();
  const auto axis = slice.axes[at.size()];
  for (int64_t i = axis.begin; i < axis.end; ++i) {
    at.push_back(i);
    out.push_back(json_values(tile, slice, at));
    at.pop_back();
  }
  return out;
}

}  // namespace

Json tile_json(const TileView& tile, const TileSlice& slice) {
  std::vector<int64_t> at;
  return json_values(tile, slice, at);
}

}  // namespace tegula
