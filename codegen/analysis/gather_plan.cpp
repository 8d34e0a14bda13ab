#include "codegen/analysis/gather_plan.h"

#include <algorithm>
#include <bit>
#include <map>

#include "codegen/layout/linear_layout.h"

namespace tegula {

namespace {

constexpr size_t kMostChoiceBits = 2;  // a shuffle for each choice costs as much as a load from shared memory

using Place = std::vector<int32_t>;  // coordinates, 0 along the axis

/// What one bit of register, lane or warp does to coordinates.
struct Image {
  int32_t along = 0;
  Place others;
  bool moves_others() const {
    return std::any_of(others.begin(), others.end(), [](int32_t c) { return c != 0; });
  }
};

Image image_of(const ir::Type& type, int axis, Dim in, int bit) {
  Image image;
  for (int i = 0; i < type.rank(); ++i) {
    const int32_t c = bit < type.layout->in_bits(in) ? type.layout->basis(in, bit, tile_dim(i)) : 0;
    if (i == axis) image.along = c;
    image.others.push_back(i == axis ? 0 : c);
  }
  return image;
}

class Planner {
 public:
  explicit Planner(const ir::Op& op)
      : from_(op.operand(0)->type), to_(op.result()->type), axis_(int(op.get(ir::attr::axis))) {}

  std::optional<GatherPlan> plan() {
    if (!from_.layout || !to_.layout || !is_power_of_two(from_) || !is_power_of_two(to_)) return std::nullopt;
    if (to_.layout->in_bits(Dim::Block)) return std::nullopt;  // which block asks would decide on registers
    if (!take_warps() || !take_lanes() || !take_registers()) return std::nullopt;
    if (covered_ != from_.shape[size_t(axis_)] - 1) return std::nullopt;
    std::sort(choices_.begin(), choices_.end());
    if (choices_.size() > kMostChoiceBits || !find_candidates()) return std::nullopt;
    for (const auto& [index_bit, reg] : choices_) plan_.choice_bits.push_back(index_bit);
    return std::move(plan_);
  }

 private:
  static bool is_power_of_two(const ir::Type& type) {
    return std::all_of(type.shape.begin(), type.shape.end(),
                       [](int64_t n) { return std::has_single_bit(uint64_t(n)); });
  }
  Image from(Dim in, int bit) const { return image_of(from_, axis_, in, bit); }
  Image to(Dim in, int bit) const { return image_of(to_, axis_, in, bit); }
  /// One bit of the axis that nothing else stands for, and of no other dimension.
  bool cover(const Image& image) {
    if (image.moves_others() || !std::has_single_bit(uint32_t(image.along)) || covered_ & image.along) return false;
    covered_ |= image.along;
    return true;
  }
  static int bit_of(const Image& image) { return std::countr_zero(uint32_t(image.along)); }

  bool take_warps() const {
    const int bits = std::max(from_.layout->in_bits(Dim::Warp), to_.layout->in_bits(Dim::Warp));
    for (int bit = 0; bit < bits; ++bit)
      if (from(Dim::Warp, bit).along || from(Dim::Warp, bit).others != to(Dim::Warp, bit).others) return false;
    return true;
  }
  // A lane asks one that differs in the axis alone.
  bool take_lanes() {
    const int bits = std::max(from_.layout->in_bits(Dim::Lane), to_.layout->in_bits(Dim::Lane));
    for (int bit = 0; bit < bits; ++bit) {
      const Image source = from(Dim::Lane, bit), asking = to(Dim::Lane, bit);
      if (source.along == 0) {
        if (source.others != asking.others) return false;
        continue;
      }
      if (asking.moves_others() || !cover(source)) return false;
      plan_.lane_bits.emplace_back(bit, bit_of(source));
    }
    return true;
  }
  bool take_registers() {
    for (int bit = 0; bit < from_.layout->in_bits(Dim::Register); ++bit) {
      const Image image = from(Dim::Register, bit);
      if (image.along == 0) continue;
      if (!cover(image)) return false;
      choices_.emplace_back(bit_of(image), 1 << bit);
    }
    return true;
  }

  /// The coordinates beside the axis that a register's bits stand for.
  Place others_of(const ir::Type& type, int reg) const {
    Place place(size_t(type.rank()));
    for (int bit = 0; reg >> bit; ++bit)
      if (reg >> bit & 1) {
        const Image image = image_of(type, axis_, Dim::Register, bit);
        for (size_t i = 0; i < place.size(); ++i) place[i] ^= image.others[i];
      }
    return place;
  }
  bool find_candidates() {
    int chosen = 0;
    for (const auto& [index_bit, reg] : choices_) chosen |= reg;
    std::map<Place, int> at;
    for (int reg = 0; reg < from_.layout->in_size(Dim::Register); ++reg)
      if (!(reg & chosen)) at.try_emplace(others_of(from_, reg), reg);
    for (int reg = 0; reg < to_.layout->in_size(Dim::Register); ++reg) {
      auto found = at.find(others_of(to_, reg));
      if (found == at.end()) return false;
      std::vector<int>& of = plan_.candidates.emplace_back();
      for (int choice = 0; choice < 1 << choices_.size(); ++choice) {
        of.push_back(found->second);
        for (size_t i = 0; i < choices_.size(); ++i)
          if (choice >> i & 1) of.back() |= choices_[i].second;
      }
    }
    return true;
  }

  const ir::Type &from_, &to_;
  const int axis_;
  int64_t covered_ = 0;                       ///< bits of the index that lanes and registers stand for
  std::vector<std::pair<int, int>> choices_;  ///< bit of the index, and the register's value
  GatherPlan plan_;
};

}  // namespace

std::optional<GatherPlan> plan_gather(const ir::Op& op) { return Planner(op).plan(); }

}  // namespace tegula
