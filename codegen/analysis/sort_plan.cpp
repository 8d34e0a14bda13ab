#include "codegen/analysis/sort_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <climits>

#include "codegen/analysis/conversion.h"
#include "codegen/analysis/exchange_rounds.h"
#include "codegen/layout/makers.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

/// What a slot stands for: a bit of the position along the sorted dimension, a
/// bit along other dimensions, or nothing (the slot's threads hold copies).
struct Meaning {
  int position = -1;
  LinearLayout::Basis other;  ///< empty: nothing, unless it is a position

  bool operator==(const Meaning&) const = default;
  bool is_free() const { return position < 0 && other.empty(); }
};

/// One step of the network.
struct Step {
  int bit;        ///< positions that differ in it are compared
  int direction;  ///< the bit of the position that says whether the run goes
                  ///< down; -1: none does
  bool keep_smaller = false;
};

bool is_zero(const LinearLayout::Basis& basis) {
  return std::all_of(basis.begin(), basis.end(), [](int32_t c) { return c == 0; });
}

/// The steps of a sort of 2^bits elements of which the smallest 2^kept stay.
/// Runs of 2^kept elements are sorted, every other one downwards; then always
/// the smaller ones of two runs are kept, which form a sequence that goes up
/// and down, and sorted again.
std::vector<Step> steps_of_sort(int bits, int kept) {
  std::vector<Step> steps;
  auto direction = [&](int stage) { return stage < bits ? stage : -1; };
  for (int stage = 1; stage <= kept; ++stage)
    for (int bit = stage; bit-- > 0;) steps.push_back({bit, direction(stage)});
  for (int stage = kept; stage < bits; ++stage) {
    steps.push_back({stage, -1, true});
    for (int bit = kept; bit-- > 0;) steps.push_back({bit, direction(stage + 1)});
  }
  return steps;
}

/// The last stage alone: of a sequence that goes up and then down.
std::vector<Step> steps_of_merge(int bits) {
  std::vector<Step> steps;
  for (int bit = bits; bit-- > 0;) steps.push_back({bit, -1});
  return steps;
}

class Planner {
 public:
  Planner(const LinearLayout& begin, int64_t kept, bool in_place) : outs_(begin.outs()) {
    const size_t last = outs_.size() - 1;
    for (auto& in : begin.ins()) {
      auto& slots = slots_of(in.dim);
      for (const LinearLayout::Basis& basis : in.bases) {
        Meaning m;
        if (basis[last] != 0)
          m.position = in_place ? std::countr_zero(uint32_t(basis[last])) : bits_++;
        else if (!is_zero(basis))
          m.other = basis;
        slots.push_back(std::move(m));
      }
      if (in.dim == Dim::Register) repeats_ = in.repeats;
    }
    for (int32_t size = outs_[last].size; size > 1; size /= 2) alive_.push_back(int(alive_.size()));
    const int bits = int(alive_.size());
    steps_ = in_place ? steps_of_merge(bits) : steps_of_sort(bits, std::countr_zero(uint64_t(kept)));
  }

  std::vector<SortMove> run() {
    for (at_ = 0; at_ < steps_.size(); ++at_) step(steps_[at_]);
    flip_to(-1);
    return std::move(moves_);
  }

  LinearLayout layout() const {
    std::vector<LinearLayout::In> ins;
    std::vector<LinearLayout::Out> outs = outs_;
    outs.back().size = 1 << alive_.size();
    for (Dim dim : {Dim::Register, Dim::Lane, Dim::Warp}) {
      LinearLayout::In in{dim, {}};
      for (const Meaning& m : slots_[size_t(dim)]) in.bases.push_back(basis_of(m));
      if (dim == Dim::Register) in.repeats = repeats_;
      ins.push_back(std::move(in));
    }
    return LinearLayout(std::move(ins), std::move(outs));
  }

 private:
  using Slots = std::vector<Meaning>;
  struct Place {
    Dim dim;
    int bit;
  };

