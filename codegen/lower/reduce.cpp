// Reductions: inside a thread's registers, then between lanes by butterfly shuffles, then between warps through shared
// memory with one barrier, after which every warp combines the warps' partial results itself.
#include "codegen/lower/combine.h"

namespace tegula::lower {

namespace {

class Reduction : Combining {
 public:
  Reduction(Lowering& l, const ir::Op& op) : Combining(l, op), out_(op.result()->type) {}

  void run() {
    reduce_registers();
    reduce_lanes();
    int warp_bits = 0;
    for (int bit = 0; bit < layout_.in_bits(Dim::Warp); ++bit) warp_bits |= moves_along_axis(Dim::Warp, bit) << bit;
    if (warp_bits) reduce_warps(uint32_t(warp_bits));
    for (size_t i = 0; i < op_.results.size(); ++i) {
      Regs regs;
      for (int r = 0; r < Lowering::num_registers(out_); ++r) regs.push_back(partial_.at(key_of_result(r))[i]);
      l_.set(op_.result(int(i)), std::move(regs));
    }
  }

 private:
  Key key_of_result(int r) const { return out_.layout ? out_.layout->apply({{Dim::Register, r}}) : Key(); }

  // In a few chains, then as a tree. Chains let a product that is summed become an fma; several of them overlap.
  Group combine_all(std::vector<Group> groups) {
    constexpr size_t kChains = 4;
    for (size_t i = kChains; i < groups.size(); ++i) groups[i % kChains] = combine(groups[i % kChains], groups[i]);
    groups.resize(std::min(groups.size(), kChains));
    while (groups.size() > 1) {
      std::vector<Group> next;
      for (size_t i = 0; i + 1 < groups.size(); i += 2) next.push_back(combine(groups[i], groups[i + 1]));
      if (groups.size() % 2) next.push_back(groups.back());
      groups = std::move(next);
    }
    return groups[0];
  }

  void reduce_registers() {
    std::map<Key, std::vector<Group>> groups;
    for (int r = 0; r < layout_.in_size(Dim::Register); ++r) {
      if (layout_.canonical(Dim::Register, r) != r) continue;
      groups[key_of_operand(r)].push_back(operands_of_register(r));
    }
    for (auto& [key, list] : groups) partial_[key] = combine_all(std::move(list));
  }

  void reduce_lanes() {
    for (int bit = layout_.in_bits(Dim::Lane) - 1; bit >= 0; --bit) {
      if (!moves_along_axis(Dim::Lane, bit)) continue;
      combine_with_lane(1 << bit);
    }
  }

  // Every partial result with the one that the lane at this distance holds.
  void combine_with_lane(int distance) {
    for (auto& [key, g] : partial_) {
      Group other;
      for (llvm::Value* x : g) other.push_back(l_.shuffle(x, l_.i32(distance), true));
      g = combine(g, other);
    }
  }

  // Partial results stand in shared memory with those of one element side by side, so that they are read in wide
  // accesses.
  void reduce_warps(uint32_t warp_bits) {
    int partials = 1 << __builtin_popcount(warp_bits);
    // The thread's place among the partials: its warp bits along the axis, packed together.
    std::vector<int> bits;
    for (int bit = 0; bit < layout_.in_bits(Dim::Warp); ++bit)
      if (warp_bits >> bit & 1) bits.push_back(5 + bit);
    llvm::Value* place = bits_of_thread(bits);
    // One writer for each partial: the thread whose lane and warp bits that do not tell partials apart are 0.
    uint32_t idle = 0;
    for (Dim dim : {Dim::Lane, Dim::Warp})
      for (int bit = 0; bit < layout_.in_bits(dim); ++bit) {
        bool copy = layout_.free_mask(dim) >> bit & 1;
        bool reduced = dim == Dim::Lane && moves_along_axis(dim, bit);
        if (copy || reduced) idle |= 1u << (bit + (dim == Dim::Warp ? 5 : 0));
      }
    llvm::Value* writer = is_thread(idle, 0);

    const std::vector<int64_t> areas = this->areas(partials);
    for (size_t i = 0; i < areas.size(); ++i)
      for (auto& [key, g] : partial_) {
        llvm::Value* index = l_.b.CreateAdd(l_.b.CreateMul(element_index(key), l_.i32(partials)), place);
        l_.store_shared(address(areas[i], index, element_bytes(op_.operand(int(i)))), {g[i]}, writer, op_.loc);
      }
    l_.barrier(op_.loc);
    // Lanes that hold the same elements share the work: each combines what one access gives (or a few, where such lanes
    // are few), then they combine among each other. That takes few registers, whatever the number of warps.
    const int width = partials_together(partials);
    std::vector<int> sharing;
    for (int bit = 0; bit < layout_.in_bits(Dim::Lane) && width << sharing.size() < partials; ++bit) {
      bool copy = layout_.free_mask(Dim::Lane) >> bit & 1;
      if (copy || moves_along_axis(Dim::Lane, bit)) sharing.push_back(bit);
    }
    // The first of the partials that this lane combines.
    llvm::Value* first = l_.b.CreateShl(bits_of_thread(sharing), l_.i32(__builtin_ctz(unsigned(width))));
    for (auto& [key, g] : partial_) {
      std::vector<Group> groups(partials >> sharing.size(), Group(g.size(), nullptr));
      llvm::Value* index = l_.b.CreateAdd(l_.b.CreateMul(element_index(key), l_.i32(partials)), first);
      for (size_t i = 0; i < g.size(); ++i) {
        const ir::Value* x = op_.operand(int(i));
        for (size_t p = 0; p < groups.size(); p += size_t(width)) {
          llvm::Value* at = l_.b.CreateAdd(index, l_.i32(int64_t(p << sharing.size())));
          Regs read = l_.load_shared(address(areas[i], at, element_bytes(x)), l_.element_type(x->type), width, op_.loc);
          for (int k = 0; k < width; ++k) groups[p + size_t(k)][i] = read[k];
        }
      }
      g = combine_all(std::move(groups));
    }
    for (int bit : sharing) combine_with_lane(1 << bit);
  }

  const ir::Type& out_;
  std::map<Key, Group> partial_;
};

}  // namespace

void lower_Reduce(Lowering& l, const ir::Op& op) { Reduction(l, op).run(); }

}  // namespace tegula::lower
