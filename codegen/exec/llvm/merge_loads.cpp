#include "codegen/exec/llvm/merge_loads.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "codegen/lower/hw.h"

namespace tegula {

namespace {

constexpr int kWidest = 16, kWordBytes = 4;

// A call of a row ld_global_*: pointer, words where the predicate does not hold, predicate, site. Bytes and halves come
// in the low bits of a word of 16 bits.
struct Load {
  llvm::CallInst* call;
  int64_t offset;  ///< from the base
  int bytes;

  int num_words() const { return int(call->arg_size()) - 3; }
  int word_bytes() const { return bytes / num_words(); }
  llvm::Value* predicate() const { return call->getArgOperand(unsigned(num_words()) + 1); }
};

// Loads of one base and one predicate, in the block's order.
using Key = std::pair<llvm::Value*, llvm::Value*>;
using Loads = llvm::SmallVector<Load>;

// Bytes that a call of the row loads, 0 for other rows and for rows with modifiers.
int bytes_of(const llvm::CallInst& call) {
  const llvm::Function* callee = call.getCalledFunction();
  llvm::StringRef name = callee ? callee->getName() : llvm::StringRef();
  if (!name.consume_front(lower::kHwPrefix) || !name.consume_front("ld_global_")) return 0;
  constexpr std::pair<const char*, int> kRows[] = {{"b8", 1}, {"b16", 2}, {"b32", 4}, {"v2b32", 8}};
  for (auto [row, bytes] : kRows)
    if (name == row) return bytes;
  return 0;
}

const char* row_of(int bytes) {
  switch (bytes) {
    case 2:
      return "ld_global_b16";
    case 4:
      return "ld_global_b32";
    case 8:
      return "ld_global_v2b32";
    default:
      return "ld_global_v4b32";
  }
}

class Merger {
 public:
  explicit Merger(llvm::Function& function)
      : module_(*function.getParent()), layout_(module_.getDataLayout()), b_(function.getContext()) {}

  void run(llvm::BasicBlock& block) {
    for (llvm::Instruction& i : llvm::make_early_inc_range(block)) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
      const int bytes = call ? bytes_of(*call) : 0;
      if (bytes)
        add(*call, bytes);
      else if (i.mayWriteToMemory())
        flush();
    }
    flush();
  }

 private:
  void add(llvm::CallInst& call, int bytes) {
    llvm::APInt offset(64, 0);
    llvm::Value* base = call.getArgOperand(0)->stripAndAccumulateConstantOffsets(layout_, offset, true);
    const Load load{&call, offset.getSExtValue(), bytes};
    for (int word = 0; word < load.num_words(); ++word)
      if (!llvm::isa<llvm::ConstantInt>(call.getArgOperand(unsigned(word) + 1))) return;
    found_[{base, load.predicate()}].push_back(load);
  }

  void flush() {
    for (auto& [key, loads] : found_) merge(loads);
    found_.clear();
  }

  // The widest groups first, by offset.
  void merge(Loads& loads) {
    if (loads.size() < 2) return;
    llvm::DenseMap<const llvm::CallInst*, size_t> place;
    for (const Load& load : loads) place[load.call] = place.size();
    llvm::stable_sort(loads, [](const Load& a, const Load& b) { return a.offset < b.offset; });
    for (size_t first = 0; first < loads.size();) {
      size_t taken = 1;
      for (int bytes = kWidest; bytes > loads[first].bytes && taken == 1; bytes /= 2)
        if (const size_t count = count_within(loads, first, bytes); count > 1 && is_aligned(loads[first], bytes)) {
          const llvm::ArrayRef<Load> group = llvm::ArrayRef(loads).slice(first, count);
          const Load& earliest = *llvm::min_element(
              group, [&](const Load& x, const Load& y) { return place.lookup(x.call) < place.lookup(y.call); });
          replace(group, bytes, *earliest.call);
          taken = count;
        }
      first += taken;
    }
  }