  Slots& slots_of(Dim dim) { return slots_[size_t(dim)]; }
  Slots& registers() { return slots_of(Dim::Register); }
  Slots& lanes() { return slots_of(Dim::Lane); }
  Slots& warps() { return slots_of(Dim::Warp); }

  LinearLayout::Basis basis_of(const Meaning& m) const {
    if (!m.other.empty()) return m.other;
    LinearLayout::Basis basis(outs_.size(), 0);
    if (m.position >= 0)  // positions that are no more leave no gap
      basis.back() = 1 << (std::find(alive_.begin(), alive_.end(), m.position) - alive_.begin());
    return basis;
  }

  Place place_of(int position) const {
    for (Dim dim : {Dim::Register, Dim::Lane, Dim::Warp})
      for (size_t bit = 0; bit < slots_[size_t(dim)].size(); ++bit)
        if (slots_[size_t(dim)][bit].position == position) return {dim, int(bit)};
    TEGULA_UNREACHABLE("a position without a slot");
  }

  /// The number of the next step, from `from` on, that compares along what a
  /// slot stands for.
  size_t next_use(const Meaning& m, size_t from) const {
    if (m.position < 0) return SIZE_MAX;
    for (size_t i = from; i < steps_.size(); ++i)
      if (steps_[i].bit == m.position) return i;
    return SIZE_MAX - 1;
  }

  void step(const Step& step) {
    if (place_of(step.bit).dim == Dim::Warp) arrange();
    const Place place = place_of(step.bit);
    SortMove move;
    move.keep_smaller = step.keep_smaller;
    if (place.dim == Dim::Register) {
      move.kind = SortMove::Kind::Registers;
      move.reg = place.bit;
    } else if (registers().empty() || (step.keep_smaller && registers().size() == 1)) {
      move.kind = SortMove::Kind::Lanes;
      move.lane = place.bit;
    } else {
      move.kind = SortMove::Kind::Trade;
      move.lane = place.bit;
      move.reg = least_needed();
    }
    move.falling = direct(step, move);
    if (move.kind == SortMove::Kind::Trade) std::swap(registers()[size_t(move.reg)], lanes()[size_t(move.lane)]);
    if (step.keep_smaller) forget(move, step.bit);
    moves_.push_back(std::move(move));
  }

  /// Sees to it that the step can go up everywhere, but for registers by their
  /// bit that is returned (-1: none).
  int direct(const Step& step, const SortMove& move) {
    if (step.direction >= 0) {
      const Place place = place_of(step.direction);
      const bool leaves = move.kind == SortMove::Kind::Trade && place.bit == move.reg;
      if (place.dim == Dim::Register && !leaves) {
        flip_to(-1);
        return place.bit;
      }
    }
    flip_to(step.direction);
    return -1;
  }

  /// Has the elements flipped where that bit of the position is 1 (-1:
  /// nowhere).
  void flip_to(int position) {
    if (position == flipped_) return;
    SortMove move;
    move.kind = SortMove::Kind::Flip;
    for (int p : {flipped_, position})
      if (p >= 0) move.parity.emplace_back(place_of(p).dim, place_of(p).bit);
    moves_.push_back(std::move(move));
    flipped_ = position;
  }

  int least_needed() {
    size_t best = 0;
    for (size_t i = 1; i < registers().size(); ++i)
      if (next_use(registers()[i], at_ + 1) >= next_use(registers()[best], at_ + 1)) best = i;
    return int(best);
  }

  /// The bit is no more: registers are half as many, or a lane's bit means
  /// nothing.
  void forget(const SortMove& move, int bit) {
    if (move.kind == SortMove::Kind::Lanes)
      lanes()[size_t(move.lane)] = Meaning();
    else
      registers().erase(registers().begin() + move.reg);
    alive_.erase(std::find(alive_.begin(), alive_.end(), bit));
  }

