// label: unit
// What places in shared memory take of it, and how many slots pipelined loops get: plan_shared on tile IR, and kernels
// behind all passes.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/reader.h"
#include "codegen/passes/pass_manager.h"
#include "dsl/tegula.h"
#include "tests/codegen/function_on_places.h"

namespace tegula {
namespace {

constexpr int64_t kPlace = 64 * 64 * 2;

// Where the allocs of a function with that body lie, in the order of the program, in places.
std::vector<int64_t> offsets(const std::string& body) {
  const auto func = function_on_places(body);
  if (!func) return {};
  const SharedPlan plan = plan_shared(*func);
  std::vector<int64_t> out;
  ir::walk(func->body, [&](const ir::Op& op) {
    if (op.opcode == ir::Opcode::SharedAlloc) out.push_back(plan.offset.at(&op) / kPlace);
  });
  return out;
}
using Places = std::vector<int64_t>;

TEST(SharedPlan, PlacesThatAreNotNeededAtATimeShareMemory) {
  // The third is needed while the first is, the fourth takes the gap that the second has left.
  EXPECT_EQ(offsets(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  %11 = shared_alloc {slots = 1} : shared<64x64xf16>
  %12 = shared_alloc {slots = 1} : shared<64x64xf16>
  shared_store %3, %10
  shared_store %3, %11
  shared_store %3, %12
  %13 = shared_read %11 : tile<64x64xf16>
  %14 = shared_alloc {slots = 1} : shared<64x64xf16>
  shared_store %3, %14
  %15 = shared_read %10 : tile<64x64xf16>
  %16 = shared_read %12 : tile<64x64xf16>
)"),
            (Places{0, 1, 2, 1}));
}

TEST(SharedNeeds, FollowsTheSlotsThatAreTried) {
  Diagnostics diags;
  auto func = ir::read(R"(func @f(%0: f16 "x") {num_warps = 4} {
  %1 = splat %0 : tile<64x64xf16>
  %2 = shared_alloc {slots = 1} : shared<64x64xf16>
  shared_store %1, %2
  %3 = shared_read %2 : tile<64x64xf16>
  return
}
)",
                       "f.tile", diags);
  ASSERT_TRUE(func) << diags.render();
  ir::Op* alloc = nullptr;
  ir::walk(func->body, [&](ir::Op& op) {
    if (op.opcode == ir::Opcode::SharedAlloc) alloc = &op;
  });
  ScratchSizes sizes;
  SharedNeeds needs(*func, sizes);
  for (int64_t slots : {1, 3, 2}) {
    alloc->set(ir::attr::slots, slots);
    EXPECT_EQ(needs.bytes(), slots * kPlace);
    EXPECT_EQ(needs.bytes(), plan_shared(*func).bytes);
  }
}

// Conversions of the same layouts that differ in elements, in the order of axes, and in what op they are.
TEST(ScratchSizes, AreThoseOfEachOp) {
  Diagnostics diags;
  auto func = ir::read(
      R"(#0 = layout {register=[[1,0,0],[2,0,0],[4,0,0]], lane=[[0,1,0],[0,2,0],[0,4,0],[0,0,1],[0,0,2]], warp=[[0,0,4]] -> dim0:8, dim1:8, dim2:8}
func @f(%0: f16 "x", %1: f32 "y") {num_warps = 2} {
  %2 = splat %0 : tile<8x8x8xf16, #0>
  %3 = splat %1 : tile<8x8x8xf32, #0>
  %4 = trans %2 {order = [1, 0, 2]} : tile<8x8x8xf16, #0>
  %5 = trans %3 {order = [1, 0, 2]} : tile<8x8x8xf32, #0>
  %6 = trans %3 {order = [0, 1, 2]} : tile<8x8x8xf32, #0>
  %7 = trans %3 {order = [2, 1, 0]} : tile<8x8x8xf32, #0>
  %8 = convert_layout %3 : tile<8x8x8xf32, #0>
  return
}
)",
      "f.tile", diags);
  ASSERT_TRUE(func) << diags.render();
  std::vector<int64_t> found;
  ScratchSizes sizes;
  for (int time : {1, 2})
    ir::walk(func->body, [&](const ir::Op& op) {
      EXPECT_EQ(sizes.bytes(op), scratch_bytes(op));
      if (time == 1 && op.opcode == ir::Opcode::Trans) found.push_back(sizes.bytes(op));
    });
  constexpr int64_t kElements = 8 * 8 * 8;
  EXPECT_EQ(found, (std::vector<int64_t>{2 * kElements, 4 * kElements, 0, 4 * kElements}));
}