  // How many loads from the first one on are exactly so many bytes, one after the other; 0 if there are gaps.
  static size_t count_within(llvm::ArrayRef<Load> loads, size_t first, int bytes) {
    int64_t next = loads[first].offset;
    const int64_t end = next + bytes;
    size_t at = first;
    for (; at < loads.size() && next < end; ++at) {
      if (loads[at].offset != next) return 0;
      next += loads[at].bytes;
    }
    return next == end ? at - first : 0;
  }

  bool is_aligned(const Load& load, int bytes) const {
    const llvm::KnownBits known = llvm::computeKnownBits(load.call->getArgOperand(0), layout_);
    return (uint64_t(1) << std::min(known.countMinTrailingZeros(), 32u)) % uint64_t(bytes) == 0;
  }

  void replace(llvm::ArrayRef<Load> group, int bytes, llvm::CallInst& earliest) {
    b_.SetInsertPoint(&earliest);
    b_.SetCurrentDebugLocation(earliest.getDebugLoc());
    // From the base, which all pointers follow from: that of the first element may come later.
    llvm::APInt offset(64, 0);
    llvm::Value* base = earliest.getArgOperand(0)->stripAndAccumulateConstantOffsets(layout_, offset, true);
    llvm::Value* pointer = b_.CreateGEP(b_.getInt8Ty(), base, b_.getInt64(uint64_t(group[0].offset)));
    llvm::SmallVector<uint64_t> absent(size_t(std::max(1, bytes / kWordBytes)), 0);
    for_each_word(group, [&](const Load& load, int word, int at) {
      const auto* value = llvm::cast<llvm::ConstantInt>(load.call->getArgOperand(unsigned(word) + 1));
      const int bits = 8 * load.word_bytes();
      absent[size_t(at / kWordBytes)] |= value->getValue().zextOrTrunc(unsigned(bits)).getZExtValue()
                                         << 8 * (at % kWordBytes);
    });
    llvm::SmallVector<llvm::Value*> args{pointer};
    llvm::Type* word_type = bytes < kWordBytes ? b_.getInt16Ty() : b_.getInt32Ty();
    for (uint64_t value : absent) args.push_back(llvm::ConstantInt::get(word_type, value));
    args.push_back(group[0].predicate());
    args.push_back(earliest.getArgOperand(earliest.arg_size() - 1));
    llvm::Value* merged = b_.CreateCall(lower::declare_hw(module_, *lower::find_hw(row_of(bytes))), args);
    take_apart(group, merged);
  }

  // The calls' results from the words of the merged one.
  void take_apart(llvm::ArrayRef<Load> group, llvm::Value* merged) {
    llvm::DenseMap<llvm::CallInst*, llvm::Value*> results;
    for_each_word(group, [&](const Load& load, int word, int at) {
      llvm::Value* x =
          merged->getType()->isStructTy() ? b_.CreateExtractValue(merged, unsigned(at / kWordBytes)) : merged;
      if (const int shift = 8 * (at % kWordBytes)) x = b_.CreateLShr(x, uint64_t(shift));
      llvm::Type* type = load.call->getArgOperand(1)->getType();
      x = b_.CreateTrunc(x, b_.getIntNTy(unsigned(8 * load.word_bytes())));
      x = b_.CreateZExt(x, type);
      llvm::Value*& result = results[load.call];
      if (!load.call->getType()->isStructTy()) {
        result = x;
        return;
      }
      if (!result) result = llvm::PoisonValue::get(load.call->getType());
      result = b_.CreateInsertValue(result, x, unsigned(word));
    });
    for (auto [call, result] : results) {
      call->replaceAllUsesWith(result);
      call->eraseFromParent();
    }
  }

  // Calls act(load, word of it, byte of the group).
  template <class F>
  static void for_each_word(llvm::ArrayRef<Load> group, const F& act) {
    int at = 0;
    for (const Load& load : group)
      for (int word = 0; word < load.num_words(); ++word, at += load.word_bytes()) act(load, word, at);
  }

  llvm::Module& module_;
  const llvm::DataLayout& layout_;
  llvm::IRBuilder<> b_;
  llvm::MapVector<Key, Loads> found_;
};

}  // namespace

void merge_loads(llvm::Function& function) {
  for (llvm::BasicBlock& block : function) Merger(function).run(block);
}

}  // namespace tegula
