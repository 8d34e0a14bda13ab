#include "kernels/launch_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>

#include "kernels/aligned_batches.h"
#include "kernels/library.h"
#include "kernels/pointwise_convolution.h"
#include "kernels/sort_long_rows.h"
#include "kernels/spread_weights.h"
#include "runtime/workspace.h"

namespace tegula::kernels {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t constexpr_or(const Config& config, const char* name, int64_t otherwise) {
  return config.find(name) ? config[name] : otherwise;
}

// Programs that one multiprocessor runs at a time, about, of blocks with so many elements: what limits them are threads
// and registers.
int64_t resident_programs(const Config& config, int64_t elements) {
  const int64_t threads = 32 * *config.num_warps;
  const int64_t registers = config.maxnreg.value_or(int(std::clamp<int64_t>(32 + 2 * elements / threads, 32, 255)));
  return std::max<int64_t>(1, std::min(2048 / threads, 65536 / (registers * threads)));
}

Grid tiles_grid(const BoundCall& call, const Config& config, int num_sms) {
  return grid_of_tiles(call.extent("rows"), call.extent("cols"), config, num_sms);
}

// Whether the rows of all matrices follow each other without gaps: without_gaps() of elementwise.py.
bool is_without_gaps(const BoundCall& call) {
  const int64_t cols = call.extent("cols");
  for (size_t i = 0; i < call.entry().operands.size(); ++i)
    if (const Tensor* t = call.tensor(i); t && t->rank == 2 && t->strides[0] != cols) return false;
  return true;
}

Grid elements_grid(const BoundCall& call, const Config& config, int num_sms) {
  if (!is_without_gaps(call)) return tiles_grid(call, config, num_sms);
  return {unsigned(ceil_div(call.extent("rows") * call.extent("cols"), config["ROWS"] * config["COLS"]))};
}

Grid row_tiles_grid(const BoundCall& call, const Config& config, int) {
  return {unsigned(ceil_div(call.extent("rows"), config["ROWS"]))};
}

size_t counters_alone(const BoundCall&, int) { return 0; }

constexpr int64_t kSamplers = 16;  // programs of sample.py for each multiprocessor at most

Grid sampled_rows_grid(const BoundCall& call, const Config&, int num_sms) {
  return {unsigned(std::min(call.extent("rows"), kSamplers * num_sms))};
}

// Some logits and their columns of each program.
size_t sampled_rows_bytes(const BoundCall& call, int num_sms) {
  constexpr int64_t kFew = 1024;  // FEW of sample.py at most
  return size_t(sampled_rows_grid(call, {}, num_sms).x) * 2 * kFew * sizeof(float);
}

Grid groups_of_channels_grid(const BoundCall& call, const Config&, int) {
  const int64_t groups = call.integer("groups"), channels = call.extent("channels");
  if (groups < 1 || channels % groups)
    call.refuse(fmt::format("{} channels cannot be divided into {} groups", channels, groups));
  return {unsigned(call.extent("batch") * groups)};
}

// Scales that the entry writes are those of a quantised result.
void check_quantised_result(const BoundCall& call) {
  const auto& operands = call.entry().operands;
  for (size_t i = 0; i < operands.size(); ++i)
    if (const Tensor* scales = operands[i].name == "scales" ? call.tensor(i) : nullptr; scales && scales->address)
      if (const Elem out = call.tensor("out")->elem; elem_bits(out) > 8)
        call.refuse(fmt::format("scales are those of int8 or float8, but out is {}", elem_info(out).tl));
}

void check_groups_of_channels(const BoundCall& call) {
  check_quantised_result(call);
  if (call.tensor("scales") && call.extent("scale_cols") != call.integer("groups"))
    call.refuse(fmt::format("scales has {} columns, expected {}: one for each group", call.extent("scale_cols"),
                            call.integer("groups")));
}

size_t group_gradients_bytes(const BoundCall& call, int) {
  return size_t(2 * call.extent("batch") * call.extent("channels")) * sizeof(float);
}

void check_group_gradients(const BoundCall& call) {
  if (call.extent("batch") == 0) call.refuse("x has no image, expected one at least");
  if (call.integer("groups") > Workspace::kCounters)
    call.refuse(fmt::format("{} groups, expected {} at most", call.integer("groups"), Workspace::kCounters));
}

// Whether channels and images follow each other without gaps: without_gaps() of channel_norm.py.
bool is_without_gaps_of_channels(const BoundCall& call) {
  const int64_t channels = call.extent("channels"), spatial = call.extent("spatial");
  for (const char* name : {"out", "x"})
    if (const Tensor& t = *call.tensor(name); t.strides[1] != spatial || t.strides[0] != channels * spatial)
      return false;
  return spatial >= 8;
}

Grid channels_of_images_grid(const BoundCall& call, const Config& config, int) {
  if (is_without_gaps_of_channels(call)) {
    const int64_t elements = call.extent("batch") * call.extent("channels") * call.extent("spatial");
    return {unsigned(ceil_div(elements, config["BLOCK"]))};
  }
  const int64_t pieces = ceil_div(call.extent("spatial"), config["BLOCK"]);
  return {unsigned(call.extent("batch") * call.extent("channels") * pieces)};
}

bool any_call(const BoundCall&, int) { return true; }

// Few wide rows: LEAST_COLS of row_pieces.py.
bool has_kept_pieces(const BoundCall& call, int num_sms) {
  constexpr int64_t kLeastCols = 32768;
  return call.extent("cols") >= kLeastCols && rows_class(num_sms, call.extent("rows")) == 0;
}

// Whether rows of all matrices begin at multiples of 8 elements.
bool begin_evenly(const BoundCall& call) {
  for (size_t i = 0; i < call.entry().operands.size(); ++i)
    if (const Tensor* t = call.tensor(i); t && t->rank == 2 && t->strides[0] % 8 != 0) return false;
  return true;
}

// Tiles' rows may begin before the first column where those of the matrices do not begin evenly (row_pieces.py).
constexpr int64_t kMostBefore = 15;

// Whether two programs take a piece, of which the second one reads it again.
bool reads_twice(const Config& config) { return config["ROWS"] == 0 && constexpr_or(config, "STAGES", 1) == 0; }

// Whether there are words for the pieces of all rows: kept_pieces() of row_pieces.py.
bool keeps_pieces(const BoundCall& call, const Config& config) {
  constexpr int64_t kMostPieces = (Workspace::kCounters - 2) / 7, kMostReadTwice = 5000;
  return config["ROWS"] == 0 && call.extent("rows") * ceil_div(call.extent("cols") + kMostBefore, config["PIECE"]) <=
                                    (reads_twice(config) ? kMostReadTwice : kMostPieces);
}

Grid kept_rows_grid(const BoundCall& call, const Config& config, int num_sms) {
  const int64_t rows = call.extent("rows"), cols = call.extent("cols");
  if (config["ROWS"] > 0) return tiles_grid(call, config, num_sms);
  if (!keeps_pieces(call, config)) return {unsigned(rows)};
  const int64_t pieces = rows * ceil_div(begin_evenly(call) ? cols : cols + kMostBefore, config["PIECE"]);
  return {unsigned(reads_twice(config) ? 2 * pieces : pieces)};
}

Grid persistent_grid(const BoundCall& call, const Config& config, int num_sms) {
  const int64_t programs = clusters_at_once(num_sms, config.num_ctas.value_or(1)) * config["PROGRAMS"];
  const int64_t tile_rows = std::max<int64_t>(constexpr_or(config, "ROWS", 1), 1);
  return {unsigned(std::clamp<int64_t>(ceil_div(call.extent("rows"), tile_rows), 1, programs))};
}

// Programs that leave sums of weight and bias: as many as 256 MB hold at most.
int64_t most_programs(int64_t cols, int num_sms) {
  constexpr int64_t kMostBytes = 256 << 20;
  return std::clamp<int64_t>(kMostBytes / (2 * int64_t(sizeof(float)) * std::max<int64_t>(cols, 1)), 1, 4 * num_sms);
}

Grid weight_gradients_grid(const BoundCall& call, const Config& config, int num_sms) {
  if (keeps_pieces(call, config)) return {unsigned(ceil_div(call.extent("cols"), config["PIECE"]))};
  Grid grid = persistent_grid(call, config, num_sms);
  grid.x = std::min(grid.x, unsigned(most_programs(call.extent("cols"), num_sms)));
  return grid;
}

size_t weight_gradients_bytes(const BoundCall& call, int num_sms) {
  const int64_t cols = call.extent("cols");
  return size_t(2 * most_programs(cols, num_sms) * cols) * sizeof(float);
}

constexpr int64_t kMostParts = 8;          // PROGRAMS of reduce_columns
constexpr int64_t kMostPartsOfRow = 1024;  // MOST_PARTS of reduce.py

// Groups of columns by parts of their rows.
Grid columns_grid(const BoundCall& call, const Config& config, int num_sms) {
  constexpr int64_t kMostRows = 16;  // MOST_ROWS of reduce.py
  const int64_t groups = call.extent("outer") * ceil_div(call.extent("cols"), config["COLS"]),
                rows = call.extent("rows");
  const int64_t height = config["ROWS"] > 0 ? config["ROWS"] : std::clamp<int64_t>(rows, 1, kMostRows);
  const int64_t programs = std::min(config["PROGRAMS"], kMostParts) * num_sms;
  return {unsigned(groups),
          unsigned(std::clamp<int64_t>(programs / groups, 1, std::max<int64_t>(1, ceil_div(rows, height))))};
}

size_t columns_bytes(const BoundCall&, int num_sms) {
  constexpr int64_t kMostCols = 2048;
  return size_t(kMostParts * num_sms * kMostCols) * sizeof(float);
}

size_t column_statistics_bytes(const BoundCall& call, int num_sms) { return 3 * columns_bytes(call, num_sms); }

// Several programs a row, or several rows a program.
Grid shared_rows_grid(const BoundCall& call, const Config& config, int num_sms) {
  if (config["PROGRAMS"] == 0) return row_tiles_grid(call, config, num_sms);
  const int64_t rows = call.extent("rows"), pieces = ceil_div(call.extent("cols"), config["WIDTH"]);
  const int64_t programs = std::min(config["PROGRAMS"] * num_sms, kMostPartsOfRow);
  return {unsigned(rows * std::clamp<int64_t>(programs / rows, 1, pieces))};
}

// Rows that have several programs are few: each leaves three numbers.
size_t shared_rows_bytes(const BoundCall& call, int num_sms) {
  return rows_class(num_sms, call.extent("rows")) == 0 ? size_t(3 * kMostPartsOfRow) * sizeof(float) : 0;
}

// int32 words in which programs tell each other a number: words_of_number() of row_pieces.py.
int64_t words_of_number(Elem elem) { return is_float(elem) ? 1 : elem_bits(elem) / 16; }

constexpr int64_t kMostWords = Workspace::kCounters - 2;  // this and kLeastOfGroup as row_pieces.py has them
constexpr int64_t kLeastOfGroup = 256;

// Pieces of a row, which may begin before its first column where rows begin unevenly: unit_of_pieces() of scan.py.
int64_t scanned_pieces(const BoundCall& call, const Config& config) {
  const int64_t stride = call.tensor("x")->strides[0];
  const bool shifted = stride % 16 != 0 && stride == call.tensor("out")->strides[0];
  return ceil_div(call.extent("cols") + (shifted ? kMostBefore : 0), config["PIECE"]);
}

// Whether there are words for a number of each piece, and of each group of pieces: list_of_pieces() of row_pieces.py.
bool tells_numbers(const BoundCall& call, const Config& config) {
  const int64_t pieces = scanned_pieces(call, config);
  const int64_t groups = ceil_div(pieces, std::max<int64_t>(kLeastOfGroup, 32 * *config.num_warps));
  return words_of_number(call.tensor("out")->elem) * call.extent("rows") * (pieces + groups) <= kMostWords;
}

// Few rows, several of which have more elements than there are words for pieces of LEAST_PIECE of scan.py, are taken by
// several launches.
bool scan_of_wide_rows(Device& device, const BoundCall& call, StreamHandle stream) {
  constexpr int64_t kLeastPiece = 4096;
  const int64_t rows = call.extent("rows"), cols = call.extent("cols");
  const int64_t pieces = kMostWords / words_of_number(call.tensor("out")->elem) * 7 / 8;
  const int64_t at_once = std::max<int64_t>(1, pieces * kLeastPiece / std::max<int64_t>(cols, 1));
  if (rows <= at_once || rows_class(device.info().num_sms, rows) > 0) return false;
  for (int64_t first = 0; first < rows; first += at_once)
    run(device, call.entry(), call.part("rows", first, std::min(at_once, rows - first)), stream);
  return true;
}

Grid scanned_rows_grid(const BoundCall& call, const Config& config, int) {
  if (config["CHAIN"] == 0) return row_tiles_grid(call, config, 0);
  const int64_t rows = call.extent("rows");
  return {unsigned(tells_numbers(call, config) ? rows * scanned_pieces(call, config) : rows)};
}

// Integers have results of their own type or of 64 bits.
void check_scanned(const BoundCall& call) {
  const Elem x = call.tensor("x")->elem, out = call.tensor("out")->elem;
  if (is_float(x) != is_float(out) || (!is_float(x) && elem_bits(out) < elem_bits(x)))
    call.refuse(fmt::format("x has elements of type {}, but out {}", elem_info(x).tl, elem_info(out).tl));
}

Grid tokens_grid(const BoundCall& call, const Config& config, int) {
  return {unsigned(ceil_div(call.extent("tokens"), config["TOKENS"]))};
}

void check_heads(const BoundCall& call) {
  if (const int64_t half = call.extent("half"), size = call.extent("size"); 2 * half > size)
    call.refuse(fmt::format("cos and sin have {} columns, expected {} at most: half of the {} elements of a head", half,
                            size / 2, size));
}

Grid chunks_grid(const BoundCall& call, const Config&, int) { return {unsigned(call.extent("chunks"))}; }

Grid chunk_sums_grid(const BoundCall& call, const Config&, int num_sms) {
  constexpr int64_t kTogether = 4;  // TOGETHER of square_sums
  return {unsigned(std::clamp<int64_t>(ceil_div(call.extent("chunks"), kTogether), 1, 4 * num_sms))};
}

size_t chunk_sums_bytes(const BoundCall&, int num_sms) { return size_t(4 * num_sms) * sizeof(float); }

// Checks how many elements a row of numbers of 8 or 4 bits has.
void check_width(const BoundCall& call, const char* operand, const char* dim) {
  const int64_t cols = call.extent("cols"), found = call.extent(dim);
  const bool packed = call.tensor(operand)->elem == Elem::U8;
  const int64_t expected = packed ? ceil_div(cols, 2) : cols;
  if (found != expected)
    call.refuse(fmt::format("{} has {} columns, expected {}{}", operand, found, expected,
                            packed ? fmt::format(": two of {} columns in a uint8", cols) : std::string()));
}

// A choice of numbers, as the number.
int64_t chosen(const BoundCall& call, const char* operand) { return std::stoll(call.choice_name(operand)); }

void check_scales(const BoundCall& call) {
  auto count = [](int64_t extent, int64_t each) { return each > 0 ? ceil_div(extent, each) : 1; };
  const int64_t groups = count(call.extent("cols"), chosen(call, "group"));
  const int64_t rows = count(call.extent("rows"), chosen(call, "tall"));
  if (call.extent("scale_rows") != rows || call.extent("groups") != groups)
    call.refuse(fmt::format("scales is {} x {}, expected {} x {}: one for each group", call.extent("scale_rows"),
                            call.extent("groups"), rows, groups));
}

void check_quantised(const BoundCall& call) { check_width(call, "out", "out_cols"); }

void check_quantised_groups(const BoundCall& call) {
  check_quantised(call);
  check_scales(call);
}

void check_dequantised(const BoundCall& call) {
  check_width(call, "x", "x_cols");
  check_scales(call);
}

constexpr int64_t kMostNumbers = 4096;  // BLOCK of tensor_scale and reduce_all

Grid counted_grid(const BoundCall&, const Config&, int num_sms) {
  return {unsigned(std::min<int64_t>(4 * num_sms, kMostNumbers))};
}

size_t numbers_bytes(const BoundCall&, int) { return kMostNumbers * sizeof(float); }

// A target is one of the columns: with none no loss has a value.
void check_classes(const BoundCall& call) {
  if (call.extent("cols") == 0 && call.extent("rows") > 0) call.refuse("logits have no columns");
}

void check_bins(const BoundCall& call) {
  constexpr int64_t kMostBins = 4096;
  if (call.extent("bins") > kMostBins)
    call.refuse(fmt::format("counts has {} elements, expected {} at most", call.extent("bins"), kMostBins));
  if (const double low = call.number("low"), high = call.number("high"); !(low < high))
    call.refuse(fmt::format("low is {} and high {}, expected low to be less", low, high));
}

using detail::kLargestRow;

void check_topk(const BoundCall& call) {
  const int64_t k = call.extent("k"), cols = call.extent("cols");
  if (k > cols) call.refuse(fmt::format("k is {}, but rows have {} elements", k, cols));
  if (cols > kLargestRow && k > kLargestRow / 2)
    call.refuse(
        fmt::format("k is {}, expected {} at most for rows of more than {} elements", k, kLargestRow / 2, kLargestRow));
}

constexpr int64_t kPartsOfRows = 8;     // programs a multiprocessor at most, where rows have several (PROGRAMS)
constexpr int64_t kProgramsOfRow = 16;  // likewise, where each piece of few rows has one
constexpr int64_t kMostSelected = 512;  // this and the next as order.py has them
constexpr int64_t kShortOfTopk = 512;
constexpr int64_t kKeysOfRoom = 8;       // of a room and a list of groups, for each key that is wanted
constexpr int64_t kMostRooms = 1 << 21;  // of a launch, times the keys wanted of each: they take 128 MB

int64_t keys_of_topk(const BoundCall& call) {
  return std::max<int64_t>(32, int64_t(std::bit_ceil(uint64_t(call.extent("k")))));
}

// Whether programs may select what they put in order, for which each has room.
bool selects(const BoundCall& call) { return call.extent("cols") > kShortOfTopk && call.extent("k") <= kMostSelected; }

Grid topk_grid(const BoundCall& call, const Config& config, int num_sms) {
  if (config["ROWS"] > 1) return row_tiles_grid(call, config, num_sms);
  const int64_t rows = call.extent("rows"), pieces = ceil_div(call.extent("cols"), config["BLOCK"]);
  if (config["PROGRAMS"] == 0) return {unsigned(rows * pieces)};
  const int64_t parts =
      rows <= Workspace::kCounters ? std::clamp<int64_t>(config["PROGRAMS"] * num_sms / rows, 1, pieces) : 1;
  return {unsigned(rows * parts)};
}

// Each program has room for the keys that it selects and a list of groups of elements, or each part of a row a list of
// the keys that it found.
size_t topk_bytes(const BoundCall& call, int num_sms) {
  const int64_t programs = std::max(kProgramsOfRow * num_sms, call.extent("rows"));
  const int64_t keys = keys_of_topk(call) * (selects(call) ? kKeysOfRoom * programs : kPartsOfRows * num_sms);
  return size_t(keys) * sizeof(int64_t);
}

// Rows that have too many rooms together are taken by several launches.
bool topk_of_many_rows(Device& device, const BoundCall& call, StreamHandle stream) {
  const int64_t rows = call.extent("rows"), at_once = kMostRooms / keys_of_topk(call);
  if (!selects(call) || rows <= at_once) return false;
  for (int64_t first = 0; first < rows; first += at_once)
    run(device, call.entry(), call.part("rows", first, std::min(at_once, rows - first)), stream);
  return true;
}

int64_t tiles_of(int64_t rows, int64_t cols, const Config& config) {
  return ceil_div(rows, config["BLOCK_M"]) * ceil_div(cols, config["BLOCK_N"]);
}

// Extents of an operand from number `first` on.
void check_spans(const BoundCall& call, const char* operand, size_t first) {
  const Tensor& t = *call.tensor(operand);
  for (size_t d = first; d < size_t(t.rank); ++d)
    detail::check_span(call.entry().name, operand, t.shape[d], t.strides[d]);
}

void check_batched_products(const BoundCall& call) {
  for (const char* operand : {"out", "a", "b"}) check_spans(call, operand, 1);
}

Grid batched_products_grid(const BoundCall& call, const Config& config, int num_sms) {
  const int64_t tiles = call.extent("batch") * tiles_of(call.extent("M"), call.extent("N"), config);
  const int64_t at_once = config["PROGRAMS"] * clusters_at_once(num_sms, config.num_ctas.value_or(1));
  return {unsigned(at_once ? std::min(tiles, at_once) : tiles)};
}

constexpr int64_t kMostSums = 32768;  // that programs of quantised_gemm leave, for each multiprocessor

// Whether weights are scaled before they are multiplied: are_scaled() of quantised_gemm.py.
bool has_scaled_weights(const BoundCall& call, const Config& config) {
  const int64_t group = chosen(call, "group"), rows = config["BLOCK_M"];
  return detail::has_scales_of_a(call) &&
         (((group == 32 || group == 64) && (rows > 1 || config["SHARES"])) || (group > 0 && rows > 64));
}

Grid quantised_products_grid(const BoundCall& call, const Config& config, int num_sms) {
  const int64_t tiles = tiles_of(call.extent("M"), call.extent("N"), config), group = chosen(call, "group");
  const bool by_group = group && config["BLOCK_M"] > 1 && !config["SHARES"] && !has_scaled_weights(call, config);
  const int64_t steps = std::max<int64_t>(1, ceil_div(call.extent("K"), by_group ? group : config["STEP"]));
  const int64_t blocks = config.num_ctas.value_or(1),
                room = kMostSums * blocks / (config["BLOCK_M"] * config["BLOCK_N"]);
  constexpr int64_t kCountersOfTile = 4;  // counters of hand_over() and leave() of gemm.py
  const bool can_share = tiles <= Workspace::kCounters / kCountersOfTile;
  const int64_t programs = can_share ? std::min(config["PROGRAMS"], room) * clusters_at_once(num_sms, blocks) : 0;
  return {unsigned(tiles * std::clamp<int64_t>(programs / tiles, 1, steps))};
}

size_t quantised_products_bytes(const BoundCall&, int num_sms) { return size_t(kMostSums * num_sms) * sizeof(float); }

void check_quantised_products(const BoundCall& call) {
  const int64_t k = call.extent("K"), cols = call.extent("b_cols"), group = chosen(call, "group");
  const Tensor& b = *call.tensor("b");
  const bool packed = b.elem == Elem::U8;
  if (packed && (k % 8 || b.address % 4 || b.strides[0] % 4))
    call.refuse(
        fmt::format("rows of b hold {} numbers of 4 bits, {} bytes apart\n  hint: eight of them are read at a "
                    "time: their number is a multiple of 8, and rows begin at multiples of 4 bytes",
                    k, b.strides[0]));
  if (cols != (packed ? k / 2 : k))
    call.refuse(fmt::format("b has {} columns, but a has {}{}", cols, k, packed ? ": two of them in a uint8" : ""));
  const int64_t groups = group ? ceil_div(k, group) : 1;
  if (call.extent("groups") != groups)
    call.refuse(fmt::format("scales has {} columns, expected {}: one for {} columns of b", call.extent("groups"),
                            groups, group ? std::to_string(group) : "all"));
  if (call.tensor("zeros") && !packed && b.elem != Elem::I8)
    call.refuse("weights of type float8 have no zeros, expected integers");
}

Grid convolution_grid(const BoundCall& call, const Config& config, int) {
  const int64_t pixels = call.extent("batch") * call.extent("out_height") * call.extent("out_width");
  const int64_t groups = call.integer("groups"), columns = call.extent("out_channels") / groups;
  const int64_t together = groups > 1 ? std::max<int64_t>(1, config["BLOCK_N"] / columns) : 1;
  const int64_t tiles = ceil_div(groups, together) * tiles_of(pixels, columns * together, config);
  return {unsigned(tiles * std::max<int64_t>(1, config["SHARES"]))};
}

// Sums of the largest tiles that programs of divided ones leave: conv2d.py divides those of few pixels alone.
size_t convolution_bytes(const BoundCall& call, int) {
  constexpr int64_t kProcessors = 132, kLargestTile = 128 * 256;
  const int64_t pixels = call.extent("batch") * call.extent("out_height") * call.extent("out_width");
  const bool few =
      call.integer("groups") == 1 && ceil_div(pixels, 256) * ceil_div(call.extent("out_channels"), 256) < kProcessors;
  return few ? size_t(kProcessors * kLargestTile) * sizeof(float) : 0;
}

// Checks extent `out` of the result of a kernel that goes over extent `in`.
void check_extent(const BoundCall& call, const char* out, const char* in, const char* kernel, const std::string& axis) {
  const int64_t stride = call.integer("stride_" + axis), padding = call.integer("padding_" + axis);
  const int64_t dilation = call.integer("dilation_" + axis);
  if (stride < 1 || dilation < 1 || padding < 0)
    call.refuse(fmt::format("stride_{0} is {1}, dilation_{0} {2} and padding_{0} {3}, expected 1, 1 and 0 or more",
                            axis, stride, dilation, padding));
  const int64_t room = call.extent(in) + 2 * padding - dilation * (call.extent(kernel) - 1) - 1;
  const int64_t expected = room < 0 ? 0 : room / stride + 1;
  if (call.extent(out) != expected)
    call.refuse(fmt::format("{} of out is {}, expected {} of {} {} with a kernel of {}", out, call.extent(out),
                            expected, in, call.extent(in), call.extent(kernel)));
}

void check_convolution(const BoundCall& call) {
  const int64_t groups = call.integer("groups"), channels = call.extent("channels");
  if (groups < 1 || channels % groups || call.extent("out_channels") % groups)
    call.refuse(fmt::format("{} channels and {} output channels cannot be divided into {} groups", channels,
                            call.extent("out_channels"), groups));
  if (call.extent("group_channels") != channels / groups)
    call.refuse(fmt::format("w has {} channels, expected {}: x has {}, in {} group{}", call.extent("group_channels"),
                            channels / groups, channels, groups, groups == 1 ? "" : "s"));
  check_extent(call, "out_height", "height", "kernel_height", "h");
  check_extent(call, "out_width", "width", "kernel_width", "w");
  if (const int64_t pixels = call.extent("batch") * call.extent("out_height") * call.extent("out_width");
      pixels > Tensor::kMostExtent)
    call.refuse(fmt::format("out has {} pixels, expected {} at most", pixels, Tensor::kMostExtent));
}

}  // namespace