TEST(SharedPlan, RoomIsTakenFromTheFirstUseOn) {
  EXPECT_EQ(offsets(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  %11 = shared_alloc {slots = 1} : shared<64x64xf16>
  shared_store %3, %11
  %12 = shared_read %11 : tile<64x64xf16>
  shared_store %12, %10
  for %5, %0, %6 { ^(%20: i32):
    %21 = shared_read %10 : tile<64x64xf16>
    yield
  }
)"),
            (Places{0, 0}));
}

TEST(SharedPlan, AWaitEndsTheRoomOfWhatItWaitsFor) {
  // The products and copies of a loop are waited for in it; later ones do not matter.
  const std::string later = R"(
  %30 = shared_alloc {slots = 1} : shared<64x64xf16>
  async_copy %2, %30
  %31 = async_commit : token<group>
  async_wait %31
  %32 = mma_start %3, %30, %4 {columns = 64, instruction = "wgmma.f16", parts = [1, 1]} : in_flight<64x64xf32>
  %33 = mma_wait %32 {instruction = "wgmma.f16", pending = 0} : tile<64x64xf32>
)";
  EXPECT_EQ(offsets(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  for %5, %0, %6 { ^(%20: i32):
    async_copy %2, %10
    %21 = async_commit : token<group>
    async_wait %21
    %22 = mma_start %3, %10, %4 {columns = 64, instruction = "wgmma.f16", parts = [1, 1]} : in_flight<64x64xf32>
    %23 = mma_wait %22 {instruction = "wgmma.f16", pending = 0} : tile<64x64xf32>
    yield
  }
)" + later),
            (Places{0, 0}));
  // Sums that stay in flight behind the loop keep its places until they are waited for.
  const auto in_flight = [&](const std::string& behind) {
    return offsets(R"(
  %10 = shared_alloc {slots = 1} : shared<64x64xf16>
  %19 = mma_wait %4 {instruction = "wgmma.f16", pending = 0} : in_flight<64x64xf32>
  %11 = for %5, %0, %6, %19 : in_flight<64x64xf32> { ^(%20: i32, %21: in_flight<64x64xf32>):
    %22 = mma_start %3, %10, %21 {columns = 64, instruction = "wgmma.f16", parts = [1, 1]} : in_flight<64x64xf32>
    %23 = mma_wait %22 {instruction = "wgmma.f16", pending = 1} : in_flight<64x64xf32>
    yield %23
  }
)" + behind);
  };
  const std::string wait = "  %24 = mma_wait %11 {instruction = \"wgmma.f16\", pending = 0} : tile<64x64xf32>\n";
  EXPECT_EQ(in_flight(wait + later), (Places{0, 0}));
  EXPECT_EQ(in_flight(later + wait), (Places{0, 1}));
  EXPECT_EQ(in_flight(later), (Places{0, 1})) << "nothing waits for them";
  // A copy that the next iteration waits for keeps its place throughout the loop.
  const auto next_waits = [&](const std::string& token) {
    return offsets(R"(
  %9 = async_commit : token<group>
  %8 = for %5, %0, %6, %9 : token<group> { ^(%20: i32, %19: token<group>):
    %21 = shared_alloc {slots = 1} : shared<64x64xf16>
    async_wait %19
    async_copy %2, %21
    %22 = async_commit : token<group>
    %23 = shared_alloc {slots = 1} : shared<64x64xf16>
    shared_store %3, %23
    yield )" + token +
                   R"(
  }
  async_wait %8
)");
  };
  EXPECT_EQ(next_waits("%22"), (Places{0, 1}));
}

// ---- Kernels

constexpr const char* kKernels = R"(
import triton
import triton.language as tl


