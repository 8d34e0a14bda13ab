// label: device
// Bulk copies of tile IR: boxes of arrays in shared memory as tensor maps say, phases that wait for bytes, and what the
// emulator says of pipelines with a mistake.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <tuple>

#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/reader.h"
#include "codegen/ir/verifier.h"
#include "codegen/layout/makers.h"
#include "codegen/layout/shared_boxes.h"
#include "dsl/kernel.h"
#include "runtime/base/float16.h"
#include "tests/assembler.h"
#include "tests/checks_off.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"
#include "tests/codegen/passes/laid_out_kernels.h"

namespace tegula {
namespace {

const Target& hopper() {
  static const Target target = *find_target("sm_90a");
  return target;
}

// ---- Tile IR: one thread copies tiles of an array into two slots in turn, four warps store them to `out`, one after
// the other.

struct Tiles {
  Elem elem = Elem::F16;
  int64_t rows = 64, columns = 64;
  std::vector<int> order = {1, 0};  ///< of the place: the axis of its rows first
  bool swizzled = true;
  bool batched = false;     ///< an array of rank 3, of which a tile has a slice
  int64_t bytes = -1;       ///< that a phase expects; -1: of the tile
  bool empty_slots = true;  ///< the copying thread waits for empty slots
  bool full_slots = true;   ///< the other threads wait for full ones
};

LinearLayout place_layout(const Tiles& t) {
  if (t.swizzled) return shared_layout_for_dot_operand({t.rows, t.columns}, t.order, elem_bits(t.elem));
  return swizzled_shared_layout({t.rows, t.columns}, t.order, 1, 1, 1);
}

std::string tile_ir(const Tiles& t) {
  const LinearLayout place = place_layout(t);
  const auto boxes = boxes_of(place, elem_bits(t.elem));
  EXPECT_TRUE(boxes);
  const LinearLayout registers = coalesced_layout({t.rows, t.columns}, {1, 0}, 4, 4);
  const LinearLayout of_rows = registers.drop_tile_dim(1), of_columns = registers.drop_tile_dim(0);
  // The array's dimensions from the slowest to the fastest are those of the place in turn.
  std::vector<int> axes(boxes->order.rbegin(), boxes->order.rend());
  std::vector<int64_t> box;
  for (int axis : axes) box.push_back(boxes->extents[size_t(axis)]);
  std::vector<std::string> coordinates = {"%63", "%64"};  // of the place's axes
  std::string at = fmt::format("{}, {}", coordinates[size_t(axes[0])], coordinates[size_t(axes[1])]);
  std::string dims = "%2, %3, %4";
  if (t.batched) {
    axes.insert(axes.begin(), -1);
    box.insert(box.begin(), 1);
    at = "%8, " + at;
    dims = "%7, %2, %3, %6, %4";
  }
  const int64_t elements = t.rows * t.columns;
  return fmt::format(
      R"(#0 = layout {{offset=[] -> dim0:1}}
#1 = layout {{{place}}}
#2 = layout {{{registers}}}
#3 = layout {{{of_rows}}}
#4 = layout {{{rows_by_one}}}
#5 = layout {{{of_columns}}}
#6 = layout {{{one_by_columns}}}
func @copying(%0: ptr<{e}> "p" div 16, %1: ptr<{e}> "out" div 16, %2: i32 "slow", %3: i32 "fast", %4: i64 "stride", %5: i32 "tiles", %6: i64 "batch_stride", %7: i32 "batches", %8: i32 "batch", %9: i32 "first_row", %10: i32 "first_column") {{num_warps = 4}} {{
  %11 = shared_alloc {{arrivals = 1, barriers = true, slots = 2}} : shared<1xi64, #0>
  %12 = shared_alloc {{arrivals = 4, barriers = true, slots = 2}} : shared<1xi64, #0>
  %13 = shared_alloc {{slots = 2}} : shared<{r}x{c}x{e}, #1>
  %14 = tensor_map %0, {dims} {{swizzle = {swizzle}}} : tensor_map<{box}x{e}>
  %15 = constant {{value = 0}} : i32
  %16 = constant {{value = 1}} : i32
  %20 = arange {{end = {r}, start = 0}} : tile<{r}xi32, #3>
  %21 = expand_dims %20 {{axis = 1}} : tile<{r}x1xi32, #4>
  %22 = broadcast %21 : tile<{r}x{c}xi32, #2>
  %23 = constant {{value = {c}}} : tile<{r}x{c}xi32, #2>
  %24 = mul %22, %23 : tile<{r}x{c}xi32, #2>
  %25 = arange {{end = {c}, start = 0}} : tile<{c}xi32, #5>
  %26 = expand_dims %25 {{axis = 0}} : tile<1x{c}xi32, #6>
  %27 = broadcast %26 : tile<{r}x{c}xi32, #2>
  %28 = add %24, %27 : tile<{r}x{c}xi32, #2>
  %29 = splat %1 : tile<{r}x{c}xptr<{e}>, #2>
  %30 = addptr %29, %28 : tile<{r}x{c}xptr<{e}>, #2>
  %31 = constant {{value = {elements}}} : tile<{r}x{c}xi32, #2>
  %32, %33, %34 = for %15, %5, %16, %15, %15, %30 : i32, i32, tile<{r}x{c}xptr<{e}>, #2> {{ ^(%35: i32, %36: i32, %37: i32, %38: tile<{r}x{c}xptr<{e}>, #2>):
    %39 = shared_slot %11, %36 : shared<1xi64, #0>
{full}
    %40 = shared_slot %13, %36 : shared<{r}x{c}x{e}, #1>
    %41 = shared_read %40 : tile<{r}x{c}x{e}, #2>
    store %38, %41
    %42 = shared_slot %12, %36 : shared<1xi64, #0>
    phase_arrive %42
    %43 = addptr %38, %31 : tile<{r}x{c}xptr<{e}>, #2>
    %44 = bit_xor %36, %16 : i32
    %45 = bit_xor %37, %36 : i32
    yield %44, %45, %43
  }}
  copy_warps {{one_thread = true, registers = [], warps = 4}} {{ ^():
    %50 = constant {{value = 0}} : i32
    %51 = constant {{value = 1}} : i32
    %52 = constant {{value = {c}}} : i32
    %53, %54 = for %50, %5, %51, %50, %51 : i32, i32 {{ ^(%55: i32, %56: i32, %57: i32):
      %58 = shared_slot %12, %56 : shared<1xi64, #0>
{empty}
      %59 = shared_slot %11, %56 : shared<1xi64, #0>
      phase_arrive %59 {{bytes = {bytes}}}
      %60 = shared_slot %13, %56 : shared<{r}x{c}x{e}, #1>
      %61 = mul %55, %52 : i32
      %63 = add %9, %50 : i32
      %64 = add %10, %61 : i32
      bulk_copy %14, %60, %59, _, {at} {{axes = [{axes}]}}
      %65 = bit_xor %56, %51 : i32
      %66 = bit_xor %57, %56 : i32
      yield %65, %66
    }}
    yield
  }}
  return
}}
)",
      fmt::arg("place", place.to_string()), fmt::arg("registers", registers.to_string()),
      fmt::arg("of_rows", of_rows.to_string()), fmt::arg("rows_by_one", of_rows.insert_tile_dim(1).to_string()),
      fmt::arg("of_columns", of_columns.to_string()),
      fmt::arg("one_by_columns", of_columns.insert_tile_dim(0).to_string()), fmt::arg("e", elem_info(t.elem).text),
      fmt::arg("dims", dims), fmt::arg("r", t.rows), fmt::arg("c", t.columns), fmt::arg("swizzle", boxes->swizzle),
      fmt::arg("box", fmt::join(box, "x")), fmt::arg("elements", elements),
      fmt::arg("full", t.full_slots ? "    phase_wait %39, %37" : ""),
      fmt::arg("empty", t.empty_slots ? "      phase_wait %58, %57" : ""),
      fmt::arg("bytes", t.bytes < 0 ? elements * elem_bytes(t.elem) : t.bytes), fmt::arg("at", at),
      fmt::arg("axes", fmt::join(axes, ", ")));
}

