// Rows of a matrix added to those rows of a table that indices name: gradients of embeddings, and index_add.
#include <algorithm>
#include <array>
#include <bit>

#include "kernels/kernels.h"
#include "kernels/launch_rules.h"
#include "kernels/library.h"
#include "kernels/listed_sums.h"
#include "kernels/products.h"
#include "kernels/workspace_pieces.h"

namespace tegula::kernels {

namespace {

using detail::add_listed;
using detail::FlaggedKernel;
using detail::integer;
using detail::is_for_lists;
using detail::pointer;
using detail::rows_of_a_key;
using detail::SumsByIndex;
using detail::WorkspacePieces;

constexpr int64_t kPart = 16;  // sorted rows that a program adds up

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The second of two kernels has the flag set.
std::array<FlaggedKernel, 2> with_accumulate(const char* file, const char* kernel, std::vector<ConstexprArg> more) {
  auto made = [&](bool accumulate) {
    std::vector<ConstexprArg> flags = more;
    flags.emplace_back("ACCUMULATE", accumulate);
    return FlaggedKernel(file, kernel, flags);
  };
  return {made(false), made(true)};
}

// One of digits of 8 bits, one of 10.
std::array<FlaggedKernel, 2> by_digits(const char* kernel) {
  return {FlaggedKernel("segment_sums.py", kernel, {{"DIGITS", int64_t(256)}}),
          FlaggedKernel("segment_sums.py", kernel, {{"DIGITS", int64_t(1024)}})};
}

class SegmentSums {
 public:
  SegmentSums(Device& device, const SumsByIndex& of, StreamHandle stream)
      : device_(device),
        stream_(stream),
        of_(of),
        rows_(of.x.shape[0]),
        cols_(of.x.shape[1]),
        table_rows_(of.table.shape[0]) {
    bits_ = std::bit_width(uint64_t(table_rows_));  // one index more counts what lies outside
    ten_bits_ = ceil_div(bits_, 10) < ceil_div(bits_, 8);
    blocks_ = ceil_div(rows_, rows_ <= 131072 ? 1024 : 4096);  // block_of_rows() of segment_sums.py
    // As many columns at a time as leave so many bytes of partial sums.
    constexpr int64_t kMostBytes = 256 << 20, kLeastCols = 256;
    const int64_t room = kMostBytes / (2 * ceil_div(rows_, kPart) * int64_t(sizeof(float)));
    cols_at_once_ = std::min(cols_, std::max(room / kLeastCols * kLeastCols, kLeastCols));
  }

  void run() {
    const size_t list = WorkspacePieces::rounded(size_t(rows_) * sizeof(int32_t));
    const int64_t num_counts = blocks_ << digit_bits(), num_partials = 2 * ceil_div(rows_, kPart) * cols_at_once_;
    const size_t bytes = 4 * list + WorkspacePieces::rounded(size_t(num_counts) * sizeof(int32_t)) +
                         size_t(num_partials) * sizeof(float);
    const Workspace workspace = device_.workspace(stream_, bytes, WorkspaceUse::SeveralLaunches);
    WorkspacePieces pieces(workspace.partials);
    std::array<Sorted, 2> lists{{{pieces.take(Elem::I32, rows_), pieces.take(Elem::I32, rows_)},
                                 {pieces.take(Elem::I32, rows_), pieces.take(Elem::I32, rows_)}}};
    const Arg counts = pieces.take(Elem::I32, num_counts), partials = pieces.take(Elem::F32, num_partials);
    Sorted from{pointer(&of_.index), nullptr};
    for (int shift = 0, pass = 0; shift < bits_; shift += digit_bits(), ++pass) {
      sort_digit(lists[pass % 2], from, counts, shift);
      from = lists[pass % 2];
    }
    for (int64_t first = 0; first < cols_; first += cols_at_once_)
      add_columns(from, partials, first, std::min(cols_at_once_, cols_ - first));
  }

 private:
  struct Sorted {
    Arg keys, rows;
  };

  int digit_bits() const { return ten_bits_ ? 10 : 8; }

  void sort_digit(const Sorted& to, const Sorted& from, const Arg& counts, int shift) {
    static const auto counting = by_digits("count_digits"), moving = by_digits("move_rows");
    auto grid = [&](const Config&) { return Grid{unsigned(blocks_)}; };
    const Arg rows = integer(rows_), table_rows = integer(table_rows_);
    counting[ten_bits_].launch(device_, tegula::detail::GridRef(grid), stream_,
                               std::array<Arg, 5>{counts, from.keys, rows, table_rows, shift});
    moving[ten_bits_].launch(
        device_, tegula::detail::GridRef(grid), stream_,
        std::array<Arg, 8>{to.keys, to.rows, from.keys, from.rows, counts, rows, table_rows, shift});
  }

