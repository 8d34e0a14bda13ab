#include "codegen/lower/bucket_sort.h"

#include <algorithm>
#include <bit>

#include "codegen/lower/branch.h"
#include "codegen/lower/digit_sort.h"

namespace tegula::lower {

namespace {

constexpr size_t kKeysAtOnce = 4;  // that a thread compares with those of their buckets

class BucketSorter {
 public:
  BucketSorter(Lowering& l, const ir::Op& op, const BucketSort& plan, const Regs& keys, const ir::Type& key)
      : l_(l),
        op_(op),
        plan_(plan),
        keys_(keys),
        type_(l.element_type(key)),
        word_(l.b.getInt32Ty()),
        key_bytes_(key.bits() / 8),
        place_(l.shared_address(l.shared.offset.at(&op))),
        buckets_(l.b.CreateAdd(place_, l.i32(plan.buckets))),
        cells_(l.b.CreateAdd(place_, l.i32(plan.cells))),
        records_(l.b.CreateAdd(place_, l.i32(plan.records))),
        overflow_(l.b.CreateAdd(records_, l.i32(8 * plan.warps))),
        lane_(l.b.CreateAnd(l.thread(), l.i32(31))),
        warp_(l.b.CreateLShr(l.thread(), l.i32(5))) {}

  /// Puts the keys into buckets. False, with nothing changed, if a bucket holds too many.
  llvm::Value* count_buckets() {
    clear();
    llvm::Value* few_equal = find_shift();
    llvm::Function* function = l_.b.GetInsertBlock()->getParent();
    llvm::BasicBlock *before = l_.b.GetInsertBlock(), *count = llvm::BasicBlock::Create(l_.context, "count", function),
                     *after = llvm::BasicBlock::Create(l_.context, "counted", function);
    l_.b.CreateCondBr(few_equal, count, after);
    l_.b.SetInsertPoint(count);
    count_sample();
    barrier();
    allot_buckets();
    barrier();
    enter();
    barrier();
    begin_buckets();
    barrier();
    llvm::Value* none_is_full = l_.b.CreateICmpEQ(load_word(overflow_), l_.i32(0));
    llvm::BasicBlock* count_end = l_.b.GetInsertBlock();
    l_.b.CreateBr(after);
    l_.b.SetInsertPoint(after);
    auto merge = [&](llvm::Value* counted, llvm::Value* otherwise) {
      llvm::PHINode* phi = l_.b.CreatePHI(counted->getType(), 2);
      phi->addIncoming(counted, count_end), phi->addIncoming(otherwise, before);
      return phi;
    };
    for (llvm::Value*& entry : entries_) entry = merge(entry, llvm::PoisonValue::get(word_));
    return merge(none_is_full, l_.b.getFalse());
  }

  void order() {
    // All loads come before the stores: neither LLVM nor the assembler moves one over the other.
    std::vector<llvm::Value*> buckets, to;
    for (llvm::Value* entry : entries_) buckets.push_back(load_word(bucket_at(lower_half(entry))));
    for (size_t i = 0; i < keys_.size(); ++i) {
      llvm::Value* rank = l_.b.CreateShl(upper_half(entries_[i]), l_.i32(kRankBit));
      entries_[i] = in_one_register(l_.b.CreateOr(buckets[i], rank));
      l_.store_shared(key_at(place_of(entries_[i])), {keys_[i]}, nullptr, op_.loc);
    }
    barrier();
    for (size_t i = 0; i < keys_.size(); i += kKeysAtOnce)
      count_smaller(i, std::min(keys_.size(), i + kKeysAtOnce), to);
    barrier();
    for (size_t i = 0; i < keys_.size(); ++i)
      l_.store_shared(key_at(to[i]), {keys_[i]}, l_.b.CreateICmpNE(to[i], place_of(entries_[i])), op_.loc);
    barrier();
  }

