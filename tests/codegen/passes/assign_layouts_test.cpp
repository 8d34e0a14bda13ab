// Pass assign_layouts on small kernels, and on random ones with simplify_layouts behind it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <unordered_map>

#include "codegen/layout/makers.h"
#include "codegen/passes/dead_code.h"
#include "tests/codegen/passes/layouts_fixture.h"
#include "tests/codegen/product/layouts.h"

namespace tegula {
namespace {

using ir::Shape;

TEST_F(Layouts, RowKernelHasOneLayoutAndNoConversion) {
  Value *in = pointer(), *out = pointer(), *n = i32(16);
  Value* mask = b.lt(b.arange(0, 1024), b.splat(n, {1024}));
  Value* x = b.load(row_pointers(in, 1024), mask, b.constant_float(Type::tile(Elem::F32, {1024}), 0));
  Value* y = b.exp(b.sub(x, b.splat(reduce(x, 0), {1024})));
  b.store(row_pointers(out, 1024), b.div(y, b.splat(reduce(y, 0), {1024})), mask);
  assign();
  EXPECT_EQ(conversions(), 0u);
  EXPECT_EQ(layout(x), "register=[[1],[2],[512]], lane=[[4],[8],[16],[32],[64]], warp=[[128],[256]] -> dim0:1024");
  EXPECT_EQ(ops(Opcode::Load)[0]->get(ir::attr::vector), 4);
  EXPECT_EQ(ops(Opcode::Store)[0]->get(ir::attr::vector), 4);
  EXPECT_EQ(layout(ops(Opcode::Store)[0]->operands[1]), layout(x));
}

TEST_F(Layouts, VectorsFollowAlignmentMaskAndSize) {
  Value *aligned = pointer(), *odd = pointer(Elem::F32, 4), *n = i32(1);
  Value* mask = b.lt(b.arange(0, 1024), b.splat(n, {1024}));
  b.load(row_pointers(aligned, 1024), nullptr, nullptr);
  b.load(row_pointers(odd, 1024), nullptr, nullptr);
  b.load(row_pointers(aligned, 1024), mask, nullptr);
  b.load(row_pointers(aligned, 256), nullptr, nullptr);  // two elements a thread
  assign();
  auto loads = ops(Opcode::Load);
  EXPECT_EQ(loads[1]->get(ir::attr::vector), 1);
  EXPECT_EQ(loads[2]->get(ir::attr::vector), 1);
  EXPECT_EQ(loads[3]->get(ir::attr::vector), 2);
  EXPECT_EQ(loads[3]->result()->type.layout->contiguous_registers(0), 2);
}

// A mask that is true for a run of neighbours may end within an access; others have accesses in which they are the
// same.
TEST_F(Layouts, MasksMayEndWithinVectors) {
  const Type numbers = Type::tile(Elem::I32, {2048});
  Value *x = pointer(Elem::BF16), *n = b.splat(i32(1), {2048});
  Value *i = b.arange(0, 2048), *below = b.lt(i, n);
  Value* third = b.eq(b.rem(i, b.constant(numbers, 3)), b.constant(numbers, 0));
  auto load = [&](Value* mask) { b.load(row_pointers(x, 2048), mask, nullptr); };
  load(below);
  load(b.bit_and(b.ge(i, b.constant(numbers, 5)), below));
  load(b.bit_and(third, below));
  b.load(tile_pointers(x, i32(16), 16, 2048), b.broadcast(b.expand_dims(below, 0), {16, 2048}), nullptr);
  assign();
  std::vector<int64_t> widths;
  for (const Op* op : ops(Opcode::Load)) widths.push_back(op->get(ir::attr::vector));
  EXPECT_EQ(widths, (std::vector<int64_t>{8, 8, 1, 8}));
}

TEST_F(Layouts, MasksDoNotEndWithinVectorsWhereEightBytesAreWhole) {
  Value *x = pointer(Elem::BF16), *n = b.splat(i32(4), {2048});
  b.load(row_pointers(x, 2048), b.lt(b.arange(0, 2048), n), nullptr);
  assign();
  EXPECT_EQ(ops(Opcode::Load)[0]->get(ir::attr::vector), 4);
}

TEST_F(Layouts, UnalignedRowsPutLanesSideBySide) {
  b.load(row_pointers(pointer(Elem::F32, 4), 1024), nullptr, nullptr);
  assign();
  EXPECT_EQ(ops(Opcode::Load)[0]->get(ir::attr::vector), 1);
  EXPECT_EQ(layout(ops(Opcode::Load)[0]->result()),
            "register=[[128],[256],[512]], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] -> dim0:1024");
}

TEST_F(Layouts, MixedElementTypesShareALayout) {
  Value *half = pointer(Elem::F16), *full = pointer();
  Value* x = b.load(row_pointers(half, 2048), nullptr, nullptr);
  b.store(row_pointers(full, 2048), b.cast(x, Elem::F32), nullptr);
  assign();
  EXPECT_EQ(conversions(), 0u);
  EXPECT_EQ(ops(Opcode::Load)[0]->get(ir::attr::vector), 4);
  EXPECT_EQ(ops(Opcode::Store)[0]->get(ir::attr::vector), 4);
}

TEST_F(Layouts, HalfAloneTakesEightElements) {
  Value* x = b.load(row_pointers(pointer(Elem::F16), 2048), nullptr, nullptr);
  assign();
  EXPECT_EQ(x->def->get(ir::attr::vector), 8);
}

TEST_F(Layouts, RowsOfATileStayInsideWarps) {
  Value *in = pointer(), *out = pointer(), *stride = i32(16);
  Value* x = b.load(tile_pointers(in, stride, 16, 256), nullptr, nullptr);
  Value* sum = b.broadcast(b.expand_dims(reduce(x, 1), 1), {16, 256});
  b.store(tile_pointers(out, stride, 16, 256), b.div(x, sum), nullptr);
  assign();
  EXPECT_EQ(conversions(), 0u);
  EXPECT_EQ(layout(x),
            "register=[[0,1],[0,2],[0,128],[4,0],[8,0]], lane=[[0,4],[0,8],[0,16],[0,32],[0,64]], "
            "warp=[[1,0],[2,0]] -> dim0:16, dim1:256");
  Value* row = ops(Opcode::Reduce)[0]->result();
  EXPECT_EQ(layout(row), "register=[[4],[8]], lane=[[0],[0],[0],[0],[0]], warp=[[1],[2]] -> dim0:16");
  EXPECT_EQ(x->def->get(ir::attr::vector), 4);
}

// Rows that are reduced in each iteration of a loop: 8 lanes share one in place of 32, and a thread has a quarter
// of the sums.
TEST_F(Layouts, FewerLanesShareRowsThatALoopReduces) {
  warps(1);
  Value *in = pointer(), *out = pointer(), *stride = i32(16);
  Value* x = b.load(tile_pointers(in, stride, 16, 128), nullptr, nullptr);
  Value* rows = b.addptr(b.splat(out, {16}), b.mul(b.arange(0, 16), b.splat(stride, {16})));
  Value* columns = row_pointers(in, 128);
  Op* loop = b.create(Opcode::For, {c(0), c(16), c(1)}, {});
  Value* i = loop->regions[0]->add_arg(Type::scalar(Elem::I32));
  Builder at(loop->regions[0].get());
  Value* row = at.load(at.addptr(columns, at.splat(i, {128})), nullptr, nullptr);
  Value* y = at.mul(x, at.broadcast(at.expand_dims(row, 0), {16, 128}));
  at.store(at.addptr(rows, at.splat(i, {16})), reduce_in(at, y, 1), nullptr);
  at.create(Opcode::Yield, {});
  assign();
  EXPECT_EQ(layout(x),
            "register=[[0,1],[0,2],[0,32],[0,64],[4,0],[8,0]], lane=[[0,4],[0,8],[0,16],[1,0],[2,0]], "
            "warp=[] -> dim0:16, dim1:128");
  EXPECT_EQ(x->def->get(ir::attr::vector), 4);
}

// A thread could load what both rows share once, if it held elements of both; then it would reduce two rows.
TEST_F(Layouts, SumsOfRowsCostMoreThanLoadsThatRowsShare) {
  warps(8);
  Value *in = pointer(Elem::F16), *shared = pointer(Elem::F16);
  Value* x = b.load(tile_pointers(in, i32(16), 2, 1024), nullptr, nullptr);
  Value* weights = b.broadcast(b.expand_dims(row_pointers(shared, 1024), 0), {2, 1024});
  Value* scaled = b.mul(x, b.load(weights, nullptr, nullptr));
  b.store(row_pointers(pointer(Elem::F16), 2), reduce(scaled, 1), nullptr);
  assign();
  EXPECT_EQ(layout(x),
            "register=[[0,1],[0,2],[0,4]], lane=[[0,8],[0,16],[0,32],[0,64],[0,128]], warp=[[0,256],[0,512],[1,0]] "
            "-> dim0:2, dim1:1024");
}

TEST_F(Layouts, ColumnSumsKeepWarpsAlongTheRow) {
  Value* x = b.load(tile_pointers(pointer(), i32(16), 16, 1024), nullptr, nullptr);
  b.store(row_pointers(pointer(), 1024), reduce(x, 0), nullptr);
  assign();
  EXPECT_EQ(x->type.layout->drop_tile_dim(1).free_mask(Dim::Warp), 3);
  EXPECT_EQ(conversions(), 0u);  // a small store takes the layout of what it stores
  EXPECT_EQ(ops(Opcode::Store)[0]->get(ir::attr::vector), 4);
}

TEST_F(Layouts, ShortRowsShareAWarp) {
  Value* x = b.load(tile_pointers(pointer(), i32(16), 64, 32), nullptr, nullptr);
  assign();
  EXPECT_EQ(layout(x),
            "register=[[0,1],[0,2],[16,0],[32,0]], lane=[[0,4],[0,8],[0,16],[1,0],[2,0]], warp=[[4,0],[8,0]] "
            "-> dim0:64, dim1:32");
}

TEST_F(Layouts, WeightsFollowTheMatrix) {
  Value *in = pointer(), *w = pointer(), *stats = pointer(), *stride = i32(16);
  Value* x = b.load(tile_pointers(in, stride, 16, 256), nullptr, nullptr);
  Value* weights = b.load(row_pointers(w, 256), nullptr, nullptr);
  Value* scaled = b.mul(x, b.broadcast(b.expand_dims(weights, 0), {16, 256}));
  b.store(tile_pointers(in, stride, 16, 256), scaled, nullptr);
  b.store(row_pointers(stats, 16), reduce(scaled, 1), nullptr);
  assign();
  EXPECT_EQ(conversions(), 0u) << ir::print(func);
  EXPECT_EQ(weights->def->get(ir::attr::vector), 4);
}

// As many elements as half of the matrix, and yet they are loaded where the matrix needs them.
TEST_F(Layouts, WeightsOfTwoRowsFollowTheMatrix) {
  Value *in = pointer(), *w = pointer(), *stride = i32(16);
  Value* x = b.load(tile_pointers(in, stride, 2, 4096), nullptr, nullptr);
  Value* weights = b.load(row_pointers(w, 4096), nullptr, nullptr);
  Value* centered = b.sub(x, b.broadcast(b.expand_dims(reduce(x, 1), 1), {2, 4096}));
  Value* scaled = b.mul(centered, b.broadcast(b.expand_dims(weights, 0), {2, 4096}));
  b.store(tile_pointers(in, stride, 2, 4096), scaled, nullptr);
  assign();
  EXPECT_EQ(conversions(), 0u) << ir::print(func);
  EXPECT_EQ(weights->def->get(ir::attr::vector), 4);
}

// Eight rows of a matrix of words with eight numbers each are one row in memory: a thread holds all that a word has.
TEST_F(Layouts, RowsThatAreOneInMemoryStayInAThread) {
  Value *words = pointer(Elem::I32), *stride = i32(16);
  Value* rows = b.expand_dims(b.div(b.arange(0, 64), b.splat(c(8), {64})), 1);
  Value* starts = b.addptr(b.splat(words, {64, 1}), b.mul(rows, b.splat(stride, {64, 1})));
  Value* columns = b.broadcast(b.expand_dims(b.arange(0, 32), 0), {64, 32});
  Value* x = b.load(b.addptr(b.broadcast(starts, {64, 32}), columns), nullptr, nullptr);
  assign();
  EXPECT_EQ(layout(x),
            "register=[[0,1],[1,0],[2,0],[4,0]], lane=[[0,2],[0,4],[0,8],[0,16],[8,0]], warp=[[16,0],[32,0]] "
            "-> dim0:64, dim1:32");
  EXPECT_EQ(x->def->get(ir::attr::repeats), (ir::Ints{8, 1}));
}

// The same, and the numbers are stored: a thread has columns beside each other too, so that it stores them together.
TEST_F(Layouts, NumbersOfWordsAreStoredTogether) {
  Value *words = pointer(Elem::I32), *out = pointer(Elem::F16), *stride = i32(16);
  auto tile_of = [&](Value* base, Value* rows) {
    Value* starts = b.addptr(b.splat(base, {64, 1}), b.mul(b.expand_dims(rows, 1), b.splat(stride, {64, 1})));
    return b.addptr(b.broadcast(starts, {64, 64}), b.broadcast(b.expand_dims(b.arange(0, 64), 0), {64, 64}));
  };
  Value* x = b.load(tile_of(words, b.div(b.arange(0, 64), b.splat(c(8), {64}))), nullptr, nullptr);
  b.store(tile_of(out, b.arange(0, 64)), b.cast(x, Elem::F16), nullptr);
  assign();
  EXPECT_EQ(conversions(), 0u) << ir::print(func);
  EXPECT_EQ(x->def->get(ir::attr::repeats), (ir::Ints{8, 1}));
  EXPECT_EQ(x->def->get(ir::attr::vector), 4);
  EXPECT_EQ(ops(Opcode::Store).front()->get(ir::attr::vector), 4);
}

// The loop's load lies along columns that a store behind it shares, in other vectors: nothing is exchanged in the loop.
TEST_F(Layouts, LoopsComeBeforeWhatRunsOnce) {
  Value *in = pointer(Elem::F32), *weights = pointer(Elem::F32), *out = pointer(Elem::F16), *n = i32(),
        *first = i32(16);
  Value* columns = b.add(b.splat(first, {64}), b.arange(0, 64));
  auto tile_of = [&](Value* base, int64_t rows) {
    Value* starts = b.mul(b.expand_dims(b.arange(0, rows), 1), b.splat(c(4096), {rows, 1}));
    Value* along = b.broadcast(b.expand_dims(columns, 0), {rows, 64});
    return b.addptr(b.splat(base, {rows, 64}), b.add(b.broadcast(starts, {rows, 64}), along));
  };
  Value *read = tile_of(in, 128), *written = tile_of(out, 192);
  Value *starts = b.addptr(b.splat(weights, {64}), columns),
        *sums = b.constant_float(Type::tile(Elem::F32, {128, 64}), 0);
  Op* loop = b.create(Opcode::For, {c(0), n, c(1), sums}, {sums->type});
  ir::Block* body = loop->regions[0].get();
  Value* i = body->add_arg(Type::scalar(Elem::I32));
  Value* sum = body->add_arg(sums->type);
  Builder in_loop(body);
  Value* w = in_loop.load(in_loop.addptr(starts, in_loop.splat(i, {64})), nullptr, nullptr);
  Value* x = in_loop.load(in_loop.addptr(read, in_loop.splat(i, {128, 64})), nullptr, nullptr);
  Value* scaled = in_loop.mul(x, in_loop.broadcast(in_loop.expand_dims(w, 0), {128, 64}));
  in_loop.create(Opcode::Yield, {in_loop.add(sum, scaled)});
  b.store(written, b.constant_float(Type::tile(Elem::F16, {192, 64}), 1), nullptr);
  assign();
  for (const Op* conversion : ops(Opcode::ConvertLayout)) EXPECT_NE(conversion->parent, body) << ir::print(func);
}

TEST_F(Layouts, TransposedCopyConvertsTheValueOnce) {
  Value *in = pointer(), *out = pointer(), *stride = i32(16);
  Value* x = b.load(tile_pointers(in, stride, 64, 64), nullptr, nullptr);
  Value* turned = b.trans(tile_pointers(out, stride, 64, 64), {1, 0});
  b.store(turned, x, nullptr);
  assign();
  simplify();
  ASSERT_EQ(conversions(), 1u) << ir::print(func);
  EXPECT_EQ(ops(Opcode::ConvertLayout)[0]->operands[0], x);
  EXPECT_EQ(x->def->get(ir::attr::vector), 4);
  EXPECT_EQ(ops(Opcode::Store)[0]->get(ir::attr::vector), 4);
}

TEST_F(Layouts, CarriedValuesKeepOneLayout) {
  Value *in = pointer(), *out = pointer(), *n = i32();
  Value* ptr = row_pointers(in, 512);
  Value* sum = b.constant_float(Type::tile(Elem::F32, {512}), 0);
  Op* loop = b.create(Opcode::For, {c(0), n, c(1), ptr, sum}, {ptr->type, sum->type});
  ir::Block* body = loop->regions[0].get();
  body->add_arg(Type::scalar(Elem::I32));
  Value *p = body->add_arg(ptr->type), *s = body->add_arg(sum->type);
  Builder in_loop(body);
  Value* x = in_loop.load(p, nullptr, nullptr);
  Value* next = in_loop.addptr(p, in_loop.constant(Type::tile(Elem::I32, {512}), 512));
  in_loop.create(Opcode::Yield, {next, in_loop.add(s, x)});
  Op* branch = b.create(Opcode::If, {b.lt(n, c(4))}, {sum->type});
  for (int r = 0; r < 2; ++r) {
    Builder inner(branch->regions[r].get());
    inner.create(Opcode::Yield, {r ? loop->result(1) : inner.neg(loop->result(1))});
  }
  Op* again = b.create(Opcode::While, {branch->result()}, {sum->type});
  Value* before = again->regions[0]->add_arg(sum->type);
  Value* after = again->regions[1]->add_arg(sum->type);
  Builder head(again->regions[0].get());
  head.create(Opcode::Condition,
              {head.lt(reduce_in(head, before), head.constant_float(Type::scalar(Elem::F32), 9)), before});
  Builder tail(again->regions[1].get());
  tail.create(Opcode::Yield, {tail.exp(after)});
  b.store(row_pointers(out, 512), again->result(), nullptr);
  assign();
  EXPECT_EQ(conversions(), 0u) << ir::print(func);
  EXPECT_EQ(x->def->get(ir::attr::vector), 4);
}

// ---- Dots

class Dots : public Layouts {
 protected:
  Value *a_tile = nullptr, *b_tile = nullptr;
  Op* loop = nullptr;

