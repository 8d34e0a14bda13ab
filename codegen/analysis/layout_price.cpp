#include "codegen/analysis/layout_price.h"

#include <algorithm>
#include <set>

#include "codegen/analysis/conversion.h"

namespace tegula {

namespace {

constexpr int kLanes = 32, kSectorBytes = 32;
constexpr double kAccess = 2;  // an instruction and its address
// While a multiprocessor issues four instructions, two sectors pass between it and the L2 cache, and its lanes exchange
// 128 bytes, by shuffles or through shared memory.
constexpr double kSector = 2, kExchange = 4;
constexpr double kBarrier = 100;  // until all warps are there, and the first words come back
constexpr double kClusterBarrier = 600;

// Registers, each distinct element once.
int64_t held(const LinearLayout& layout) { return layout.remove_zero_registers().in_size(Dim::Register); }

}  // namespace

double access_price(const LinearLayout& layout, int axis, int bytes, int width) {
  std::set<std::vector<int32_t>> sectors;  // of the first instruction
  for (int lane = 0; lane < kLanes; ++lane) {
    std::vector<int32_t> at = layout.apply({{Dim::Lane, lane}});
    const int32_t first = at[size_t(axis)];
    for (int32_t byte = first * bytes; byte < (first + width) * bytes; byte += kSectorBytes) {
      at[size_t(axis)] = byte / kSectorBytes;
      sectors.insert(at);
    }
  }
  const double instructions = std::max(1.0, double(held(layout)) / width);
  return instructions * (kAccess + kSector * double(sectors.size()));
}

double conversion_price(const ir::Type& type, const LinearLayout& from, const LinearLayout& to) {
  if (from == to) return 0;
  const Conversion plan = plan_conversion(from, to);
  const double words = std::max(1.0, double(std::max(held(from), held(to)) * type.bits()) / 32);
  switch (plan.route) {
    case Conversion::Route::Registers:
      return 0;
    case Conversion::Route::Shuffle:
      return words * kExchange;
    case Conversion::Route::Exchange:  // of half of the words, which are chosen before and behind
      return double(plan.swaps.size()) * words * (kExchange / 2 + 1);
    case Conversion::Route::Shared:
      break;
    case Conversion::Route::Cluster:
      return (1 << from.in_bits(Dim::Block)) * words * kExchange + words * kExchange + kClusterBarrier;
  }
  return 2 * words * kExchange + kBarrier;
}

}  // namespace tegula