namespace rules {

const LaunchRule tiles{tiles_grid, nullptr, check_quantised_result};
const LaunchRule kept_rows{.grid = kept_rows_grid,
                           .partial_bytes = counters_alone,
                           .check = check_quantised_result,
                           .has_partials = has_kept_pieces,
                           .tells_few_rows = has_kept_pieces};
const LaunchRule elements{.grid = elements_grid, .joins_rows = true};
const LaunchRule row_tiles{row_tiles_grid};
const LaunchRule shared_rows{shared_rows_grid, shared_rows_bytes};
const LaunchRule scanned_rows{.grid = scanned_rows_grid,
                              .partial_bytes = counters_alone,
                              .check = check_scanned,
                              .instead = scan_of_wide_rows,
                              .tells_few_rows = has_kept_pieces};
const LaunchRule sampled_rows{sampled_rows_grid, sampled_rows_bytes};
const LaunchRule groups_of_channels{groups_of_channels_grid, nullptr, check_groups_of_channels};
const LaunchRule group_gradients{groups_of_channels_grid, group_gradients_bytes, check_group_gradients};
const LaunchRule channels_of_images{channels_of_images_grid};
const LaunchRule losses{persistent_grid, nullptr, check_classes};
const LaunchRule weight_gradients{
    .grid = weight_gradients_grid, .partial_bytes = weight_gradients_bytes, .tells_few_rows = has_kept_pieces};
const LaunchRule columns{.grid = columns_grid, .partial_bytes = columns_bytes, .tells_few_rows = any_call};
const LaunchRule column_statistics{
    .grid = columns_grid, .partial_bytes = column_statistics_bytes, .tells_few_rows = any_call};
const LaunchRule tokens{tokens_grid, nullptr, check_heads};
const LaunchRule chunks{chunks_grid}, chunk_sums{chunk_sums_grid, chunk_sums_bytes};
const LaunchRule quantised{tiles_grid, nullptr, check_quantised};
const LaunchRule quantised_groups{tiles_grid, nullptr, check_quantised_groups};
const LaunchRule dequantised{tiles_grid, nullptr, check_dequantised};
const LaunchRule counted{counted_grid, nullptr, check_bins};
const LaunchRule numbers{counted_grid, numbers_bytes};
const LaunchRule sorted_rows{row_tiles_grid, nullptr, nullptr, false, detail::sort_long_rows};
const LaunchRule topk_rows{topk_grid, topk_bytes, check_topk, false, topk_of_many_rows};
const LaunchRule batched_products{batched_products_grid, nullptr, check_batched_products, false,
                                  detail::multiply_aligned_copies};
const LaunchRule quantised_products{quantised_products_grid, quantised_products_bytes, check_quantised_products, false,
                                    detail::spread_weights};
const LaunchRule convolution{convolution_grid, convolution_bytes, check_convolution, false,
                             detail::convolve_as_product};

}  // namespace rules

