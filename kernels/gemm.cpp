#include "kernels/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/gemm_kernel.h"
#include "kernels/kernels.h"
#include "kernels/lay_along.h"
#include "kernels/library.h"
#include "kernels/products.h"
#include "kernels/recording.h"
#include "kernels/workspace_pieces.h"
#include "runtime/workspace.h"

namespace tegula::kernels {

namespace detail {

namespace {

// What gemm.py asks for: room for the partial sums of a tile of 128 x 256 on each of so many multiprocessors at least.
constexpr int64_t kProcessors = 132, kLargestTile = 128 * 256;

// Whether it may divide tiles: into two shares of two K-steps of 32 at least if they are few, or, if their last round
// may leave a sixteenth of the time unused, anywhere between K-steps, of which there are 64 of 32 at least then.
bool may_be_divided(int64_t m, int64_t n, int64_t k) {
  if (m * n <= kProcessors / 2 * kLargestTile) return k >= 4 * 32;
  return m * n <= 16 * kProcessors * kLargestTile && k >= 64 * 32 && k <= 1 << 24;
}

}  // namespace

int64_t row_class(int64_t m) {
  const auto above = int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(m, 16))));
  return above >= 64 && m <= above / 4 * 3 ? above / 4 * 3 : above;
}

AnyMatrix operand(const BoundCall& call, const char* name, bool& transposed) {
  const Tensor& t = *call.tensor(name);
  if (t.shape[1] <= 1 || t.strides[1] == 1) return {t.address, t.elem, t.shape[0], t.shape[1], t.strides[0]};
  if (t.shape[0] > 1 && t.strides[0] != 1)
    call.refuse(
        fmt::format("the elements of a row of {} lie {} apart and those of a column {}, expected side by side\n  "
                    "hint: pass a contiguous copy",
                    name, t.strides[1], t.strides[0]));
  transposed = !transposed;
  return {t.address, t.elem, t.shape[1], t.shape[0], t.strides[1]};
}

GemmOperands gemm_operands(const BoundCall& call) {
  AnyGemmOptions options;
  if (const Tensor* bias = call.tensor("bias")) options.bias = {bias->address, bias->elem, bias->shape[0]};
  options.transpose_a = call.flag("transpose_a");
  options.transpose_b = call.flag("transpose_b");
  const AnyMatrix a = operand(call, "a", options.transpose_a);
  const AnyMatrix b = operand(call, "b", options.transpose_b);
  return {a, b, options};
}

std::optional<GemmCall> gemm_call(Device& device, const AnyMatrix& c, const AnyMatrix& a, const AnyMatrix& b,
                                  const AnyGemmOptions& options, StreamHandle stream) {
  Call call("gemm", c);
  call.any_matrix("a", a);
  if (!options.make_b) call.any_matrix("b", b);
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
  std::array<Operand, 2> operands{{{a, !ta}, {b, tb}}};
  std::vector<Operand*> copied = operands_to_copy(2.0 * double(m) * double(n) * double(k), operands);
  if (copied_bytes(copied) > kMostCopied) copied.clear();
  const int64_t depth = copied.empty() ? k : copied_depth(k);
  Arg partials = nullptr, counters = nullptr;
  std::shared_ptr<const void> owner;
  const bool divided = may_be_divided(m, n, k);
  if (divided || !copied.empty() || options.make_b) {
    const int64_t sums =
        divided ? std::max<int64_t>(device.info().num_sms, kProcessors) * kLargestTile * int64_t(sizeof(float)) : 0;
    const size_t made = options.make_b ? WorkspacePieces::rounded(size_t(b.rows * b.stride * elem_bytes(b.elem))) : 0;
    const auto use = options.make_b || !copied.empty() ? WorkspaceUse::SeveralLaunches : WorkspaceUse::OneLaunch;
    Workspace workspace = device.workspace(stream, size_t(sums + copied_bytes(copied)) + made, use);
    if (divided) {
      partials = Arg::pointer(workspace.partials, Elem::F32, size_t(sums));
      counters = Arg::pointer(workspace.counters, Elem::I32, Workspace::kCounters * sizeof(int32_t));
    }
    uint64_t free = workspace.partials + uint64_t(sums);
    if (options.make_b) {
      options.make_b(operands[1].matrix.address = free);
      free += made;
    }
    if (!copied.empty()) lay_along(device, copied, free, stream);
    owner = std::move(workspace.owner);
  }
  // A product without depth reads no operand, so that any address does.
  for (Operand& x : operands)
    if (!x.matrix.address) x.matrix.address = c.address;
  auto stride = [](const Operand& x, bool along_k) { return integer(x.along_k == along_k ? 1 : x.matrix.stride); };
  const Operand &in_a = operands[0], &in_b = operands[1];
  return GemmCall{{pointer(c), pointer(in_a.matrix), pointer(in_b.matrix), pointer(options.bias), integer(m),
                   integer(n), integer(depth), stride(in_a, false), stride(in_a, true), stride(in_b, true),
                   stride(in_b, false), integer(c.stride), integer(1), integer(row_class(m)), partials, counters},
                  m,
                  n,
                  depth,
                  device.info().num_sms,
                  std::move(owner)};
}