 private:
  void barrier() { l_.barrier(op_.loc); }
  llvm::Value* load_word(llvm::Value* address) { return l_.load_shared(address, word_, 1, op_.loc)[0]; }
  llvm::Value* word_at(llvm::Value* base, llvm::Value* index) {
    return l_.b.CreateAdd(base, l_.b.CreateShl(index, l_.i32(2)));
  }
  llvm::Value* key_at(llvm::Value* index) { return l_.b.CreateAdd(place_, l_.b.CreateMul(index, l_.i32(key_bytes_))); }
  llvm::Value* bucket_at(llvm::Value* index) {
    llvm::Value* at = word_at(buckets_, index);
    if (!plan_.padded) return at;
    llvm::Value* of_thread = l_.b.CreateLShr(index, l_.i32(std::countr_zero(unsigned(plan_.padded))));
    return l_.b.CreateAdd(at, l_.b.CreateShl(of_thread, l_.i32(4)));
  }
  llvm::Value* lower_half(llvm::Value* word) { return l_.b.CreateAnd(word, l_.i32(0xFFFF)); }
  llvm::Value* upper_half(llvm::Value* word) { return l_.b.CreateLShr(word, l_.i32(16)); }
  /// Otherwise LLVM would also keep the parts of which the word consists.
  llvm::Value* in_one_register(llvm::Value* word) { return l_.hw("opaque_b32", {word}); }
  // The word of a key whose bucket is small: the number of keys in the bucket, which of them this one is, and where the
  // bucket begins.
  static constexpr int kRankBit = 8;
  llvm::Value* count_of(llvm::Value* entry) { return l_.b.CreateAnd(entry, l_.i32((1 << kRankBit) - 1)); }
  llvm::Value* rank_of(llvm::Value* entry) {
    return l_.b.CreateAnd(l_.b.CreateLShr(entry, l_.i32(kRankBit)), l_.i32((1 << (16 - kRankBit)) - 1));
  }
  llvm::Value* place_of(llvm::Value* entry) { return l_.b.CreateAdd(upper_half(entry), rank_of(entry)); }
  int threads() const { return 32 * plan_.warps; }

  void clear_words(llvm::Value* base, int64_t count) {
    llvm::Value* zero = l_.i32(0);
    for (int64_t first = 0; first < count; first += 4 * threads()) {
      llvm::Value* index = l_.b.CreateAdd(l_.b.CreateShl(l_.thread(), l_.i32(2)), l_.i32(first));
      llvm::Value* there = first + 4 * threads() > count ? l_.b.CreateICmpULT(index, l_.i32(count)) : nullptr;
      l_.store_shared(word_at(base, index), {zero, zero, zero, zero}, there, op_.loc);
    }
  }

  void clear() {
    clear_words(buckets_, (plan_.cells - plan_.buckets) / 4);
    clear_words(cells_, plan_.num_cells);
    l_.store_shared(overflow_, {l_.i32(0)}, l_.b.CreateICmpEQ(l_.thread(), l_.i32(0)), op_.loc);
  }

  llvm::Value* upper_word(llvm::Value* key) {
    return key_bytes_ == 8 ? l_.b.CreateTrunc(l_.b.CreateLShr(key, uint64_t(32)), word_) : key;
  }

