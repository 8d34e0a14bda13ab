#include "codegen/lower/digit_sort.h"

#include <algorithm>

namespace tegula::lower {

namespace {

constexpr int kDigits = 1 << DigitSort::kDigitBits;

class DigitSorter {
 public:
  DigitSorter(Lowering& l, const ir::Op& op, const DigitSort& plan, const ir::Type& key, int bits)
      : l_(l),
        op_(op),
        plan_(plan),
        key_(l.element_type(key)),
        word_(l.b.getInt32Ty()),
        bits_(bits),
        key_bytes_(key.bits() / 8),
        each_(int(plan.elements / (32 * plan.warps))),
        keys_(l.shared_address(l.shared.offset.at(&op))),
        counters_(l.b.CreateAdd(keys_, l.i32(plan.counters))),
        records_(l.b.CreateAdd(keys_, l.i32(plan.records))),
        lane_(l.b.CreateAnd(l.thread(), l.i32(31))),
        warp_(l.b.CreateLShr(l.thread(), l.i32(5))),
        own_counters_(l.b.CreateAdd(counters_, l.b.CreateMul(warp_, l.i32(4 * kDigits)))),
        first_(l.b.CreateAdd(l.b.CreateMul(warp_, l.i32(32 * each_)), lane_)) {}

  /// Of the keys in shared memory, unsigned ones; `barrier` stands between each two phases of the threads.
  void run() {
    llvm::Value* open = bits_to_sort_by();
    llvm::BasicBlock *before = l_.b.GetInsertBlock(), *header = new_block("digits"), *body = new_block("digit"),
                     *after = new_block("sorted");
    l_.b.CreateBr(header);
    l_.b.SetInsertPoint(header);
    llvm::PHINode* left = l_.b.CreatePHI(key_, 2);
    left->addIncoming(open, before);
    l_.b.CreateCondBr(l_.b.CreateICmpNE(left, number(0)), body, after);
    l_.b.SetInsertPoint(body);
    llvm::Value* shift = l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, l_.b.getTrue());
    llvm::Value* others = l_.b.CreateAnd(left, l_.b.CreateNot(l_.b.CreateShl(number(kDigits - 1), shift)));
    pass(shift);
    left->addIncoming(others, l_.b.GetInsertBlock());
    l_.b.CreateBr(header);
    l_.b.SetInsertPoint(after);
  }

 private:
  llvm::BasicBlock* new_block(const char* name) {
    return llvm::BasicBlock::Create(l_.context, name, l_.b.GetInsertBlock()->getParent());
  }
  llvm::Value* number(uint64_t value) { return llvm::ConstantInt::get(key_, value); }
  uint64_t low_mask(int bits) const { return bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1; }

  llvm::Value* word_at(llvm::Value* base, llvm::Value* index) {
    return l_.b.CreateAdd(base, l_.b.CreateShl(index, l_.i32(2)));
  }
  llvm::Value* load_word(llvm::Value* address) { return l_.load_shared(address, word_, 1, op_.loc)[0]; }
  llvm::Value* key_at(llvm::Value* position) {
    return l_.b.CreateAdd(keys_, l_.b.CreateMul(position, l_.i32(key_bytes_)));
  }
  llvm::Value* load_key(llvm::Value* position) { return l_.load_shared(key_at(position), key_, 1, op_.loc)[0]; }
  llvm::Value* position(int i) { return l_.b.CreateAdd(first_, l_.i32(32 * i)); }
  void barrier() { l_.barrier(op_.loc); }
  void warp_barrier() { l_.hw("warp_barrier", {}); }

  /// The bits in which keys differ, without the lower half if keys are in order by it already, as keys that end in
  /// their own position are.
  llvm::Value* bits_to_sort_by() {
    const bool halves = bits_ >= 2 * DigitSort::kDigitBits;
    llvm::Value *differing = number(0), *falls = l_.b.getFalse();
    llvm::Value *start = load_key(l_.i32(0)), *low = number(low_mask(bits_ / 2));
    for (int i = 0; i < each_; ++i) {
      llvm::Value* key = load_key(position(i));
      differing = l_.b.CreateOr(differing, l_.b.CreateXor(key, start));
      if (!halves) continue;
      llvm::Value* following = l_.b.CreateAdd(position(i), l_.i32(1));
      if (i == each_ - 1)
        following = l_.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, following, l_.i32(plan_.elements - 1));
      llvm::Value* next_half = l_.b.CreateAnd(load_key(following), low);
      falls = l_.b.CreateOr(falls, l_.b.CreateICmpUGT(l_.b.CreateAnd(key, low), next_half));
    }
    if (!halves) return in_any_thread({differing})[0];
    const Regs all = in_any_thread({differing, l_.b.CreateSExt(falls, key_)});
    return l_.b.CreateAnd(all[0], l_.b.CreateOr(all[1], number(~low_mask(bits_ / 2))));
  }