void gemm(Device& device, AnyMatrix c, AnyMatrix a, AnyMatrix b, const AnyGemmOptions& options, StreamHandle stream) {
  static const auto ordered = by_activation("gemm.py", "gemm", "EPILOGUE", {{"ATOMIC", false}});
  static const auto atomic = by_activation("gemm.py", "gemm", "EPILOGUE", {{"ATOMIC", true}});
  if (const auto call = gemm_call(device, c, a, b, options, stream))
    (options.atomic_sums ? atomic : ordered)[size_t(options.epilogue)].launch(device, tegula::detail::GridRef(*call),
                                                                              stream, call->args);
}

}  // namespace detail

void run_gemm(Device& device, const BoundCall& call, StreamHandle stream) {
  const Tensor& c = *call.tensor("out");
  const detail::AnyMatrix out(c.address, c.elem, c.shape[0], c.shape[1], c.strides[0]);
  auto [a, b, options] = detail::gemm_operands(call);
  options.epilogue = Activation(call.choice("epilogue"));
  options.atomic_sums = call.flag("atomic_sums");
  detail::gemm(device, out, a, b, options, stream);
}

namespace detail {

namespace {

// Reports an epilogue whose result is no tile of the accumulator's shape, which would be broadcast to it.
void check_epilogue(const Tile& result, const Tile& acc) {
  const std::optional<ir::Type> found = recorded_type(result), expected = recorded_type(acc);
  if (!expected || (found && found->shape == expected->shape)) return;
  refuse_result(
      "the epilogue", result, "the accumulator's shape: " + described(acc),
      "it maps the accumulator element by element: what a whole row gives, such as a sum, takes a kernel of its own; a "
      "vector is brought to the shape by broadcast_to(x[{all, none}], ...)");
}

using Epilogue = std::function<Tile(Tile, const GemmTile&)>;

// What follows is the text of gemm.py, which explains it, function by function.

std::pair<Tile, Tile> place(const GemmParams& p, const Tile& program) {
  Tile group = p.GROUP_M * cdiv(p.N, p.BLOCK_N);
  Tile first = floordiv(program, group) * p.GROUP_M;
  Tile height = minimum(cdiv(p.M, p.BLOCK_M) - first, p.GROUP_M);
  return {first + program % group % height, floordiv(program % group, height)};
}

Tile no_sums(const GemmParams& p) { return zeros(list({p.BLOCK_M, p.BLOCK_N}), tl::float32); }

Tile multiply(const GemmParams& p, Tile acc, const Tile& tile_m, const Tile& tile_n, const Tile& begin,
              const Tile& end) {
  // The tile's corner may lie beyond 2^31 elements; within the tile 32 bits do.
  Tile first_row = (tile_m * p.BLOCK_M).to(tl::int64), first_col = (tile_n * p.BLOCK_N).to(tl::int64);
  Tile row = arange(0, p.BLOCK_M), col = arange(0, p.BLOCK_N), depth = arange(0, p.BLOCK_K);
  Tile row_mask = inside(tile_m * p.BLOCK_M + row, p.M, p.even[0]);
  Tile col_mask = inside(tile_n * p.BLOCK_N + col, p.N, p.even[1]);

  Tile a_ptrs = p.a + first_row * p.stride_am + row[{all, none}] * p.stride_am + depth[{none, all}] * p.stride_ak;
  Tile b_ptrs = p.b + first_col * p.stride_bn + depth[{all, none}] * p.stride_bk + col[{none, all}] * p.stride_bn;
  Tile first_depth = begin.to(tl::int64) * p.BLOCK_K;
  a_ptrs += first_depth * p.stride_ak;
  b_ptrs += first_depth * p.stride_bk;
  if (p.SWAP) acc = trans(acc);
  for (Tile k : range(begin, end)) {
    Tile depth_mask = inside(depth, p.K - k * p.BLOCK_K, p.even[2]);
    Tile a = load(a_ptrs, row_mask[{all, none}] & depth_mask[{none, all}], 0.0);
    Tile b = load(b_ptrs, depth_mask[{all, none}] & col_mask[{none, all}], 0.0);
    acc = p.SWAP ? dot(trans(b), trans(a), acc) : dot(a, b, acc);
    a_ptrs += p.BLOCK_K * p.stride_ak;
    b_ptrs += p.BLOCK_K * p.stride_bk;
  }
  return p.SWAP ? trans(acc) : acc;
}

void finish(const GemmParams& p, Tile acc, const Tile& tile_m, const Tile& tile_n, const Tile& row, const Tile& col,
            const Epilogue& epilogue) {
  Tile first_row = (tile_m * p.BLOCK_M).to(tl::int64), first_col = (tile_n * p.BLOCK_N).to(tl::int64);
  GemmTile at;
  at.rows = tile_m * p.BLOCK_M + row;
  at.cols = tile_n * p.BLOCK_N + col;
  at.row_mask = inside(at.rows, p.M, p.even[0]);
  at.col_mask = inside(at.cols, p.N, p.even[1]);
  if (p.has_bias) acc += load(p.bias + first_col + col, at.col_mask, 0.0).to(tl::float32)[{none, all}];
  Tile result = epilogue(acc, at);
  check_epilogue(result, acc);
  Tile c_ptrs = p.c + first_row * p.stride_cm + first_col * p.stride_cn + row[{all, none}] * p.stride_cm +
                col[{none, all}] * p.stride_cn;
  store(c_ptrs, result.to(p.c.dtype().element_ty()), at.row_mask[{all, none}] & at.col_mask[{none, all}]);
}

// How a tile's sums lie in memory: in `rows` rows of `cols`, each a stretch of `height` rows of the tile or, with SWAP,
// of the transposed one. And how they are divided: into parts of `extent` columns, or rows with SWAP, the last one
// perhaps of fewer.
struct Sums {
  explicit Sums(const GemmParams& p)
      : all_rows(p.SWAP ? p.BLOCK_N : p.BLOCK_M),
        along(p.SWAP ? p.BLOCK_M : p.BLOCK_N),
        height(std::min<int64_t>(all_rows, 128)),
        rows(all_rows / height),
        cols(height * along),
        extent(8 * ceil_div(along / 8, p.PARTS)),
        count(ceil_div(along, extent)),
        part(extent * height) {}
  static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
  Tile places(int64_t width) const { return arange(0, rows)[{all, none}] * cols + arange(0, width)[{none, all}]; }

