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

/// A builder at the position where tensor maps are placed.
ir::Builder where_maps_stand(ir::Func& func, const Loc& loc);
/// Creates the tensor map of the tile's array at the beginning of the function. `tiles` must have found the tile.
ir::Value* make_map(ir::Builder& build, const AffineTiles& tiles, const MappedTile& mapped);
/// The coordinates in the array at which the tile begins. `shape` is the tile's.
std::vector<ir::Value*> make_coordinates(ir::Builder& build, const AffineTiles& tiles, const MappedTile& mapped,
                                         const ir::Shape& shape);
/// The tile's axis along each of the array's dimensions; -1: none.
ir::Ints axes_of(const MappedTile& mapped);

/// Whether the function is within the limits of a launch on the number of maps and the arithmetic behind them.
bool launch_makes_maps(const ir::Func& func);

}  // namespace tegula