  /// The bits that are set in any thread, for each of at most two numbers.
  Regs in_any_thread(Regs values) {
    const int words = key_bytes_ / 4;
    for (int lane = 16; lane > 0; lane /= 2)
      for (llvm::Value*& x : values) x = l_.b.CreateOr(x, l_.shuffle(x, l_.i32(lane), true));
    llvm::Value* first = l_.b.CreateICmpEQ(lane_, l_.i32(0));
    auto record = [&](llvm::Value* warp, size_t i) {
      return word_at(records_,
                     l_.b.CreateAdd(l_.b.CreateMul(warp, l_.i32(DigitSort::kRecordWords)), l_.i32(int64_t(i) * words)));
    };
    for (size_t i = 0; i < values.size(); ++i) l_.store_shared(record(warp_, i), {values[i]}, first, op_.loc);
    barrier();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = number(0);
      for (int warp = 0; warp < plan_.warps; ++warp)
        values[i] = l_.b.CreateOr(values[i], l_.load_shared(record(l_.i32(warp), i), key_, 1, op_.loc)[0]);
    }
    return values;
  }

  /// Sorts the keys by the digit from bit `shift` on. Threads do not keep their keys while they count, but load them
  /// again: this halves the registers, so that more programs run at a time and hide each other's waits for shared
  /// memory.
  void pass(llvm::Value* shift) {
    clear_counters();
    Regs digits;
    for (int i = 0; i < each_; ++i) {
      llvm::Value* digit = l_.b.CreateZExtOrTrunc(l_.b.CreateLShr(load_key(position(i)), shift), word_);
      digits.push_back(l_.b.CreateAnd(digit, l_.i32(kDigits - 1)));
    }
    const Regs counted = count(digits);
    barrier();
    sum_up_counters();
    Regs keys;
    for (int i = 0; i < each_; ++i) keys.push_back(load_key(position(i)));
    barrier();
    for (int i = 0; i < each_; ++i) {
      llvm::Value* digit = l_.b.CreateAnd(counted[size_t(i)], l_.i32(kDigits - 1));
      llvm::Value* rank = l_.b.CreateLShr(counted[size_t(i)], l_.i32(DigitSort::kDigitBits));
      llvm::Value* to = l_.b.CreateAdd(load_word(word_at(own_counters_, digit)), rank);
      l_.store_shared(key_at(to), {keys[size_t(i)]}, nullptr, op_.loc);
    }
    barrier();
  }

  void clear_counters() {
    for (int i = 0; i < kDigits; i += 32 * 4) {
      llvm::Value* zero = l_.i32(0);
      llvm::Value* at = word_at(own_counters_, l_.b.CreateAdd(l_.b.CreateShl(lane_, l_.i32(2)), l_.i32(i)));
      l_.store_shared(at, {zero, zero, zero, zero}, nullptr, op_.loc);
    }
    warp_barrier();
  }

  /// Counts the warp's keys by digits. Returns for each key its digit and, in the bits above, how many keys of the warp
  /// with the same digit come before it.
  Regs count(const Regs& digits) {
    llvm::Value* below = l_.b.CreateSub(l_.b.CreateShl(l_.i32(1), lane_), l_.i32(1));
    llvm::Value* upto = l_.b.CreateOr(below, l_.b.CreateShl(l_.i32(1), lane_));
    auto population = [&](llvm::Value* x) { return l_.b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x); };
    Regs counted;
    for (llvm::Value* digit : digits) {
      llvm::Value *same = l_.hw("match_byte", {digit}), *place = word_at(own_counters_, digit);
      llvm::Value* rank = l_.b.CreateAdd(load_word(place), population(l_.b.CreateAnd(same, below)));
      // The last of them knows how many there are.
      llvm::Value* is_last = l_.b.CreateICmpULE(same, upto);
      warp_barrier();
      l_.store_shared(place, {l_.b.CreateAdd(rank, l_.i32(1))}, is_last, op_.loc);
      warp_barrier();
      // Opaque, so that both stay in one register.
      counted.push_back(
          l_.hw("opaque_b32", {l_.b.CreateOr(digit, l_.b.CreateShl(rank, l_.i32(DigitSort::kDigitBits)))}));
    }
    return counted;
  }

  /// Replaces each counter by the sum of those of lower digits and of those of the same digit in earlier warps. Each
  /// thread has some digits; threads beyond the digits have none.
  void sum_up_counters() {
    const int threads = 32 * plan_.warps, digits = std::max(1, kDigits / threads);
    llvm::Value* thread = threads > kDigits ? l_.b.CreateAnd(l_.thread(), l_.i32(kDigits - 1)) : l_.thread();
    llvm::Value* has_digits = l_.b.CreateICmpULT(l_.thread(), l_.i32(kDigits));
    llvm::Value* first = word_at(counters_, l_.b.CreateMul(thread, l_.i32(digits)));
    auto place = [&](int digit, int warp) { return l_.b.CreateAdd(first, l_.i32(4 * (warp * kDigits + digit))); };
    llvm::Value* total = l_.i32(0);
    for (int digit = 0; digit < digits; ++digit)
      for (int warp = 0; warp < plan_.warps; ++warp) total = l_.b.CreateAdd(total, load_word(place(digit, warp)));
    llvm::Value* sum = sum_of_threads_before(l_, total, records_, std::min(plan_.warps, kDigits / 32), op_.loc);
    // Loaded once more, as a thread has no registers for all of them.
    llvm::BasicBlock *of_digits = new_block("of_digits"), *after = new_block("summed");
    l_.b.CreateCondBr(has_digits, of_digits, after);
    l_.b.SetInsertPoint(of_digits);
    for (int digit = 0; digit < digits; ++digit)
      for (int warp = 0; warp < plan_.warps; ++warp) {
        llvm::Value* count = load_word(place(digit, warp));
        l_.store_shared(place(digit, warp), {sum}, nullptr, op_.loc);
        sum = l_.b.CreateAdd(sum, count);
      }
    l_.b.CreateBr(after);
    l_.b.SetInsertPoint(after);
  }

  Lowering& l_;
  const ir::Op& op_;
  const DigitSort& plan_;
  llvm::Type *key_, *word_;
  const int bits_, key_bytes_;
  const int each_;  // keys of a thread
  llvm::Value *keys_, *counters_, *records_;
  llvm::Value *lane_, *warp_, *own_counters_;
  llvm::Value* first_;  // position of the thread's first key
};

}  // namespace

