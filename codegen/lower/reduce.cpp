// Reductions: inside a thread's registers, then between lanes by butterfly shuffles, then between warps through shared
// memory with one barrier, after which every warp combines the warps' partial results itself. These lie lane by lane
// where eight lanes or more hold elements of their own, else element by element; lanes that hold the same elements
// share the work. Where the blocks of a cluster divide what is reduced, each then stores its partial result to the
// shared memory of all of them, asynchronously: threads wait until as many bytes as are expected have come. (Each piece
// that goes from block to block costs the same, however small: so no warp stores for itself.)
#include <bit>

#include "codegen/layout/axis_order.h"
#include "codegen/lower/combine.h"

namespace tegula::lower {

namespace {

// The scratch of a reduction for the blocks' partial results: an area for each operand, one for each alternating slot,
// followed by the slots' barriers.
struct BlockAreas {
  BlockAreas(const Lowering& l, const ir::Op& op) : in(op.operand(0)->type), axis(op.get(ir::attr::axis)) {
    const int64_t warps = int64_t(1) << bits_along(*in.layout, Dim::Warp, int(axis)).size();
    begin = l.shared.offset.at(&op);
    for (const ir::Value* x : op.operands) {
      if (warps > 1) begin += aligned(warps * std::max(1, x->type.bits() / 8));
      slot_bytes += bytes_of(x);
    }
    barriers = begin + exchange_slots(op) * slot_bytes;
  }

  int64_t bytes_of(const ir::Value* x) const {
    return aligned(bytes_in_other_block(x->type) << bits_along(*in.layout, Dim::Block, int(axis)).size());
  }

  int64_t begin = 0, slot_bytes = 0, barriers = 0;

 private:
  // Of so many bytes for each element along the other axes.
  int64_t aligned(int64_t bytes) const { return (in.num_elements() / in.shape[size_t(axis)] * bytes + 15) / 16 * 16; }

  const ir::Type& in;
  const int64_t axis;
};

class Reduction : Combining {
 public:
  Reduction(Lowering& l, const ir::Op& op)
      : Combining(l, op),
        out_(op.result()->type),
        warps_(bits_along(layout_, Dim::Warp, axis_)),
        blocks_(bits_along(layout_, Dim::Block, axis_)) {}

  void run() {
    reduce_registers();
    reduce_lanes();
    if (!warps_.empty()) reduce_warps();
    if (!blocks_.empty()) reduce_blocks();
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
    std::vector<int> bits;
    for (int bit = layout_.in_bits(Dim::Lane) - 1; bit >= 0; --bit)
      if (moves_along_axis(Dim::Lane, bit)) bits.push_back(bit);
    if (partial_.size() >= 8 && bits.size() >= 3 && partial_.size() % 4 == 0) return reduce_lanes_by_halves(bits);
    for (int bit : bits) combine_with_lane(1 << bit);
  }

  // Reduces several results over lanes by halving: each lane gives half of the results to its partner and combines the
  // other half, then half of these, and so on, as long as they can be halved. That takes one or two exchanges a result
  // instead of one for each lane bit, and combines in the same order. At the end lanes fetch all results, unless these
  // go to shared memory.
  void reduce_lanes_by_halves(const std::vector<int>& bits) {
    std::vector<Group> own, index;  // results, and which these are
    for (auto& [key, g] : partial_) own.push_back(g), index.push_back({element_index(key)});
    auto exchange = [&](const Group& g, llvm::Value* lane, bool is_distance) {
      Group got;
      for (llvm::Value* x : g) got.push_back(l_.shuffle(x, lane, is_distance));
      return got;
    };
    const size_t steps = std::min(bits.size(), size_t(std::countr_zero(partial_.size())));
    int halving = 0;  // the lane's bits by which results are handed on
    for (size_t step = 0; step < bits.size(); ++step) {
      llvm::Value* distance = l_.i32(1 << bits[step]);
      if (step < steps) {
        halving |= 1 << bits[step];
        const size_t half = own.size() / 2;
        llvm::Value* upper = l_.b.CreateTrunc(l_.b.CreateLShr(l_.thread(), uint64_t(bits[step])), l_.b.getInt1Ty());
        for (size_t i = 0; i < half; ++i) {
          const Group kept = choose(upper, own[half + i], own[i]), other = choose(upper, own[i], own[half + i]);
          own[i] = combine(kept, exchange(other, distance, true));
          index[i] = choose(upper, index[half + i], index[i]);
        }
        own.resize(half), index.resize(half);
      } else {
        for (Group& g : own) g = combine(g, exchange(g, distance, true));
      }
    }
    if (!warps_.empty() && !lies_along_lanes()) {
      for (size_t i = 0; i < own.size(); ++i) halves_.push_back({index[i][0], std::move(own[i])});
      halving_ = uint32_t(halving);
      return;
    }
    llvm::Value* lane = l_.b.CreateAnd(l_.thread(), l_.i32(31 & ~halving));
    size_t number = 0;
    for (auto& [key, g] : partial_) {
      int holder = 0;
      for (size_t step = 0; step < steps; ++step)
        if (number / (partial_.size() >> (step + 1)) % 2) holder |= 1 << bits[step];
      g = exchange(own[number++ % own.size()], l_.b.CreateOr(lane, l_.i32(holder)), false);
    }
  }