  /// C = A x B with a loop over K, float16 in, float16 out.
  void matmul(int64_t m, int64_t n, int64_t k, Elem elem = Elem::F16) {
    Value *pa = pointer(elem), *pb = pointer(elem), *pc = pointer(Elem::F16);
    Value *k_total = i32(16), *n_total = i32(16);
    Value *a_ptr = tile_pointers(pa, k_total, m, k), *b_ptr = tile_pointers(pb, n_total, k, n);
    Value* zero = b.constant_float(Type::tile(Elem::F32, {m, n}), 0);
    loop = b.create(Opcode::For, {c(0), k_total, c(k), a_ptr, b_ptr, zero}, {a_ptr->type, b_ptr->type, zero->type});
    ir::Block* body = loop->regions[0].get();
    Value* i = body->add_arg(Type::scalar(Elem::I32));
    Values args;
    for (Value* v : {a_ptr, b_ptr, zero}) args.push_back(body->add_arg(v->type));
    Builder in(body);
    Value* left = in.sub(k_total, i);
    Value* mask = in.lt(in.expand_dims(in.arange(0, k), 0), in.splat(left, {1, k}));
    a_tile = in.load(args[0], in.broadcast(mask, {m, k}), in.constant_float(Type::tile(elem, {m, k}), 0));
    b_tile = in.load(args[1], nullptr, nullptr);
    Value* acc = in.dot(a_tile, b_tile, args[2]);
    Value* step_b = in.splat(in.mul(n_total, in.constant(Type::scalar(Elem::I32), k)), {k, n});
    in.create(Opcode::Yield,
              {in.addptr(args[0], in.constant(Type::tile(Elem::I32, {m, k}), k)), in.addptr(args[1], step_b), acc});
    Value* mask_c = b.broadcast(b.lt(b.expand_dims(b.arange(0, n), 0), b.splat(n_total, {1, n})), {m, n});
    b.store(tile_pointers(pc, n_total, m, n), b.cast(loop->result(2), Elem::F16), mask_c);
  }
};

TEST_F(Dots, MatmulConvertsOperandsAndTheNarrowResult) {
  matmul(64, 64, 32);
  assign();
  simplify();
  auto converts = ops(Opcode::ConvertLayout);
  ASSERT_EQ(converts.size(), 3u) << ir::print(func);
  Op* dot = ops(Opcode::Dot)[0];
  EXPECT_EQ(converts[0]->operands[0], a_tile);
  EXPECT_EQ(converts[1]->operands[0], b_tile);
  EXPECT_EQ(*dot->operands[0]->type.layout, mma_operand_layout({64, 32}, 0, 16, 2, 2));
  EXPECT_EQ(*dot->operands[1]->type.layout, mma_operand_layout({32, 64}, 1, 16, 2, 2));
  EXPECT_EQ(*dot->result()->type.layout, mma_accumulator_layout({64, 64}, 2, 2));
  EXPECT_EQ(converts[2]->result()->type.elem, Elem::F16);
  EXPECT_EQ(a_tile->def->get(ir::attr::vector), 8);
  EXPECT_EQ(b_tile->def->get(ir::attr::vector), 8);
  EXPECT_EQ(ops(Opcode::Store)[0]->get(ir::attr::vector), 8);
  for (Value* carried : {loop->result(2), loop->regions[0]->args[3].get()})
    EXPECT_EQ(*carried->type.layout, *dot->result()->type.layout);
}

// Sums that a kernel puts in the order of the registers are stored from these, in words of four and without an
// exchange.
TEST_F(Dots, SumsInTheOrderOfRegistersAreStoredAsTheyAre) {
  matmul(128, 64, 32);
  func.body.ops.pop_back();  // the store of C
  Value* blocks = b.trans(b.reshape(loop->result(2), {8, 2, 8, 8, 4, 2}), {3, 0, 2, 4, 1, 5});
  b.store(row_pointers(pointer(), 128 * 64), b.reshape(blocks, {128 * 64}), nullptr);
  assign();
  simplify();
  EXPECT_EQ(conversions(), 2u) << ir::print(func);  // of the operands
  EXPECT_EQ(ops(Opcode::Store)[0]->get(ir::attr::vector), 4);
}

// They are exchanged once, ahead of the loop.
TEST_F(Dots, SumsThatBeginAsAnotherProductLieAsTheLoopsDo) {
  matmul(64, 64, 32);
  b.set_before(loop);
  Value* x = b.load(tile_pointers(pointer(Elem::F32), i32(16), 64, 64), nullptr, nullptr);
  Value*& start = loop->operands[5];
  start = b.dot(x, x, start);
  b = Builder(&func.body);
  assign();
  simplify();
  for (const Op* conversion : ops(Opcode::ConvertLayout))
    if (conversion->parent->parent == loop) EXPECT_NE(conversion->result()->type.elem, Elem::F32) << ir::print(func);
  EXPECT_EQ(*loop->result(2)->type.layout, mma_accumulator_layout({64, 64}, 2, 2));
}

TEST_F(Dots, ManyShapesAreValid) {
  // Warps exchange what they store, unless each has as little as an instruction; operands are loaded as they are
  // multiplied where that takes no more than an exchange, as of tiles that all warps want whole.
  for (auto [m, n, k, w, expected] : {std::array{16, 8, 16, 1, 2},
                                      {16, 8, 16, 8, 0},
                                      {128, 16, 64, 4, 3},
                                      {16, 128, 32, 8, 2},
                                      {128, 128, 64, 8, 3}}) {
    func = Func();
    func.name = "kernel";
    b = Builder(&func.body);
    warps(w);
    matmul(m, n, k);
    assign();
    simplify();
    EXPECT_EQ(conversions(), size_t(expected)) << m << " " << n << " " << k << " " << w;
  }
}

TEST_F(Dots, RowsThatAreReducedStayInAWarp) {
  matmul(64, 64, 32);
  b.store(row_pointers(pointer(), 64), reduce(loop->result(2), 1), nullptr);
  assign();
  EXPECT_EQ(*ops(Opcode::Dot)[0]->result()->type.layout, mma_accumulator_layout({64, 64}, 4, 1));
}

TEST_F(Dots, TypesWithoutMatrixInstruction) {
  matmul(16, 16, 32, Elem::F32);
  assign();
  const Op& dot = *ops(Opcode::Dot)[0];
  for (int i : {0, 1})
    EXPECT_EQ(*dot.operands[i]->type.layout,
              fma_operand_layout(*dot.result()->type.layout, i, dot.operands[i]->type.shape));
}

TEST_F(Dots, OperandsThatThreadsGiveEachOtherComeAsTheyLie) {
  matmul(64, 64, 32, Elem::F32);
  assign();
  const Op& dot = *ops(Opcode::Dot)[0];
  EXPECT_EQ(dot.operands[0], a_tile);
  EXPECT_EQ(dot.operands[1], b_tile);
}

TEST_F(Dots, Attention) {
  const int64_t m = 64, n = 32, d = 64;
  Value *stride = i32(16), *total = i32(16);
  Value* q = b.load(tile_pointers(pointer(Elem::F16), stride, m, d), nullptr, nullptr);
  Value* k_ptr = b.trans(tile_pointers(pointer(Elem::F16), stride, n, d), {1, 0});
  Value* v_ptr = tile_pointers(pointer(Elem::F16), stride, n, d);
  Value* sum = b.constant_float(Type::tile(Elem::F32, {m}), 0);
  Value* zero = b.constant_float(Type::tile(Elem::F32, {m, d}), 0);
  loop = b.create(Opcode::For, {c(0), total, c(int(n)), k_ptr, v_ptr, sum, zero},
                  {k_ptr->type, v_ptr->type, sum->type, zero->type});
  ir::Block* body = loop->regions[0].get();
  Value* i = body->add_arg(Type::scalar(Elem::I32));
  Values args;
  for (Value* v : {k_ptr, v_ptr, sum, zero}) args.push_back(body->add_arg(v->type));
  Builder in(body);
  Value* scores = in.dot(q, in.load(args[0], nullptr, nullptr), in.constant_float(Type::tile(Elem::F32, {m, n}), 0));
  Value* p = in.exp(scores);
  Value* next_sum = in.add(args[2], reduce_in(in, p, 1));
  Value* scaled = in.mul(args[3], in.broadcast(in.expand_dims(next_sum, 1), {m, d}));
  Value* acc = in.dot(in.cast(p, Elem::F16), in.load(args[1], nullptr, nullptr), scaled);
  Value* step = in.mul(stride, i);
  in.create(Opcode::Yield,
            {in.addptr(args[0], in.splat(step, {d, n})), in.addptr(args[1], in.splat(step, {n, d})), next_sum, acc});
  b.store(tile_pointers(pointer(Elem::F16), stride, m, d), b.cast(loop->result(3), Elem::F16), nullptr);
  assign();
  simplify();
  // Three loaded operands and the result; nothing for the statistics, and p is where the second dot wants it.
  EXPECT_EQ(conversions(), 4u) << ir::print(func);
  size_t inside = 0;
  ir::walk(*body, [&](Op& op) { inside += op.opcode == Opcode::ConvertLayout; });
  EXPECT_EQ(inside, 2u);  // q is converted once, before the loop
}

// ---- Random functions: whatever they are, the result obeys the verifier and computes the same

/// What a function does, whatever the layouts: one line for each op that reads, writes or decides, its operands written
/// out as expressions (hashed) over results of such ops.
std::vector<std::string> effects(const Func& func) {
  std::unordered_map<const Value*, size_t> meaning;
  std::vector<std::string> lines;
  auto mean = [&](const Value* v, const std::string& text) { meaning[v] = std::hash<std::string>()(text); };
  for (auto& arg : func.body.args) mean(arg.get(), fmt::format("param {}", arg->index));
  ir::walk(func.body, [&](const Op& op) {
    if (op.parent->parent && op.parent->parent->opcode == Opcode::Reduce) return;
    if (op.opcode == Opcode::ConvertLayout) {
      meaning[op.result()] = meaning.at(op.operands[0]);
      return;
    }
    std::string text = op.info().text;
    for (auto& [name, value] : op.attrs)
      if (name != "vector")
        text += fmt::format(" {}={}", name,
                            std::visit(
                                [](const auto& v) {
                                  if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::vector<int64_t>>)
                                    return ir::shape_to_string(v);
                                  else
                                    return fmt::format("{}", v);
                                },
                                value));
    std::vector<size_t> operands;
    for (const Value* v : op.operands) operands.push_back(v ? meaning.at(v) : 0);
    if (op.has(ir::Commutative)) std::sort(operands.begin(), operands.begin() + 2);
    for (size_t v : operands) text += fmt::format(" {}", v);
    for (auto& r : op.results) text += " : " + r->type.to_string();
    bool effect = !op.has(ir::Pure);
    if (effect) lines.push_back(text), text = fmt::format("line {}", lines.size());
    for (auto& r : op.results) mean(r.get(), fmt::format("{} #{}", text, r->index));
    for (auto& region : op.regions)
      for (auto& arg : region->args) mean(arg.get(), fmt::format("{} ^{}", text, arg->index));
  });
  return lines;
}

class RandomFunctions : public Layouts, public testing::WithParamInterface<int> {};

TEST_P(RandomFunctions, AreLaidOut) {
  std::mt19937 random{uint32_t(GetParam())};
  auto pick = [&](auto& from) { return from[random() % from.size()]; };
  warps(1 << random() % 4);
  Value *base = pointer(), *stride = i32(16), *n = i32();
  Values pool;
  auto shape_of = [&](int rank) {
    Shape shape;
    for (int i = 0; i < rank; ++i) shape.push_back(int64_t(1) << random() % (rank == 1 ? 10 : 6));
    return shape;
  };
  auto load = [&](Builder& at, Shape shape) {
    Value* offset = at.constant(Type::tile(Elem::I32, shape), 0);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      Value* index = at.arange(0, shape[axis]);
      for (size_t other = 0; other < shape.size(); ++other)
        if (other != axis) index = at.expand_dims(index, int(other));
      if (random() % 2) index = at.mul(index, at.splat(stride, index->type.shape));
      offset = at.add(offset, at.broadcast(index, shape));
    }
    Value* mask = random() % 2 ? at.lt(offset, at.splat(n, shape)) : nullptr;
    return at.load(at.addptr(at.splat(base, shape), offset), mask, nullptr);
  };
  for (int i = 0; i < 3; ++i) pool.push_back(load(b, shape_of(1 + int(random() % 3))));
  std::function<void(Builder&, Values, int)> grow = [&](Builder& at, Values pool, int steps) {
    for (int i = 0; i < steps; ++i) {
      Value* x = pick(pool);
      const Shape& shape = x->type.shape;
      int rank = x->type.rank();
      switch (random() % 9) {
        case 0:
          pool.push_back(at.exp(x));
          break;
        case 1:
          for (Value* y : pool)
            if (y != x && y->type.shape == shape) {
              pool.push_back(at.add(x, y));
              break;
            }
          break;
        case 2:
          if (rank < 4) pool.push_back(at.expand_dims(x, int(random() % uint32_t(rank + 1))));
          break;
        case 3: {
          Shape grown = shape;
          for (auto& extent : grown)
            if (extent == 1 && random() % 2) extent = 8;
          if (x->type.num_elements() < 4096) pool.push_back(at.broadcast(x, grown));
          break;
        }
        case 4:
          pool.push_back(random() % 2 || rank < 2 ? at.reshape(x, {x->type.num_elements()})
                                                  : at.reshape(x, {shape[0], x->type.num_elements() / shape[0]}));
          break;
        case 5: {
          std::vector<int64_t> order;
          for (int k = 0; k < rank; ++k) order.push_back(k);
          std::shuffle(order.begin(), order.end(), random);
          pool.push_back(at.trans(x, order));
          break;
        }
        case 6:
          if (Value* r = reduce_in(at, x, int(random() % uint32_t(rank))); r->type.is_tile()) pool.push_back(r);
          break;
        case 7:
          at.store(at.splat(base, shape), x, nullptr);
          break;
        case 8: {
          if (steps < 4) break;
          Value* y = at.exp(x);
          Op* loop = at.create(Opcode::For, {n, n, n, x, y}, {x->type, y->type});
          ir::Block* body = loop->regions[0].get();
          body->add_arg(n->type);
          Values inner = pool;
          for (Value* v : {x, y}) inner.push_back(body->add_arg(v->type));
          Builder in(body);
          grow(in, inner, steps / 2);
          Value* swapped = body->args[1].get();
          in.create(Opcode::Yield, {body->args[2].get(), in.add(swapped, load(in, shape))});
          for (int r : {0, 1}) pool.push_back(loop->result(r));
          break;
        }
      }
    }
    at.store(at.splat(base, pool.back()->type.shape), pool.back(), nullptr);
  };
  grow(b, pool, 16);
  remove_dead_code(func);
  std::vector<std::string> meant = effects(func);
  assign();
  EXPECT_EQ(effects(func), [&] {
    meant.push_back("return");
    return meant;
  }());
  size_t before = conversions();
  simplify();
  size_t after = conversions();
  EXPECT_LE(after, before);
  EXPECT_EQ(effects(func), meant);
  std::string text = ir::print(func);
  simplify();
  EXPECT_EQ(ir::print(func), text) << "not idempotent";
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomFunctions, testing::Range(0, 80));

}  // namespace
}  // namespace tegula
