// Tiles of a recording as pictures (SVG).
#pragma once

#include <string>

#include "codegen/exec/debug/tile_view.h"

namespace tegula {

/// The values of a slice as colours, rows downwards; further axes at their first index. What is not finite is red, what
/// nobody has computed grey. Of more than 128 rows or columns every second, third, ... one is drawn.
std::string heat_map(const TileView& tile, const std::string& title, const TileSlice& slice);

/// Which thread and register holds each element of a slice (at most 32 x 32 of it): the colour tells warps apart. Where
/// lanes of a warp would meet in a bank of shared memory, if the tile were stored to a row-major array there by vectors
/// of up to 16 bytes, a red frame has the number of turns that the store takes.
std::string layout_picture(const TileView& tile, const std::string& title, const TileSlice& slice);

}  // namespace tegula