llvm::Value* sum_of_threads_before(Lowering& l, llvm::Value* own, llvm::Value* records, int warps, const Loc& loc) {
  llvm::Value *lane = l.b.CreateAnd(l.thread(), l.i32(31)), *warp = l.b.CreateLShr(l.thread(), l.i32(5)), *sum = own;
  auto record = [&](llvm::Value* of) { return l.b.CreateAdd(records, l.b.CreateShl(of, l.i32(2))); };
  for (int distance = 1; distance < 32; distance *= 2) {
    llvm::Value* other = l.shuffle(sum, l.b.CreateSub(lane, l.i32(distance)), false);
    llvm::Value* exists = l.b.CreateICmpUGE(lane, l.i32(distance));
    sum = l.b.CreateAdd(sum, l.b.CreateSelect(exists, other, l.i32(0)));
  }
  l.store_shared(record(warp), {sum}, l.b.CreateICmpEQ(lane, l.i32(31)), loc);
  l.barrier(loc);
  // Each group of so many lanes adds up what the warps before this one have.
  llvm::Value* number = l.b.CreateAnd(lane, l.i32(warps - 1));
  llvm::Value* before = l.load_shared(record(number), l.b.getInt32Ty(), 1, loc)[0];
  before = l.b.CreateSelect(l.b.CreateICmpULT(number, warp), before, l.i32(0));
  for (int distance = 1; distance < warps; distance *= 2)
    before = l.b.CreateAdd(before, l.shuffle(before, l.i32(distance), true));
  return l.b.CreateAdd(l.b.CreateSub(sum, own), before);
}

Regs sort_by_digits(Lowering& l, const ir::Op& op, const DigitSort& plan, const Regs& keys, const ir::Type& key,
                    int bits, bool is_unsigned) {
  // Unsigned numbers of `bits` bits, in the same order.
  llvm::Type* type = l.element_type(key);
  const uint64_t all = bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1, sign = uint64_t(1) << (bits - 1);
  auto flip_sign = [&](llvm::Value* x) {
    return is_unsigned ? x : l.b.CreateXor(x, llvm::ConstantInt::get(type, sign));
  };
  Regs numbers;
  for (llvm::Value* x : keys) numbers.push_back(l.b.CreateAnd(flip_sign(x), llvm::ConstantInt::get(type, all)));
  llvm::Value* place = l.shared_address(l.shared.offset.at(&op));
  l.store_to_place(numbers, key, *op.operand(0)->type.layout, plan.in_order, place, op);
  l.barrier(op.loc);
  DigitSorter(l, op, plan, key, bits).run();
  Regs sorted = l.load_from_place(key, *op.result()->type.layout, plan.in_order, place, op);
  for (llvm::Value*& x : sorted) {
    x = flip_sign(x);
    if (!is_unsigned) x = l.b.CreateSExt(l.b.CreateTrunc(x, l.b.getIntNTy(unsigned(bits))), type);
  }
  return sorted;
}

}  // namespace tegula::lower