  /// A conversion to slots in the order of need.
  void arrange() {
    SortMove move;
    move.kind = SortMove::Kind::Convert;
    move.from = layout();
    std::vector<Meaning> all;
    for (Slots& slots : slots_)
      for (Meaning& m : slots)
        if (!m.is_free()) all.push_back(m);
    std::stable_sort(all.begin(), all.end(),
                     [&](const Meaning& a, const Meaning& b) { return next_use(a, at_) < next_use(b, at_); });
    size_t next = 0;
    for (Slots& slots : slots_)
      for (Meaning& m : slots) m = next < all.size() ? all[next++] : Meaning();
    TEGULA_CHECK(next == all.size(), "bits without a slot");
    move.to = layout();
    moves_.push_back(std::move(move));
  }

  std::vector<LinearLayout::Out> outs_;
  std::array<Slots, 3> slots_;  // by Dim
  std::vector<LinearLayout::Repeat> repeats_;
  std::vector<int> alive_;  // bits of positions, the lowest first
  std::vector<Step> steps_;
  std::vector<SortMove> moves_;
  size_t at_ = 0;
  int bits_ = 0;
  int flipped_ = -1;
};

/// Whether every slot of the layout stands for one thing: a bit (any one, or
/// for `in_place` exactly one) along the last dimension, a bit along others, or
/// nothing.
bool has_slots(const LinearLayout& layout, bool in_place) {
  int bits = 0;
  for (auto& in : layout.ins())
    for (auto basis : in.bases) {
      const int32_t last = basis.back();
      basis.back() = 0;
      if (last != 0 && !is_zero(basis)) return false;
      if (in_place && (last & (last - 1)) != 0) return false;
      bits += last != 0 || !is_zero(basis);
    }
  return bits == layout.total_out_bits();
}

/// Of few elements each warp sorts a copy: that takes no more instructions than exchanges between warps, and no
/// barriers.
std::optional<LinearLayout> in_each_warp(const LinearLayout& operand) {
  constexpr int kMostOfLane = 4;
  const std::vector<int64_t> shape = operand.tile_shape();
  const int warp_bits = operand.in_bits(Dim::Warp);
  bool across_warps = false;
  for (int bit = 0; bit < warp_bits; ++bit) across_warps |= operand.basis(Dim::Warp, bit).back() != 0;
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  if (!across_warps || elements != shape.back() || elements > 32 * kMostOfLane) return std::nullopt;
  std::vector<LinearLayout::In> ins{{Dim::Register, {}}, {Dim::Lane, {}}, {Dim::Warp, {}}};
  auto add = [&](Dim dim, int64_t image) {
    auto& bases = ins[size_t(dim)].bases;
    bases.emplace_back(shape.size(), 0);
    bases.back().back() = int32_t(image);
  };
  const int64_t of_lane = std::max<int64_t>(1, elements / 32);
  for (int64_t bit = 1; bit < of_lane; bit *= 2) add(Dim::Register, bit);
  for (int64_t bit = of_lane; bit < 32 * of_lane; bit *= 2) add(Dim::Lane, bit < elements ? bit : 0);
  for (int bit = 0; bit < warp_bits; ++bit) add(Dim::Warp, 0);
  return LinearLayout(std::move(ins), operand.outs());
}

LinearLayout begin_of(const LinearLayout& operand, bool in_place) {
  if (auto copies = in_each_warp(operand)) return *copies;
  LinearLayout layout = operand.remove_zero_registers();
  if (has_slots(layout, in_place)) return layout;
  const std::vector<int64_t> shape = operand.tile_shape();
  std::vector<int> order;
  for (int axis = int(shape.size()); axis-- > 0;) order.push_back(axis);
  return coalesced_layout(shape, order, 4, 1 << layout.in_bits(Dim::Warp)).remove_zero_registers();
}

int64_t scratch_of(const LinearLayout& from, const LinearLayout& to, int64_t bytes) {
  if (from == to || plan_conversion(from, to).route != Conversion::Route::Shared) return 0;
  return exchange_bytes(from, to, int(8 * bytes));
}

