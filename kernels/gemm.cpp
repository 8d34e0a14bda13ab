#include "kernels/gemm.h"

#include <algorithm>
#include <bit>

#include "dsl/embedded/trace.h"
#include "kernels/gemm_kernel.h"
#include "kernels/kernels.h"
#include "kernels/library.h"

namespace tegula::kernels {

namespace detail {

std::optional<GemmCall> gemm_call(Device& device, const AnyMatrix& c, const AnyMatrix& a, const AnyMatrix& b,
                                  const AnyGemmOptions& options) {
  Call call("gemm", c);
  call.any_matrix("a", a);
  call.any_matrix("b", b);
  const auto [m, k] = options.transpose_a ? std::pair(a.cols, a.rows) : std::pair(a.rows, a.cols);
  const auto [b_rows, n] = options.transpose_b ? std::pair(b.cols, b.rows) : std::pair(b.rows, b.cols);
  auto given = [](const AnyMatrix& x, bool transposed) {
    return fmt::format("{} x {}{}", x.rows, x.cols, transposed ? ", transposed" : "");
  };
  if (k != b_rows)
    call.refuse(fmt::format("a is {} and b is {}: {} columns against {} rows", given(a, options.transpose_a),
                            given(b, options.transpose_b), k, b_rows));
  if (c.rows != m || c.cols != n) call.refuse(fmt::format("out is {} x {}, but a b is {} x {}", c.rows, c.cols, m, n));
  if (options.bias.given()) call.vector("bias", options.bias);
  if (call.empty()) return std::nullopt;
  if (call.same(c, a) || call.same(c, b)) call.refuse("out is an input, which other programs still read");
  const bool ta = options.transpose_a, tb = options.transpose_b;
  // A product without depth reads no operand, so that any address does.
  auto operand = [&](AnyMatrix x) {
    if (!x.address) x.address = c.address;
    return pointer(x);
  };
  const auto m_class = int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(m, 16))));
  return GemmCall{{pointer(c), operand(a), operand(b), pointer(options.bias), integer(m), integer(n), integer(k),
                   integer(ta ? 1 : a.stride), integer(ta ? a.stride : 1), integer(tb ? 1 : b.stride),
                   integer(tb ? b.stride : 1), integer(c.stride), integer(1), integer(m_class)},
                  m,
                  n,
                  device.info().num_sms};
}

void gemm(Device& device, AnyMatrix c, AnyMatrix a, AnyMatrix b, const AnyGemmOptions& options, StreamHandle stream) {
  static const auto kernels = by_activation("gemm.py", "gemm", "EPILOGUE", {"c_ptr"});
  if (const auto call = gemm_call(device, c, a, b, options))
    kernels[size_t(options.epilogue)].launch(device, tegula::detail::GridRef(*call), false, stream, call->args);
}

