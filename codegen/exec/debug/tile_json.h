// Tiles of a recording as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "codegen/exec/debug/tile_view.h"

namespace tegula {

/// The slice's elements in lists, an axis in each; of a scalar its value. Null: not known. What JSON has no number for
/// (infinities, NaNs) and pointers are texts.
nlohmann::ordered_json tile_json(const TileView& tile, const TileSlice& slice);

}  // namespace tegula
