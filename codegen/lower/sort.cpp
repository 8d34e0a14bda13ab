// Sorting: elements become integers in the order wanted, which are sorted by buckets, by digits, or by the network of
// analysis/sort_plan.
#include "codegen/analysis/sort_plan.h"
#include "codegen/lower/bucket_sort.h"
#include "codegen/lower/digit_sort.h"

namespace tegula::lower {

namespace {

class Sorter {
 public:
  Sorter(Lowering& l, const ir::Op& op)
      : l_(l),
        op_(op),
        type_(op.operand(0)->type),
        key_type_(ir::Type::scalar(sort_key_bytes(type_) == 8 ? Elem::I64 : Elem::I32)),
        bits_(type_.bits()),
        is_unsigned_(!type_.is_float() && !is_signed(type_.elem)) {}

  void run() {
    for (llvm::Value* x : l_.get(op_.operand(0))) keys_.push_back(to_key(x));
    if (auto buckets = plan_bucket_sort(op_)) {
      Regs numbers;
      for (llvm::Value* key : keys_) numbers.push_back(with_sign_flipped(key));
      keys_ = sort_by_buckets(l_, op_, *buckets, numbers, key_type_, [&] {
        sort_otherwise();
        for (llvm::Value*& key : keys_) key = with_sign_flipped(key);
        return keys_;
      });
      for (llvm::Value*& key : keys_) key = with_sign_flipped(key);
    } else {
      sort_otherwise();
    }
    Regs out;
    for (llvm::Value* key : keys_) out.push_back(from_key(key));
    l_.set(op_.result(), std::move(out));
  }

 private:
  void sort_otherwise() {
    if (auto digits = plan_digit_sort(op_))
      keys_ = sort_by_digits(l_, op_, *digits, keys_, key_type_, bits_, is_unsigned_);
    else
      run_network(plan_sort(op_));
  }

  /// Signed keys as unsigned ones in the same order, and back.
  llvm::Value* with_sign_flipped(llvm::Value* key) {
    return is_unsigned_ ? key : l_.b.CreateXor(key, number(bits_ == 64 ? INT64_MIN : INT32_MIN));
  }

  void run_network(const SortPlan& plan) {
    convert(*type_.layout, plan.begin);
    for (const SortMove& move : plan.moves) apply(move);
    convert(plan.end, *op_.result()->type.layout);
  }

  // ---- Keys: integers of 32 or 64 bits that compare as the elements do; for a descending order with all bits flipped.
  // The bits of floats already compare so but for those below 0, whose other bits are flipped. NaNs become the
  // greatest.

  llvm::Value* number(int64_t value) {
    return llvm::ConstantInt::get(l_.element_type(key_type_), uint64_t(value), true);
  }
  llvm::Value* flipped(llvm::Value* key) { return l_.b.CreateXor(key, number(-1)); }
  int64_t greatest() const { return bits_ == 64 ? INT64_MAX : (int64_t(1) << (bits_ - 1)) - 1; }
  llvm::Value* swap_negative(llvm::Value* key) {
    llvm::Value* sign = l_.b.CreateAShr(key, uint64_t(key_type_.bits() - 1));
    return l_.b.CreateXor(key, l_.b.CreateAnd(sign, number(greatest())));
  }

  llvm::Value* to_key(llvm::Value* x) {
    llvm::Type* wide = l_.element_type(key_type_);
    llvm::Value* key = x;
    if (type_.is_float()) {
      key = l_.b.CreateSExt(l_.b.CreateBitCast(x, l_.b.getIntNTy(unsigned(bits_))), wide);
      key = l_.b.CreateSelect(l_.b.CreateFCmpUNO(x, x), number(greatest()), swap_negative(key));
    } else {
      key = is_unsigned_ ? l_.b.CreateZExt(x, wide) : l_.b.CreateSExt(x, wide);
    }
    return op_.get(ir::attr::descending) ? flipped(key) : key;
  }

  llvm::Value* from_key(llvm::Value* key) {
    if (op_.get(ir::attr::descending)) key = flipped(key);
    if (type_.is_float()) key = swap_negative(key);
    key = l_.b.CreateTrunc(key, l_.b.getIntNTy(unsigned(bits_)));
    return l_.b.CreateBitCast(key, l_.element_type(type_));
  }

  llvm::Value* smaller(llvm::Value* a, llvm::Value* b) {
    return l_.b.CreateBinaryIntrinsic(is_unsigned_ ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, a, b);
  }
  llvm::Value* greater(llvm::Value* a, llvm::Value* b) {
    return l_.b.CreateBinaryIntrinsic(is_unsigned_ ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, a, b);
  }