/// Whether the value is a number shifted up by `bits`, or'ed with the place of each element below, or with a multiple
/// of it and a truth value: all are different, and by their lower bits in order. Of how many numbers these bits are
/// one, or 0 if it is not so.
int64_t ends_in_place(const ir::Value* value, int64_t bits) {
  using ir::Opcode;
  auto through = [](const ir::Value* v, bool integers) {
    auto passes = [&](Opcode c) { return c == Opcode::ConvertLayout || (integers && c == Opcode::Cast); };
    while (v->def && passes(v->def->opcode) && v->type.bits() >= 16) v = v->def->operand(0);
    return v;
  };
  auto number = [&](const ir::Value* v) {
    v = through(v, false);
    if (v->def && v->def->opcode == Opcode::Splat) v = v->def->operand(0);
    return ir::constant_integer(v);
  };
  auto shift = [&](const ir::Value* v) -> int64_t {
    if (!v->def || v->def->opcode != Opcode::Shl) return -1;
    return number(v->def->operand(1)).value_or(-1);
  };
  auto factor = [&](const ir::Value* v) -> int64_t {
    if (const int64_t by = shift(v); by >= 0) return by < bits ? int64_t(1) << by : 0;
    if (!v->def || v->def->opcode != Opcode::Mul) return 0;
    return std::min(number(v->def->operand(1)).value_or(0), int64_t(1) << bits);
  };
  value = through(value, false);
  bool doubled = false;
  for (int i : {0, 1}) {
    if (!value->def || value->def->opcode != Opcode::BitOr) return 0;
    const ir::Op* truth = through(value->def->operand(i), false)->def;
    if (doubled || !truth || truth->opcode != Opcode::Cast || !truth->operand(0)->type.is_bool()) continue;
    value = through(value->def->operand(1 - i), false);
    doubled = true;
  }
  if (!value->def || value->def->opcode != Opcode::BitOr) return 0;
  for (int i : {0, 1}) {
    const ir::Value *upper = through(value->def->operand(i), false),
                    *place = through(value->def->operand(1 - i), false);
    int64_t multiple = 1;
    if (doubled) {
      multiple = factor(place);
      if (multiple < 2) continue;
      place = place->def->operand(0);
    }
    place = through(place, true);
    if (!place->def || place->def->opcode != Opcode::Arange || place->def->get(ir::attr::start) != 0) continue;
    const int64_t extent = place->type.shape.back() * multiple;
    if (extent <= int64_t(1) << bits && shift(upper) == bits) return extent;
  }
  return 0;
}

/// The elements of one row in order, as offsets in shared memory.
LinearLayout in_order_of_last(const LinearLayout& tile, int64_t n) {
  LinearLayout::In offset{Dim::Offset, {}};
  for (int64_t bit = 1; bit < n; bit *= 2) {
    offset.bases.emplace_back(tile.outs().size(), 0);
    offset.bases.back().back() = int32_t(bit);
  }
  return LinearLayout({std::move(offset)}, tile.outs());
}

}  // namespace

SortPlan plan_sort(const LinearLayout& operand, int64_t kept, bool merge) {
  SortPlan plan{begin_of(operand, merge), {}, {}};
  Planner planner(plan.begin, kept, merge);
  plan.moves = planner.run();
  plan.end = planner.layout();
  return plan;
}

SortPlan plan_sort(const ir::Op& op) {
  return plan_sort(*op.operand(0)->type.layout, op.result()->type.shape.back(), op.get(ir::attr::merge));
}

int sort_key_bytes(const ir::Type& type) { return type.bits() == 64 ? 8 : 4; }

