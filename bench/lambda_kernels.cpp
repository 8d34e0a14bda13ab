// The kernels of C++ functions that lambda_kernels.py measures beside torch: a library with one C function each.
//
// Each takes an array of device addresses, outputs first, then the extents, and a stream, and returns null or the text
// of the error.
#include <string>

#include "dsl/tegula.h"
#include "kernels/kernels.h"

using namespace tegula;
using namespace tegula::kernels;

namespace {

Device& device() {
  static Device* const found = default_device();
  return *found;
}

template <class F>
const char* guarded(const F& launch) {
  static thread_local std::string text;
  try {
    launch();
    return nullptr;
  } catch (const std::exception& error) {
    text = error.what();
    return text.c_str();
  }
}

Tensor strided(void* address, Elem elem, std::initializer_list<int64_t> shape, std::initializer_list<int64_t> strides) {
  Tensor t(reinterpret_cast<uint64_t>(address), elem, shape);
  std::copy(strides.begin(), strides.end(), t.strides.begin());
  return t;
}
Tensor dense(void* address, Elem elem, std::initializer_list<int64_t> shape) {
  return {reinterpret_cast<uint64_t>(address), elem, shape};
}

const auto gated = elementwise_kernel("gated", [](Tile x, Tile y, Tile bias) { return silu(x + bias) * y; });

const auto norm_quantise = row_kernel("norm_quantise", [](const RowTile& row, Tile x, Tile residual, Tile weight) {
  Tile h = x + residual;
  Tile y = h * rsqrt(row.mean(h * h) + 1e-6f) * weight;
  Tile scale = maximum(row.max(abs(y)) / 127.0f, 1e-12f);
  return std::array{y / scale, h, scale};
});

const auto modulate =
    row_kernel("modulate", [](const RowTile& row, Tile x, Tile branch, Tile gate, Tile scale, Tile shift) {
      Tile h = x + gate * branch;
      Tile centered = h - row.mean(h);
      Tile y = centered * rsqrt(row.mean(centered * centered) + 1e-6f) * (1.0f + scale) + shift;
      Tile most = maximum(row.max(abs(y)) / 448.0f, 1e-12f);
      return std::array{y / most, h, most};
    });

}  // namespace

extern "C" {

/// silu(x + bias) * y of bfloat16; x as given, or transposed in memory.
const char* bench_gated(void** p, int64_t rows, int64_t cols, int transposed, void* stream) {
  return guarded([&] {
    const Tensor x =
        transposed ? strided(p[1], Elem::BF16, {rows, cols}, {1, rows}) : dense(p[1], Elem::BF16, {rows, cols});
    gated.launch(device(), dense(p[0], Elem::BF16, {rows, cols}),
                 {x, dense(p[2], Elem::BF16, {rows, cols}), dense(p[3], Elem::BF16, {cols})}, stream);
  });
}

/// int8 results, the sum in place of the residual, scales; from x, residual, weight of bfloat16.
const char* bench_norm_quantise(void** p, int64_t rows, int64_t cols, void* stream) {
  return guarded([&] {
    norm_quantise.launch(
        device(),
        {dense(p[0], Elem::I8, {rows, cols}), dense(p[1], Elem::BF16, {rows, cols}), dense(p[2], Elem::F32, {rows, 1})},
        {dense(p[3], Elem::BF16, {rows, cols}), dense(p[4], Elem::BF16, {rows, cols}), dense(p[5], Elem::BF16, {cols})},
        stream);
  });
}

/// float8 results, the sum, scales; from x, branch of batch x tokens x cols, gate, scale, shift of batch x cols.
const char* bench_modulate(void** p, int64_t batch, int64_t tokens, int64_t cols, void* stream) {
  return guarded([&] {
    auto whole = [&](void* address, Elem elem) { return dense(address, elem, {batch, tokens, cols}); };
    auto each = [&](void* address) { return dense(address, Elem::BF16, {batch, 1, cols}); };
    modulate.launch(device(),
                    {whole(p[0], Elem::F8E4M3), whole(p[1], Elem::BF16), dense(p[2], Elem::F32, {batch, tokens, 1})},
                    {whole(p[3], Elem::BF16), whole(p[4], Elem::BF16), each(p[5]), each(p[6]), each(p[7])}, stream);
  });
}

}  // extern "C"