  // The sums of `count` columns from `first` on.
  void add_columns(const Sorted& sorted, const Arg& partials, int64_t first, int64_t count) {
    static const auto adding = with_accumulate("segment_sums.py", "add_segments", {{"PART", kPart}});
    static const auto joining =
        with_accumulate("segment_sums.py", "join_segments", {{"PART", kPart}, {"COLS", int64_t(256)}});
    auto columns_of = [&](Tensor t) {
      t.address += uint64_t(first) * elem_bytes(t.elem);
      t.shape[1] = count;
      return t;
    };
    const Tensor table = columns_of(of_.table), x = columns_of(of_.x);
    const Arg rows = integer(rows_), cols = integer(count), table_rows = integer(table_rows_);
    auto grid = [&](int64_t width) { return Grid{unsigned(ceil_div(rows_, kPart) * ceil_div(count, width))}; };
    auto adding_grid = [&](const Config& config) { return grid(config["COLS"]); };
    auto joining_grid = [&](const Config&) { return grid(256); };
    adding[of_.accumulate].launch(
        device_, tegula::detail::GridRef(adding_grid), stream_,
        std::array<Arg, 10>{pointer(&table), partials, pointer(&x), sorted.keys, sorted.rows, integer(table.strides[0]),
                            integer(x.strides[0]), rows, cols, table_rows});
    joining[of_.accumulate].launch(
        device_, tegula::detail::GridRef(joining_grid), stream_,
        std::array<Arg, 7>{pointer(&table), partials, sorted.keys, integer(table.strides[0]), rows, cols, table_rows});
  }

  Device& device_;
  StreamHandle stream_;
  SumsByIndex of_;
  int64_t rows_, cols_, table_rows_;
  int bits_;        ///< of a key
  bool ten_bits_;   ///< of a digit, else 8
  int64_t blocks_;  ///< of rows that a program sorts
  int64_t cols_at_once_;
};

// Each program looks at all indices.
void add_directly(Device& device, const SumsByIndex& of, StreamHandle stream) {
  static const auto kernels = with_accumulate("indexed.py", "embedding_backward", {});
  const int64_t rows = of.x.shape[0], cols = of.x.shape[1];
  auto grid = [&](const Config& config) { return Grid{unsigned(rows * ceil_div(cols, config["COLS"]))}; };
  kernels[of.accumulate].launch(
      device, tegula::detail::GridRef(grid), stream,
      std::array<Arg, 8>{pointer(&of.table), pointer(&of.x), pointer(&of.index), integer(of.table.strides[0]),
                         integer(of.x.strides[0]), integer(rows), integer(cols), integer(of.table.shape[0])});
}

void add_by_atomics(Device& device, const SumsByIndex& of, StreamHandle stream) {
  static const FlaggedKernel kernel("indexed.py", "index_add", {});
  const int64_t rows = of.x.shape[0], cols = of.x.shape[1];
  const int num_sms = device.info().num_sms;
  auto grid = [&](const Config& config) { return grid_of_tiles(rows, cols, config, num_sms); };
  kernel.launch(device, tegula::detail::GridRef(grid), stream,
                std::array<Arg, 9>{pointer(&of.table), pointer(&of.x), pointer(&of.index), integer(of.table.strides[0]),
                                   integer(of.x.strides[0]), integer(rows), integer(cols), integer(of.table.shape[0]),
                                   rows_class(num_sms, rows)});
}

}  // namespace

void run_embedding_backward(Device& device, const BoundCall& call, StreamHandle stream) {
  if (call.empty() || call.extent("rows") == 0) return;
  const SumsByIndex of{*call.tensor("dtable"), *call.tensor("dout"), *call.tensor("index"), call.flag("accumulate")};
  constexpr int64_t kMostDirect = 1024, kLeastRepeated = 2;
  const bool is_short = call.extent("rows") <= kMostDirect;
  if ((!is_short || rows_of_a_key(of) >= kLeastRepeated) && is_for_lists(of)) return add_listed(device, of, stream);
  if (is_short) return add_directly(device, of, stream);
  SegmentSums(device, of, stream).run();
}

void run_index_add(Device& device, const BoundCall& call, StreamHandle stream) {
  if (call.empty() || call.extent("rows") == 0) return;
  const SumsByIndex of{*call.tensor("table"), *call.tensor("x"), *call.tensor("index"), true};
  // From so many elements on lists or sorting take less time than the atomics of all, on an H200 with tables of
  // float32: lists where atomics meet at few rows.
  constexpr int64_t kLeastListed = int64_t(1) << 20, kLeastRepeated = 32, kLeastSorted = int64_t(1) << 24;
  const int64_t elements = call.extent("rows") * call.extent("cols");
  if (elements >= kLeastListed && rows_of_a_key(of) >= kLeastRepeated && is_for_lists(of))
    return add_listed(device, of, stream);
  if (elements < kLeastSorted) return add_by_atomics(device, of, stream);
  SegmentSums(device, of, stream).run();
}

}  // namespace tegula::kernels