Grid grid_of_tiles(int64_t rows, int64_t cols, const Config& config, int num_sms) {
  const int64_t tile_rows = config["ROWS"], tiles = ceil_div(rows, tile_rows);
  if (config.find("COLS")) return {unsigned(tiles * ceil_div(cols, config["COLS"]))};
  if (constexpr_or(config, "STAGES", 0) == 0 || constexpr_or(config, "PIECE", 0) > 0) return {unsigned(tiles)};
  const int64_t blocks = config.num_ctas.value_or(1);
  const int64_t resident = resident_programs(config, tile_rows * cols / blocks);
  const int64_t programs = std::min(tiles, clusters_at_once(num_sms, blocks) * resident);
  // A wide row takes a cluster so long that none should take one more than the others.
  return {unsigned(blocks > 1 && programs > 0 ? ceil_div(tiles, ceil_div(tiles, programs)) : programs)};
}

int rows_class(int num_sms, int64_t rows) { return rows <= num_sms ? 0 : rows <= 16 * num_sms ? 1 : 2; }

int rows_class(int num_sms, const BoundCall& call) {
  constexpr int kJoined = 3;
  int64_t rows = call.extent("rows");
  int apart = rows_class(num_sms, rows);
  if (auto tells = call.entry().rule->tells_few_rows; tells && tells(call, num_sms))
    for (constexpr int64_t kFactor = 4; rows > 0 && rows * kFactor <= num_sms; rows *= kFactor) --apart;
  return call.entry().rule->joins_rows && is_without_gaps(call) ? kJoined + apart : apart;
}

}  // namespace tegula::kernels