  // ---- Moves

  void apply(const SortMove& move) {
    switch (move.kind) {
      case SortMove::Kind::Flip:
        return flip(move);
      case SortMove::Kind::Registers:
      case SortMove::Kind::Trade:
        return compare_registers(move);
      case SortMove::Kind::Lanes:
        return compare_lanes(move);
      case SortMove::Kind::Convert:
        return convert(move.from, move.to);
    }
  }

  llvm::Value* lane_bit(int bit) {
    return l_.b.CreateTrunc(l_.b.CreateLShr(l_.thread(), uint64_t(bit)), l_.b.getInt1Ty());
  }

  void flip(const SortMove& move) {
    int of_register = 0;
    llvm::Value* of_thread = nullptr;  // all ones where the thread's part is odd
    for (auto [dim, bit] : move.parity) {
      if (dim == Dim::Register) {
        of_register |= 1 << bit;
        continue;
      }
      llvm::Value* one = l_.b.CreateSExt(lane_bit(bit + (dim == Dim::Warp ? 5 : 0)), l_.element_type(key_type_));
      of_thread = of_thread ? l_.b.CreateXor(of_thread, one) : one;
    }
    for (int r = 0; r < int(keys_.size()); ++r) {
      if (of_thread) keys_[r] = l_.b.CreateXor(keys_[r], of_thread);
      if (__builtin_parity(unsigned(r & of_register))) keys_[r] = flipped(keys_[r]);
    }
  }

  void compare_registers(const SortMove& move) {
    const int other = 1 << move.reg, fall = move.falling < 0 ? 0 : 1 << move.falling;
    const bool trade = move.kind == SortMove::Kind::Trade;
    llvm::Value* upper = trade ? lane_bit(move.lane) : nullptr;
    Regs kept;
    for (int r = 0; r < int(keys_.size()); ++r) {
      if (r & other) continue;
      llvm::Value *&low = keys_[r], *&high = keys_[r | other], *a = low, *b = high;
      if (trade) {
        b = l_.shuffle(l_.b.CreateSelect(upper, low, high), l_.i32(int64_t(1) << move.lane), true);
        a = l_.b.CreateSelect(upper, high, low);
      }
      low = r & fall ? greater(a, b) : smaller(a, b);
      if (move.keep_smaller)
        kept.push_back(low);
      else
        high = key_type_.bits() == 64 ? l_.b.CreateXor(l_.b.CreateXor(a, b), low)
               : r & fall             ? smaller(a, b)
                                      : greater(a, b);
    }
    if (move.keep_smaller) keys_ = std::move(kept);
  }

  // A comparison of 64 bits takes two instructions, min and max two selections more each: one comparison says whether
  // the lane keeps its own key, which the upper lane of a pair does where the lower would not. For 32 bits min and max
  // are an instruction each.
  void compare_lanes(const SortMove& move) {
    llvm::Value* upper = move.keep_smaller ? nullptr : lane_bit(move.lane);
    const auto less = is_unsigned_ ? llvm::CmpInst::ICMP_ULT : llvm::CmpInst::ICMP_SLT;
    for (llvm::Value*& key : keys_) {
      llvm::Value* other = l_.shuffle(key, l_.i32(int64_t(1) << move.lane), true);
      if (move.keep_smaller)
        key = smaller(key, other);
      else if (key_type_.bits() == 64)
        key = l_.b.CreateSelect(l_.b.CreateXor(l_.b.CreateICmp(less, key, other), upper), key, other);
      else
        key = l_.b.CreateSelect(upper, greater(key, other), smaller(key, other));
    }
  }

  void convert(const LinearLayout& from, const LinearLayout& to) {
    if (from == to) return;
    if (plan_conversion(from, to).route == Conversion::Route::Shared) {
      // What the last one has stored must have been read.
      if (exchanged_) l_.barrier(op_.loc);
      exchanged_ = true;
    }
    keys_ = l_.convert(keys_, key_type_, from, to, op_);
  }

  Lowering& l_;
  const ir::Op& op_;
  const ir::Type& type_;
  const ir::Type key_type_;
  const int bits_;
  const bool is_unsigned_;
  Regs keys_;
  bool exchanged_ = false;
};

}  // namespace

void lower_Sort(Lowering& l, const ir::Op& op) { Sorter(l, op).run(); }

}  // namespace tegula::lower
