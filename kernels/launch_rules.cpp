#include "kernels/launch_rules.h"

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
  const int64_t tile_rows = config["ROWS"], cols = call.extent("cols");
  const int64_t tiles = ceil_div(call.extent("rows"), tile_rows);
  if (config.find("COLS")) return {unsigned(tiles * ceil_div(cols, config["COLS"]))};
  if (constexpr_or(config, "STAGES", 0) == 0 || constexpr_or(config, "PIECE", 0) > 0) return {unsigned(tiles)};
  return {unsigned(std::min(tiles, num_sms * resident_programs(*config.num_warps, tile_rows * cols)))};
}

constexpr int64_t kMostPrograms = 4;  // a multiprocessor, of kernels that sum up over rows

Grid weight_gradients_grid(const BoundCall& call, const Config& config, int num_sms) {
  const int64_t programs = std::min(config["PROGRAMS"], kMostPrograms) * num_sms;
  return {unsigned(std::clamp<int64_t>(ceil_div(call.extent("rows"), config["ROWS"]), 1, programs))};
}

size_t weight_gradients_bytes(const BoundCall& call, int num_sms) {
  return size_t(2 * kMostPrograms * num_sms * call.extent("cols")) * sizeof(float);
}

}  // namespace

namespace rules {

const LaunchRule tiles{tiles_grid};
const LaunchRule weight_gradients{weight_gradients_grid, weight_gradients_bytes};

}  // namespace rules

int rows_class(int num_sms, int64_t rows) { return rows <= num_sms ? 0 : rows <= 16 * num_sms ? 1 : 2; }

}  // namespace tegula::kernels
