#include "kernels/launch_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace tegula::kernels {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t constexpr_or(const Config& config, const char* name, int64_t otherwise) {
  return config.find(name) ? config[name] : otherwise;
}

// Programs of these many warps and elements a thread that one multiprocessor runs at a time, about: what limits them
// are threads and registers.
int64_t resident_programs(int warps, int64_t elements) {
  const int64_t threads = 32 * warps;
  const int64_t registers = std::clamp<int64_t>(32 + 2 * elements / threads, 32, 255);
  return std::max<int64_t>(1, std::min(2048 / threads, 65536 / (registers * threads)));
}

Grid tiles_grid(const BoundCall& call, const Config& config, int num_sms) {
  return grid_of_tiles(call.extent("rows"), call.extent("cols"), config, num_sms);
}

Grid row_tiles_grid(const BoundCall& call, const Config& config, int) {
  return {unsigned(ceil_div(call.extent("rows"), config["ROWS"]))};
}

Grid each_row_grid(const BoundCall& call, const Config&, int) { return {unsigned(call.extent("rows"))}; }

Grid groups_of_channels_grid(const BoundCall& call, const Config&, int) {
  const int64_t groups = call.integer("groups"), channels = call.extent("channels");
  if (groups < 1 || channels % groups)
    call.refuse(fmt::format("{} channels cannot be divided into {} groups", channels, groups));
  return {unsigned(call.extent("batch") * groups)};
}

Grid channels_of_images_grid(const BoundCall& call, const Config& config, int) {
  const int64_t pieces = ceil_div(call.extent("spatial"), config["BLOCK"]);
  return {unsigned(call.extent("batch") * call.extent("channels") * pieces)};
}

Grid persistent_grid(const BoundCall& call, const Config& config, int num_sms) {
  const int64_t programs = config["PROGRAMS"] * num_sms / config.num_ctas.value_or(1);
  return {unsigned(std::clamp<int64_t>(ceil_div(call.extent("rows"), constexpr_or(config, "ROWS", 1)), 1, programs))};
}

// Programs that leave sums of weight and bias: as many as 256 MB hold at most.
int64_t most_programs(int64_t cols, int num_sms) {
  constexpr int64_t kMostBytes = 256 << 20;
  return std::clamp<int64_t>(kMostBytes / (2 * int64_t(sizeof(float)) * std::max<int64_t>(cols, 1)), 1, 4 * num_sms);
}

Grid weight_gradients_grid(const BoundCall& call, const Config& config, int num_sms) {
  Grid grid = persistent_grid(call, config, num_sms);
  grid.x = std::min(grid.x, unsigned(most_programs(call.extent("cols"), num_sms)));
  return grid;
}

size_t weight_gradients_bytes(const BoundCall& call, int num_sms) {
  const int64_t cols = call.extent("cols");
  return size_t(2 * most_programs(cols, num_sms) * cols) * sizeof(float);
}

constexpr int64_t kMostParts = 8;  // PROGRAMS of reduce.py

Grid columns_grid(const BoundCall& call, const Config& config, int num_sms) {
  const int64_t groups = call.extent("outer") * ceil_div(call.extent("cols"), config["COLS"]);
  const int64_t programs = std::min(config["PROGRAMS"], kMostParts) * num_sms;
  const int64_t parts = std::clamp<int64_t>(programs / groups, 1, ceil_div(call.extent("rows") + 1, config["ROWS"]));
  return {unsigned(groups * parts)};
}

size_t columns_bytes(const BoundCall&, int num_sms) {
  constexpr int64_t kMostCols = 1024;
  return size_t(kMostParts * num_sms * kMostCols) * sizeof(float);
}

Grid tokens_grid(const BoundCall& call, const Config& config, int) {
  return {unsigned(ceil_div(call.extent("tokens"), config["TOKENS"]))};
}

Grid chunks_grid(const BoundCall& call, const Config&, int) { return {unsigned(call.extent("chunks"))}; }

size_t chunks_bytes(const BoundCall& call, int) { return size_t(call.extent("chunks")) * sizeof(float); }

}  // namespace

namespace rules {

const LaunchRule tiles{tiles_grid};
const LaunchRule row_tiles{row_tiles_grid};
const LaunchRule each_row{each_row_grid};
const LaunchRule groups_of_channels{groups_of_channels_grid};
const LaunchRule channels_of_images{channels_of_images_grid};
const LaunchRule persistent{persistent_grid};
const LaunchRule weight_gradients{weight_gradients_grid, weight_gradients_bytes};
const LaunchRule columns{columns_grid, columns_bytes};
const LaunchRule tokens{tokens_grid};
const LaunchRule chunks{chunks_grid, chunks_bytes};

}  // namespace rules

Grid grid_of_tiles(int64_t rows, int64_t cols, const Config& config, int num_sms) {
  const int64_t tile_rows = config["ROWS"], tiles = ceil_div(rows, tile_rows);
  if (config.find("COLS")) return {unsigned(tiles * ceil_div(cols, config["COLS"]))};
  if (constexpr_or(config, "STAGES", 0) == 0 || constexpr_or(config, "PIECE", 0) > 0) return {unsigned(tiles)};
  const int64_t blocks = config.num_ctas.value_or(1);
  int64_t at_once = num_sms * resident_programs(*config.num_warps, tile_rows * cols / blocks) / blocks;
  // Clusters lie within parts of a GPU, which hold no whole number of large ones.
  if (blocks >= 8) at_once = std::max<int64_t>(1, at_once * 15 / 16);
  return {unsigned(std::min(tiles, at_once))};
}

int rows_class(int num_sms, int64_t rows) { return rows <= num_sms ? 0 : rows <= 16 * num_sms ? 1 : 2; }

}  // namespace tegula::kernels