  // Combines every partial result with that of the lane at this distance.
  void combine_with_lane(int distance) {
    for (auto& [key, g] : partial_) {
      Group other;
      for (llvm::Value* x : g) other.push_back(l_.shuffle(x, l_.i32(distance), true));
      g = combine(g, other);
    }
  }

  // The bits of the thread's index that do not distinguish partial results: those of copies, and of lanes that have
  // been reduced.
  uint32_t idle_bits() const {
    uint32_t idle = uint32_t(layout_.free_mask(Dim::Lane)) | uint32_t(layout_.free_mask(Dim::Warp)) << 5;
    for (int bit : bits_along(layout_, Dim::Lane, axis_)) idle |= 1u << bit;
    return idle;
  }

  // Partial results in shared memory: those of one element stand side by side, so that they are read in wide accesses.
  struct Partials {
    int count;                   // of an element
    std::vector<int64_t> areas;  // of each operand
    std::vector<int64_t> bytes;  // of an element of each
    llvm::Value* shift;          // of all areas, in bytes; null: none
  };

  // The place of partial result number `index` of operand i.
  llvm::Value* address_of(const Partials& partials, size_t i, llvm::Value* index) {
    llvm::Value* at = address(partials.areas[i], index, partials.bytes[i]);
    return partials.shift ? l_.b.CreateAdd(at, partials.shift) : at;
  }

  // Calls store(address, value) for each of this thread's partials, which is number `place` of its element.
  template <class Store>
  void store_partials(const Partials& partials, llvm::Value* place, const Store& store) {
    auto store_all = [&](llvm::Value* element, const Group& g) {
      for (size_t i = 0; i < partials.areas.size(); ++i) {
        llvm::Value* index = l_.b.CreateAdd(l_.b.CreateMul(element, l_.i32(partials.count)), place);
        store(address_of(partials, i, index), g[i]);
      }
    };
    for (auto& [element, g] : halves_) store_all(element, g);
    if (halves_.empty())
      for (auto& [key, g] : partial_) store_all(element_index(key), g);
    halves_.clear();
  }

  // One thread stores each partial result: the one whose idle bits are 0.
  void reduce_warps() {
    if (lies_along_lanes()) return reduce_warps_along_lanes();
    Partials partials{1 << warps_.size(), areas(int64_t(1) << warps_.size()), {}, nullptr};
    for (const ir::Value* x : op_.operands) partials.bytes.push_back(element_bytes(x));
    std::vector<int> of_thread;  // the thread's warp bits along the axis
    for (int bit : warps_) of_thread.push_back(5 + bit);
    llvm::Value* writer = is_thread(idle_bits() & ~halving_, 0);
    store_partials(partials, bits_of_thread(of_thread),
                   [&](llvm::Value* at, llvm::Value* value) { l_.store_shared(at, {value}, writer, op_.loc); });
    l_.barrier(op_.loc);
    combine_partials(partials);
  }

  int lanes_elements() const { return 1 << (5 - std::popcount(idle_bits() & 31)); }

  // Whether as many lanes hold elements of their own as one wavefront serves, and more elements or partial results than
  // one access covers. Side by side, the partial results of one element would make the lanes' accesses fall on few
  // banks.
  bool lies_along_lanes() const {
    int width = 4;
    for (const ir::Value* x : op_.operands) width = int(std::min<int64_t>(width, 16 / element_bytes(x)));
    return lanes_elements() >= 8 && (partial_.size() >= 4 || 1 << warps_.size() > width);
  }