  int64_t all_rows, along, height, rows, cols, extent, count, part;
};

Tile in_order(const GemmParams& p, const Sums& s, Tile acc) {
  if (p.SWAP) acc = trans(acc);
  Tile blocks = reshape(acc, list({s.rows, s.height / 16, 2, 8, s.along / 8, 4, 2}));
  return reshape(permute(blocks, list({0, 4, 1, 3, 5, 2, 6})), list({s.rows, s.cols}));
}

Tile as_tile(const GemmParams& p, const Sums& s, const Tile& sums) {
  Tile blocks = reshape(sums, list({s.rows, s.extent / 8, s.height / 16, 8, 4, 2, 2}));
  Tile acc = reshape(permute(blocks, list({0, 2, 5, 3, 1, 4, 6})), list({s.all_rows, s.extent}));
  return p.SWAP ? trans(acc) : acc;
}

Tile wait_for_shares(const Sums& s, const Tile& share, const Tile& splits, const Tile& counters) {
  debug_barrier();
  Tile seen = atomic_add(counters, 1) + 1;
  Tile alone = floordiv(seen, 65536) < splits;
  if_(
      alone,
      [&] {
        Tile part = arange(0, s.count);
        atomic_or(counters + 1, sum(where(part % splits == share, 1 << part, 0), 0));
      },
      [&] {
        while_([&] { return seen % 65536 < splits; }, [&] { seen = atomic_add(counters, 0, "sem"_a = "acquire"); });
      });
  return alone;
}

Tile leave(const Tile& alone, const Tile& splits, const Tile& counters) {
  Tile done = if_(
      alone, [&] { return atomic_add(counters + 2, 65537) + 65537; },
      [&] { return atomic_add(counters + 2, 1, "sem"_a = "relaxed") + 1; });
  Tile undone = 0;
  if_(done % 65536 == splits, [&] {
    if_(done > 65536, [&] {
      atomic_add(counters, 0);  // acquires what was handed over
      undone = atomic_xchg(counters + 1, 0);
    });
    store(counters, 0);
    store(counters + 2, 0);
  });
  return undone;
}

Tile load_shares(const Sums& s, const Tile& partials, const Tile& first, const Tile& end, const Tile& part,
                 int64_t ahead) {
  Tile share = first + arange(0, ahead);
  Tile there =
      partials + share[{all, none, none}] * (s.rows * s.cols) + part * s.part + s.places(s.part)[{none, all, all}];
  Tile given = broadcast_to((share < end)[{all, none, none}], there.attribute("shape"));
  if (s.cols % s.part) given = given & (part * s.part + arange(0, s.part) < s.cols)[{none, none, all}];
  return load(there, given, 0.0, "cache_modifier"_a = ".cg");
}

Tile add_shares(const Sums& s, Tile sums, const Tile& first, const Tile& partials, const Tile& splits, const Tile& part,
                int64_t ahead) {
  for (Tile begin : range(first, splits, ahead)) sums += sum(load_shares(s, partials, begin, splits, part, ahead), 0);
  return sums;
}

void finish_part(const GemmParams& p, const Sums& s, const Tile& sums, const Tile& part, const Tile& tile_m,
                 const Tile& tile_n, const Epilogue& epilogue) {
  Tile acc = as_tile(p, s, sums), at = part * s.extent + arange(0, s.extent);
  GemmParams within = p;
  if (s.cols % s.part) {
    within.even[p.SWAP ? 0 : 1] = false;
    if (p.SWAP)
      within.M = minimum(p.M, (tile_m + 1) * p.BLOCK_M);
    else
      within.N = minimum(p.N, (tile_n + 1) * p.BLOCK_N);
  }
  if (p.SWAP)
    finish(within, acc, tile_m, tile_n, at, arange(0, p.BLOCK_N), epilogue);
  else
    finish(within, acc, tile_m, tile_n, arange(0, p.BLOCK_M), at, epilogue);
}

Tile add_up(const Sums& s, const Tile& sums, const Tile& splits, const Tile& partials, const Tile& counters) {
  Tile there = partials + s.places(s.cols);
  if_(
      atomic_add(counters, 1, "sem"_a = "relaxed") == 0,
      [&] {
        store(there, sums);
        debug_barrier();
        atomic_xchg(counters + 1, 1);
      },
      [&] {
        while_([&] { return atomic_add(counters + 1, 0) == 0; }, [] {});
        atomic_add(there, sums, "sem"_a = "relaxed");
        debug_barrier();
      });
  Tile complete = atomic_add(counters + 2, 1) == splits - 1;
  if_(complete, [&] {
    for (int i = 0; i < 3; ++i) store(counters + i, 0);
  });
  return complete;
}

void divided_product(const GemmParams& p, const Epilogue& epilogue) {
  Tile tiles = cdiv(p.M, p.BLOCK_M) * cdiv(p.N, p.BLOCK_N);
  Tile splits = floordiv(num_programs(0), tiles), share = floordiv(program_id(0), tiles);
  Tile program = program_id(0) % tiles;
  Tile counters = p.counters + 4 * program;
  if (!p.ATOMIC) atomic_add(counters, 65536, "sem"_a = "relaxed");
  const auto [tile_m, tile_n] = place(p, program);
  Tile steps = cdiv(p.K, p.BLOCK_K);
  Tile begin = share * floordiv(steps, splits) + minimum(share, steps % splits);
  Tile end = begin + floordiv(steps, splits) + (share < steps % splits);
  Tile acc = multiply(p, no_sums(p), tile_m, tile_n, begin, end);

  const Sums s(p);
  const int64_t elements = s.rows * s.cols;
  auto sum_part = [&, &tile_m = tile_m, &tile_n = tile_n](const Tile& part, const Tile& partials, const Tile& shares,
                                                          int64_t ahead) {
    Tile sums = add_shares(s, zeros(list({s.rows, s.part}), tl::float32), 0, partials, shares, part, ahead);
    finish_part(p, s, sums, part, tile_m, tile_n, epilogue);
  };
  if (p.ATOMIC) {
    Tile partials = p.partials + program.to(tl::int64) * elements;
    if_(add_up(s, in_order(p, s, acc), splits, partials, counters), [&] {
      for (Tile part : range(0, s.count)) sum_part(part, partials, 1, 1);
    });
    return;
  }
  Tile partials = p.partials + (program * splits).to(tl::int64) * elements;
  store(partials + share * elements + s.places(s.cols), in_order(p, s, acc));
  Tile alone = wait_for_shares(s, share, splits, counters);
  Tile waited = (share < s.count) & ~alone;
  Tile shares = load_shares(s, partials, 0, where(waited, splits, 0), share, p.SHARES);
  Tile undone = leave(alone, splits, counters);
  if_(waited, [&, &tile_m = tile_m, &tile_n = tile_n] {
    Tile sums = add_shares(s, sum(shares, 0) + 0.0, p.SHARES, partials, splits, share, p.SHARES);
    finish_part(p, s, sums, share, tile_m, tile_n, epilogue);
    for (Tile part : range(share + splits, s.count, splits)) sum_part(part, partials, splits, p.SHARES);
  });
  for (Tile part : range(0, where(undone != 0, s.count, 0)))
    if_((undone >> part) % 2 != 0, [&] { sum_part(part, partials, splits, p.SHARES); });
}

void shared_product(const GemmParams& p, const Epilogue& epilogue) {
  const auto [tile_m, tile_n] = place(p, program_id(0));
  Tile first_row = (tile_m * p.BLOCK_M).to(tl::int64), first_col = (tile_n * p.BLOCK_N).to(tl::int64);
  Tile row = arange(0, p.BLOCK_M), col = arange(0, p.BLOCK_N), depth = arange(0, p.BLOCK_K);
  Tile row_mask = inside(tile_m * p.BLOCK_M + row, p.M, p.even[0]);
  Tile col_mask = inside(tile_n * p.BLOCK_N + col, p.N, p.even[1]);
  Tile steps = cdiv(p.K, p.BLOCK_K * p.SHARES);
  Tile begin = arange(0, p.SHARES) * (steps * p.BLOCK_K);

  Tile first_depth = begin.to(tl::int64)[{all, none, none}];
  Tile a_ptrs = p.a + first_row * p.stride_am + first_depth * p.stride_ak + row[{none, all, none}] * p.stride_am +
                depth[{none, none, all}] * p.stride_ak;
  Tile b_ptrs = p.b + first_col * p.stride_bn + first_depth * p.stride_bk + depth[{none, all, none}] * p.stride_bk +
                col[{none, none, all}] * p.stride_bn;
  Tile acc =
      zeros(p.SWAP ? list({p.SHARES, p.BLOCK_N, p.BLOCK_M}) : list({p.SHARES, p.BLOCK_M, p.BLOCK_N}), tl::float32);
  for (Tile k : range(0, steps)) {
    Tile depth_mask = begin[{all, none}] + k * p.BLOCK_K + depth[{none, all}] < p.K;
    Tile a = load(a_ptrs, row_mask[{none, all, none}] & depth_mask[{all, none, all}], 0.0);
    Tile b = load(b_ptrs, depth_mask[{all, all, none}] & col_mask[{none, none, all}], 0.0);
    acc = p.SWAP ? dot(permute(b, list({0, 2, 1})), permute(a, list({0, 2, 1})), acc) : dot(a, b, acc);
    a_ptrs += p.BLOCK_K * p.stride_ak;
    b_ptrs += p.BLOCK_K * p.stride_bk;
  }
  Tile total = sum(acc, 0);
  finish(p, p.SWAP ? trans(total) : total, tile_m, tile_n, row, col, epilogue);
}

void streamed_product(const GemmParams& p, const Epilogue& epilogue) {
  Tile program = program_id(0), programs = num_programs(0);
  Tile tiles = cdiv(p.M, p.BLOCK_M) * cdiv(p.N, p.BLOCK_N), steps = cdiv(p.K, p.BLOCK_K);
  Tile rounds = maximum(floordiv(tiles, programs) - 1, 0);
  Tile dealt = rounds * programs;
  Tile left = (tiles - dealt) * steps;
  Tile first = program * floordiv(left, programs) + minimum(program, left % programs);
  Tile last = first + floordiv(left, programs) + (program < left % programs);
  Tile top = floordiv(last - 1, steps);
  Tile row = arange(0, p.BLOCK_M), col = arange(0, p.BLOCK_N);
  Tile sums =
      p.partials + program.to(tl::int64) * (p.BLOCK_M * p.BLOCK_N) + row[{all, none}] * p.BLOCK_N + col[{none, all}];
  for (Tile turn : range(0, rounds + top - floordiv(first, steps) + 1)) {
    Tile whole = (turn > 0) & (turn <= rounds);
    Tile tile = where(turn == 0, top, top + rounds - turn);
    Tile begin = where(whole, 0, maximum(first - tile * steps, 0));
    Tile end = where(whole, steps, minimum(last - tile * steps, steps));
    const auto [tile_m, tile_n] = place(p, where(whole, (turn - 1) * programs + program, dealt + tile));
    if_(begin > 0, [&] {
      while_([&] { return atomic_add(p.counters + program - 1, 0) == 0; }, [] {});
      store(p.counters + program - 1, 0);
    });
    Tile begun = full(list({p.BLOCK_M, p.BLOCK_N}), begin > 0, tl::int1);
    Tile before = load(sums - p.BLOCK_M * p.BLOCK_N, begun, 0.0, "cache_modifier"_a = ".cg");
    Tile acc = multiply(p, before, tile_m, tile_n, begin, end);
    if_(
        end < steps,
        [&] {
          store(sums, acc);
          debug_barrier();
          atomic_xchg(p.counters + program, 1);
        },
        [&, &tile_m = tile_m, &tile_n = tile_n] { finish(p, acc, tile_m, tile_n, row, col, epilogue); });
  }
}

void product(const GemmParams& p, const Tile& program, const Epilogue& epilogue) {
  auto [tile_m, tile_n] = place(p, program);
  finish(p, multiply(p, no_sums(p), tile_m, tile_n, 0, cdiv(p.K, p.BLOCK_K)), tile_m, tile_n, arange(0, p.BLOCK_M),
         arange(0, p.BLOCK_N), epilogue);
}

}  // namespace

void record_gemm(const GemmParams& p, const Epilogue& epilogue) {
  if (p.PARTS > 0) return divided_product(p, epilogue);
  if (p.STREAM) return streamed_product(p, epilogue);
  if (p.SHARES > 1) return shared_product(p, epilogue);
  if (!p.PROGRAMS) return product(p, program_id(0), epilogue);
  const std::optional<bool> turns = p.TURNS ? std::optional(true) : std::nullopt;
  for (Tile program :
       range(program_id(0), cdiv(p.M, p.BLOCK_M) * cdiv(p.N, p.BLOCK_N), num_programs(0), {.warp_specialize = turns}))
    product(p, program, epilogue);
}

Kernel tuned_as_gemm(const Kernel& kernel) {
  static const Autotune tuning = *library_program("gemm.py").kernel("gemm").autotuning();
  auto even = [](const char* param, const char* extent, const char* block) {
    return Heuristic{param, [=](const LaunchArgs& args) { return args.integer(extent) % args.integer(block) == 0; }};
  };
  auto once = [](const LaunchArgs& args) -> Constexpr {
    auto tiles = [&](const char* extent, const char* block) {
      return Sums::ceil_div(args.integer(extent), args.integer(block));
    };
    return int64_t(tiles("M", "BLOCK_M") * tiles("N", "BLOCK_N") <= kProcessors);
  };
  return kernel.autotune(tuning).heuristics({even("EVEN_M", "M", "BLOCK_M"),
                                             even("EVEN_N", "N", "BLOCK_N"),
                                             even("EVEN_K", "K", "BLOCK_K"),
                                             {"program_loop", once}});
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

}  // namespace tegula::kernels
