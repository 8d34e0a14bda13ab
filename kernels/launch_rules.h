// How the kernels of the library's entries are laid out on a device. Not for users.
#pragma once

#include "dsl/config.h"
#include "kernels/entry.h"

namespace tegula::kernels {

struct LaunchRule {
  /// Programs of a launch with a configuration.
  Grid (*grid)(const BoundCall& call, const Config& config, int num_sms);
  /// Bytes that the kernel's partials_ptr needs at most, whatever the configuration; null: it has none.
  size_t (*partial_bytes)(const BoundCall& call, int num_sms) = nullptr;
  /// Refuses calls that the signature of the entry does not exclude; null: there are none.
  void (*check)(const BoundCall& call) = nullptr;
  /// Whether rows are joined where no matrix has gaps between them; part of the rows_class then.
  bool joins_rows = false;
  /// Runs calls that are not for the kernel, and says whether this was one; null: there are none.
  bool (*instead)(Device& device, const BoundCall& call, StreamHandle stream) = nullptr;
  /// Whether the call needs partials and counters at all, with some configuration; null: yes. If not, both are null
  /// pointers.
  bool (*has_partials)(const BoundCall& call, int num_sms) = nullptr;
  /// Whether the rows_class tells few rows apart by their number, as what suits many of them does not suit one; null:
  /// no.
  bool (*tells_few_rows)(const BoundCall& call, int num_sms) = nullptr;
};

namespace rules {

/// A program for each ROWS rows (and each COLS columns) of the extents `rows` and `cols`, or, with STAGES above 0 and
/// no PIECE, as many programs as the device runs at a time.
extern const LaunchRule tiles;

/// The same, or with ROWS 0 a program for each PIECE columns of each of few rows, which tell each other numbers.
extern const LaunchRule kept_rows;

/// A program for each ROWS rows and each COLS columns, or where no matrix has gaps between its rows for each ROWS *
/// COLS elements.
extern const LaunchRule elements;

/// A program for each ROWS rows.
extern const LaunchRule row_tiles;
/// The same, or for each row as many programs as together are PROGRAMS a multiprocessor, no more than one for WIDTH
/// columns; they leave three numbers each.
extern const LaunchRule shared_rows;
/// A program for each ROWS rows, or of a CHAIN for each PIECE columns of each row.
extern const LaunchRule scanned_rows;
/// A program for each row, up to a number for each multiprocessor; each leaves some logits and their columns.
extern const LaunchRule sampled_rows;

/// A program for each of the operand `groups`' groups of each image, the columns of `scales` if that is there; for each
/// BLOCK elements of each channel of each image.
extern const LaunchRule groups_of_channels, channels_of_images;
/// As groups_of_channels; each leaves two numbers a channel of its image.
extern const LaunchRule group_gradients;

/// PROGRAMS programs a multiprocessor, or one for each ROWS rows (1 if there is none) if these are fewer; of a
/// cluster's programs one counts. Rows without columns are refused: a target is one of these.
extern const LaunchRule losses;

/// The same, but each program leaves sums over its rows for each column, of weight and bias, which bounds their number.
extern const LaunchRule weight_gradients;

/// For each COLS columns of each of `outer` matrices as many programs as together are PROGRAMS a multiprocessor, no
/// more than one for ROWS rows. They leave COLS partial results each.
extern const LaunchRule columns;
/// As `columns`, with three results for each column.
extern const LaunchRule column_statistics;

/// A program for each TOKENS tokens.
extern const LaunchRule tokens;

/// A program for each row of operand `chunks`; four programs a multiprocessor at most, each of which leaves a number.
extern const LaunchRule chunks, chunk_sums;

/// As `tiles`, of numbers with scales: they check that results and scales have room for all of x.
extern const LaunchRule quantised, quantised_groups, dequantised;
/// Four programs a multiprocessor; each leaves a number.
extern const LaunchRule counted, numbers;

/// A program for each row, which it has in registers as a whole; larger rows are shared (sort_long_rows.h).
extern const LaunchRule sorted_rows;
/// Some programs for each row, each of which leaves `k` elements; very many rows are taken by several launches.
extern const LaunchRule topk_rows;

/// A program for each tile of BLOCK_M x BLOCK_N of each product of a batch.
extern const LaunchRule batched_products;
/// About PROGRAMS programs a multiprocessor, several for each tile of BLOCK_M x BLOCK_N if these are fewer. They leave
/// their sums then.
extern const LaunchRule quantised_products;
/// A program for BLOCK_M pixels and BLOCK_N output channels of a group.
extern const LaunchRule convolution;

}  // namespace rules

/// Programs of the rule `tiles` for a matrix.
Grid grid_of_tiles(int64_t rows, int64_t cols, const Config& config, int num_sms);

/// 0: at most a row for each multiprocessor, 1: some, 2: many. Part of the key of tuning.
int rows_class(int num_sms, int64_t rows);
/// The same of a call of a library's kernel: told apart where rows are joined. Few rows that programs may share are
/// below 0, by factors of 4.
int rows_class(int num_sms, const BoundCall& call);

}  // namespace tegula::kernels
