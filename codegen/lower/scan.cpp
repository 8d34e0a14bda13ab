// Scans: along the runs in a thread's registers; over the last elements of the runs between lanes, in as many steps as
// there are bits; between warps through shared memory with one barrier, where every warp combines what the warps and
// rounds before it have. Only then what comes before a run is carried into its elements. Elements are combined as
// (earlier, later), later ones having lower coordinates in a reversed scan.
#include "codegen/layout/axis_order.h"
#include "codegen/lower/combine.h"

namespace tegula::lower {

namespace {

class Scan : Combining {
 public:
  Scan(Lowering& l, const ir::Op& op)
      : Combining(l, op), order_(axis_order(layout_, axis_).value()), reverse_(op.get(ir::attr::reverse)) {}

  void run() {
    find_runs();
    place_of_thread();
    for (auto& [key, rounds] : runs_)
      for (Run& run : rounds) scan_run(run), scan_lanes(run);
    if (!order_.warp_bits.empty())
      exchange_with_warps();
    else
      carry_through_rounds();
    set_results();
  }

 private:
  // Elements that one thread has side by side, in the order of the scan.
  struct Run {
    std::vector<int> registers;
    std::vector<Group> values;  // inclusive, of this run alone
    Group total;                // of the lanes up to this one; of the run before the lanes have met
    Group before;               // of the lanes before this one: if there is one
  };

  // The lowest registers of each element, by the coordinate along the axis.
  void find_runs() {
    std::map<Key, std::map<int32_t, int>> registers;
    for (int r = 0; r < layout_.in_size(Dim::Register); ++r)
      if (layout_.canonical(Dim::Register, r) == r)
        registers[key_of_operand(r)][layout_.apply({{Dim::Register, r}})[size_t(axis_)]] = r;
    for (auto& [key, along] : registers) {
      std::vector<int> list;
      for (auto& [at, r] : along) list.push_back(r);
      if (reverse_) std::reverse(list.begin(), list.end());
      for (size_t at = 0; at < list.size(); at += size_t(order_.run))
        runs_[key].push_back({{list.begin() + long(at), list.begin() + long(at) + order_.run}, {}, {}, {}});
    }
  }

  // The thread's number along the axis, among lanes and among warps, in the order of the scan.
  void place_of_thread() {
    auto number = [&](const std::vector<int>& bits, int shift) -> llvm::Value* {
      if (bits.empty()) return nullptr;
      std::vector<int> of_thread;
      for (int bit : bits) of_thread.push_back(bit + shift);
      llvm::Value* place = bits_of_thread(of_thread);
      return reverse_ ? l_.b.CreateXor(place, l_.i32((1 << bits.size()) - 1)) : place;
    };
    lane_ = number(order_.lane_bits, 0);
    warp_ = number(order_.warp_bits, 5);
    if (!lane_) return;
    later_lane_ = l_.b.CreateICmpNE(lane_, l_.i32(0));
    for (size_t step = 0; step < order_.lane_bits.size(); ++step) {
      sources_.push_back(lane_at_distance(1 << step));
      reaches_.push_back(step ? l_.b.CreateICmpUGE(lane_, l_.i32(1 << step)) : later_lane_);
    }
  }

  // The lane whose number along the axis is lower by that much; any lane where there is none.
  llvm::Value* lane_at_distance(int distance) {
    llvm::Value* number = l_.b.CreateSub(lane_, l_.i32(distance));
    if (reverse_) number = l_.b.CreateXor(number, l_.i32(-1));
    return lane_with_number(number);
  }

  // This lane with other bits along the axis, those of `number`.
  llvm::Value* lane_with_number(llvm::Value* number) {
    uint32_t mask = 0;
    for (int bit : order_.lane_bits) mask |= 1u << bit;
    llvm::Value* lane = l_.b.CreateAnd(l_.thread(), l_.i32(31 & ~mask));
    for (size_t i = 0; i < order_.lane_bits.size(); ++i) {
      llvm::Value* one = l_.b.CreateAnd(l_.b.CreateLShr(number, uint64_t(i)), l_.i32(1));
      lane = l_.b.CreateOr(lane, l_.b.CreateShl(one, uint64_t(order_.lane_bits[i])));
    }
    return lane;
  }

  Group shuffled(const Group& g, llvm::Value* lane) {
    Group out;
    for (llvm::Value* x : g) out.push_back(l_.shuffle(x, lane, false));
    return out;
  }

  void scan_run(Run& run) {
    for (int r : run.registers) {
      Group g = operands_of_register(r);
      run.values.push_back(run.values.empty() ? g : combine(run.values.back(), g));
    }
    run.total = run.values.back();
  }