namespace {

// Reports an epilogue whose result is no tile of the accumulator's shape, which would be broadcast to it, at the place
// where the kernel is made.
void check_epilogue(const Tile& result, const Tile& acc) {
  using tegula::detail::Access;
  using tegula::detail::Trace;
  Trace& trace = Trace::current();
  const dsl::Val found = trace.read(Access::slot(result).get()), expected = trace.read(Access::slot(acc).get());
  if (!expected.is_value() || found.is_poison()) return;
  if (found.is_value() && found.value()->type.shape == expected.value()->type.shape) return;
  trace.sema().at(trace.func().loc);
  trace.sema().error(
      fmt::format("the epilogue of '{}' gives {}, expected the accumulator's shape: {}", trace.func().name,
                  dsl::describe(found), dsl::describe(expected)),
      "it maps the accumulator element by element: what a whole row gives, such as a sum, takes a kernel of its own; a "
      "vector is brought to the shape by broadcast_to(x[{all, none}], ...)");
}

// The tile of C with that number.
void record_tile(const GemmParams& p, const Tile& program, const std::function<Tile(Tile, const GemmTile&)>& epilogue) {
  const auto [BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, unused] = p.blocks;
  auto inside = [](const Tile& at, const Tile& extent, bool even) {
    return even ? full(at.attribute("shape"), true, tl::int1) : at < extent;
  };
  // GROUP_M rows of tiles are gone through column by column, so that programs that run at a time share rows of A and
  // columns of B in the L2 cache.
  Tile group = GROUP_M * cdiv(p.N, BLOCK_N);
  Tile first = floordiv(program, group) * GROUP_M;
  Tile height = minimum(cdiv(p.M, BLOCK_M) - first, GROUP_M);
  Tile tile_m = first + program % group % height, tile_n = floordiv(program % group, height);
  // The tile's corner may lie beyond 2^31 elements; within the tile 32 bits do.
  Tile first_row = (tile_m * BLOCK_M).to(tl::int64), first_col = (tile_n * BLOCK_N).to(tl::int64);
  Tile row = arange(0, BLOCK_M), col = arange(0, BLOCK_N), depth = arange(0, BLOCK_K);
  GemmTile at;
  at.rows = tile_m * BLOCK_M + row;
  at.cols = tile_n * BLOCK_N + col;
  at.row_mask = inside(at.rows, p.M, p.even[0]);
  at.col_mask = inside(at.cols, p.N, p.even[1]);

  Tile a_ptrs = p.a + first_row * p.stride_am + row[{all, none}] * p.stride_am + depth[{none, all}] * p.stride_ak;
  Tile b_ptrs = p.b + first_col * p.stride_bn + depth[{all, none}] * p.stride_bk + col[{none, all}] * p.stride_bn;
  Tile acc = zeros(list({BLOCK_M, BLOCK_N}), tl::float32);
  for (Tile k : range(0, cdiv(p.K, BLOCK_K))) {
    Tile depth_mask = inside(depth, p.K - k * BLOCK_K, p.even[2]);
    Tile a = load(a_ptrs, at.row_mask[{all, none}] & depth_mask[{none, all}], 0.0);
    Tile b = load(b_ptrs, depth_mask[{all, none}] & at.col_mask[{none, all}], 0.0);
    acc = dot(a, b, acc);
    a_ptrs += BLOCK_K * p.stride_ak;
    b_ptrs += BLOCK_K * p.stride_bk;
  }
  if (p.has_bias) acc += load(p.bias + first_col + col, at.col_mask, 0.0).to(tl::float32)[{none, all}];
  Tile result = epilogue(acc, at);
  check_epilogue(result, acc);
  Tile c_ptrs = p.c + first_row * p.stride_cm + first_col * p.stride_cn + row[{all, none}] * p.stride_cm +
                col[{none, all}] * p.stride_cn;
  store(c_ptrs, result.to(p.c.dtype().element_ty()), at.row_mask[{all, none}] & at.col_mask[{none, all}]);
}

}  // namespace

void record_gemm(const GemmParams& p, const std::function<Tile(Tile, const GemmTile&)>& epilogue) {
  const auto [BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, PROGRAMS] = p.blocks;
  if (!PROGRAMS) return record_tile(p, program_id(0), epilogue);
  for (Tile program : range(program_id(0), cdiv(p.M, BLOCK_M) * cdiv(p.N, BLOCK_N), num_programs(0)))
    record_tile(p, program, epilogue);
}

Kernel tuned_as_gemm(const Kernel& kernel) {
  static const Autotune tuning = *library_program("gemm.py").kernel("gemm").autotuning();
  auto even = [](const char* param, const char* extent, const char* block) {
    return Heuristic{param, [=](const LaunchArgs& args) { return args.integer(extent) % args.integer(block) == 0; }};
  };
  return kernel.autotune(tuning).heuristics(
      {even("EVEN_M", "M", "BLOCK_M"), even("EVEN_N", "N", "BLOCK_N"), even("EVEN_K", "K", "BLOCK_K")});
}

}  // namespace detail

Tile GemmTile::of_columns(const Tile& vector) const {
  return load(vector + cols, col_mask, 0.0).to(tl::float32)[{none, all}];
}

Tile GemmTile::of_matrix(const Tile& matrix, const Tile& stride) const {
  return load(matrix + rows.to(tl::int64)[{all, none}] * stride + cols[{none, all}],
              row_mask[{all, none}] & col_mask[{none, all}], 0.0)
      .to(tl::float32);
}

Tile relu(const Tile& x) { return where(x < 0, 0.0, x); }
Tile leaky_relu(const Tile& x, double slope) { return where(x < 0, slope * x, x); }
Tile silu(const Tile& x) { return x * sigmoid(x); }
Tile gelu(const Tile& x) { return 0.5 * x * (1.0 + erf(x * 0.7071067811865476)); }
Tile gelu_tanh(const Tile& x) { return x * sigmoid(x * (1.5957691216057308 + 0.07135481627260025 * x * x)); }
Tile gelu_tanh_fast(const Tile& x) {
  Tile half = 0.5 * x;
  return half + half * fast_tanhf(x * (0.7978845608028654 + 0.035677408136300125 * x * x));
}

}  // namespace tegula::kernels