std::unique_ptr<ir::Func> function(const Tiles& t) {
  Diagnostics diags;
  const std::string text = tile_ir(t);
  auto func = ir::read(text, "copying.tile", diags, {.text_locations = true});
  EXPECT_TRUE(func && ir::verify(*func, ir::Stage::LaidOut, diags)) << diags.render() << text;
  return func;
}

// An array of `batches` matrices of slow x fast elements, rows and matrices further apart than they are long, filled
// with the numbers 1, 2 .. ; between rows stands what nobody may read.
template <class T>
struct Matrices {
  int batches = 1, slow = 0, fast = 0;
  int64_t stride = 0, batch_stride = 0;
  std::vector<T> values;

  Matrices(int batches, int slow, int fast, int64_t stride) : batches(batches), slow(slow), fast(fast), stride(stride) {
    batch_stride = stride * (slow + 1);
    values.assign(size_t(batch_stride * batches), T(float(-1)));
    for (int b = 0; b < batches; ++b)
      for (int s = 0; s < slow; ++s)
        for (int f = 0; f < fast; ++f)
          values[size_t(b * batch_stride + s * stride + f)] = T(float((b * 31 + s * 7 + f * 3) % 113 + 1));
  }
  // 0 outside.
  float at(int b, int s, int f) const {
    if (b < 0 || b >= batches || s < 0 || s >= slow || f < 0 || f >= fast) return 0;
    return float(values[size_t(b * batch_stride + s * stride + f)]);
  }
};

