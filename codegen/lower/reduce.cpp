// Reductions: inside a thread's registers, then between lanes by butterfly shuffles, then between warps through shared
// memory with one barrier, after which every warp combines the warps' partial results itself.
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

// One element of each reduced tile.
using Group = llvm::SmallVector<llvm::Value*, 2>;

class Reduction {
 public:
  Reduction(Lowering& l, const ir::Op& op)
      : l_(l),
        op_(op),
        in_(op.operand(0)->type),
        out_(op.result()->type),
        layout_(*in_.layout),
        axis_(tile_dim(int(op.attr_int("axis")))) {}

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
  using Key = std::vector<int32_t>;  // register part of the coordinates that remain

  bool moves_along_axis(Dim dim, int bit) const { return layout_.basis(dim, bit, axis_) != 0; }

  Key key_of_operand(int r) const {
    Key key = layout_.apply({{Dim::Register, r}});
    key.erase(key.begin() + op_.attr_int("axis"));
    return key;
  }
  Key key_of_result(int r) const { return out_.layout ? out_.layout->apply({{Dim::Register, r}}) : Key(); }

  Group combine(const Group& a, const Group& b) {
    const ir::Block& region = *op_.regions[0];
    for (size_t i = 0; i < a.size(); ++i) {
      l_.set_scalar(region.args[i].get(), a[i]);
      l_.set_scalar(region.args[a.size() + i].get(), b[i]);
    }
    for (auto& inner : region.ops)
      if (inner->opcode != ir::Opcode::Yield) l_.lower_op(*inner);
    Group out;
    for (const ir::Value* v : region.terminator()->operands) out.push_back(l_.scalar(v));
    return out;
  }

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
      Group g;
      for (const ir::Value* x : op_.operands) g.push_back(l_.get(x)[r]);
      groups[key_of_operand(r)].push_back(std::move(g));
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
    llvm::Value* place = l_.i32(0);
    for (int bit = 0, to = 0; bit < layout_.in_bits(Dim::Warp); ++bit) {
      if (!(warp_bits >> bit & 1)) continue;
      llvm::Value* one = l_.b.CreateAnd(l_.b.CreateLShr(l_.thread(), uint64_t(5 + bit)), l_.i32(1));
      place = l_.b.CreateOr(place, l_.b.CreateShl(one, uint64_t(to++)));
    }
    // One writer for each partial: the thread whose lane and warp bits that do not tell partials apart are 0.
    uint32_t idle = 0;
    for (Dim dim : {Dim::Lane, Dim::Warp})
      for (int bit = 0; bit < layout_.in_bits(dim); ++bit) {
        bool copy = layout_.free_mask(dim) >> bit & 1;
        bool reduced = dim == Dim::Lane && moves_along_axis(dim, bit);
        if (copy || reduced) idle |= 1u << (bit + (dim == Dim::Warp ? 5 : 0));
      }
    llvm::Value* writer = idle ? l_.b.CreateICmpEQ(l_.b.CreateAnd(l_.thread(), l_.i32(idle)), l_.i32(0)) : nullptr;

    if (l_.shared.barrier_before.count(&op_)) l_.barrier(op_.loc);
    int64_t area = l_.shared.offset.at(&op_);
    std::vector<int64_t> areas;
    for (const ir::Value* x : op_.operands) {
      int64_t bytes = element_bytes(x);
      areas.push_back(area);
      for (auto& [key, g] : partial_) {
        llvm::Value* index = l_.b.CreateAdd(l_.b.CreateMul(element_index(key), l_.i32(partials)), place);
        l_.store_shared(address(area, index, bytes), {g[areas.size() - 1]}, writer, op_.loc);
      }
      area += (in_.num_elements() / in_.shape[op_.attr_int("axis")] * partials * bytes + 15) / 16 * 16;
    }
    l_.barrier(op_.loc);
    // Lanes that hold the same elements share the work: each combines what one access gives (or a few, where such lanes
    // are few), then they combine among each other. That takes few registers, whatever the number of warps.
    int width = partials;
    for (const ir::Value* x : op_.operands) width = int(std::min<int64_t>(width, 16 / element_bytes(x)));
    std::vector<int> sharing;
    for (int bit = 0; bit < layout_.in_bits(Dim::Lane) && width << sharing.size() < partials; ++bit) {
      bool copy = layout_.free_mask(Dim::Lane) >> bit & 1;
      if (copy || moves_along_axis(Dim::Lane, bit)) sharing.push_back(bit);
    }
    llvm::Value* first = l_.i32(0);  // of the partials that this lane combines
    for (size_t i = 0; i < sharing.size(); ++i) {
      llvm::Value* one = l_.b.CreateAnd(l_.b.CreateLShr(l_.thread(), uint64_t(sharing[i])), l_.i32(1));
      first = l_.b.CreateOr(first, l_.b.CreateShl(one, l_.i32(__builtin_ctz(width) + int(i))));
    }
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

  int64_t element_bytes(const ir::Value* x) const { return std::max(1, x->type.bits() / 8); }

  llvm::Value* address(int64_t area, llvm::Value* index, int64_t bytes) {
    return l_.b.CreateAdd(l_.shared_address(area), l_.b.CreateMul(index, l_.i32(bytes)));
  }

  // Row-major index of this thread's element with the given register part among the elements that remain.
  llvm::Value* element_index(const Key& key) {
    llvm::Value* index = l_.i32(0);
    size_t k = 0;
    for (int axis = 0; axis < in_.rank(); ++axis) {
      if (axis == op_.attr_int("axis")) continue;
      Dim dim = tile_dim(axis);
      llvm::Value* c = l_.add_register_part(l_.thread_part(layout_, dim), layout_, dim, key[k++]);
      index = l_.b.CreateAdd(l_.b.CreateMul(index, l_.i32(in_.shape[axis])), c);
    }
    return index;
  }

  Lowering& l_;
  const ir::Op& op_;
  const ir::Type& in_;
  const ir::Type& out_;
  const LinearLayout& layout_;
  Dim axis_;
  std::map<Key, Group> partial_;
};

}  // namespace

void lower_Reduce(Lowering& l, const ir::Op& op) { Reduction(l, op).run(); }

}  // namespace tegula::lower