std::optional<DigitSort> plan_digit_sort(const ir::Op& op) {
  constexpr int64_t kLeastElements = 1024;  // fewer ones are sorted faster by a network
  constexpr int64_t kMostOfThread = 64;     // elements, two registers each
  constexpr int64_t kMostBytes = 163 << 10;
  const ir::Type& type = op.operand(0)->type;
  const int64_t n = type.shape.back();
  const int warps = 1 << type.layout->in_bits(Dim::Warp);
  if (op.get(ir::attr::merge) || op.result()->type.shape.back() != n || type.num_elements() != n) return std::nullopt;
  if (n < kLeastElements || n < 32 * warps || n > kMostOfThread * 32 * warps || type.bits() < 8) return std::nullopt;
  // As many passes as fp32 takes cost more than comparisons of 32 bits.
  if (type.bits() == 32 && ends_in_place(op.operand(0), 16) == 0) return std::nullopt;
  DigitSort plan{n, warps, in_order_of_last(*type.layout, n)};
  plan.counters = n * sort_key_bytes(type);
  plan.records = plan.counters + int64_t(warps) * (4 << DigitSort::kDigitBits);
  plan.bytes = plan.records + int64_t(warps) * 4 * DigitSort::kRecordWords;
  if (plan.bytes > kMostBytes) return std::nullopt;
  return plan;
}

std::optional<BucketSort> plan_bucket_sort(const ir::Op& op) {
  constexpr int64_t kLeastElements = 1024, kMostElements = 8192;
  constexpr int64_t kHalfOfWord = 1 << 16;
  constexpr int64_t kMostBytes = 96 << 10;   // what a block has on every target, and a little for others
  constexpr int64_t kLargeBytes = 32 << 10;  // more keys leave memory for half as many buckets
  const ir::Type& type = op.operand(0)->type;
  const LinearLayout& layout = *type.layout;
  const int64_t n = type.shape.back();
  if (op.get(ir::attr::merge) || op.result()->type.shape.back() != n || type.num_elements() != n) return std::nullopt;
  if (n < kLeastElements || n > kMostElements || type.bits() < 32) return std::nullopt;
  const int bits = layout.in_bits(Dim::Register) + layout.in_bits(Dim::Lane) + layout.in_bits(Dim::Warp);
  const int64_t threads = int64_t(32) << layout.in_bits(Dim::Warp), each = n / threads;
  if (int64_t(1) << bits != n || layout.in_bits(Dim::Block) != 0 || each < 4 || each > 32) return std::nullopt;
  const int64_t places = ends_in_place(op.operand(0), type.bits() / 2);
  if (type.bits() == 32 && places > 0 && places < kHalfOfWord) return std::nullopt;
  BucketSort plan;
  plan.elements = n;
  plan.distinct = places > 0;
  plan.warps = int(threads / 32);
  plan.in_order = in_order_of_last(layout, n);
  const bool is_large = n * sort_key_bytes(type) > kLargeBytes;
  plan.num_buckets = is_large ? n / 2 : n;
  plan.num_cells = is_large ? n / 8 : n / 4;
  const int64_t of_thread = plan.num_buckets / threads;
  plan.padded = of_thread > 4 ? int(of_thread) : 0;
  plan.buckets = n * sort_key_bytes(type);
  plan.cells = plan.buckets + 4 * (plan.num_buckets + (plan.padded ? 4 * threads : 0));
  plan.records = plan.cells + 4 * plan.num_cells;
  plan.bytes = plan.records + 4 * (3 * plan.warps + 4);
  if (plan.bytes > kMostBytes) return std::nullopt;
  return plan;
}

int64_t sort_scratch(const ir::Op& op) {
  const auto buckets = plan_bucket_sort(op);
  const int64_t of_buckets = buckets ? buckets->bytes : 0;
  if (auto digits = plan_digit_sort(op)) return std::max(of_buckets, digits->bytes);
  const SortPlan plan = plan_sort(op);
  const int64_t bytes = sort_key_bytes(op.operand(0)->type);
  int64_t most = std::max({of_buckets, scratch_of(*op.operand(0)->type.layout, plan.begin, bytes),
                           scratch_of(plan.end, *op.result()->type.layout, bytes)});
  for (const SortMove& move : plan.moves)
    if (move.kind == SortMove::Kind::Convert) most = std::max(most, scratch_of(move.from, move.to, bytes));
  return most;
}

}  // namespace tegula
