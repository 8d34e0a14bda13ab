// Matrix products by wgmma, on B in shared memory and A there or in registers.
#include "codegen/analysis/wgmma.h"

#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

constexpr size_t kMostSums = kMmaMostColumns / 2;  ///< of an instruction

// The 64-bit description of an operand that begins at a shared address.
class Descriptor {
 public:
  Descriptor(Lowering& l, const ir::Value* place, int operand)
      : l_(l), operand_(*wgmma_operand(place->type, operand)), bytes_(place->type.bits() / 8), base_(l.scalar(place)) {}

  bool k_major() const { return operand_.k_major; }
  int together() const { return operand_.together; }

  // Moves the beginning by what the warpgroup's coordinate along `acc_axis` of the result is.
  void add_group_part(const LinearLayout& acc, int acc_axis) {
    for (int bit = 2; bit < acc.in_bits(Dim::Warp); ++bit) {
      int32_t coordinate = acc.basis(Dim::Warp, bit, tile_dim(acc_axis));
      if (!coordinate) continue;
      llvm::Value* one = l_.b.CreateAnd(l_.b.CreateLShr(l_.first_thread_of_warp(), uint64_t(5 + bit)), l_.i32(1));
      int64_t distance = acc_axis == 0 ? offset(coordinate, 0) : offset(0, coordinate);
      base_ = l_.b.CreateAdd(base_, l_.b.CreateMul(one, l_.i32(distance)));
    }
  }

  // That of the operand from (row, column) on. Addresses of shared memory stay below 2^18: no carry leaves their field.
  llvm::Value* at(int64_t row, int64_t column) {
    if (!first_) {
      auto field = [](int64_t bytes, int shift) { return uint64_t(bytes >> 4 & 0x3fff) << shift; };
      uint64_t mode = operand_.swizzle == 128 ? 1 : operand_.swizzle == 64 ? 2 : 3;
      uint64_t fixed = field(operand_.leading_bytes, 16) | field(operand_.stride_bytes, 32) | mode << 62;
      llvm::Value* begin = l_.b.CreateAnd(l_.b.CreateLShr(base_, 4), l_.i32(0x3fff));
      first_ = l_.b.CreateOr(l_.b.CreateZExt(begin, l_.b.getInt64Ty()), l_.b.getInt64(fixed));
    }
    return l_.b.CreateAdd(first_, l_.b.getInt64(uint64_t(offset(row, column)) >> 4));
  }

 private:
  int64_t offset(int64_t row, int64_t column) const {
    return int64_t(operand_.to_offset.apply({{Dim::Dim0, int32_t(row)}, {Dim::Dim1, int32_t(column)}})[0]) * bytes_;
  }

  Lowering& l_;
  WgmmaOperand operand_;
  int bytes_;
  llvm::Value* base_;
  llvm::Value* first_ = nullptr;
};

// The registers of an instruction's result that begins at (m, n), in its order: lane 0 holds rows {0, 8} and pairs of
// columns of every eight.
std::vector<int> instruction_registers(const LinearLayout& acc, int64_t m, int64_t n, int columns) {
  std::map<std::vector<int32_t>, int> by_coordinate;
  for (int r = acc.in_size(Dim::Register); r-- > 0;) by_coordinate[acc.apply({{Dim::Register, r}})] = r;
  std::vector<int> out;
  for (int column = 0; column < columns; column += 8)
    for (int row : {0, 8})
      for (int pair : {0, 1}) out.push_back(by_coordinate.at({int32_t(m + row), int32_t(n + column + pair)}));
  return out;
}

// A's fragments in registers for the instructions that begin at row m: 16 rows a warp by `depth`, as of mma.sync. fp32
// is rounded to tf32.
class Fragments {
 public:
  Fragments(Lowering& l, const ir::Value* a) : l_(l), per_word_(32 / a->type.bits()) {
    const Regs& regs = l.get(a);
    for (int r = 0; r < int(regs.size()); ++r) {
      auto [place, added] = registers_.try_emplace(a->type.layout->apply({{Dim::Register, r}}), regs[r]);
      if (added && a->type.elem == Elem::F32) place->second = l.hw("cvt_rna_tf32_f32", {regs[r]});
    }
  }
  llvm::SmallVector<llvm::Value*> at(int64_t m, int64_t k, int depth) {
    llvm::SmallVector<llvm::Value*> words;
    for (int half : {0, depth / 2})
      for (int row : {0, 8}) {
        llvm::SmallVector<llvm::Value*> elements;
        for (int i = 0; i < per_word_; ++i)
          elements.push_back(registers_.at({int32_t(m + row), int32_t(k + half + i)}));
        words.push_back(l_.pack(elements, 32)[0]);
      }
    return words;
  }