@triton.jit
def part(q, k_ptr, v_ptr, m, highest, total, acc, begin, end, LAST: tl.constexpr, KEYS: tl.constexpr, DEPTH: tl.constexpr):
    n = tl.arange(0, KEYS)
    d = tl.arange(0, DEPTH)
    for s in range(begin, end, KEYS):
        k = tl.load(k_ptr + (s + n)[None, :] * DEPTH + d[:, None])
        v = tl.load(v_ptr + (s + n)[:, None] * DEPTH + d[None, :])
        scores = tl.dot(q, k)
        if LAST:
            scores = tl.where(m[:, None] >= (s + n)[None, :], scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        faded = tl.exp2(highest - higher)
        total = total * faded + tl.sum(weights, 1)
        acc = tl.dot(weights.to(tl.float16), v, acc * faded[:, None])
        highest = higher
    return highest, total, acc


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, n, ROWS: tl.constexpr, KEYS: tl.constexpr, DEPTH: tl.constexpr):
    """Causal, in two parts."""
    first = tl.program_id(0) * ROWS
    m = first + tl.arange(0, ROWS)
    d = tl.arange(0, DEPTH)
    q = tl.load(q_ptr + m[:, None] * DEPTH + d[None, :])
    acc = tl.zeros((ROWS, DEPTH), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    highest = tl.full((ROWS,), float("-inf"), tl.float32)
    highest, total, acc = part(q, k_ptr, v_ptr, m, highest, total, acc, 0, first, False, KEYS, DEPTH)
    highest, total, acc = part(q, k_ptr, v_ptr, m, highest, total, acc, first, first + ROWS, True, KEYS, DEPTH)
    tl.store(out_ptr + m[:, None] * DEPTH + d[None, :], acc / total[:, None])


@triton.jit
def persistent(a_ptr, b_ptr, c_ptr, out_ptr, n, ROWS: tl.constexpr, KEYS: tl.constexpr, DEPTH: tl.constexpr):
    """And a product behind it."""
    m = tl.arange(0, ROWS)
    k = tl.arange(0, KEYS)
    for t in range(tl.program_id(0), 64, tl.num_programs(0)):
        acc = tl.zeros((ROWS, ROWS), tl.float32)
        for i in range(0, n):
            a = tl.load(a_ptr + (t * n + i) * ROWS * KEYS + m[:, None] * KEYS + k[None, :])
            b = tl.load(b_ptr + (t * n + i) * ROWS * KEYS + k[:, None] * ROWS + m[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(out_ptr + t * ROWS * ROWS + m[:, None] * ROWS + m[None, :], acc)
    x = tl.load(a_ptr + m[:, None] * KEYS + k[None, :])
    y = tl.load(b_ptr + k[:, None] * ROWS + m[None, :])
    tl.store(c_ptr + m[:, None] * ROWS + m[None, :], tl.dot(x, y).to(tl.float16))


@triton.jit
def product(a_ptr, b_ptr, c_ptr, out_ptr, n, ROWS: tl.constexpr, KEYS: tl.constexpr, DEPTH: tl.constexpr):
    m = tl.arange(0, ROWS)
    k = tl.arange(0, KEYS)
    d = tl.arange(0, DEPTH)
    acc = tl.zeros((ROWS, DEPTH), tl.float32)
    for i in range(0, n):
        a = tl.load(a_ptr + i * ROWS * KEYS + m[:, None] * KEYS + k[None, :])
        b = tl.load(b_ptr + i * KEYS * DEPTH + k[:, None] * DEPTH + d[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + m[:, None] * DEPTH + d[None, :], acc)


@triton.jit
def one_stage(a_ptr, b_ptr, c_ptr, out_ptr, n, ROWS: tl.constexpr, KEYS: tl.constexpr, DEPTH: tl.constexpr):
    m = tl.arange(0, ROWS)
    k = tl.arange(0, KEYS)
    d = tl.arange(0, DEPTH)
    acc = tl.zeros((ROWS, DEPTH), tl.float32)
    for i in tl.range(0, n, num_stages=1):
        a = tl.load(a_ptr + i * ROWS * KEYS + m[:, None] * KEYS + k[None, :])
        b = tl.load(b_ptr + i * KEYS * DEPTH + k[:, None] * DEPTH + d[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + m[:, None] * DEPTH + d[None, :], acc)


@triton.jit
def product_of_sums(a_ptr, b_ptr, c_ptr, out_ptr, n, ROWS: tl.constexpr, KEYS: tl.constexpr, DEPTH: tl.constexpr):
    """The sums of a loop are an operand, without a way through shared memory."""
    m = tl.arange(0, ROWS)
    acc = tl.zeros((ROWS, ROWS), tl.float32)
    for i in range(0, n):
        a = tl.load(a_ptr + m[:, None] * 1024 + i * ROWS + m[None, :])
        b = tl.load(b_ptr + (i * ROWS + m)[:, None] * ROWS + m[None, :])
        acc = tl.dot(a, b, acc)
    c = tl.load(c_ptr + m[:, None] * ROWS + m[None, :])
    tl.store(out_ptr + m[:, None] * ROWS + m[None, :], tl.dot(acc.to(tl.float16), c))
)";

struct Passed {
  Shared<ir::Func> func;
  std::vector<FewerStages> fewer_stages;

  int count(ir::Opcode opcode) const {
    int found = 0;
    ir::walk(func->body, [&](const ir::Op& op) { found += op.opcode == opcode; });
    return found;
  }
  /// Slots of each shared_alloc.
  // Of the places of operands; results have theirs for bulk stores.
  std::vector<int64_t> slots() const {
    std::vector<int64_t> found;
    std::set<const ir::Op*> of_results;
    ir::walk(func->body, [&](const ir::Op& op) {
      if (op.opcode == ir::Opcode::BulkStore)
        for (const ir::Value* operand : op.operands)
          if (operand->type.is_place()) of_results.insert(alloc_of(operand));
    });
    ir::walk(func->body, [&](const ir::Op& op) {
      if (op.opcode == ir::Opcode::SharedAlloc && !op.get(ir::attr::barriers) && !of_results.contains(&op))
        found.push_back(op.get(ir::attr::slots));
    });
    return found;
  }
};

struct Sizes {
  int rows, keys, depth, num_warps, num_stages;
};

Passed passed(const char* kernel, const Sizes& sizes, const char* target_name = "sm_90a",
              ir::Completion completion = ir::Completion::Group) {
  static const Program program = Program::parse(kKernels, "memory.py");
  std::vector<ArgType> types(4, {.elem = Elem::F16, .pointer = true, .divisible_by = 16});
  types[3].elem = Elem::F32;
  types.push_back({.elem = Elem::I32, .divisible_by = 16});
  Passed out{program.kernel(kernel).tile_func(
                 types, {.constexprs = {{"ROWS", sizes.rows}, {"KEYS", sizes.keys}, {"DEPTH", sizes.depth}},
                         .num_warps = sizes.num_warps,
                         .num_stages = sizes.num_stages}),
             {}};
  const Target target = *find_target(target_name);
  Diagnostics diags;
  PassContext context{target, diags, completion};
  EXPECT_TRUE(run_passes(*out.func, context)) << diags.render();
  EXPECT_LE(plan_shared(*out.func).bytes, target.shared_per_program);
  out.fewer_stages = std::move(context.fewer_stages);
  return out;
}

// Both take the same 192 KiB of 227 for three slots of K and V, and 32 KiB are for Q.
TEST(SharedMemory, LoopsInARowShareIt) {
  const Passed attention = passed("attention", {128, 128, 128, 8, 3});
  // The first loop's products overlap, so one of each stands outside of it; the second loop has one iteration.
  EXPECT_EQ(attention.count(ir::Opcode::MmaStart), 6);
  EXPECT_EQ(attention.count(ir::Opcode::Dot), 0);
  EXPECT_EQ(attention.slots(), (std::vector<int64_t>{3, 3, 1}));
  EXPECT_TRUE(attention.fewer_stages.empty());
}

TEST(SharedMemory, StagesThatDoNotFitAreTold) {
  const Passed attention = passed("attention", {128, 128, 128, 8, 5});
  EXPECT_EQ(attention.slots(), (std::vector<int64_t>{3, 3, 1}));
  ASSERT_EQ(attention.fewer_stages.size(), 1u) << "a loop of a function that is called twice";
  for (const FewerStages& loop : attention.fewer_stages) {
    EXPECT_EQ(loop.loc.to_string(), "memory.py:10:5");
    EXPECT_EQ(loop.asked, 5);
    EXPECT_EQ(loop.given, 3);
  }
}

// The sums in flight at the end of the persistent loop's body do not keep its places until the last product.
TEST(SharedMemory, APersistentLoopTakesAllOfIt) {
  for (int num_stages : {5, 8}) {
    const Passed loop = passed("persistent", {128, 64, 0, 8, num_stages});
    EXPECT_EQ(loop.slots()[0], std::min(num_stages + 1, 7));
    EXPECT_EQ(loop.count(ir::Opcode::MmaStart), 2);
  }
}

// 11 KiB a slot, of 99.
TEST(SharedMemory, BarriersOfCopiesCount) {
  const Sizes sizes{64, 64, 24, 4, 9};
  EXPECT_EQ(passed("product", sizes, "sm_86").slots(), (std::vector<int64_t>{9, 9}));
  EXPECT_EQ(passed("product", sizes, "sm_86", ir::Completion::Barrier).slots(), (std::vector<int64_t>{8, 8}));
}

// 128 KiB with one slot for each operand, whatever the number of stages of other loops.
TEST(SharedMemory, ALoopOfOneStageNeedsOneSlot) {
  const Passed loop = passed("one_stage", {128, 256, 128, 8, 3});
  EXPECT_EQ(loop.count(ir::Opcode::MmaStart), 1);
  EXPECT_EQ(loop.slots(), (std::vector<int64_t>{1, 1}));
}

TEST(SharedMemory, SumsOfALoopStayInRegisters) {
  const Passed product = passed("product_of_sums", {64, 0, 0, 4, 3});
  EXPECT_EQ(product.count(ir::Opcode::MmaStart), 2);
  EXPECT_EQ(product.slots().size(), 3u)
      << "two copied operands of the loop, and the other one of the product behind it";
}

}  // namespace
}  // namespace tegula
