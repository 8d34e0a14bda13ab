#include "kernels/listed_sums.h"

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/library.h"
#include "kernels/workspace_pieces.h"

namespace tegula::kernels::detail {

namespace {

// What configurations of listed_sums.py are bounded by.
constexpr int64_t kMostKeys = 8, kLeastSeen = 512, kMostSeen = 4096, kNarrow = 64, kMostCols = 256;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Numbers of programs that a launch has at most, and of what each leaves.
struct Extents {
  explicit Extents(const SumsByIndex& of) : rows(of.x.shape[0]), cols(of.x.shape[1]), table_rows(of.table.shape[0]) {}
  int64_t sums() const { return ceil_div(rows, kLeastSeen) * named_rows() * ceil_div(cols, kMostCols) * kMostCols; }
  int64_t named() const { return ceil_div(rows, kLeastSeen) * named_rows() * pieces(); }
  int64_t listed() const {
    return std::min(rows + kMostSeen, std::max(2 * rows, kLeastSeen)) * named_rows() * pieces();
  }

  int64_t rows, cols, table_rows;

 private:
  // Whole groups of keys, of the most that a table of table_class is tuned with.
  int64_t named_rows() const {
    const int64_t keys = std::min(kMostKeys, int64_t(1) << std::bit_width(uint64_t(table_rows)));
    return ceil_div(table_rows, keys) * keys;
  }
  int64_t pieces() const { return cols <= kNarrow ? 1 : ceil_div(cols, 2 * kNarrow); }
};

}  // namespace

int64_t rows_of_a_key(const SumsByIndex& of) { return of.x.shape[0] / of.table.shape[0]; }

bool is_for_lists(const SumsByIndex& of) {
  // Each piece of the columns looks at the indices anew. On an H200 sorting takes less time beyond: 11.5 us in place of
  // 12.9 with 1000 rows of 200 by 8000 indices.
  constexpr int64_t kMostTableRows = 1024, kMostLooks = 4 << 20, kMostOfPieces = 6 << 20;
  const int64_t rows = of.x.shape[0], table_rows = of.table.shape[0];
  if (table_rows > kMostTableRows || rows > kMostLooks) return false;
  const int64_t looks = table_rows * rows;
  return looks <= kMostLooks && looks <= kMostOfPieces / ceil_div(of.x.shape[1], kMostCols);
}

void add_listed(Device& device, const SumsByIndex& of, StreamHandle stream) {
  static const std::array<FlaggedKernel, 2> kernels{
      FlaggedKernel("listed_sums.py", "add_listed", {{"ACCUMULATE", false}}),
      FlaggedKernel("listed_sums.py", "add_listed", {{"ACCUMULATE", true}})};
  const Extents e(of);
  const size_t bytes = WorkspacePieces::rounded(size_t(e.sums()) * sizeof(float)) +
                       WorkspacePieces::rounded(size_t(e.named()) * sizeof(int32_t)) +
                       size_t(e.listed()) * sizeof(int16_t);
  const Workspace workspace = device.workspace(stream, bytes, WorkspaceUse::OneLaunch);
  WorkspacePieces pieces(workspace.partials);
  const Arg sums = pieces.take(Elem::F32, e.sums()), named = pieces.take(Elem::I32, e.named());
  const Arg lists = pieces.take(Elem::I16, e.listed());
  auto grid = [&](const Config& config) {
    const int64_t groups = ceil_div(e.table_rows, config["KEYS"]), parts = ceil_div(e.rows, config["SEEN"]);
    return Grid{unsigned(parts * groups * ceil_div(e.cols, config["COLS"]))};
  };
  kernels[of.accumulate].launch(
      device, tegula::detail::GridRef(grid), stream,
      std::array<Arg, 14>{pointer(&of.table), sums, named, lists,
                          Arg::pointer(workspace.counters, Elem::I32, Workspace::kCounters * sizeof(int32_t)),
                          pointer(&of.x), pointer(&of.index), integer(of.table.strides[0]), integer(of.x.strides[0]),
                          integer(e.rows), integer(e.cols), integer(e.table_rows),
                          int32_t(std::bit_width(uint64_t(e.rows))), int32_t(std::bit_width(uint64_t(e.table_rows)))});
}

}  // namespace tegula::kernels::detail
