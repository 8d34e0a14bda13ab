#include "kernels/tile_functions.h"

namespace tegula::kernels {

Tile relu(const Tile& x) { return where(x < 0, 0.0, x); }
Tile leaky_relu(const Tile& x, double slope) { return where(x < 0, slope * x, x); }
Tile silu(const Tile& x) { return x * sigmoid(x); }
Tile gelu(const Tile& x) { return 0.5 * x * (1.0 + erf(x * 0.7071067811865476)); }
Tile gelu_tanh(const Tile& x) { return x * sigmoid(x * (1.5957691216057308 + 0.07135481627260025 * x * x)); }
Tile gelu_tanh_fast(const Tile& x) {
  Tile half = 0.5 * x;
  return half + half * fast_tanhf(x * (0.7978845608028654 + 0.035677408136300125 * x * x));
}

Tile activated(const Tile& x, Activation activation) {
  switch (activation) {
    case Activation::None:
      return x;
    case Activation::Relu:
      return relu(x);
    case Activation::LeakyRelu:
      return leaky_relu(x);
    case Activation::Silu:
      return silu(x);
    case Activation::Gelu:
      return gelu(x);
    case Activation::GeluTanh:
      return gelu_tanh(x);
    case Activation::GeluTanhFast:
      return gelu_tanh_fast(x);
  }
  return x;
}

}  // namespace tegula::kernels
