#include "codegen/analysis/layout_price.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "codegen/analysis/conversion.h"

namespace tegula {

namespace {

constexpr int kLanes = 32, kSectorBytes = 32;
constexpr double kAccess = 2;  // an instruction and its address
// While a multiprocessor issues four instructions, two sectors pass between it and the L2 cache, and its lanes exchange
// 128 bytes, by shuffles or through shared memory.
constexpr double kSector = 2, kExchange = 4;
constexpr double kCached = 1;     // a sector from the L1 cache
constexpr double kBarrier = 100;  // until all warps are there, and the first words come back
constexpr double kClusterBarrier = 600;

// Registers, each distinct element once.
int64_t held(const LinearLayout& layout) { return layout.remove_zero_registers().in_size(Dim::Register); }

/// Different ones of a list of numbers, which is put in order.
size_t count_different(std::vector<uint64_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  return size_t(std::unique(numbers.begin(), numbers.end()) - numbers.begin());
}

/// Which sectors a warp's instructions touch.
class Footprint {
 public:
  Footprint(const LinearLayout& layout, const Access& access) : layout_(layout), access_(access) {
    for (int lane = 0; lane < kLanes; ++lane) lanes_.push_back(layout.apply({{Dim::Lane, lane}}));
    find_instructions();
  }

  /// Coordinates of the first elements of lane 0 for a few instructions.
  const std::vector<LinearLayout::Basis>& instructions() const { return firsts_; }
  /// All instructions.
  double count() const { return count_; }

  /// Adds an instruction's sectors; how many there are.
  size_t touch(const LinearLayout::Basis& first, std::vector<uint64_t>& sectors) const {
    std::vector<uint64_t> own;
    own.reserve(kLanes);
    LinearLayout::Basis at(first.size(), 0);
    for (const LinearLayout::Basis& lane : lanes_) {
      for (size_t axis = 0; axis < at.size(); ++axis) at[axis] = first[axis] ^ lane[axis];
      const auto [group, offset] = place(at);
      const int64_t last = offset + access_.width * access_.bytes - 1;
      for (int64_t sector = floor_div(offset); sector <= floor_div(last); ++sector) {
        const uint64_t number = group * 0x9E3779B97F4A7C15u + uint64_t(sector);
        if (own.empty() || own.back() != number) own.push_back(number);
      }
    }
    own.resize(count_different(own));
    sectors.insert(sectors.end(), own.begin(), own.end());
    return own.size();
  }

 private:
  static constexpr size_t kSampled = 8;          ///< instructions
  static constexpr int32_t kMaxRegisters = 256;  ///< that are looked at
  static int64_t floor_div(int64_t offset) { return offset >> std::countr_zero(unsigned(kSectorBytes)); }

  void find_instructions() {
    const LinearLayout distinct = layout_.remove_zero_registers();
    const int32_t registers = distinct.in_size(Dim::Register), looked_at = std::min(registers, kMaxRegisters);
    std::vector<LinearLayout::Basis> known;
    for (int32_t r = 0; r < looked_at; ++r) {
      LinearLayout::Basis at = distinct.apply({{Dim::Register, r}});
      for (size_t axis = 0; axis < at.size(); ++axis) {
        int32_t size = int32_t(axis) == access_.axis ? access_.width : 1;
        if (!access_.repeats.empty()) size = std::max(size, int32_t(access_.repeats[axis]));
        at[axis] -= at[axis] % size;
      }
      if (!known.empty() && known.back() == at) continue;
      if (firsts_.size() < kSampled && std::find(firsts_.begin(), firsts_.end(), at) == firsts_.end())
        firsts_.push_back(at);
      known.push_back(std::move(at));
    }
    std::sort(known.begin(), known.end());
    const auto different = std::unique(known.begin(), known.end()) - known.begin();
    count_ = double(different) * double(registers) / double(looked_at);
  }

  /// Which runs the element is in, and how far from their beginnings.
  std::pair<uint64_t, int64_t> place(const LinearLayout::Basis& at) const {
    uint64_t group = 0;
    int64_t offset = 0;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      const AxisInfo::Run& run = access_.runs[axis];
      group = group * 0x100000001B3u + uint64_t(at[axis] / run.length);
      offset += run.at(at[axis] % run.length);
    }
    return {group, offset};
  }

  const LinearLayout& layout_;
  const Access& access_;
  std::vector<LinearLayout::Basis> lanes_, firsts_;
  double count_ = 0;
};

}  // namespace

double access_price(const LinearLayout& layout, const Access& access) {
  const Footprint footprint(layout, access);
  const std::vector<LinearLayout::Basis>& firsts = footprint.instructions();
  std::vector<uint64_t> sectors;
  size_t touched = 0;
  for (const LinearLayout::Basis& first : firsts) touched += footprint.touch(first, sectors);
  const double from_memory = access.is_load ? double(count_different(sectors)) : double(touched);
  const double sampled = kSector * from_memory + kCached * (double(touched) - from_memory);
  return footprint.count() * (kAccess + sampled / double(firsts.size()));
}

double access_price(const LinearLayout& layout, int axis, int bytes, int width) {
  Access access{std::vector<AxisInfo::Run>(layout.tile_shape().size()), axis, width, bytes};
  access.runs[size_t(axis)] = {bytes, layout.tile_shape()[size_t(axis)]};
  return access_price(layout, access);
}

double conversion_price(const ir::Type& type, const LinearLayout& from, const LinearLayout& to, bool waits) {
  if (from == to) return 0;
  const Conversion plan = plan_conversion(from, to);
  const double words = std::max(1.0, double(std::max(held(from), held(to)) * type.bits()) / 32);
  switch (plan.route) {
    case Conversion::Route::Registers:
      for (Dim dim : {Dim::Lane, Dim::Warp})
        for (int bit = 0; bit < plan.source_of.in_bits(dim); ++bit)
          if (plan.source_of.basis(dim, bit, Dim::Register))  // one of all registers is selected
            return std::max(words, double(held(from)));
      return 0;
    case Conversion::Route::Shuffle:
      return words * kExchange;
    case Conversion::Route::Exchange:  // of half of the words, which are chosen before and after
      return double(plan.swaps.size()) * words * (kExchange / 2 + 1);
    case Conversion::Route::Shared:
      break;
    case Conversion::Route::Cluster:
      return (1 << from.in_bits(Dim::Block)) * words * kExchange + words * kExchange + kClusterBarrier;
  }
  return 2 * words * kExchange + (waits ? kBarrier : 0);
}

}  // namespace tegula
