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
        key_(key),
        type_(l.element_type(key)),
        word_(l.b.getInt32Ty()),
        key_bytes_(key.bits() / 8),
        place_(l.shared_address(l.shared.offset.at(&op))),
        first_(l.b.CreateAdd(place_, l.i32(plan.first))),
        buckets_(l.b.CreateAdd(place_, l.i32(plan.buckets))),
        cells_(l.b.CreateAdd(place_, l.i32(plan.cells))),
        overflow_(l.b.CreateAdd(place_, l.i32(plan.records))),
        records_(l.b.CreateAdd(overflow_, l.i32(16))),
        lane_(l.b.CreateAnd(l.thread(), l.i32(31))),
        warp_(l.b.CreateLShr(l.thread(), l.i32(5))) {}

  /// Puts the keys into buckets. False, with nothing done, where a bucket holds too many.
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

  /// The keys in order, as registers of the result.
  Regs order() {
    // All loads stand ahead of the stores: neither LLVM nor the assembler moves one over the other.
    const std::vector<llvm::Value*> buckets = own_buckets();
    for (size_t i = 0; i < keys_.size(); ++i) {
      llvm::Value* place = l_.b.CreateAdd(upper_half(buckets[i]), upper_half(entries_[i]));
      l_.store_shared(key_at(place), {keys_[i]}, nullptr, op_.loc);
    }
    barrier();
    if (plan_.halo == 0) {
      order_in_buckets();
      return l_.load_from_place(key_, *op_.result()->type.layout, plan_.in_order, first_, op_);
    }
    const Regs full = l_.load_shared(overflow_, word_, 4, op_.loc);
    auto slowly = [&] {
      order_in_buckets();
      Regs keys;
      load_keys(own_keys(), plan_.each, keys);
      return keys;
    };
    const Regs sorted = branch(
        l_, l_.b.CreateICmpEQ(full[1], l_.i32(0)), [&] { return compare_neighbours(full); }, slowly);
    barrier();  // what follows uses the same shared memory
    return l_.convert(sorted, key_, plan_.in_order, *op_.result()->type.layout, op_);
  }

 private:
  void barrier() { l_.barrier(op_.loc); }
  llvm::Value* load_word(llvm::Value* address) { return l_.load_shared(address, word_, 1, op_.loc)[0]; }
  llvm::Value* word_at(llvm::Value* base, llvm::Value* index) {
    return l_.b.CreateAdd(base, l_.b.CreateShl(index, l_.i32(2)));
  }
  llvm::Value* key_at(llvm::Value* index) {
    llvm::Value* group = l_.b.CreateLShr(index, l_.i32(std::countr_zero(unsigned(plan_.each))));
    llvm::Value* at = l_.b.CreateAdd(first_, l_.b.CreateMul(index, l_.i32(key_bytes_)));
    if (plan_.halo == 0) return at;
    return l_.b.CreateAdd(at, l_.b.CreateShl(group, l_.i32(4)));
  }
  /// Where the thread's keys lie.
  llvm::Value* own_keys() { return l_.b.CreateAdd(first_, l_.b.CreateMul(l_.thread(), l_.i32(plan_.group_bytes))); }
  int keys_of_access() const { return 16 / key_bytes_; }
  void load_keys(llvm::Value* address, int count, Regs& keys) {
    for (int i = 0; i < count; i += keys_of_access()) {
      const Regs some = l_.load_shared(l_.b.CreateAdd(address, l_.i32(i * key_bytes_)), type_,
                                       std::min(count, keys_of_access()), op_.loc);
      keys.insert(keys.end(), some.begin(), some.end());
    }
  }
  /// Bytes from the first bucket to that one: fewer than 2^16.
  llvm::Value* offset_of_bucket(llvm::Value* index) {
    llvm::Value* offset = l_.b.CreateShl(index, l_.i32(2));
    if (!plan_.padded) return offset;
    llvm::Value* of_thread = l_.b.CreateLShr(index, l_.i32(std::countr_zero(unsigned(plan_.padded))));
    return l_.b.CreateAdd(offset, l_.b.CreateShl(of_thread, l_.i32(4)));
  }
  /// The words of the keys' buckets.
  std::vector<llvm::Value*> own_buckets() {
    std::vector<llvm::Value*> words;
    for (llvm::Value* entry : entries_) words.push_back(load_word(l_.b.CreateAdd(buckets_, lower_half(entry))));
    return words;
  }
  llvm::Value* lower_half(llvm::Value* word) { return l_.b.CreateAnd(word, l_.i32(0xFFFF)); }
  llvm::Value* upper_half(llvm::Value* word) { return l_.b.CreateLShr(word, l_.i32(16)); }
  /// LLVM would keep the parts of which a word is made up as well.
  llvm::Value* in_one_register(llvm::Value* word) { return l_.hw("opaque_b32", {word}); }
  // Of keys whose buckets hold few: how many keys the bucket has, which of them this one is, and where the bucket
  // begins.
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
    clear_words(buckets_, (plan_.records - plan_.buckets) / 4);
    clear_words(cells_, plan_.num_cells);
    llvm::Value *zero = l_.i32(0), *is_first = l_.b.CreateICmpEQ(l_.thread(), zero);
    l_.store_shared(overflow_, {zero, zero, zero, zero}, is_first, op_.loc);
    // What the first and the last thread see beyond all keys.
    llvm::Value* is_last = l_.b.CreateICmpEQ(l_.thread(), l_.i32(threads() - 1));
    llvm::Value* before = l_.b.CreateAdd(place_, l_.i32((plan_.each - plan_.halo) * key_bytes_));
    llvm::Value* behind = l_.b.CreateAdd(first_, l_.i32(threads() * plan_.group_bytes));
    const auto of_type = [&](int64_t value) { return llvm::ConstantInt::getSigned(type_, value); };
    for (int i = 0; i < plan_.halo; i += keys_of_access()) {
      const size_t count = size_t(std::min(plan_.halo, keys_of_access()));
      const std::vector<llvm::Value*> least(count, of_type(0)), greatest(count, of_type(-1));
      l_.store_shared(l_.b.CreateAdd(before, l_.i32(i * key_bytes_)), least, is_first, op_.loc);
      l_.store_shared(l_.b.CreateAdd(behind, l_.i32(i * key_bytes_)), greatest, is_last, op_.loc);
    }
  }

  llvm::Value* upper_word(llvm::Value* key) {
    return key_bytes_ == 8 ? l_.b.CreateTrunc(l_.b.CreateLShr(key, uint64_t(32)), word_) : key;
  }

  /// How far keys may be shifted up: by the bits of their upper words that are the same in all. Whether it pays to go
  /// on: a thread whose first keys are that of its warp's first thread says that very many are equal, which no bucket
  /// holds, and which would be counted one after the other.
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

  /// The upper 32 bits of those in which keys differ.
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

  /// Gives each cell buckets, at least one: the first of them in the upper half of its word, how many in the lower.
  void allot_buckets() {
    const int64_t of_key = plan_.num_buckets * sample_step() / plan_.elements - 1;
    replace_by_sums(cells_, plan_.num_cells / threads(), 0, [&](llvm::Value* count) {
      llvm::Value* wanted = l_.b.CreateMul(count, l_.i32(of_key));
      return l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, wanted, l_.i32(1));
    });
  }

  /// Counts the keys in their buckets. Kept of each: where its bucket lies, and how many came before it in the upper
  /// half.
  void enter() {
    std::vector<llvm::Value*> leading, cells, buckets;
    for (llvm::Value* key : keys_) leading.push_back(leading_bits(key));
    for (llvm::Value* bits : leading) cells.push_back(load_word(cell_at(bits)));
    llvm::Type* wide = l_.b.getInt64Ty();
    for (size_t i = 0; i < keys_.size(); ++i) {
      llvm::Value* within = l_.b.CreateZExt(l_.b.CreateShl(leading[i], l_.i32(cell_bits())), wide);
      llvm::Value* product = l_.b.CreateMul(within, l_.b.CreateZExt(lower_half(cells[i]), wide));
      llvm::Value* number = l_.b.CreateTrunc(l_.b.CreateLShr(product, uint64_t(32)), word_);
      buckets.push_back(offset_of_bucket(l_.b.CreateAdd(upper_half(cells[i]), number)));
    }
    llvm::Value* ranks = l_.i32(0);
    for (llvm::Value* bucket : buckets) {
      llvm::Value* rank =
          l_.hw("atom_shared_add_i32", {l_.b.CreateAdd(buckets_, bucket), l_.i32(1), l_.b.getTrue(), l_.site(op_.loc)});
      entries_.push_back(in_one_register(l_.b.CreateOr(bucket, l_.b.CreateShl(rank, l_.i32(16)))));
      ranks = l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, ranks, rank);
    }
    const int limits[] = {BucketSort::kMostOfBucket, plan_.halo + 1, kFew[1], kFew[0]};
    for (int i = 0; i < 4; ++i) {
      llvm::Value* more = l_.b.CreateICmpUGE(ranks, l_.i32(limits[i]));
      l_.hw("red_shared_add_i32", {l_.b.CreateAdd(overflow_, l_.i32(4 * i)), l_.i32(1), more, l_.site(op_.loc)});
    }
  }

  /// Where the keys of each bucket begin, in the upper half of its word; how many they are stays in the lower.
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

  // Of buckets that hold so many keys at most neighbours are compared half as many times, twice each.
  static constexpr int kFew[] = {4, 6};

  /// Each thread brings its keys, and those that may be of the same buckets, in order: in as many rounds, each of one
  /// comparison with the neighbour before and one with that behind, as the largest bucket needs.
  Regs compare_neighbours(const Regs& full) {
    Regs keys;
    llvm::Value* own = own_keys();
    const int halo_bytes = plan_.halo * key_bytes_;
    load_keys(l_.b.CreateSub(own, l_.i32(halo_bytes + 16)), plan_.halo, keys);
    load_keys(own, plan_.each, keys);
    load_keys(l_.b.CreateAdd(own, l_.i32(plan_.group_bytes)), plan_.halo, keys);
    llvm::Value* rounds =
        l_.b.CreateSelect(l_.b.CreateICmpEQ(full[2], l_.i32(0)), l_.i32(kFew[1] / 2), l_.i32((plan_.halo + 2) / 2));
    rounds = l_.b.CreateSelect(l_.b.CreateICmpEQ(full[3], l_.i32(0)), l_.i32(kFew[0] / 2), rounds);
    llvm::Function* function = l_.b.GetInsertBlock()->getParent();
    llvm::BasicBlock *before = l_.b.GetInsertBlock(), *loop = llvm::BasicBlock::Create(l_.context, "round", function),
                     *after = llvm::BasicBlock::Create(l_.context, "ordered", function);
    l_.b.CreateBr(loop);
    l_.b.SetInsertPoint(loop);
    llvm::PHINode* round = l_.b.CreatePHI(word_, 2);
    round->addIncoming(l_.i32(0), before);
    std::vector<llvm::PHINode*> phis;
    for (llvm::Value*& key : keys) {
      phis.push_back(l_.b.CreatePHI(type_, 2));
      phis.back()->addIncoming(key, before);
      key = phis.back();
    }
    for (size_t odd : {0, 1})
      for (size_t i = odd; i + 1 < keys.size(); i += 2) put_in_order(keys[i], keys[i + 1]);
    llvm::Value* next = l_.b.CreateAdd(round, l_.i32(1));
    round->addIncoming(next, loop);
    for (size_t i = 0; i < keys.size(); ++i) phis[i]->addIncoming(keys[i], loop);
    mark_not_to_unroll(l_.b.CreateCondBr(l_.b.CreateICmpULT(next, rounds), loop, after));
    l_.b.SetInsertPoint(after);
    return Regs(keys.begin() + plan_.halo, keys.begin() + plan_.halo + plan_.each);
  }

  void put_in_order(llvm::Value*& a, llvm::Value*& b) {
    llvm::Value* smaller = l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, a, b);
    // A maximum of 64 bits would take a comparison of its own.
    b = key_bytes_ == 8 ? l_.b.CreateXor(l_.b.CreateXor(a, b), smaller)
                        : l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, a, b);
    a = smaller;
  }

  /// Puts each key behind those of its bucket that go before it.
  void order_in_buckets() {
    std::vector<llvm::Value*> to;
    const std::vector<llvm::Value*> buckets = own_buckets();
    for (size_t i = 0; i < keys_.size(); ++i) {
      llvm::Value* rank = l_.b.CreateShl(upper_half(entries_[i]), l_.i32(kRankBit));
      entries_[i] = in_one_register(l_.b.CreateOr(buckets[i], rank));
    }
    for (size_t i = 0; i < keys_.size(); i += kKeysAtOnce)
      count_smaller(i, std::min(keys_.size(), i + kKeysAtOnce), to);
    barrier();
    for (size_t i = 0; i < keys_.size(); ++i)
      l_.store_shared(key_at(to[i]), {keys_[i]}, l_.b.CreateICmpNE(to[i], place_of(entries_[i])), op_.loc);
    barrier();
  }

  /// Where keys `first` to `end` go: behind those of their buckets that are smaller, or equal and stand before them.
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
    std::vector<llvm::Value*> ends;
    for (size_t i = first; i < end; ++i) {
      llvm::Value* count = count_of(entries_[i]);
      llvm::Value* behind = l_.b.CreateAdd(begin[i - first], count);
      ends.push_back(in_one_register(l_.b.CreateSelect(l_.b.CreateICmpUGT(count, l_.i32(1)), behind, l_.i32(0))));
    }
    llvm::Value* none = llvm::Constant::getAllOnesValue(type_);
    l_.b.CreateCondBr(l_.b.CreateICmpUGT(most, l_.i32(1)), loop, after);
    l_.b.SetInsertPoint(loop);
    llvm::PHINode* number = l_.b.CreatePHI(word_, 2);
    std::vector<llvm::PHINode*> place;
    for (size_t i = first; i < end; ++i) {
      place.push_back(l_.b.CreatePHI(word_, 2));
      place.back()->addIncoming(begin[i - first], before);
    }
    std::vector<llvm::Value*> found, more;
    for (size_t i = first; i < end; ++i) {
      llvm::Value* index = l_.b.CreateAdd(begin[i - first], number);
      llvm::Value* there = l_.b.CreateICmpULT(index, ends[i - first]);
      const char* load = key_bytes_ == 8 ? "ld_shared_or_b64" : "ld_shared_or_b32";
      found.push_back(l_.hw(load, {key_at(index), none, there, l_.site(op_.loc)}));
    }
    for (size_t i = first; i < end; ++i)
      more.push_back(count_if_smaller(place[i - first], found[i - first], keys_[i], number, rank_of(entries_[i])));
    llvm::Value* next = l_.b.CreateAdd(number, l_.i32(1));
    number->addIncoming(l_.i32(0), before), number->addIncoming(next, loop);
    for (size_t i = 0; i < place.size(); ++i) place[i]->addIncoming(more[i], loop);
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
  const ir::Type& key_;
  llvm::Type *type_, *word_;
  const int key_bytes_;
  llvm::Value *place_, *first_, *buckets_, *cells_, *overflow_, *records_;
  llvm::Value *lane_, *warp_;
  llvm::Value* shift_ = nullptr;
  std::vector<llvm::Value*> entries_;
};

}  // namespace

Regs sort_by_buckets(Lowering& l, const ir::Op& op, const BucketSort& plan, const Regs& keys, const ir::Type& key,
                     const std::function<Regs()>& otherwise) {
  BucketSorter sorter(l, op, plan, keys, key);
  return branch(
      l, sorter.count_buckets(), [&] { return sorter.order(); },
      [&] {
        l.barrier(op.loc);  // what follows uses the same shared memory
        return otherwise();
      });
}

}  // namespace tegula::lower
