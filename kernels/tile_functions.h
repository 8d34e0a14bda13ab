// Activations as functions of Tiles, for the C++ functions that kernels of the library take.
#pragma once

#include "dsl/tile.h"
#include "kernels/activation.h"

namespace tegula::kernels {

Tile relu(const Tile& x);
Tile leaky_relu(const Tile& x, double slope = 0.01);
Tile silu(const Tile& x);
Tile gelu(const Tile& x);
Tile gelu_tanh(const Tile& x);
Tile gelu_tanh_fast(const Tile& x);
/// The function that an activation names.
Tile activated(const Tile& x, Activation activation);

}  // namespace tegula::kernels