  // The threads' elements lie side by side, in vectors of some that a thread has, then all of the next warp's partials.
  // Of many warps, lanes that hold the same elements each take a share, and combine these among each other.
  void reduce_warps_along_lanes() {
    const int warps = 1 << warps_.size();
    const uint32_t idle = idle_bits();
    const std::vector<int> own = own_bits(idle);
    std::vector<int> along;  // bits of the thread's index
    for (int bit : warps_) along.push_back(5 + bit);
    std::vector<Group*> partials;
    for (auto& [key, g] : partial_) partials.push_back(&g);
    const std::vector<int64_t> begin = areas(warps);
    auto width_of = [&](size_t i) { return vector_width(i, partials.size()); };
    auto place = [&](size_t i, size_t r, llvm::Value* warp) {
      return place_of_vector(begin[i], i, partials.size(), r, warp, own);
    };
    llvm::Value* writer = is_thread(idle, 0);
    for (size_t i = 0; i < begin.size(); ++i)
      for (size_t r = 0; r < partials.size(); r += width_of(i)) {
        Regs values;
        for (size_t k = 0; k < width_of(i); ++k) values.push_back((*partials[r + k])[i]);
        l_.store_shared(place(i, r, bits_of_thread(along)), values, writer, op_.loc);
      }
    l_.barrier(op_.loc);
    const std::vector<int> sharing = lanes_that_share(warps);
    const int taken = warps >> sharing.size();  // by each of them
    auto row = [&](int k) { return l_.b.CreateOr(bits_of_thread(sharing), l_.i32(int64_t(k) << sharing.size())); };
    size_t together = 1;  // partial results whose vectors are read at a time
    for (size_t i = 0; i < begin.size(); ++i) together = std::max(together, width_of(i));
    for (size_t first = 0; first < partials.size(); first += together) {
      std::vector<std::vector<Group>> groups(together, std::vector<Group>(size_t(taken), Group(begin.size(), nullptr)));
      for (size_t i = 0; i < begin.size(); ++i)
        for (size_t r = 0; r < together; r += width_of(i))
          for (int k = 0; k < taken; ++k) {
            const Regs read = l_.load_shared(place(i, first + r, row(k)), l_.element_type(op_.operand(int(i))->type),
                                             int(width_of(i)), op_.loc);
            for (size_t e = 0; e < width_of(i); ++e) groups[r + e][size_t(k)][i] = read[e];
          }
      for (size_t r = 0; r < together; ++r) *partials[first + r] = combine_all(std::move(groups[r]));
    }
    for (int bit : sharing) combine_with_lane(1 << bit);
  }

  // Bits of lanes that hold the same elements, as many as leave each lane the partial results of four warps or more:
  // to read fewer takes less time than the exchanges.
  std::vector<int> lanes_that_share(int warps) const {
    constexpr int kLeast = 4;
    std::vector<int> bits;
    for (int bit = 0; bit < layout_.in_bits(Dim::Lane) && warps >> bits.size() > kLeast; ++bit)
      if (layout_.free_mask(Dim::Lane) >> bit & 1 || moves_along_axis(Dim::Lane, bit)) bits.push_back(bit);
    return bits;
  }

  // A loop alternates between two areas, with a barrier each. A block that stores to one area again knows from the
  // other that all blocks have read it: each of them has stored to the other one after a barrier of its threads.
  void reduce_blocks() {
    Partials partials{1 << blocks_.size(), {}, {}, nullptr};
    const BlockAreas room(l_, op_);
    int64_t area = room.begin, expected = 0;
    for (const ir::Value* x : op_.operands) {
      partials.areas.push_back(area);
      partials.bytes.push_back(bytes_in_other_block(x->type));
      area += room.bytes_of(x);
      expected += partials.count * partials.bytes.back() * int64_t(partial_.size());
    }
    llvm::Value *barrier = l_.shared_address(room.barriers), *parity = l_.i32(0);
    if (exchange_slots(op_) > 1) {
      llvm::Value *turn = l_.next_turn(), *slot = l_.b.CreateAnd(turn, l_.i32(1));
      partials.shift = l_.b.CreateMul(slot, l_.i32(room.slot_bytes));
      barrier = l_.b.CreateAdd(barrier, l_.b.CreateMul(slot, l_.i32(8)));
      parity = l_.b.CreateLShr(turn, uint64_t(1));
      if (warps_.empty()) l_.barrier(op_.loc);
    }
    uint32_t idle = idle_bits();
    for (int bit : warps_) idle |= 1u << (5 + bit);
    const int threads = 32 * l_.num_warps();
    expected *= threads >> std::popcount(idle);
    // As many idle lanes as there are store to one block each, at the same time.
    std::vector<int> lanes;
    for (int bit = 0; bit < layout_.in_bits(Dim::Lane) && lanes.size() < blocks_.size(); ++bit)
      if (idle >> bit & 1) lanes.push_back(bit), idle &= ~(1u << bit);
    llvm::Value* writer = is_thread(idle, 0);
    l_.hw("mbarrier_arrive_expect",
          {barrier, l_.i32(expected), l_.b.CreateICmpEQ(l_.thread(), l_.i32(0)), l_.site(op_.loc)});
    store_partials(partials, bits_of(l_.block_of_cluster(), blocks_), [&](llvm::Value* at, llvm::Value* value) {
      for (int high = 0; high < 1 << (blocks_.size() - lanes.size()); ++high) {
        llvm::Value* number = l_.b.CreateOr(bits_of_thread(lanes), l_.i32(int64_t(high) << lanes.size()));
        llvm::Value* reader = block_along_axis(number);
        store_async(l_.hw("address_in_block", {at, reader}), value, l_.hw("address_in_block", {barrier, reader}),
                    writer);
      }
    });
    l_.hw("mbarrier_wait_cluster", {barrier, parity, l_.site(op_.loc)});
    combine_partials(partials);
  }