 private:
  Lowering& l_;
  int per_word_;
  std::map<std::vector<int32_t>, llvm::Value*> registers_;
};

}  // namespace

void lower_MmaStart(Lowering& l, const ir::Op& op) {
  const ir::Value *a = op.operand(0), *b = op.operand(1);
  const LinearLayout& acc = *op.result()->type.layout;
  Descriptor right(l, b, 1);
  const int columns = std::min(int(op.get(ir::attr::columns)), right.together());
  right.add_group_part(acc, 1);
  const MmaInstruction* instruction = find_mma(op, MmaPath::Warpgroup, l.target);
  TEGULA_CHECK(instruction, "no wgmma multiplies {} with {}", a->type.to_string(), b->type.to_string());
  // Which operands are transposed: those that do not lie along K.
  std::string row, transposed;
  auto lies = [&](const Descriptor& x) {
    if (instruction->order == MmaOrder::AnyOrder)
      transposed += fmt::format(".{}", int(!x.k_major()));
    else
      TEGULA_CHECK(x.k_major(), "{} wants operands that lie along K", instruction->hw_name(columns));
  };
  std::function<llvm::SmallVector<llvm::Value*>(int64_t, int64_t)> left;
  if (a->type.is_place()) {
    auto place = std::make_shared<Descriptor>(l, a, 0);
    place->add_group_part(acc, 0);
    row = instruction->hw_name(columns) + "_ss";
    lies(*place);
    left = [place](int64_t m, int64_t k) { return llvm::SmallVector<llvm::Value*>{place->at(m, k)}; };
  } else {
    // All of them are there before the fence.
    std::map<std::pair<int64_t, int64_t>, llvm::SmallVector<llvm::Value*>> words;
    Fragments fragments(l, a);
    for (int r = 0; r < Lowering::num_registers(op.result()->type); ++r)
      if (int32_t m = acc.apply({{Dim::Register, r}})[0]; m % instruction->m() == 0)
        for (int64_t k = 0; k < a->type.shape[1]; k += instruction->k)
          if (auto& of = words[{m, k}]; of.empty()) of = fragments.at(m, k, instruction->k);
    row = instruction->hw_name(columns) + "_rs";
    left = [words = std::move(words)](int64_t m, int64_t k) { return words.at({m, k}); };
  }
  lies(right);

  Regs sums = l.get(op.operand(2));
  llvm::Value* accumulate = op.operand(3) ? l.scalar(op.operand(3)) : l.b.getTrue();
  l.hw("wgmma_fence", {});
  for (int r = 0; r < int(sums.size()); ++r) {
    std::vector<int32_t> origin = acc.apply({{Dim::Register, r}});
    if (origin[0] % instruction->m() || origin[1] % columns) continue;
    std::vector<int> registers = instruction_registers(acc, origin[0], origin[1], columns);
    for (int64_t k = 0; k < a->type.shape[1]; k += instruction->k) {
      llvm::SmallVector<llvm::Value*> args = left(origin[0], k);
      args.push_back(right.at(k, origin[1]));
      for (int i : registers) args.push_back(sums[i]);
      args.push_back(k == 0 ? accumulate : l.b.getTrue());
      args.push_back(l.site(op.loc));
      llvm::Value* d = l.hw(row, args, transposed);
      for (size_t i = 0; i < registers.size(); ++i) sums[registers[i]] = l.b.CreateExtractValue(d, unsigned(i));
    }
  }
  l.hw("wgmma_commit", {});
  l.set(op.result(), std::move(sums));
}

void lower_MmaWait(Lowering& l, const ir::Op& op) {
  // As many at a time as an instruction has sums at most: more registers than a thread has cannot pass at once.
  llvm::ArrayRef<llvm::Value*> left = l.get(op.operand(0));
  Regs out;
  while (!left.empty()) {
    llvm::ArrayRef<llvm::Value*> some = left.take_front(std::min(left.size(), kMostSums));
    std::string row = fmt::format("wgmma_wait_{}n{}", op.result()->type.is_float() ? "" : "i32_", some.size());
    llvm::Value* done = l.hw(row, some, fmt::format(".{}", op.get(ir::attr::pending)));
    for (unsigned i = 0; i < some.size(); ++i) out.push_back(l.b.CreateExtractValue(done, i));
    left = left.drop_front(some.size());
  }
  l.set(op.result(), std::move(out));
}

}  // namespace tegula::lower