  /// The number of leading bits that are equal in the upper words of all keys, by which keys may be shifted up. Also
  /// decides whether to continue: if a thread's first keys equal that of its warp's first thread, very many keys are
  /// equal; no bucket has room for these, and they would be counted one by one.
  llvm::Value* find_shift() {
    llvm::Value *of_warp = l_.shuffle(upper_word(keys_[0]), l_.i32(0), false), *differing = l_.i32(0);
    llvm::Value* equal = nullptr;
    const int64_t least = key_bytes_ == 4 && plan_.distinct ? 1 << 16 : 1;  // places make no difference
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (i == 4) equal = l_.b.CreateICmpULT(differing, l_.i32(least));
      differing = l_.b.CreateOr(differing, l_.b.CreateXor(upper_word(keys_[i]), of_warp));
    }
    if (!equal) equal = l_.b.CreateICmpULT(differing, l_.i32(least));
    // The lowest bit stands for that: a shift to it would leave no other.
    const uint32_t others = ~1U;
    llvm::Value* equal_bit = l_.b.CreateZExt(equal, word_);
    differing = l_.b.CreateOr(l_.b.CreateAnd(differing, l_.i32(others)), equal_bit);
    for (int lane = 16; lane > 0; lane /= 2)
      differing = l_.b.CreateOr(differing, l_.shuffle(differing, l_.i32(lane), true));
    llvm::Value* first = l_.b.CreateICmpEQ(lane_, l_.i32(0));
    llvm::Value* record = l_.b.CreateAdd(records_, l_.b.CreateShl(warp_, l_.i32(3)));
    l_.store_shared(record, {differing, of_warp}, first, op_.loc);
    barrier();
    llvm::Value *all = l_.i32(0), *start = nullptr;
    for (int warp = 0; warp < plan_.warps; ++warp) {
      const Regs words = l_.load_shared(l_.b.CreateAdd(records_, l_.i32(8 * warp)), word_, 2, op_.loc);
      if (!start) start = words[1];
      llvm::Value* apart = l_.b.CreateAnd(l_.b.CreateXor(words[1], start), l_.i32(others));
      all = l_.b.CreateOr(l_.b.CreateOr(all, words[0]), apart);
    }
    llvm::Value* bits = l_.b.CreateOr(all, l_.i32(1));
    shift_ = l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, bits, l_.b.getTrue());
    return l_.b.CreateICmpEQ(l_.b.CreateAnd(all, l_.i32(1)), l_.i32(0));
  }

  /// The upper 32 of the bits in which keys differ.
  llvm::Value* leading_bits(llvm::Value* key) {
    if (key_bytes_ == 4) return l_.b.CreateShl(key, shift_);
    return l_.b.CreateIntrinsic(llvm::Intrinsic::fshl, {word_},
                                {upper_word(key), l_.b.CreateTrunc(key, word_), shift_});
  }
  int cell_bits() const { return std::countr_zero(uint64_t(plan_.num_cells)); }
  llvm::Value* cell_at(llvm::Value* leading) {
    return word_at(cells_, l_.b.CreateLShr(leading, l_.i32(32 - cell_bits())));
  }

  int sample_step() const { return int(std::min<size_t>(4, keys_.size())); }
  void count_sample() {
    for (size_t i = 0; i < keys_.size(); i += size_t(sample_step()))
      l_.hw("red_shared_add_i32", {cell_at(leading_bits(keys_[i])), l_.i32(1), l_.b.getTrue(), l_.site(op_.loc)});
  }

