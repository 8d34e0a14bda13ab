// label: unit
// Tiles that are boxes of arrays: pointers and masks of kernels, as base, starts, strides and extents.
#include "codegen/pipeline/affine_tile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/passes/passes.h"
#include "dsl/tegula.h"

namespace tegula {
namespace {

constexpr const char* kKernels = R"(
import triton
import triton.language as tl

@triton.jit
def rows(p, q, M, N, K, stride, wide):
    m = tl.program_id(0) * 64 + tl.arange(0, 64)
    k = tl.arange(0, 32)
    x = tl.load(p + m[:, None] * stride + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
    tl.store(q + k[None, :] + m[:, None] * 32, x)

@triton.jit
def growing(p, q, M, N, K, stride, wide):
    n = tl.program_id(0) * 64 + tl.arange(0, 64)
    k = tl.arange(0, 32)
    ptrs = p + k[:, None] * stride + n[None, :]
    for i in range(0, tl.cdiv(K, 32)):
        x = tl.load(ptrs, mask=(k[:, None] < K - i * 32) & (n[None, :] < N), other=0.0)
        tl.store(q + k[:, None] * 64 + n[None, :], x)
        ptrs += 32 * stride

@triton.jit
def stepping(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    lo = tl.program_id(0) * 128
    ptrs = p + tl.program_id(1).to(tl.int64) * wide + (lo + n)[:, None] * stride + d[None, :]
    for start in range(lo, N, 64):
        x = tl.load(ptrs, mask=(start + n)[:, None] < N, other=0.0)
        tl.store(q + n[:, None] * 32 + d[None, :], x)
        ptrs += 64 * stride

@triton.jit
def packed(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    for start in range(0, N, 64):
        x = tl.load(p + 4096 + tl.program_id(1) * 32 + (start + n)[:, None] * stride + d[None, :])
        tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def heads(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    x = tl.load(p + tl.program_id(1) * N * 32 + n[:, None] * 32 + d[None, :], mask=n[:, None] < N, other=0.0)
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def transposed(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    x = tl.load(tl.make_block_ptr(p, (K, N), (1, stride), (0, tl.program_id(0) * 64), (32, 64), (0, 1)), boundary_check=(0, 1))
    tl.store(q + d[:, None] * 64 + n[None, :], x)

@triton.jit
def below_alone(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    x = tl.load(p + n[:, None] * stride + d[None, :], mask=(n >= tl.program_id(0) * 16)[:, None], other=0.0)
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def far(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    x = tl.load(p + tl.program_id(0).to(tl.int64) * 131072 + n[:, None] * 64 + d[None, :], mask=(n < M)[:, None], other=0.0)
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def narrowed(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    x = tl.load(p + (tl.program_id(0) * 64 + n).to(tl.int16)[:, None] * 64 + d[None, :])
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def described(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    desc = tl.make_tensor_descriptor(p, [M, K], [stride, 1], [64, 32])
    for i in range(0, N):
        x = desc.load([tl.program_id(0) * 64, i * 32])
        tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def chosen(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    good = tl.full((64, 32), tl.program_id(0) < N, tl.int1)
    x = tl.load(p + n[:, None] * stride + d[None, :], mask=good, other=0.0)
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def wrapping(p, q, M, N, K, stride, wide):
    n = (tl.program_id(0) * 64 + tl.arange(0, 64)) % M
    d = tl.arange(0, 32)
    x = tl.load(p + n[:, None] * stride + d[None, :])
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def wrapping_between(p, q, M, N, K, stride, wide):
    n = (tl.program_id(0) * 32 + tl.arange(0, 64)) % M
    d = tl.arange(0, 32)
    x = tl.load(p + n[:, None] * stride + d[None, :])
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def backwards(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    for i in range(0, N):
        x = tl.load(p + (N - i * 64 + n)[:, None] * stride + d[None, :])
        tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def backwards_to_an_end(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    begin = tl.load(q).to(tl.int32)
    x = tl.load(p + (begin + n)[:, None] * stride + d[None, :], mask=(d < K)[None, :], other=0.0)
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def backwards_from_a_begin(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    begin = tl.load(q).to(tl.int32)
    x = tl.load(p + (begin + n)[:, None] * stride + d[None, :], mask=(d >= 16 * K)[None, :], other=0.0)
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def backwards_if(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    begin = tl.load(q).to(tl.int32)
    good = tl.full((64, 32), begin < N, tl.int1)
    x = tl.load(p + (begin + n)[:, None] * stride + d[None, :], mask=good, other=0.0)
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def short_rows(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    begin = tl.load(q).to(tl.int32)
    x = tl.load(p + (begin + n)[:, None] * 64 + d[None, :])
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def loaded(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    x = tl.load(p + tl.load(q + n)[:, None].to(tl.int32) * stride + d[None, :])
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def distant(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    begin = tl.abs(tl.load(q).to(tl.int64))
    x = tl.load(p + (begin + n)[:, None] * stride + d[None, :])
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def lengths(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    length = tl.load(q).to(tl.int32)
    x = tl.load(p + n[:, None] * stride + d[None, :], mask=n[:, None] < length, other=0.0)
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def strided(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    x = tl.load(p + n[:, None] * stride + d[None, :] * M)
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def odd(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    x = tl.load(p + n[:, None] * N + d[None, :])
    tl.store(q + n[:, None] * 32 + d[None, :], x)

@triton.jit
def between(p, q, M, N, K, stride, wide):
    n = tl.arange(0, 64)
    d = tl.arange(0, 32)
    x = tl.load(p + n[:, None] * stride + (tl.program_id(0) * 4 + d)[None, :])
    tl.store(q + n[:, None] * 32 + d[None, :], x)
)";

class AffineTile : public testing::Test {
 protected:
  // The tile that the kernel's last load of rank 2 reads.
  std::string tile(const char* kernel) {
    static const Program program = Program::parse(kKernels, "tiles.py");
    std::vector<ArgType> types(2, {.elem = Elem::F16, .pointer = true, .divisible_by = 16});
    for (int divisor : {1, 1, 1, 16}) types.push_back({.elem = Elem::I32, .divisible_by = divisor});
    types.push_back({.elem = Elem::I64, .divisible_by = 16});
    func_ = program.kernel(kernel).tile_func(types, {});
    Diagnostics diags;
    PassContext context{*find_target("sm_90a"), diags};
    passes::canonicalize(*func_, context);
    passes::uniform_masks(*func_, context);
    const ir::Op* load = nullptr;
    ir::walk(func_->body, [&](const ir::Op& op) {
      if (op.opcode == ir::Opcode::Load && op.result()->type.rank() == 2) load = &op;
    });
    AffineTiles tiles(*func_);
    auto found = tiles.tile_of(load->operand(0), load->operand(1));
    if (auto* why = std::get_if<std::string>(&found)) return *why;
    return text(tiles, std::get<tegula::AffineTile>(found));
  }

 private:
  static std::string name(const ir::Value& v) {
    if (!v.def) return v.block->parent ? "i" : v.name;
    if (v.def->opcode != ir::Opcode::ProgramId) return v.def->info().text;
    return fmt::format("pid{}", v.def->get(ir::attr::axis));
  }

  static std::string text(const AffineTiles& tiles, const Polynomial& p) {
    std::string out;
    for (const auto& [factors, coefficient] : p.terms()) {
      out += fmt::format("{}{}", out.empty() ? "" : " + ", coefficient);
      for (int factor : factors) {
        if (const Remainder* r = tiles.remainder(factor))
          out += fmt::format(" ({} % {})", text(tiles, r->of), text(tiles, r->modulus));
        else
          out += " " + name(*tiles.unknown(factor));
      }
    }
    return out.empty() ? "0" : out;
  }

  static std::string text(const AffineTiles& tiles, const tegula::AffineTile& tile) {
    std::string out = tile.base->name + " + " + text(tiles, tile.base_offset);
    for (const AffineDim& dim : tile.dims)
      out +=
          fmt::format("; {}: from {} to {} by {}", dim.axis < 0 ? "-" : fmt::format("{}", dim.axis),
                      text(tiles, dim.start), dim.extent ? text(tiles, *dim.extent) : "any", text(tiles, dim.stride));
    for (const ir::Value* condition : tile.conditions) out += "; if " + name(*condition);
    for (const Multiple& multiple : tile.multiples)
      out += fmt::format("; if {} is a multiple of {}", text(tiles, multiple.number), multiple.of);
    for (const Polynomial& stride : tile.long_strides) out += fmt::format("; if {} is long", text(tiles, stride));
    return out;
  }

  Shared<ir::Func> func_;
};

TEST_F(AffineTile, HasStartsStridesAndExtents) {
  EXPECT_EQ(tile("rows"), "p + 0; 0: from 64 pid0 to 1 M by 1 stride; 1: from 0 to 1 K by 1");
  EXPECT_EQ(tile("growing"), "p + 0; 0: from 32 i to 1 K by 1 stride; 1: from 64 pid0 to 1 N by 1");
  EXPECT_EQ(tile("stepping"),
            "p + 0; -: from 1 pid1 to any by 1 wide; 0: from 1 i to 1 N by 1 stride; 1: from 0 to any by 1");
  EXPECT_EQ(tile("packed"), "p + 4096; 0: from 1 i to any by 1 stride; 1: from 32 pid1 to any by 1");
  EXPECT_EQ(tile("heads"), "p + 0; -: from 1 pid1 to any by 32 N; 0: from 0 to 1 N by 32; 1: from 0 to any by 1");
  EXPECT_EQ(tile("transposed"), "p + 0; 1: from 64 pid0 to 1 maximum by 1 stride; 0: from 0 to 1 maximum by 1");
  EXPECT_EQ(tile("described"), "p + 0; 0: from 64 pid0 to 1 maximum by 1 stride; 1: from 32 i to 1 maximum by 1");
  EXPECT_EQ(tile("below_alone"),
            "p + 0; -: from 16 pid0 to any by 1 stride; 0: from -16 pid0 to any by 1 stride; 1: from 0 to any by 1");
  EXPECT_EQ(tile("far"), "p + 0; -: from 1 pid0 to any by 131072; 0: from 0 to 1 M by 64; 1: from 0 to any by 1");
  EXPECT_EQ(tile("wrapping"),
            "p + 0; 0: from 1 (64 pid0 % 1 M) to any by 1 stride; 1: from 0 to any by 1; if 1 M is a multiple of 64");
  EXPECT_EQ(tile("chosen"), "p + 0; 0: from 0 to any by 1 stride; 1: from 0 to any by 1; if lt");
}

TEST_F(AffineTile, MayBeginBeforeTheArray) {
  EXPECT_EQ(
      tile("backwards"),
      "p + -1073741824 stride + 1 stride N; 0: from 1073741824 + -64 i to any by 1 stride; 1: from 0 to any by 1; "
      "if 1 stride is long");
}

TEST_F(AffineTile, OthersAreNone) {
  EXPECT_EQ(tile("wrapping_between"), "its addresses are no sums of products") << "a tile may begin in another one";
  EXPECT_EQ(tile("short_rows"), "it may begin before its array");
  for (const char* kernel : {"lengths", "backwards_to_an_end", "backwards_from_a_begin", "backwards_if"})
    EXPECT_EQ(tile(kernel), "it may begin before its array, and lie outside of it altogether") << kernel;
  EXPECT_EQ(tile("distant"), "where it begins may have more than 32 bits");
  EXPECT_EQ(tile("loaded"), "its addresses are no sums of products");
  EXPECT_EQ(tile("strided"), "no axis has elements that lie side by side");
  EXPECT_EQ(tile("narrowed"), "its addresses are no sums of products");
  EXPECT_EQ(tile("odd"), "the distance of its rows is not known to be a multiple of 16 bytes");
  EXPECT_EQ(tile("between"), "where it begins in a row is not known to be a multiple of 16 bytes");
}

}  // namespace
}  // namespace tegula