// Runs the function on the matrices and compares each element of each tile: on the default device, or with a seed on
// the emulator.
template <class T>
void check(const Tiles& t, const Matrices<T>& m, int tiles, int first_row, int first_column, int batch = 0,
           uint64_t seed = 0) {
  auto func = function(t);
  const std::shared_ptr<Device> seeded = seed ? make_emulator({.seed = seed}) : nullptr;
  Device* const device = seed ? seeded.get() : default_device();
  if (!target_for_sm(device->info().sm).has(Feature::Tma)) GTEST_SKIP() << device->info().name << " has no bulk copies";
  auto image = laid_out_image(*func, target_for_sm(device->info().sm), device->info().emulator);
  ASSERT_TRUE(image);
  auto kernel = device->load(*image);
  Array<T> p(*device, m.values), out(*device, size_t(tiles * t.rows * t.columns));
  launch(*kernel, {1}, p.address(), out.address(), m.slow, m.fast, m.stride, tiles, m.batch_stride, m.batches, batch,
         first_row, first_column);
  const std::vector<T> result = out.values();
  const bool by_columns = t.order[0] == 0;  // rows of the place lie along the array's fastest dimension otherwise
  for (int tile = 0; tile < tiles; ++tile)
    for (int r = 0; r < t.rows; ++r)
      for (int c = 0; c < t.columns; ++c) {
        const int row = first_row + r, column = first_column + tile * int(t.columns) + c;
        const float expected = by_columns ? m.at(batch, column, row) : m.at(batch, row, column);
        ASSERT_EQ(float(result[size_t((tile * t.rows + r) * t.columns + c)]), expected)
            << "tile " << tile << ", row " << r << ", column " << c << ", seed " << seed;
      }
}

TEST(BulkCopy, BoxesOfAllKindsArriveWhereTheyBelong) {
  const Matrices<float16> halves(3, 200, 264, 272);
  check<float16>({}, halves, 3, 0, 0);
  check<float16>({.rows = 128, .columns = 128}, halves, 2, 0, 0);                 // two panels
  check<float16>({.rows = 32, .columns = 192}, halves, 1, 8, 16);                 // panels that repeat
  check<float16>({.rows = 112, .columns = 64}, halves, 2, 8, 0);                  // one box of 112 rows
  check<float16>({.rows = 272, .columns = 32}, halves, 2, 0, 0);                  // two of 136
  check<float16>({.rows = 104, .columns = 64}, halves, 2, 100, 0);                // 13 blocks of 8 rows
  check<float16>({.rows = 64, .columns = 32}, halves, 3, 0, 0);                   // swizzle of 64 bytes
  check<float16>({.rows = 64, .columns = 16}, halves, 3, 0, 0);                   // of 32 bytes
  check<float16>({.rows = 64, .columns = 64, .order = {0, 1}}, halves, 3, 0, 0);  // by columns
  check<float16>({.rows = 64, .columns = 32, .swizzled = false}, halves, 3, 0, 0);
  check<float16>({.rows = 64, .columns = 64, .batched = true}, halves, 3, 0, 0, 2);
  check<float>({.elem = Elem::F32, .rows = 64, .columns = 64}, Matrices<float>(1, 100, 100, 100), 2, 0, 0);
}

TEST(BulkCopy, BoxesBeginWithTheSwizzle) {
  auto extents = [](int64_t rows, int64_t columns) {
    const auto boxes = boxes_of(shared_layout_for_dot_operand({rows, columns}, {1, 0}, 16), 16);
    return boxes ? boxes->extents : std::vector<int64_t>();
  };
  using Extents = std::vector<int64_t>;
  EXPECT_EQ(extents(4, 64), (Extents{4, 64}));
  EXPECT_EQ(extents(12, 64), Extents());  // blocks of 4 rows
  EXPECT_EQ(extents(112, 64), (Extents{112, 64}));
  EXPECT_EQ(extents(104, 32), (Extents{104, 32}));
  EXPECT_EQ(extents(320, 64), (Extents{160, 64}));
  EXPECT_EQ(extents(272, 64), (Extents{136, 64}));
  EXPECT_EQ(extents(48, 128), (Extents{16, 64}));  // panels of 64 columns lie between blocks of rows
}

