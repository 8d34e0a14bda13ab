#include "codegen/lower/bucket_sort.h"

#include <algorithm>
#include <bit>

#include "codegen/lower/branch.h"
#include "codegen/lower/digit_sort.h"

namespace tegula::lower {

namespace {

// Keys on either side of a warp's part of a row that may belong to the buckets of its own ones: at least
// kMostOfBucket - 1, and an even number a thread, with which neither loads nor stores have bank conflicts.
constexpr int kBeside = 32;
static_assert(kBeside >= BucketSort::kMostOfBucket - 1);

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
    llvm::Value* greatest = greatest_of_part();
    llvm::Value* none_is_full = l_.b.CreateICmpULE(greatest, l_.i32(BucketSort::kMostOfBucket * key_bytes_));
    llvm::BasicBlock* count_end = l_.b.GetInsertBlock();
    l_.b.CreateBr(after);
    l_.b.SetInsertPoint(after);
    auto merge = [&](llvm::Value* counted, llvm::Value* otherwise) {
      llvm::PHINode* phi = l_.b.CreatePHI(counted->getType(), 2);
      phi->addIncoming(counted, count_end), phi->addIncoming(otherwise, before);
      return phi;
    };
    for (llvm::Value*& entry : entries_) entry = merge(entry, llvm::PoisonValue::get(word_));
    greatest_ = merge(greatest, llvm::PoisonValue::get(word_));
    return merge(none_is_full, l_.b.getFalse());
  }

