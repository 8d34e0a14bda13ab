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

  // Place of the first warp's partial of an element and round: those of the warps side by side, then elements, then
  // rounds, so that lanes, which have different elements, access different banks.
  llvm::Value* first_partial(const Key& key, size_t round, int warps) {
    const int64_t elements = in_.num_elements() / in_.shape[axis_];
    llvm::Value* element = l_.b.CreateAdd(element_index(key), l_.i32(int64_t(round) * elements));
    return l_.b.CreateMul(element, l_.i32(warps));
  }

  void exchange_with_warps() {
    const int warps = 1 << order_.warp_bits.size(), partials = order_.rounds * warps;
    const std::vector<int64_t> areas = this->areas(partials);
    llvm::Value* writer = is_last_lane();
    for (auto& [key, rounds] : runs_) {
      for (size_t k = 0; k < rounds.size(); ++k)
        for (size_t i = 0; i < areas.size(); ++i) {
          llvm::Value* at = l_.b.CreateAdd(first_partial(key, k, warps), warp_);
          l_.store_shared(address(areas[i], at, element_bytes(op_.operand(int(i)))), {rounds[k].total[i]}, writer,
                          op_.loc);
        }
    }
    l_.barrier(op_.loc);
    for (auto& [key, rounds] : runs_) {
      Group carry;  // of all partials before
      for (size_t k = 0; k < rounds.size(); ++k) {
        const std::vector<Group> totals = read_round(areas, key, k, warps);
        Group before = carry;
        for (int w = 0; w < warps; ++w) {
          // The warps of this round behind number w see all that is before them.
          if (w > 0) before = before.empty() ? carry : choose(l_.b.CreateICmpUGE(warp_, l_.i32(w)), carry, before);
          carry = carry.empty() ? totals[size_t(w)] : combine(carry, totals[size_t(w)]);
        }
        carry_in(rounds[k], &before, k ? nullptr : l_.b.CreateICmpNE(warp_, l_.i32(0)));
      }
    }
  }

  // One thread for each total: the last lane along the axis, of those that hold copies the first.
  llvm::Value* is_last_lane() {
    uint32_t last = 0, mask = uint32_t(layout_.free_mask(Dim::Lane)) | uint32_t(layout_.free_mask(Dim::Warp)) << 5;
    for (int bit : order_.lane_bits) last |= 1u << bit;
    return is_thread(mask | last, reverse_ ? 0 : last);
  }

  std::vector<Group> read_round(const std::vector<int64_t>& areas, const Key& key, size_t round, int warps) {
    std::vector<Group> out(size_t(warps), Group(areas.size(), nullptr));
    const int width = partials_together(warps);
    llvm::Value* first = first_partial(key, round, warps);
    for (size_t i = 0; i < areas.size(); ++i) {
      const ir::Value* x = op_.operand(int(i));
      for (int w = 0; w < warps; w += width) {
        llvm::Value* at = address(areas[i], l_.b.CreateAdd(first, l_.i32(w)), element_bytes(x));
        Regs read = l_.load_shared(at, l_.element_type(x->type), width, op_.loc);
        for (int k = 0; k < width; ++k) out[size_t(w + k)][i] = read[size_t(k)];
      }
    }
    return out;
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
  std::map<Key, std::vector<Run>> runs_;           // in the order of the scan
  llvm::Value *lane_ = nullptr, *warp_ = nullptr;  // null: all elements in one
  llvm::Value* later_lane_ = nullptr;              // whether another lane comes before
  std::vector<llvm::Value*> sources_, reaches_;    // of each step: the lane to fetch from, and whether there is one
};

}  // namespace

void lower_Scan(Lowering& l, const ir::Op& op) { Scan(l, op).run(); }

}  // namespace tegula::lower