// Blocks of a cluster have about as many rows to bring as each other.
TEST(BulkCopy, BlocksDealOutBoxes) {
  auto dealt = [](int64_t rows, int64_t blocks) {
    const LinearLayout place = shared_layout_for_dot_operand({rows, 64}, {1, 0}, 16);
    auto boxes = boxes_of(place, 16);
    EXPECT_EQ(axis_of_parts(place, *boxes, blocks), 0);
    return boxes->extents[0];
  };
  EXPECT_EQ(dealt(256, 2), 128);
  EXPECT_EQ(dealt(112, 2), 56);
  EXPECT_EQ(dealt(112, 4), 16);
  EXPECT_EQ(dealt(104, 4), 8);
  EXPECT_EQ(dealt(320, 2), 160);
  const LinearLayout narrow = shared_layout_for_dot_operand({8, 64}, {1, 0}, 16);
  auto boxes = boxes_of(narrow, 16);
  EXPECT_EQ(axis_of_parts(narrow, *boxes, 2), -1);
}

// Boxes that begin ahead of the array, reach beyond it, or lie outside altogether.
class BulkCopyOutside : public testing::TestWithParam<std::tuple<int, int, int>> {};
INSTANTIATE_TEST_SUITE_P(BulkCopy, BulkCopyOutside,
                         testing::Combine(testing::Values(-40, 0, 40, 60), testing::Values(-40, -8, 64, 96),
                                          testing::Values(-1, 0, 2)));

TEST_P(BulkCopyOutside, ReadsZeros) {
  const auto [row, column, batch] = GetParam();
  const Matrices<float16> halves(2, 50, 72, 80);
  check<float16>({.batched = batch != 0}, halves, 2, row, column, batch);
}

TEST(BulkCopy, ManyPhasesInAnyOrder) {
  const Matrices<float16> halves(1, 64, 64 * 21, 64 * 21);
  for (uint64_t seed = 0; seed < 5; ++seed) check<float16>({.rows = 32, .columns = 64}, halves, 21, 0, 0, 0, seed);
}

// ---- Mistakes in tile IR

std::string fault_of(const Tiles& t, uint64_t seed = 0, int tiles = 4) {
  auto func = function(t);
  auto image = emulator_image(*func, hopper());
  auto device = make_emulator({.threads = 1, .seed = seed});
  auto kernel = device->load(*image);
  const Matrices<float16> m(1, 64, 512, 512);
  Array<float16> p(*device, m.values), out(*device, size_t(tiles * t.rows * t.columns));
  return error_of_launch(*kernel, {1}, p.address(), out.address(), m.slow, m.fast, m.stride, tiles, m.batch_stride, 1,
                         0, 0, 0);
}

TEST(BulkCopy, FaultsOfPipelines) {
  const ChecksOff checks_off;
  EXPECT_EQ(fault_of({}), "no error");
  EXPECT_EQ(
      fault_of({.bytes = 8000}),
      "kernel 'copying': bulk copies bring more than the 8000 bytes that the phase of the mbarrier at offset 0 of "
      "shared memory expects\n  at copying.tile:53:7, program (0, 0, 0), thread 128");
  EXPECT_EQ(fault_of({.bytes = 8208}),
            "kernel 'copying': deadlock: threads 0-127 wait in mbarrier_wait at copying.tile:29:5 for parity 0 of the "
            "mbarrier at offset 0, whose phase has 1 of 1 arrivals and 8192 of 8208 bytes; thread 128 waits in "
            "mbarrier_wait at copying.tile:46:7 for parity 0 of the mbarrier at offset 16, whose phase has 0 of 4 "
            "arrivals; threads 129-255 have left the kernel\n  in program (0, 0, 0)");
  EXPECT_EQ(
      fault_of({.empty_slots = false}),
      "kernel 'copying': the mbarrier at offset 0 of shared memory gets more than the 1 arrivals that it expects "
      "in a phase; a wait for the phase's end is missing before the next arrival\n  at copying.tile:48:7, program "
      "(0, 0, 0), thread 128");
  EXPECT_CONTAINS(fault_of({.full_slots = false}),
                  "which a bulk copy issued at copying.tile:53:7 writes; a wait for its phase is missing\n  at "
                  "copying.tile:31:5, program (0, 0, 0), thread ");
}

}  // namespace
}  // namespace tegula