  void store_async(llvm::Value* at, llvm::Value* value, llvm::Value* barrier, llvm::Value* writer) {
    const bool wide = value->getType()->isPointerTy() || value->getType()->getPrimitiveSizeInBits() == 64;
    llvm::Value* word = l_.pack({value}, wide ? 64 : 32)[0];
    l_.hw(wide ? "st_async_b64" : "st_async_b32",
          {at, word, barrier, writer ? writer : l_.b.getTrue(), l_.site(op_.loc)});
  }

  // Loads `count` consecutive elements of `bytes` bytes each.
  Regs load_elements(llvm::Value* at, llvm::Type* element, int64_t bytes, int count) {
    const int64_t own = element->isPointerTy() ? 8 : std::max<int64_t>(1, element->getPrimitiveSizeInBits() / 8);
    if (own == bytes) return l_.load_shared(at, element, count, op_.loc);
    Regs out;
    for (llvm::Value* word : l_.load_shared(at, l_.b.getInt32Ty(), count, op_.loc))
      out.push_back(l_.unpack({word}, element, 1)[0]);
    return out;
  }

  // Lanes that hold the same elements share the work: each combines the partial results that one access gives (or a few
  // accesses, if such lanes are few), then the lanes combine among each other. That takes few registers, whatever the
  // number of partial results.
  void combine_partials(const Partials& partials) {
    int width = partials.count;
    for (int64_t bytes : partials.bytes) width = int(std::min<int64_t>(width, 16 / bytes));
    std::vector<int> sharing;
    for (int bit = 0; bit < layout_.in_bits(Dim::Lane) && width << sharing.size() < partials.count; ++bit) {
      bool copy = layout_.free_mask(Dim::Lane) >> bit & 1;
      if (copy || moves_along_axis(Dim::Lane, bit)) sharing.push_back(bit);
    }
    // The first of the partials that this lane combines.
    llvm::Value* first = l_.b.CreateShl(bits_of_thread(sharing), l_.i32(__builtin_ctz(unsigned(width))));
    for (auto& [key, g] : partial_) {
      std::vector<Group> groups(size_t(partials.count) >> sharing.size(), Group(g.size(), nullptr));
      llvm::Value* index = l_.b.CreateAdd(l_.b.CreateMul(element_index(key), l_.i32(partials.count)), first);
      for (size_t i = 0; i < g.size(); ++i)
        for (size_t p = 0; p < groups.size(); p += size_t(width)) {
          llvm::Value* at = l_.b.CreateAdd(index, l_.i32(int64_t(p << sharing.size())));
          Regs read = load_elements(address_of(partials, i, at), l_.element_type(op_.operand(int(i))->type),
                                    partials.bytes[i], width);
          for (int k = 0; k < width; ++k) groups[p + size_t(k)][i] = read[k];
        }
      g = combine_all(std::move(groups));
    }
    for (int bit : sharing) combine_with_lane(1 << bit);
  }

  // The block that is number `number` of those that divide what is reduced with this one.
  llvm::Value* block_along_axis(llvm::Value* number) {
    if (int(blocks_.size()) == layout_.in_bits(Dim::Block)) return number;
    int32_t along = 0;
    for (int bit : blocks_) along |= 1 << bit;
    llvm::Value* block = l_.b.CreateAnd(l_.block_of_cluster(), l_.i32(~along));
    for (size_t i = 0; i < blocks_.size(); ++i) {
      llvm::Value* one = l_.b.CreateAnd(l_.b.CreateLShr(number, uint64_t(i)), l_.i32(1));
      block = l_.b.CreateOr(block, l_.b.CreateShl(one, uint64_t(blocks_[i])));
    }
    return block;
  }

  const ir::Type& out_;
  const std::vector<int> warps_, blocks_;  // bits of the warp and of the block that move along the axis
  std::map<Key, Group> partial_;
  std::vector<std::pair<llvm::Value*, Group>> halves_;  // indices and results that this lane alone has; if any
  uint32_t halving_ = 0;                                // bits of the lane that tell these apart
};

}  // namespace

int64_t barriers_of_reduction(const Lowering& l, const ir::Op& op) { return BlockAreas(l, op).barriers; }

void lower_Reduce(Lowering& l, const ir::Op& op) { Reduction(l, op).run(); }

}  // namespace tegula::lower