  /// Gives each cell at least one bucket. Its word receives the first bucket in the upper half and their number in the
  /// lower.
  void allot_buckets() {
    const int64_t of_key = plan_.num_buckets * sample_step() / plan_.elements - 1;
    replace_by_sums(cells_, plan_.num_cells / threads(), 0, [&](llvm::Value* count) {
      llvm::Value* wanted = l_.b.CreateMul(count, l_.i32(of_key));
      return l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, wanted, l_.i32(1));
    });
  }

  /// Counts the keys in their buckets. Keeps for each key its bucket and, in the upper half, how many came before it.
  void enter() {
    std::vector<llvm::Value*> leading, cells, buckets;
    for (llvm::Value* key : keys_) leading.push_back(leading_bits(key));
    for (llvm::Value* bits : leading) cells.push_back(load_word(cell_at(bits)));
    llvm::Type* wide = l_.b.getInt64Ty();
    for (size_t i = 0; i < keys_.size(); ++i) {
      llvm::Value* within = l_.b.CreateZExt(l_.b.CreateShl(leading[i], l_.i32(cell_bits())), wide);
      llvm::Value* product = l_.b.CreateMul(within, l_.b.CreateZExt(lower_half(cells[i]), wide));
      llvm::Value* number = l_.b.CreateTrunc(l_.b.CreateLShr(product, uint64_t(32)), word_);
      buckets.push_back(l_.b.CreateAdd(upper_half(cells[i]), number));
    }
    llvm::Value* ranks = l_.i32(0);
    for (llvm::Value* bucket : buckets) {
      llvm::Value* rank =
          l_.hw("atom_shared_add_i32", {bucket_at(bucket), l_.i32(1), l_.b.getTrue(), l_.site(op_.loc)});
      entries_.push_back(in_one_register(l_.b.CreateOr(bucket, l_.b.CreateShl(rank, l_.i32(16)))));
      ranks = l_.b.CreateOr(ranks, rank);
    }
    llvm::Value* too_many = l_.b.CreateICmpUGE(ranks, l_.i32(BucketSort::kMostOfBucket));
    l_.hw("red_shared_add_i32", {overflow_, l_.i32(1), too_many, l_.site(op_.loc)});
  }

  /// The start of each bucket's keys, in the upper half of its word; the lower half keeps their number.
  void begin_buckets() {
    const int64_t each = plan_.num_buckets / threads();
    replace_by_sums(buckets_, each, plan_.padded ? 4 : 0, [](llvm::Value* count) { return count; });
  }

  /// Replaces each of a thread's words, which lie `gap` words from the next thread's, by what `made` makes of it, with
  /// the sum of that of all words before in the upper half.
  void replace_by_sums(llvm::Value* base, int64_t each, int gap,
                       const std::function<llvm::Value*(llvm::Value*)>& made) {
    const int width = int(std::min<int64_t>(4, each));
    llvm::Value* own = word_at(base, l_.b.CreateMul(l_.thread(), l_.i32(each + gap)));
    auto load = [&](int64_t i) {
      Regs words = l_.load_shared(l_.b.CreateAdd(own, l_.i32(4 * i)), word_, width, op_.loc);
      for (llvm::Value*& word : words) word = made(word);
      return words;
    };
    llvm::Value* total = l_.i32(0);
    for (int64_t i = 0; i < each; i += width)
      for (llvm::Value* word : load(i)) total = l_.b.CreateAdd(total, word);
    llvm::Value* sum = sum_of_threads_before(l_, total, records_, plan_.warps, op_.loc);
    // Loaded once more: a thread has no registers for all of them beside its keys.
    for (int64_t i = 0; i < each; i += width) {
      Regs words = load(i);
      for (llvm::Value*& word : words) {
        llvm::Value* before = sum;
        sum = l_.b.CreateAdd(sum, word);
        word = l_.b.CreateOr(word, l_.b.CreateShl(before, l_.i32(16)));
      }
      l_.store_shared(l_.b.CreateAdd(own, l_.i32(4 * i)), {words.begin(), words.end()}, nullptr, op_.loc);
    }
  }

  /// Where keys `first` to `end` go: after those of their buckets that are smaller, or equal and stand before them.
  /// All of them take as many steps as the largest of their buckets has keys, but read only what lies in their own, and
  /// nothing where a key is alone, as most are: reads from anywhere in shared memory wait for each other's banks.
  void count_smaller(size_t first, size_t end, std::vector<llvm::Value*>& to) {
    llvm::Value* most = count_of(entries_[first]);
    for (size_t i = first + 1; i < end; ++i)
      most = l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, most, count_of(entries_[i]));
    std::vector<llvm::Value*> begin;
    for (size_t i = first; i < end; ++i) begin.push_back(upper_half(entries_[i]));
    llvm::Function* function = l_.b.GetInsertBlock()->getParent();
    llvm::BasicBlock *before = l_.b.GetInsertBlock(), *loop = llvm::BasicBlock::Create(l_.context, "bucket", function),
                     *after = llvm::BasicBlock::Create(l_.context, "counted", function);
    std::vector<llvm::Value*> addresses, ends;
    for (size_t i = first; i < end; ++i) {
      llvm::Value* count = count_of(entries_[i]);
      addresses.push_back(key_at(begin[i - first]));
      llvm::Value* behind = l_.b.CreateAdd(addresses.back(), l_.b.CreateMul(count, l_.i32(key_bytes_)));
      ends.push_back(in_one_register(l_.b.CreateSelect(l_.b.CreateICmpUGT(count, l_.i32(1)), behind, l_.i32(0))));
    }
    llvm::Value* none = llvm::Constant::getAllOnesValue(type_);
    l_.b.CreateCondBr(l_.b.CreateICmpUGT(most, l_.i32(1)), loop, after);
    l_.b.SetInsertPoint(loop);
    llvm::PHINode* number = l_.b.CreatePHI(word_, 2);
    std::vector<llvm::PHINode*> address, place;
    for (size_t i = first; i < end; ++i) {
      address.push_back(l_.b.CreatePHI(word_, 2)), place.push_back(l_.b.CreatePHI(word_, 2));
      address.back()->addIncoming(addresses[i - first], before), place.back()->addIncoming(begin[i - first], before);
    }
    std::vector<llvm::Value*> found, more;
    for (size_t i = 0; i < address.size(); ++i) {
      llvm::Value* there = l_.b.CreateICmpULT(address[i], ends[i]);
      const char* load = key_bytes_ == 8 ? "ld_shared_or_b64" : "ld_shared_or_b32";
      found.push_back(l_.hw(load, {address[i], none, there, l_.site(op_.loc)}));
    }
    for (size_t i = first; i < end; ++i)
      more.push_back(count_if_smaller(place[i - first], found[i - first], keys_[i], number, rank_of(entries_[i])));
    llvm::Value* next = l_.b.CreateAdd(number, l_.i32(1));
    number->addIncoming(l_.i32(0), before), number->addIncoming(next, loop);
    for (size_t i = 0; i < place.size(); ++i) {
      address[i]->addIncoming(l_.b.CreateAdd(address[i], l_.i32(key_bytes_)), loop);
      place[i]->addIncoming(more[i], loop);
    }
    mark_not_to_unroll(l_.b.CreateCondBr(l_.b.CreateICmpULT(next, most), loop, after));
    l_.b.SetInsertPoint(after);
    for (size_t i = first; i < end; ++i) {
      llvm::PHINode* result = l_.b.CreatePHI(word_, 2);
      result->addIncoming(begin[i - first], before), result->addIncoming(more[i - first], loop);
      to.push_back(result);
    }
  }

  llvm::Value* count_if_smaller(llvm::Value* count, llvm::Value* found, llvm::Value* key, llvm::Value* number,
                                llvm::Value* rank) {
    if (plan_.distinct) return l_.hw(key_bytes_ == 8 ? "count_if_less_b64" : "count_if_less_b32", {count, found, key});
    return l_.hw(key_bytes_ == 8 ? "count_less_b64" : "count_less_b32", {count, found, key, number, rank});
  }

  void mark_not_to_unroll(llvm::BranchInst* back) {
    llvm::Metadata* disable =
        llvm::MDNode::get(l_.context, llvm::MDString::get(l_.context, "llvm.loop.unroll.disable"));
    llvm::MDNode* loop = llvm::MDNode::getDistinct(l_.context, {nullptr, disable});
    loop->replaceOperandWith(0, loop);
    back->setMetadata(llvm::LLVMContext::MD_loop, loop);
  }

  Lowering& l_;
  const ir::Op& op_;
  const BucketSort& plan_;
  const Regs& keys_;
  llvm::Type *type_, *word_;
  const int key_bytes_;
  llvm::Value *place_, *buckets_, *cells_, *records_, *overflow_;
  llvm::Value *lane_, *warp_;
  llvm::Value* shift_ = nullptr;
  std::vector<llvm::Value*> entries_;
};

}  // namespace

Regs sort_by_buckets(Lowering& l, const ir::Op& op, const BucketSort& plan, const Regs& keys, const ir::Type& key,
                     const std::function<Regs()>& otherwise) {
  BucketSorter sorter(l, op, plan, keys, key);
  return branch(
      l, sorter.count_buckets(),
      [&] {
        sorter.order();
        llvm::Value* place = l.shared_address(l.shared.offset.at(&op));
        return l.load_from_place(key, *op.result()->type.layout, plan.in_order, place, op);
      },
      [&] {
        l.barrier(op.loc);  // what follows uses the same shared memory
        return otherwise();
      });
}

}  // namespace tegula::lower