  // Lanes with longer runs keep what comes before them apart from their own, so that no further step has to fetch it.
  void scan_lanes(Run& run) {
    const Group own = run.total;
    for (size_t step = 0; step < sources_.size(); ++step) {
      Group other = shuffled(run.total, sources_[step]);
      if (order_.run == 1) {
        run.total = choose(reaches_[step], combine(other, run.total), run.total);
        continue;
      }
      run.before = step ? choose(reaches_[step], combine(other, run.before), run.before) : other;
      run.total = choose(later_lane_, combine(run.before, own), own);
    }
    if (order_.run == 1) run.values = {run.total};
  }

  // What comes before the lane's run joins the elements: `outer`, of earlier rounds and warps, if there is any at all;
  // `is_later` says whether there is, null where it is known.
  void carry_in(Run& run, const Group* outer, llvm::Value* is_later) {
    Group before = run.before;
    llvm::Value* any = before.empty() ? nullptr : later_lane_;
    if (outer) {
      Group both = before.empty() ? *outer : choose(later_lane_, combine(*outer, before), *outer);
      any = is_later && any ? l_.b.CreateOr(is_later, any) : is_later;
      before = before.empty() ? both : choose(is_later, both, before);
    }
    if (before.empty()) return;
    for (Group& value : run.values) value = choose(any, combine(before, value), value);
  }

  void carry_through_rounds() {
    for (auto& [key, rounds] : runs_) {
      Group carry;  // of all rounds before
      for (size_t k = 0; k < rounds.size(); ++k) {
        Group total = rounds[k].total;
        if (k + 1 < rounds.size() && lane_) total = shuffled(total, lane_with_number(l_.i32(reverse_ ? 0 : -1)));
        carry_in(rounds[k], k ? &carry : nullptr, nullptr);
        if (k + 1 < rounds.size()) carry = k ? combine(carry, total) : total;
      }
    }
  }

  void exchange_with_warps() {
    find_partials();
    store_totals();
    l_.barrier(op_.loc);
    for (size_t first = 0; first < elements_.size(); first += together_) {
      std::vector<Group> carry(together_);  // of all partials before, of each element
      for (size_t k = 0; k < size_t(order_.rounds); ++k) {
        const std::vector<std::vector<Group>> totals = read_round(first, k);
        for (size_t e = 0; e < together_; ++e) pass_warps((*elements_[first + e])[k], k, totals[e], carry[e]);
      }
    }
  }

  void find_partials() {
    for (auto& [key, rounds] : runs_) keys_.push_back(&key), elements_.push_back(&rounds);
    warps_ = 1 << order_.warp_bits.size();
    areas_ = areas(int64_t(order_.rounds) * warps_);
    own_ = own_bits(idle_bits());
    if (!lies_along_lanes()) return;
    for (size_t i = 0; i < areas_.size(); ++i) together_ = std::max(together_, vector_width(i, elements_.size()));
    along_lanes_ = true;
  }

  // Bits of the thread's index that do not tell totals apart: of copies, and of lanes along the axis.
  uint32_t idle_bits() const {
    uint32_t idle = uint32_t(layout_.free_mask(Dim::Lane)) | uint32_t(layout_.free_mask(Dim::Warp)) << 5;
    for (int bit : order_.lane_bits) idle |= 1u << bit;
    return idle;
  }

  // Whether the banks of shared memory then take less time to give a warp its partials.
  bool lies_along_lanes() const {
    const int64_t elements = int64_t(elements_.size());
    int64_t beside = 0, along = 0;
    for (size_t i = 0; i < areas_.size(); ++i) {
      const int64_t bytes = element_bytes(op_.operand(int(i))), width = int64_t(vector_width(i, elements_.size()));
      const int64_t read = partials_together(warps_);
      beside += elements * (warps_ / read) * wavefronts(bytes * warps_ * step_of_lanes(), bytes * read);
      along += warps_ * (elements / width) * wavefronts(bytes * width, bytes * width);
    }
    return along < beside;
  }

  // Of an access of `bytes` by each lane that has elements of its own, which lie so far apart.
  int64_t wavefronts(int64_t apart, int64_t bytes) const {
    constexpr int64_t kBytes = 128;
    int64_t lanes = 1;
    for (int bit : own_) lanes <<= bit < 5;
    const int64_t at_a_time = std::max<int64_t>(1, kBytes / std::max(apart, bytes));
    return (lanes + at_a_time - 1) / at_a_time;
  }

  // By how many elements along the other axes the first two lanes with elements of their own are apart.
  int64_t step_of_lanes() const {
    if (own_.empty() || own_[0] >= 5) return 1;
    int64_t step = 0;
    for (int axis = 0; axis < in_.rank(); ++axis)
      if (axis != axis_) step = step * in_.shape[size_t(axis)] + layout_.basis(Dim::Lane, own_[0], tile_dim(axis));
    return step;
  }

