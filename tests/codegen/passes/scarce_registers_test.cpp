// label: unit
// What passes do where registers of a thread, or shared memory of a multiprocessor, are short: kernels behind all
// passes.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/ir/reader.h"
#include "codegen/passes/pass_manager.h"
#include "dsl/tegula.h"

namespace tegula {
namespace {

constexpr const char* kKernels = R"(
import triton
import triton.language as tl

@triton.jit
def products(o, x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a = tl.load(x + at)
    b = tl.load(x + N * N + at)
    c = tl.load(x + 2 * N * N + at)
    d = tl.load(x + 3 * N * N + at)
    ab = tl.dot(a, b, input_precision="ieee")
    cd = tl.dot(c, d, input_precision="ieee")
    tl.store(o + at, tl.dot(ab, cd, input_precision="ieee"))

@triton.jit
def gradients(o, x, y, z, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    w = tl.load(z + at)
    s = tl.load(z + N * N + i)
    t = tl.load(z + N * N + N + at)
    u = tl.load(z + 2 * N * N + N + at)
    acc = tl.zeros((N, N), tl.float32)
    for n in range(steps):
        a = tl.load(x + n * N * N + at)
        b = tl.load(y + n * N * N + at)
        acc = tl.dot(b, tl.trans((a * s[:, None]).to(tl.bfloat16)), acc)
        c = tl.dot(w, b)
        tl.store(o + n * N * N + at, (c * a + tl.exp2(c) * t + u).to(tl.bfloat16))
    tl.store(o + steps * N * N + at, acc.to(tl.bfloat16))

@triton.jit
def weighted(o, x, y, z, steps, N: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, 2 * N)
    acc = tl.zeros((N, N), tl.float32)
    for n in range(steps):
        at = i[:, None] * 1024 + n * 2 * N + j[None, :]
        across = j[:, None] + n * 2 * N + i[None, :] * 1024
        s = tl.load(z + n * 2 * N + j)
        a = tl.load(x + at) * tl.exp2(tl.load(y + at) - s[None, :])
        b = tl.load(z + across) * tl.exp2(s[:, None] - tl.load(y + across))
        acc = tl.dot(a, b, acc)
    tl.store(o + i[:, None] * N + i[None, :], acc)

@triton.jit
def sum_of_slices(o, x, y, count, N: tl.constexpr):
    i, j = tl.arange(0, 16), tl.arange(0, 32)
    acc = tl.zeros((16, 16), tl.float32)
    for n in range(count):
        a = tl.load(x + i[:, None] * N + n * 32 + j[None, :])
        b = tl.load(y + n * 32 + j[:, None] + i[None, :] * N)
        acc = tl.dot(a * a, b, acc)
    tl.store(o + i[:, None] * 16 + i[None, :], acc)

@triton.jit
def slices(o, x, y, z, N: tl.constexpr):
    sum_of_slices(o, x, y, N // 32, N)

@triton.jit
def blocks_before(o, x, y, z, N: tl.constexpr):
    sum_of_slices(o, x, y, tl.program_id(0) % (N // 16), N)

@triton.jit
def multiplied_twice(o, x, y, z, N: tl.constexpr):
    i, j = tl.arange(0, 32), tl.arange(0, 32)
    w = tl.load(z + i[:, None] * 32 + j[None, :])
    acc = tl.zeros((32, 32), tl.float32)
    for n in range(N // 32):
        a = tl.load(x + i[:, None] * N + n * 32 + j[None, :])
        b = tl.load(y + i[:, None] * N + n * 32 + j[None, :])
        acc = tl.dot(a, b, acc)
        tl.store(o + (n + 1) * 1024 + i[:, None] * 32 + j[None, :], tl.dot(w, a))
    tl.store(o + i[:, None] * 32 + j[None, :], acc)

@triton.jit
def states(o, x, y, z, steps, N: tl.constexpr):
    i, j = tl.arange(0, 32), tl.arange(0, 64)
    state = tl.zeros((32, 64), tl.float32)
    for n in range(steps):
        tl.store(o + n * 2048 + i[:, None] * 64 + j[None, :], state.to(tl.bfloat16))
        q = tl.load(x + n * 64 * N + i[:, None] + j[None, :] * N)
        v = tl.load(y + n * 64 * N + j[:, None] * N + j[None, :])
        s = tl.exp2(tl.load(z + n * 64 + j).to(tl.float32))
        state = tl.dot((q * s[None, :]).to(tl.bfloat16), v + v, state * 0.5)
    tl.store(o + steps * 2048 + i[:, None] * 64 + j[None, :], state.to(tl.bfloat16))

@triton.jit
def keys_and_values(o, x, y, z, steps, N: tl.constexpr):
    i, m, d = tl.arange(0, N), tl.arange(0, N // 2), tl.arange(0, 128)
    rows, cols = i[:, None] * 128 + d[None, :], m[:, None] * 128 + d[None, :]
    k = tl.load(z + rows)
    v = tl.load(z + N * 128 + rows)
    dk = tl.zeros((N, 128), tl.float32)
    dv = tl.zeros((N, 128), tl.float32)
    r = tl.load(z + 2 * N * 128 + i).to(tl.float32)
    dr = tl.zeros((N,), tl.float32)
    at = i[:, None] * (N // 2) + m[None, :]
    bias = tl.load(z + 3 * N * 128 + at)
    weight = tl.load(z + 4 * N * 128 + at)
    for n in range(steps):
        q = tl.load(x + n * N * 64 + cols)
        g = tl.load(y + n * N * 64 + cols)
        s = tl.dot(k, tl.trans(q)) - r[:, None] + bias - tl.load(x + m + n).to(tl.float32)[None, :]
        p = tl.where(i[:, None] <= m[None, :] + n, tl.exp2(s), 0)
        dv = tl.dot(p.to(tl.bfloat16), g, dv)
        ds = p * (tl.dot(v, tl.trans(g)) - tl.load(y + m + n).to(tl.float32)[None, :])
        ds *= weight
        dk = tl.dot(ds.to(tl.bfloat16), q, dk)
        dr -= tl.sum(ds, 1)
    tl.store(o + rows, dk.to(tl.bfloat16))
    tl.store(o + N * 128 + rows, dv.to(tl.bfloat16))
    tl.store(o + 2 * N * 128 + i, dr.to(tl.bfloat16))

@triton.jit
def moved_queries(o, x, y, z, steps, N: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, 128)
    rows, cols = i[:, None] * 128 + j[None, :], j[:, None] * 128 + j[None, :]
    q = tl.load(z + rows).to(tl.float32)
    acc = tl.zeros((N, 128), tl.float32)
    for n in range(steps):
        k = tl.load(x + n * 16384 + cols)
        v = tl.load(y + n * 16384 + cols)
        s = tl.exp2(tl.dot(q.to(k.dtype), tl.trans(k)) - tl.load(z + n * 128 + j).to(tl.float32)[None, :])
        acc = tl.dot(s.to(v.dtype), v, acc)
        q -= tl.dot(tl.dot(q.to(v.dtype), tl.trans(v)).to(k.dtype), k)
    tl.store(o + rows, acc + q)
)";

struct Passed {
  Shared<ir::Func> func;

  std::vector<const ir::Op*> ops(ir::Opcode opcode) const {
    std::vector<const ir::Op*> found;
    ir::walk(func->body, [&](const ir::Op& op) {
      if (op.opcode == opcode) found.push_back(&op);
    });
    return found;
  }
};

Passed passed(const char* kernel, Elem elem, bool has_steps, int n, int num_warps, int num_stages,
              int bulk_copies = 0) {
  static const Program program = Program::parse(kKernels, "scarce.py");
  std::vector<ArgType> types(4, {.elem = elem, .pointer = true, .divisible_by = 16});
  if (has_steps) types.push_back({.elem = Elem::I32});
  Passed out{program.kernel(kernel).tile_func(
      types, {.constexprs = {{"N", n}}, .num_warps = num_warps, .num_stages = num_stages, .bulk_copies = bulk_copies})};
  const Target target = *find_target("sm_90a");
  Diagnostics diags;
  PassContext context{target, diags};
  EXPECT_TRUE(run_passes(*out.func, context)) << diags.render();
  return out;
}

int32_t held(const ir::Value* v) { return v->type.layout->remove_zero_registers().in_size(Dim::Register); }

// A thread has 4 elements of each, and would have 16 of a left operand and 64 of a right one.
TEST(ScarceRegisters, LoadsOfProductsHoldNoManyCopies) {
  const Passed products = passed("products", Elem::F32, false, 16, 2, 2);
  ASSERT_EQ(products.ops(ir::Opcode::Load).size(), 4u);
  for (const ir::Op* load : products.ops(ir::Opcode::Load)) EXPECT_EQ(held(load->result()), 4);
}

// The second product's operand comes from its place behind the first one, which is made of what threads exchange.
TEST(ScarceRegisters, PlacesAreReadWhereThatIsUsed) {
  const Passed gradients = passed("gradients", Elem::BF16, true, 64, 2, 2);
  int products = 0;
  for (const ir::Op* dot : gradients.ops(ir::Opcode::Dot))
    for (const ir::Value* operand : {dot->operand(0), dot->operand(1)}) {
      if (operand->def->opcode != ir::Opcode::SharedRead || operand->def->parent != dot->parent) continue;
      bool between = false, conversions = false;
      for (const auto& op : dot->parent->ops) {
        if (op.get() == dot) break;
        conversions |= between && (op->opcode == ir::Opcode::ConvertLayout || op->opcode == ir::Opcode::Dot);
        between |= op.get() == operand->def;
      }
      EXPECT_FALSE(conversions) << operand->type.layout->to_string();
      ++products;
    }
  EXPECT_EQ(products, 2);
}

// Each of the four tiles has 16 elements a thread. Those that are computed with on the way to a product are on their
// way in shared memory, as they would take more than a few registers.
TEST(ScarceRegisters, LoadsRunAheadInWhatIsLeft) {
  const Passed weighted = passed("weighted", Elem::F32, true, 16, 1, 2);
  int tiles = 0;
  for (const ir::Op* loop : weighted.ops(ir::Opcode::For))
    for (const auto& result : loop->results) tiles += result->type.is_tile() && result->type.num_elements() == 512;
  EXPECT_EQ(tiles, 0);
  std::set<const ir::Value*> places;
  for (const ir::Op* copy : weighted.ops(ir::Opcode::AsyncCopy)) places.insert(copy->operand(1));
  EXPECT_GE(places.size(), 3u);
}

// Sums, both operands of a product and the tile that is multiplied element by element take all registers: none is left
// for what the next iteration loads.
TEST(ScarceRegisters, LoadsDoNotRunAheadWithoutRegisters) {
  const auto carried = [](const Passed& kernel) {
    int tiles = 0;
    for (const ir::Op* loop : kernel.ops(ir::Opcode::For))
      for (const auto& result : loop->results) tiles += result->type.is_tile() && result->type.shape.size() == 2;
    return tiles;
  };
  EXPECT_EQ(carried(passed("gradients", Elem::BF16, true, 64, 1, 2)), 1);
  EXPECT_EQ(carried(passed("gradients", Elem::BF16, true, 64, 4, 2)), 2);
}

// A thread of four warps has 32 of a row's 128 numbers, beside 192 registers of sums and products; of eight half as
// many sums.
TEST(ScarceRegisters, RowsDoNotRunAheadWithoutRegisters) {
  const auto carried_rows = [](int num_warps) {
    const Passed kernel = passed("moved_queries", Elem::BF16, true, 64, num_warps, 2);
    int rows = 0;
    for (const ir::Op* loop : kernel.ops(ir::Opcode::For))
      for (const auto& result : loop->results) rows += result->type.is_tile() && result->type.shape == ir::Shape{128};
    return rows;
  };
  EXPECT_EQ(carried_rows(4), 0);
  EXPECT_EQ(carried_rows(8), 1);
}

// What runs ahead of four iterations is loaded in one of them as often as not: copies may, registers do not hold it.
TEST(ScarceRegisters, ShortLoopsRunAheadByCopiesAlone) {
  const auto copied = [](const Passed& kernel) { return !kernel.ops(ir::Opcode::AsyncCopy).empty(); };
  const auto held = [](const Passed& kernel) {
    size_t values = 0;
    for (const ir::Op* loop : kernel.ops(ir::Opcode::For))
      for (const auto& result : loop->results) values += result->type.is_tile();
    return values - 1;  // beside the sums
  };
  const Passed four = passed("slices", Elem::BF16, false, 128, 1, 3);
  EXPECT_TRUE(copied(four));
  EXPECT_EQ(held(four), 0u);
  EXPECT_GT(held(passed("slices", Elem::BF16, false, 160, 1, 3)), 0u);
  const Passed three_at_most = passed("blocks_before", Elem::BF16, false, 64, 1, 3);
  EXPECT_EQ(held(three_at_most), 0u);
  EXPECT_GT(held(passed("blocks_before", Elem::BF16, false, 128, 1, 3)), 0u);
  // Rows of 65 elements cannot be copied.
  const Passed odd_rows = passed("slices", Elem::BF16, false, 65, 1, 3);
  EXPECT_FALSE(copied(odd_rows));
  EXPECT_EQ(held(odd_rows), 0u);
  EXPECT_TRUE(copied(passed("multiplied_twice", Elem::BF16, false, 64, 1, 3)));
}

// Half as many elements as the largest tile, and as many of them side by side: these are copied 16 bytes at a time, and
// so is stored what the loop carries, though the product holds pairs.
TEST(ScarceRegisters, TilesForProductsOfOneWarpAreAccessedWhole) {
  const Passed states = passed("states", Elem::BF16, true, 128, 1, 2);
  for (const ir::Op* load : states.ops(ir::Opcode::Load)) EXPECT_EQ(load->result()->type.rank(), 1);
  for (const ir::Opcode opcode : {ir::Opcode::AsyncCopy, ir::Opcode::Store}) {
    EXPECT_GE(states.ops(opcode).size(), 2u);
    for (const ir::Op* op : states.ops(opcode)) EXPECT_EQ(op->get(ir::attr::vector), 8);
  }
}

// Four warps that copy, each thread for itself, would leave the others 216 registers a thread.
TEST(ScarceRegisters, WarpsThatCopyTakeNoneOfTheOthers) {
  EXPECT_TRUE(passed("keys_and_values", Elem::BF16, true, 128, 8, 3, 1).ops(ir::Opcode::CopyWarps).empty());
}

// 104 KiB of places and four exchanges of 4 KiB: of programs of 120 KiB a multiprocessor runs one.
TEST(ScarceRegisters, ExchangesShareMemoryWhereMoreProgramsFit) {
  const auto bytes = [](int kilobytes, int warps) {
    Diagnostics diags;
    std::string body;
    for (int i = 0; i < 4; ++i)
      body += "  %" + std::to_string(10 + i) + " = convert_layout %" + std::to_string(i ? 9 + i : 2) +
              " : tile<64x32xbf16, " + (i % 2 ? "#0" : "#1") + ">\n";
    const std::string warp = warps == 2 ? "[[32,0]]" : "[[32,0],[0,0]]",
                      other = warps == 2 ? "[[0,16]]" : "[[0,16],[0,0]]";
    auto func = ir::read(
        "#0 = layout {register=[[0,1],[0,2],[0,4],[0,8],[0,16]], lane=[[1,0],[2,0],[4,0],[8,0],[16,0]], warp=" + warp +
            " -> dim0:64, dim1:32}\n" +
            "#1 = layout {register=[[1,0],[2,0],[4,0],[8,0],[16,0]], lane=[[0,1],[0,2],[0,4],[0,8],[32,0]], warp=" +
            other + " -> dim0:64, dim1:32}\n" +
            "#2 = layout {offset=[[1],[2],[4],[8],[16],[32],[64],[128],[256]] -> dim0:512}\n" +
            "func @f() {num_warps = " + std::to_string(warps) + "} {\n" +
            "  %0 = shared_alloc {slots = " + std::to_string(kilobytes) + "} : shared<512xbf16, #2>\n" +
            "  %1 = constant {value = 0} : i32\n" + "  %2 = constant {value = 0.0} : tile<64x32xbf16, #0>\n" +
            "  %3 = shared_slot %0, %1 : shared<512xbf16, #2>\n" + body +
            "  %20 = shared_slot %0, %1 : shared<512xbf16, #2>\n  return\n}\n",
        "f.tile", diags);
    EXPECT_TRUE(func) << diags.render();
    return func ? plan_shared(*func).bytes : 0;
  };
  EXPECT_EQ(bytes(104, 2), (104 + 8) << 10);
  EXPECT_EQ(bytes(40, 2), (40 + 16) << 10);  // four programs, as many as registers allow
  EXPECT_EQ(bytes(108, 2), (108 + 4) << 10);
}

}  // namespace
}  // namespace tegula