  /// Puts the keys in the order of their buckets, and then those of each bucket in order: each warp those of its part
  /// of the row, with as many on either side as the rest of a bucket can have.
  void order() {
    // All loads come before the stores: neither LLVM nor the assembler moves one over the other.
    Regs begins;
    for (llvm::Value* entry : entries_) begins.push_back(load_word(l_.b.CreateAdd(buckets_, lower_half(entry))));
    for (size_t i = 0; i < keys_.size(); ++i)
      l_.store_shared(l_.b.CreateAdd(begins[i], upper_half(entries_[i])), {keys_[i]}, nullptr, op_.loc);
    barrier();
    const int64_t part = plan_.elements / plan_.warps, each = part / 32 + 2 * kBeside / 32;
    llvm::Value* own = l_.b.CreateMul(warp_, l_.i32(part));
    llvm::Value* first = l_.i32(0);
    if (plan_.warps > 1) {
      llvm::Value* before = l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, own, l_.i32(kBeside));
      first = l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, before, l_.i32(plan_.elements - 32 * each));
    }
    first = l_.b.CreateAdd(first, l_.b.CreateMul(lane_, l_.i32(each)));
    Regs keys, places;
    for (int64_t i = 0; i < each; i += 2) {
      places.push_back(l_.b.CreateAdd(first, l_.i32(i)));
      Regs pair = l_.load_shared(key_at(places.back()), type_, 2, op_.loc);
      // One warp has none beside its part.
      if (plan_.warps == 1) {
        llvm::Value* there = l_.b.CreateICmpULT(places.back(), l_.i32(plan_.elements));
        for (llvm::Value*& key : pair) key = l_.b.CreateSelect(there, key, llvm::Constant::getAllOnesValue(type_));
      }
      keys.insert(keys.end(), pair.begin(), pair.end());
    }
    transpose_neighbours(keys);
    barrier();
    for (size_t i = 0; i < places.size(); ++i) {
      llvm::Value* is_own = l_.b.CreateICmpULT(l_.b.CreateSub(places[i], own), l_.i32(part));
      l_.store_shared(key_at(places[i]), {keys[2 * i], keys[2 * i + 1]}, is_own, op_.loc);
    }
    barrier();
  }

 private:
  void barrier() { l_.barrier(op_.loc); }
  llvm::Value* load_word(llvm::Value* address) { return l_.load_shared(address, word_, 1, op_.loc)[0]; }
  llvm::Value* word_at(llvm::Value* base, llvm::Value* index) {
    return l_.b.CreateAdd(base, l_.b.CreateShl(index, l_.i32(2)));
  }
  llvm::Value* key_at(llvm::Value* index) { return l_.b.CreateAdd(place_, l_.b.CreateMul(index, l_.i32(key_bytes_))); }
  /// Bytes behind the first bucket.
  llvm::Value* place_of_bucket(llvm::Value* index) {
    llvm::Value* at = l_.b.CreateShl(index, l_.i32(2));
    if (!plan_.padded) return at;
    llvm::Value* of_thread = l_.b.CreateLShr(index, l_.i32(std::countr_zero(unsigned(plan_.padded))));
    return l_.b.CreateAdd(at, l_.b.CreateShl(of_thread, l_.i32(4)));
  }
  llvm::Value* lower_half(llvm::Value* word) { return l_.b.CreateAnd(word, l_.i32(0xFFFF)); }
  llvm::Value* upper_half(llvm::Value* word) { return l_.b.CreateLShr(word, l_.i32(16)); }
  /// Otherwise LLVM would also keep the parts of which the word consists.
  llvm::Value* in_one_register(llvm::Value* word) { return l_.hw("opaque_b32", {word}); }
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
  }

  llvm::Value* upper_word(llvm::Value* key) {
    return key_bytes_ == 8 ? l_.b.CreateTrunc(l_.b.CreateLShr(key, uint64_t(32)), word_) : key;
  }

  /// The number of leading bits that are equal in the upper words of all keys, by which keys may be shifted up. Also
  /// decides whether to continue: if a thread's first keys equal that of its warp's first thread, very many keys are
  /// equal, and no bucket has room for these.
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

  static constexpr int kSampleStep = 4;
  /// Counts a quarter of the keys, of each four of a thread one that its lane chooses: wherever in the row a thread's
  /// keys stand, a stretch of keys that differ from the others, as behind the end of a row, is in the sample.
  void count_sample() {
    llvm::Value* odd = l_.b.CreateTrunc(lane_, l_.b.getInt1Ty());
    llvm::Value* upper = l_.b.CreateTrunc(l_.b.CreateLShr(lane_, uint64_t(1)), l_.b.getInt1Ty());
    for (size_t i = 0; i < keys_.size(); i += kSampleStep) {
      llvm::Value* first = l_.b.CreateSelect(odd, leading_bits(keys_[i + 1]), leading_bits(keys_[i]));
      llvm::Value* second = l_.b.CreateSelect(odd, leading_bits(keys_[i + 3]), leading_bits(keys_[i + 2]));
      llvm::Value* leading = l_.b.CreateSelect(upper, second, first);
      l_.hw("red_shared_add_i32", {cell_at(leading), l_.i32(1), l_.b.getTrue(), l_.site(op_.loc)});
    }
  }

  /// Gives each cell at least one bucket. Its word receives the first bucket in the upper half and their number in the
  /// lower.
  void allot_buckets() {
    const int64_t of_key = plan_.num_buckets * kSampleStep / plan_.elements - 1;
    replace_by_sums(
        cells_, plan_.num_cells / threads(), 0, l_.i32(0),
        [&](llvm::Value* count) {
          llvm::Value* wanted = l_.b.CreateMul(count, l_.i32(of_key));
          return l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, wanted, l_.i32(1));
        },
        [&](llvm::Value* number, llvm::Value* before) {
          return l_.b.CreateOr(number, l_.b.CreateShl(before, l_.i32(16)));
        });
  }

  /// Counts the keys in their buckets, in bytes. Keeps for each key the place of its bucket and, in the upper half, how
  /// many bytes of keys came before it.
  void enter() {
    std::vector<llvm::Value*> leading, cells, buckets;
    for (llvm::Value* key : keys_) leading.push_back(leading_bits(key));
    for (llvm::Value* bits : leading) cells.push_back(load_word(cell_at(bits)));
    llvm::Type* wide = l_.b.getInt64Ty();
    for (size_t i = 0; i < keys_.size(); ++i) {
      llvm::Value* within = l_.b.CreateZExt(l_.b.CreateShl(leading[i], l_.i32(cell_bits())), wide);
      llvm::Value* product = l_.b.CreateMul(within, l_.b.CreateZExt(lower_half(cells[i]), wide));
      llvm::Value* number = l_.b.CreateTrunc(l_.b.CreateLShr(product, uint64_t(32)), word_);
      buckets.push_back(place_of_bucket(l_.b.CreateAdd(upper_half(cells[i]), number)));
    }
    for (llvm::Value* bucket : buckets) {
      llvm::Value* rank = l_.hw("atom_shared_add_i32", {l_.b.CreateAdd(buckets_, bucket), l_.i32(key_bytes_),
                                                        l_.b.getTrue(), l_.site(op_.loc)});
      entries_.push_back(in_one_register(l_.b.CreateOr(bucket, l_.b.CreateShl(rank, l_.i32(16)))));
    }
  }

  // Behind the words that sums over threads use.
  llvm::Value* greatest_at(llvm::Value* warp) { return word_at(records_, l_.b.CreateAdd(warp, l_.i32(plan_.warps))); }
  llvm::Value* end_at(llvm::Value* warp) { return word_at(records_, l_.b.CreateAdd(warp, l_.i32(2 * plan_.warps))); }

  /// Replaces each bucket's bytes by the address where its keys begin. Records of each warp's buckets the bytes of the
  /// largest and where the keys end.
  void begin_buckets() {
    const int64_t each = plan_.num_buckets / threads();
    llvm::Value* greatest = l_.i32(0);
    llvm::Value* end = replace_by_sums(
        buckets_, each, plan_.padded ? 4 : 0, place_, [](llvm::Value* bytes) { return bytes; },
        [&](llvm::Value* bytes, llvm::Value* begin) {
          greatest = greater(greatest, bytes);
          return begin;
        });
    for (int lane = 16; lane > 0; lane /= 2) greatest = greater(greatest, l_.shuffle(greatest, l_.i32(lane), true));
    llvm::Value* is_last = l_.b.CreateICmpEQ(lane_, l_.i32(31));
    l_.store_shared(greatest_at(warp_), {greatest}, is_last, op_.loc);
    l_.store_shared(end_at(warp_), {end}, is_last, op_.loc);
  }

  /// The bytes of a bucket that none with keys in the warp's part of the row exceeds; of the largest one of all if that
  /// is too large.
  llvm::Value* greatest_of_part() {
    llvm::Value* number = l_.b.CreateAnd(lane_, l_.i32(plan_.warps - 1));
    llvm::Value *greatest = load_word(greatest_at(number)), *end = load_word(end_at(number));
    if (plan_.warps == 1) return greatest;
    llvm::Value* of_previous = l_.shuffle(end, l_.b.CreateSub(lane_, l_.i32(1)), false);
    llvm::Value* begin = l_.b.CreateSelect(l_.b.CreateICmpEQ(number, l_.i32(0)), place_, of_previous);
    const int64_t part = plan_.elements / plan_.warps;
    llvm::Value* own = key_at(l_.b.CreateMul(warp_, l_.i32(part)));
    llvm::Value* own_end = l_.b.CreateAdd(own, l_.i32(part * key_bytes_));
    llvm::Value* matters = l_.b.CreateAnd(l_.b.CreateICmpULT(begin, own_end), l_.b.CreateICmpUGT(end, own));
    llvm::Value* is_full = l_.b.CreateICmpUGT(greatest, l_.i32(BucketSort::kMostOfBucket * key_bytes_));
    greatest = l_.b.CreateSelect(l_.b.CreateOr(matters, is_full), greatest, l_.i32(0));
    for (int lane = 1; lane < plan_.warps; lane *= 2)
      greatest = greater(greatest, l_.shuffle(greatest, l_.i32(lane), true));
    return greatest;
  }

  /// Replaces each of a thread's words, which lie `gap` words from the next thread's, by what `kept` makes of `made` of
  /// it and the sum of `start` and that of all words before. Returns the sum behind the thread's last word.
  llvm::Value* replace_by_sums(llvm::Value* base, int64_t each, int gap, llvm::Value* start,
                               const std::function<llvm::Value*(llvm::Value*)>& made,
                               const std::function<llvm::Value*(llvm::Value*, llvm::Value*)>& kept) {
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
    llvm::Value* sum = l_.b.CreateAdd(start, sum_of_threads_before(l_, total, records_, plan_.warps, op_.loc));
    // Loaded once more: a thread has no registers for all of them beside its keys.
    for (int64_t i = 0; i < each; i += width) {
      Regs words = load(i);
      for (llvm::Value*& word : words) {
        llvm::Value* before = sum;
        sum = l_.b.CreateAdd(sum, word);
        word = kept(word, before);
      }
      l_.store_shared(l_.b.CreateAdd(own, l_.i32(4 * i)), {words.begin(), words.end()}, nullptr, op_.loc);
    }
    return sum;
  }

  llvm::Value* greater(llvm::Value* a, llvm::Value* b) {
    return l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, a, b);
  }
  void put_in_order(llvm::Value*& low, llvm::Value*& high) {
    llvm::Value *a = low, *b = high;
    if (key_bytes_ == 8) {
      const auto both = l_.results(l_.hw("in_order_b64", {a, b}));
      low = both[0], high = both[1];
    } else {
      low = l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, a, b), high = greater(a, b);
    }
  }

  /// Odd-even transposition of a warp's keys, an even number in each thread: as many rounds as the largest bucket has
  /// keys, as no key leaves its bucket.
  void transpose_neighbours(Regs& keys) {
    llvm::Function* function = l_.b.GetInsertBlock()->getParent();
    llvm::BasicBlock *before = l_.b.GetInsertBlock(), *loop = llvm::BasicBlock::Create(l_.context, "rounds", function),
                     *after = llvm::BasicBlock::Create(l_.context, "ordered", function);
    llvm::Value *none = llvm::Constant::getAllOnesValue(type_), *least = llvm::Constant::getNullValue(type_);
    llvm::Value *is_first = l_.b.CreateICmpEQ(lane_, l_.i32(0)), *is_last = l_.b.CreateICmpEQ(lane_, l_.i32(31));
    llvm::Value *previous = l_.b.CreateSub(lane_, l_.i32(1)), *next = l_.b.CreateAdd(lane_, l_.i32(1));
    l_.b.CreateCondBr(l_.b.CreateICmpUGT(greatest_, l_.i32(key_bytes_)), loop, after);
    l_.b.SetInsertPoint(loop);
    std::vector<llvm::PHINode*> held;
    for (llvm::Value* key : keys) held.push_back(l_.b.CreatePHI(type_, 2)), held.back()->addIncoming(key, before);
    llvm::PHINode* round = l_.b.CreatePHI(word_, 2);
    round->addIncoming(l_.i32(0), before);
    Regs moved(held.begin(), held.end());
    for (size_t i = 0; i + 1 < moved.size(); i += 2) put_in_order(moved[i], moved[i + 1]);
    llvm::Value* above = l_.b.CreateSelect(is_last, none, l_.shuffle(moved.front(), next, false));
    llvm::Value* below = l_.b.CreateSelect(is_first, least, l_.shuffle(moved.back(), previous, false));
    for (size_t i = 1; i + 1 < moved.size(); i += 2) put_in_order(moved[i], moved[i + 1]);
    moved.back() = l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, moved.back(), above);
    moved.front() = greater(moved.front(), below);
    llvm::Value* rounds = l_.b.CreateAdd(round, l_.i32(2 * key_bytes_));
    round->addIncoming(rounds, loop);
    for (size_t i = 0; i < held.size(); ++i) held[i]->addIncoming(moved[i], loop);
    mark_not_to_unroll(l_.b.CreateCondBr(l_.b.CreateICmpULT(rounds, greatest_), loop, after));
    l_.b.SetInsertPoint(after);
    for (size_t i = 0; i < keys.size(); ++i) {
      llvm::PHINode* result = l_.b.CreatePHI(type_, 2);
      result->addIncoming(keys[i], before), result->addIncoming(moved[i], loop);
      keys[i] = result;
    }
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
  llvm::Value *place_, *buckets_, *cells_, *records_;
  llvm::Value *lane_, *warp_;
  llvm::Value *shift_ = nullptr, *greatest_ = nullptr;
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