  void store_totals() {
    llvm::Value* writer = is_last_lane();
    for (size_t i = 0; i < areas_.size(); ++i) {
      const size_t width = along_lanes_ ? vector_width(i, elements_.size()) : 1;
      for (size_t k = 0; k < size_t(order_.rounds); ++k)
        for (size_t first = 0; first < elements_.size(); first += width) {
          Regs values;
          for (size_t e = first; e < first + width; ++e) values.push_back((*elements_[e])[k].total[i]);
          l_.store_shared(place(i, first, k, warp_), values, writer, op_.loc);
        }
    }
  }

  // Where in shared memory the warp's partial of an element stands. Lane by lane (place_of_vector()) a row has those of
  // a warp and round; else those of the warps stand side by side, then elements, then rounds.
  llvm::Value* place(size_t i, size_t element, size_t round, llvm::Value* warp) {
    if (along_lanes_) {
      llvm::Value* row = l_.b.CreateAdd(warp, l_.i32(int64_t(round) * warps_));
      return place_of_vector(areas_[i], i, elements_.size(), element, row, own_);
    }
    const int64_t elements = in_.num_elements() / in_.shape[size_t(axis_)];
    llvm::Value* at = l_.b.CreateAdd(element_index(*keys_[element]), l_.i32(int64_t(round) * elements));
    at = l_.b.CreateAdd(l_.b.CreateMul(at, l_.i32(warps_)), warp);
    return address(areas_[i], at, element_bytes(op_.operand(int(i))));
  }

  // What all warps have, of the elements from `first` on that are read together.
  std::vector<std::vector<Group>> read_round(size_t first, size_t round) {
    std::vector<std::vector<Group>> out(together_, std::vector<Group>(size_t(warps_), Group(areas_.size(), nullptr)));
    for (size_t i = 0; i < areas_.size(); ++i) {
      llvm::Type* type = l_.element_type(op_.operand(int(i))->type);
      const size_t width = along_lanes_ ? vector_width(i, elements_.size()) : size_t(partials_together(warps_));
      for (size_t e = 0; e < together_; e += along_lanes_ ? width : 1)
        for (size_t w = 0; w < size_t(warps_); w += along_lanes_ ? 1 : width) {
          const Regs read = l_.load_shared(place(i, first + e, round, l_.i32(int64_t(w))), type, int(width), op_.loc);
          for (size_t n = 0; n < width; ++n) (along_lanes_ ? out[e + n][w] : out[e][w + n])[i] = read[n];
        }
    }
    return out;
  }

  // Carries what comes before into a round; `carry` is of all partials before, and then of those of the round too.
  void pass_warps(Run& run, size_t round, const std::vector<Group>& totals, Group& carry) {
    Group before = carry;
    for (int w = 0; w < warps_; ++w) {
      // The warps of this round after number w see all that is before them.
      if (w > 0) before = before.empty() ? carry : choose(l_.b.CreateICmpUGE(warp_, l_.i32(w)), carry, before);
      carry = carry.empty() ? totals[size_t(w)] : combine(carry, totals[size_t(w)]);
    }
    carry_in(run, &before, round ? nullptr : l_.b.CreateICmpNE(warp_, l_.i32(0)));
  }

  // One thread for each total: the last lane along the axis, of those that hold copies the first.
  llvm::Value* is_last_lane() {
    uint32_t last = 0;
    for (int bit : order_.lane_bits) last |= 1u << bit;
    return is_thread(idle_bits(), reverse_ ? 0 : last);
  }

  void set_results() {
    std::vector<Regs> results(op_.results.size(), Regs(size_t(layout_.in_size(Dim::Register)), nullptr));
    for (auto& [key, rounds] : runs_)
      for (const Run& run : rounds)
        for (size_t e = 0; e < run.registers.size(); ++e)
          for (size_t i = 0; i < results.size(); ++i) results[i][size_t(run.registers[e])] = run.values[e][i];
    for (size_t i = 0; i < results.size(); ++i) {
      for (int r = 0; r < layout_.in_size(Dim::Register); ++r)
        results[i][size_t(r)] = results[i][size_t(layout_.canonical(Dim::Register, r))];
      l_.set(op_.result(int(i)), std::move(results[i]));
    }
  }

  const AxisOrder order_;
  const bool reverse_;
  std::map<Key, std::vector<Run>> runs_;  // in the order of the scan
  // Partials in shared memory: a warp's total of each round and element along the other axes.
  std::vector<const Key*> keys_;
  std::vector<std::vector<Run>*> elements_;
  std::vector<int64_t> areas_;
  std::vector<int> own_;
  int warps_ = 1;
  bool along_lanes_ = false;
  size_t together_ = 1;                            // elements whose partials are read at a time
  llvm::Value *lane_ = nullptr, *warp_ = nullptr;  // null: all elements in one
  llvm::Value* later_lane_ = nullptr;              // whether another lane comes before
  std::vector<llvm::Value*> sources_, reaches_;    // of each step: the lane to fetch from, and whether there is one
};

}  // namespace

void lower_Scan(Lowering& l, const ir::Op& op) { Scan(l, op).run(); }

}  // namespace tegula::lower
