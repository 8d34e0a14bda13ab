#include "kernels/sort_long_rows.h"

#include <algorithm>
#include <array>

#include "kernels/library.h"
#include "kernels/workspace_pieces.h"

namespace tegula::kernels::detail {

namespace {

constexpr int64_t kPiece = 4096;  // keys that a program moves
constexpr int64_t kDigitBits = 8;
constexpr int64_t kFewPieces = 64, kParts = 4;  // of more pieces so many programs share the digits of a row

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The second of two kernels has the flag set.
std::array<FlaggedKernel, 2> by_order(const char* kernel) {
  auto made = [&](bool descending) {
    return FlaggedKernel("sort_long_rows.py", kernel, {{"DESCENDING", descending}, {"PIECE", kPiece}});
  };
  return {made(false), made(true)};
}

Tensor rows_from(const Tensor& t, int64_t first, int64_t count) {
  Tensor part = t;
  part.address += uint64_t(first * t.strides[0]) * elem_bytes(t.elem);
  part.shape[0] = count;
  return part;
}

struct Operands {
  Tensor values, x;
  const Tensor* index;
  bool descending;
};

struct List {
  Arg keys, cols;
};

void sort(Device& device, const Operands& of, StreamHandle stream) {
  static const auto counting = by_order("count_digits"), moving = by_order("move_keys");
  static const FlaggedKernel adding_few("sort_long_rows.py", "add_counts", {{"PARTS", int64_t(1)}}),
      adding_many("sort_long_rows.py", "add_counts", {{"PARTS", kParts}});
  const int64_t rows = of.x.shape[0], cols = of.x.shape[1], pieces = ceil_div(cols, kPiece);
  const int64_t keys = rows * cols, num_counts = rows * pieces << kDigitBits;
  const size_t list = WorkspacePieces::rounded(size_t(keys) * sizeof(int32_t));
  const Workspace workspace =
      device.workspace(stream, 4 * list + 2 * WorkspacePieces::rounded(size_t(num_counts) * sizeof(int32_t)),
                       WorkspaceUse::SeveralLaunches);
  WorkspacePieces memory(workspace.partials);
  std::array<List, 2> lists{{{memory.take(Elem::I32, keys), memory.take(Elem::I32, keys)},
                             {memory.take(Elem::I32, keys), memory.take(Elem::I32, keys)}}};
  const Arg counts = memory.take(Elem::I32, num_counts), starts = memory.take(Elem::I32, num_counts), none = nullptr;
  const Arg values_stride = integer(of.values.strides[0]), index_stride = integer(of.index ? of.index->strides[0] : 0);
  const Arg x_stride = integer(of.x.strides[0]), width = integer(cols);
  auto of_pieces = [&](const Config&) { return Grid{unsigned(rows * pieces)}; };
  const bool many = pieces > kFewPieces;
  auto of_parts = [&](const Config&) { return Grid{unsigned((many ? kParts : 1) * rows)}; };
  const int passes = int(elem_bytes(of.x.elem) * 8 / kDigitBits);
  for (int pass = 0; pass < passes; ++pass) {
    const bool is_last = pass == passes - 1;
    const List from = pass == 0 ? List{none, none} : lists[size_t(pass % 2)];
    const List to = is_last ? List{none, none} : lists[size_t((pass + 1) % 2)];
    const Arg x = pass == 0 ? pointer(&of.x) : none, shift = int32_t(pass * kDigitBits);
    counting[of.descending].launch(device, tegula::detail::GridRef(of_pieces), stream,
                                   std::array<Arg, 6>{counts, from.keys, x, x_stride, width, shift});
    (many ? adding_many : adding_few)
        .launch(device, tegula::detail::GridRef(of_parts), stream, std::array<Arg, 3>{starts, counts, integer(pieces)});
    moving[of.descending].launch(
        device, tegula::detail::GridRef(of_pieces), stream,
        std::array<Arg, 14>{to.keys, to.cols, is_last ? pointer(&of.values) : none, is_last ? pointer(of.index) : none,
                            counts, starts, from.keys, from.cols, x, values_stride, index_stride, x_stride, width,
                            shift});
  }
}

}  // namespace

bool sort_long_rows(Device& device, const BoundCall& call, StreamHandle stream) {
  const int64_t rows = call.extent("rows"), cols = call.extent("cols");
  const int64_t largest = device.info().shared_per_program >= kSharedOfTwice ? 2 * kLargestRow : kLargestRow;
  if (cols <= largest) return false;
  // As many rows at a time as have lists of so many bytes.
  constexpr int64_t kMostBytes = 256 << 20;
  const int64_t at_once = std::max<int64_t>(1, kMostBytes / (4 * cols * int64_t(sizeof(int32_t))));
  const Tensor* index = call.tensor("index");
  for (int64_t first = 0; first < rows; first += at_once) {
    const int64_t count = std::min(at_once, rows - first);
    const Tensor part = index ? rows_from(*index, first, count) : Tensor();
    sort(device,
         {rows_from(*call.tensor("values"), first, count), rows_from(*call.tensor("x"), first, count),
          index ? &part : nullptr, call.flag("descending")},
         stream);
  }
  return true;
}

}  // namespace tegula::kernels::detail
