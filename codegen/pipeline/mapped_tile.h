// Tiles of arrays as tensor maps and coordinates.
#pragma once

#include <vector>

#include "codegen/ir/builder.h"
#include "codegen/pipeline/affine_tile.h"

namespace tegula {

/// A tile of an array, its dimensions in the order in which boxes in shared memory have them.
struct MappedTile {
  AffineTile tile;
  std::vector<int64_t> box;  ///< its extents along the tile's axes
  int swizzle;               ///< bytes of its rows, or 0
};

/// Ahead of which op tensor maps stand.
ir::Builder where_maps_stand(ir::Func& func, const Loc& loc);
/// The map of the tile's array, where the function begins. `tiles` found the tile.
ir::Value* make_map(ir::Builder& build, const AffineTiles& tiles, const MappedTile& mapped);
/// Where in the array the tile begins. `shape`: of the tile.
std::vector<ir::Value*> make_coordinates(ir::Builder& build, const AffineTiles& tiles, const MappedTile& mapped,
                                         const ir::Shape& shape);
/// The tile's axis along each of the array's dimensions; -1: none.
ir::Ints axes_of(const MappedTile& mapped);

/// Whether a launch makes as many maps as the function has, and computes as much for them.
bool launch_makes_maps(const ir::Func& func);

}  // namespace tegula
