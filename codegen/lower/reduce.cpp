// Reductions: inside a thread's registers, then between lanes by butterfly shuffles, then between warps through shared
// memory with one barrier, after which every warp combines the warps' partial results itself. Where the blocks of a
// cluster divide what is reduced, the warps write to the shared memory of all of them: still one exchange.
#include "codegen/lower/combine.h"

namespace tegula::lower {

namespace {

class Reduction : Combining {
 public:
  Reduction(Lowering& l, const ir::Op& op) : Combining(l, op), out_(op.result()->type) {}

  void run() {
    reduce_registers();
    reduce_lanes();
    if (!bits_along_axis(Dim::Warp).empty() || !bits_along_axis(Dim::Block).empty()) reduce_warps();
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

  std::vector<int> bits_along_axis(Dim dim) const {
    std::vector<int> bits;
    for (int bit = 0; bit < layout_.in_bits(dim); ++bit)
      if (moves_along_axis(dim, bit)) bits.push_back(bit);
    return bits;
  }

  // Bits of the thread's index that do not tell partial results apart: of copies, and of lanes that have reduced.
  uint32_t idle_bits() const {
    uint32_t idle = uint32_t(layout_.free_mask(Dim::Lane)) | uint32_t(layout_.free_mask(Dim::Warp)) << 5;
    for (int bit : bits_along_axis(Dim::Lane)) idle |= 1u << bit;
    return idle;
  }

  // Partial results stand in shared memory with those of one element side by side, so that they are read in wide
  // accesses.
  void reduce_warps() {
    const std::vector<int> warps = bits_along_axis(Dim::Warp), blocks = bits_along_axis(Dim::Block);
    const int partials = 1 << (warps.size() + blocks.size());
    // The thread's place among the partials: its warp and block bits along the axis, packed together.
    std::vector<int> of_thread;
    for (int bit : warps) of_thread.push_back(5 + bit);
    llvm::Value* place = bits_of_thread(of_thread);
    if (!blocks.empty())
      place = l_.b.CreateOr(place, l_.b.CreateShl(bits_of(l_.block_of_cluster(), blocks), uint64_t(warps.size())));
    const std::vector<int64_t> areas = this->areas(partials);
    l_.before_exchange(op_);
    for (size_t i = 0; i < areas.size(); ++i)
      for (auto& [key, g] : partial_) {
        llvm::Value* index = l_.b.CreateAdd(l_.b.CreateMul(element_index(key), l_.i32(partials)), place);
        store_partial(address(areas[i], index, element_bytes(op_.operand(int(i)))), g[i], blocks);
      }
    l_.exchange_barrier(op_);
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

  // One writer for each partial: the thread whose idle bits are 0. Where several blocks read it, as many idle lanes as
  // there are write to one of them each, at the same time.
  void store_partial(llvm::Value* at, llvm::Value* value, const std::vector<int>& blocks) {
    uint32_t idle = idle_bits();
    if (blocks.empty()) return l_.store_shared(at, {value}, is_thread(idle, 0), op_.loc);
    std::vector<int> lanes;
    for (int bit = 0; bit < layout_.in_bits(Dim::Lane) && lanes.size() < blocks.size(); ++bit)
      if (idle >> bit & 1) lanes.push_back(bit), idle &= ~(1u << bit);
    llvm::Value* writer = is_thread(idle, 0);
    for (int high = 0; high < 1 << (blocks.size() - lanes.size()); ++high) {
      llvm::Value* reader = l_.b.CreateOr(bits_of_thread(lanes), l_.i32(int64_t(high) << lanes.size()));
      l_.store_in_block(block_along_axis(reader, blocks), at, {value}, writer, op_.loc);
    }
  }

  // The block that is number `number` of those that divide what is reduced with this one.
  llvm::Value* block_along_axis(llvm::Value* number, const std::vector<int>& blocks) {
    if (int(blocks.size()) == layout_.in_bits(Dim::Block)) return number;
    int32_t along = 0;
    for (int bit : blocks) along |= 1 << bit;
    llvm::Value* block = l_.b.CreateAnd(l_.block_of_cluster(), l_.i32(~along));
    for (size_t i = 0; i < blocks.size(); ++i) {
      llvm::Value* one = l_.b.CreateAnd(l_.b.CreateLShr(number, uint64_t(i)), l_.i32(1));
      block = l_.b.CreateOr(block, l_.b.CreateShl(one, uint64_t(blocks[i])));
    }
    return block;
  }

  const ir::Type& out_;
  std::map<Key, Group> partial_;
};

}  // namespace

void lower_Reduce(Lowering& l, const ir::Op& op) { Reduction(l, op).run(); }

}  // namespace tegula::lower
