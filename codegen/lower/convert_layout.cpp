// Conversions of layouts by registers, shuffles, exchanges and shared memory; what else threads and blocks hand over.
#include "codegen/analysis/exchange_rounds.h"
#include "codegen/layout/makers.h"
#include "codegen/layout/spread_banks.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/thread_part.h"

namespace tegula::lower {

namespace {

// Output `dim` of a (register, lane, warp, block) -> (register, lane, warp, block) map for one register, as constant
// and thread part.
int32_t register_part(const LinearLayout& map, Dim dim, int r) {
  size_t at = 0;
  while (map.outs()[at].dim != dim) ++at;
  return map.apply({{Dim::Register, r}})[at];
}

// The map's source registers for lane 0 of warp 0, or others that bits of the thread's index select.
Regs convert_in_registers(Lowering& l, const Regs& regs, const LinearLayout& map, int n) {
  struct Choice {
    llvm::Value* bit;
    int other;  // what it changes of the register's number
  };
  std::vector<Choice> choices;
  for (auto [dim, first] : {std::pair(Dim::Lane, 0), std::pair(Dim::Warp, 5)})
    for (int bit = 0; bit < map.in_bits(dim); ++bit)
      if (const int other = map.basis(dim, bit, Dim::Register))
        choices.push_back({l.b.CreateTrunc(l.b.CreateLShr(l.thread(), uint64_t(first + bit)), l.b.getInt1Ty()), other});
  std::map<std::pair<int, size_t>, llvm::Value*> chosen;
  const std::function<llvm::Value*(int, size_t)> choose = [&](int r, size_t from) -> llvm::Value* {
    if (from == choices.size()) return regs[r];
    auto [it, fresh] = chosen.try_emplace({r, from});
    if (!fresh) return it->second;
    llvm::Value *set = choose(r ^ choices[from].other, from + 1), *clear = choose(r, from + 1);
    return chosen[{r, from}] = l.b.CreateSelect(choices[from].bit, set, clear);
  };
  Regs out;
  for (int r = 0; r < n; ++r) out.push_back(choose(register_part(map, Dim::Register, r), 0));
  return out;
}

// What one shuffle moves: registers that the destination takes from one lane, as many as fit in a word of 32 bits.
class Words {
 public:
  Words(Lowering& l, const Regs& regs, const ir::Type& element, const LinearLayout& map)
      : l_(l), regs_(regs), element_(l.element_type(element)), element_bits_(std::max(8, element.bits())) {
    for (int bit = 0; bit < map.in_bits(Dim::Register) && element_bits_ * 2 * count() <= 32; ++bit)
      if (int from = map.basis(Dim::Register, bit, Dim::Register); from && !map.basis(Dim::Register, bit, Dim::Lane))
        bits_.push_back({1 << bit, from});
  }

  int count() const { return 1 << bits_.size(); }
  /// The first register of r's word in the destination, and r's place in the word.
  int first(int r) const {
    for (auto [to, from] : bits_) r &= ~to;
    return r;
  }
  int place(int r) const {
    int at = 0;
    for (size_t i = 0; i < bits_.size(); ++i) at |= r & bits_[i].to ? 1 << i : 0;
    return at;
  }
  /// Whether a word begins at this register of the source, where each bit leads to one.
  bool begins(int source) const {
    for (auto [to, from] : bits_)
      if (source & from) return false;
    return true;
  }

  llvm::Value* pack(int source) const {
    if (bits_.empty()) return regs_[source];
    Regs elements;
    for (int i = 0; i < count(); ++i) {
      int r = source;
      for (size_t j = 0; j < bits_.size(); ++j) r ^= i >> j & 1 ? bits_[j].from : 0;
      elements.push_back(regs_[r]);
    }
    return l_.pack(elements, element_bits_ * count())[0];
  }
  Regs unpack(llvm::Value* word) const { return bits_.empty() ? Regs{word} : l_.unpack({word}, element_, count()); }

 private:
  struct Bit {
    int to, from;  ///< registers of the destination and of the source that differ in it
  };
  Lowering& l_;
  const Regs& regs_;
  llvm::Type* element_;
  int element_bits_;
  std::vector<Bit> bits_;
};

Regs convert_by_shuffles(Lowering& l, const Regs& regs, const ir::Type& element, const LinearLayout& map, int n) {
  // The register to read may depend on one bit of the reader's lane: then both candidates are shuffled.
  int chooser = -1;
  for (int bit = 0; bit < map.in_bits(Dim::Lane); ++bit)
    if (map.basis(Dim::Lane, bit, Dim::Register)) chooser = bit;
  const Words words(l, regs, element, map);
  Regs out;
  std::map<std::pair<int, int>, Regs> done;
  for (int r = 0; r < n; ++r) {
    const int first = words.first(r);
    int lane_constant = register_part(map, Dim::Lane, first), source = register_part(map, Dim::Register, first);
    auto [it, fresh] = done.try_emplace({lane_constant, source});
    if (fresh) {
      llvm::Value* lane = l.b.CreateXor(l.thread_part(map, Dim::Lane), l.i32(lane_constant));
      llvm::Value* x = l.shuffle(words.pack(source), lane, false);
      if (chooser >= 0) {
        int other = source ^ map.basis(Dim::Lane, chooser, Dim::Register);
        llvm::Value* y = l.shuffle(words.pack(other), lane, false);
        llvm::Value* bit = l.b.CreateTrunc(l.b.CreateLShr(l.thread(), uint64_t(chooser)), l.b.getInt1Ty());
        x = l.b.CreateSelect(bit, y, x);
      }
      it->second = words.unpack(x);
    }
    out.push_back(it->second[words.place(r)]);
  }
  return out;
}

Regs convert_by_exchange(Lowering& l, const Regs& regs, const ir::Type& element, const Conversion& plan, int n) {
  const LinearLayout& map = plan.source_of;
  const Words words(l, regs, element, map);
  std::vector<llvm::Value*> moved(regs.size());
  for (int r = 0; r < int(regs.size()); ++r)
    if (words.begins(r)) moved[r] = words.pack(r);
  for (auto [register_bit, lane_bit] : plan.swaps) {
    const int other = 1 << register_bit;
    llvm::Value* upper = l.b.CreateTrunc(l.b.CreateLShr(l.thread(), uint64_t(lane_bit)), l.b.getInt1Ty());
    for (int r = 0; r < int(moved.size()); ++r) {
      if (!moved[r] || r & other) continue;
      llvm::Value *&low = moved[r], *&high = moved[r | other];
      llvm::Value* got = l.shuffle(l.b.CreateSelect(upper, low, high), l.i32(1 << lane_bit), true);
      low = l.b.CreateSelect(upper, got, low), high = l.b.CreateSelect(upper, high, got);
    }
  }
  // What was exchanged over a lane bit is in the register from which the partner was sent.
  auto source = [&](int r) {
    int at = register_part(map, Dim::Register, r);
    const int lanes = register_part(map, Dim::Lane, r);
    for (auto [register_bit, lane_bit] : plan.swaps)
      if (lanes >> lane_bit & 1) at |= 1 << register_bit;
    return at;
  };
  Regs out;
  std::map<int, Regs> unpacked;
  for (int r = 0; r < n; ++r) {
    const int at = source(words.first(r));
    Regs& elements = unpacked[at];
    if (elements.empty()) elements = words.unpack(moved[at]);
    out.push_back(elements[words.place(r)]);
  }
  return out;
}

// The register bits that make up one access of `vector` elements: bit j moves the offset by 2^j.
llvm::SmallVector<int> vector_bits(const LinearLayout& to_offset, int vector) {
  llvm::SmallVector<int> bits;
  for (int step = 1; step < vector; step *= 2)
    for (int bit = 0; bit < to_offset.in_bits(Dim::Register); ++bit)
      if (to_offset.basis(Dim::Register, bit, Dim::Offset) == step) {
        bits.push_back(bit);
        break;
      }
  return bits;
}

// Writes and reads a tile in the area of shared memory that begins at `base`.
class SharedExchange {
 public:
  SharedExchange(Lowering& l, const ir::Op& op, const ir::Type& element, llvm::Value* base)
      : l_(l), op_(op), base_(base), element_(l.element_type(element)), bits_(std::max(8, element.bits())) {}

  void write_place(const Regs& regs, const LinearLayout& from, const LinearLayout& shared) {
    const auto stmatrix = plan_store(from, shared);
    llvm::Value* owner = l_.exchange_owner(op_, &from);
    if (const auto spread = stmatrix ? std::nullopt : spread_over_banks(from, shared))
      write(std::nullopt, swapped(regs, spread->swaps), spread->layout, shared, owner);
    else
      write(stmatrix, regs, from, shared, owner);
  }

  Regs read_place(const LinearLayout& to, const LinearLayout& shared) {
    const auto ldmatrix = plan_load(to, shared);
    if (const auto spread = ldmatrix ? std::nullopt : spread_over_banks(to, shared))
      return swapped(read(std::nullopt, spread->layout, shared), spread->swaps);
    return read(ldmatrix, to, shared);
  }

  Regs run(const Regs& regs, const LinearLayout& from, const LinearLayout& to) {
    return run(regs, from, to, l_.exchange_owner(op_, &from));
  }

  /// Within one block, in as many rounds as a large tile takes.
  Regs run_in_rounds(const Regs& regs, const LinearLayout& from, const LinearLayout& to) {
    return run_in_rounds(regs, from, to, l_.exchange_owner(op_, &from));
  }

  /// Exchanges tiles between the blocks of the cluster: each block writes its parts for all blocks, laid out as `parts`
  /// says, or one part that is for each of them, and all read theirs. (Reading takes each block as many accesses as a
  /// conversion; no block has to reserve memory for what others send.)
  Regs exchange_blocks(const Regs& regs, const LinearLayout& parts, const LinearLayout& to) {
    const bool one = parts.outs()[0].size == 1;
    const LinearLayout shared = shared_layout_for_conversion(parts, one ? of_one_block(to) : to, bits_, nullptr);
    write(std::nullopt, regs, parts, shared, l_.exchange_owner(op_, &parts));
    l_.cluster_barrier(op_.loc);
    Regs out = read_from_blocks(to, one ? of_one_block(to) : of_this_block(to), shared);
    l_.cluster_barrier(op_.loc);
    return out;
  }

 private:
  // `owner` says which threads store; null: all.
  Regs run_in_rounds(const Regs& regs, const LinearLayout& from, const LinearLayout& to, llvm::Value* owner) {
    const auto halves = halves_of(from, to, bits_);
    if (!halves) return run(regs, from, to, owner);
    const auto &mine = halves->source_register, &wanted = halves->destination_register;
    Regs out(size_t(to.in_size(Dim::Register)), nullptr);
    for (int half : {0, 1}) {
      if (half) l_.barrier(op_.loc);  // all have read the other half
      Regs part = regs;
      llvm::Value* stores = owner;
      if (mine) {
        part.resize(regs.size() / 2);
        for (size_t r = 0; r < part.size(); ++r) part[r] = regs[size_t(Halves::whole(int(r), *mine, half))];
      } else {
        llvm::Value* is_of_half = is_in_half(from, *halves, half);
        stores = owner ? l_.b.CreateAnd(owner, is_of_half) : is_of_half;
      }
      part = run_in_rounds(part, halves->source, halves->destination, stores);
      llvm::Value* keeps = wanted || !half ? nullptr : is_in_half(to, *halves, half);
      for (size_t r = 0; r < part.size(); ++r) {
        llvm::Value*& to_fill = out[wanted ? size_t(Halves::whole(int(r), *wanted, half)) : r];
        to_fill = keeps ? l_.b.CreateSelect(keeps, part[r], to_fill) : part[r];
      }
    }
    return out;
  }

  // Whether this thread's elements are those of a half.
  llvm::Value* is_in_half(const LinearLayout& layout, const Halves& halves, int half) {
    llvm::Value* bit = l_.b.CreateAnd(l_.coordinate(layout, halves.dim, 0), l_.i32(1 << halves.bit));
    return l_.b.CreateICmpEQ(bit, l_.i32(half << halves.bit));
  }

  Regs run(const Regs& regs, const LinearLayout& from, const LinearLayout& to, llvm::Value* owner) {
    // If one side accesses matrices, the other side moves 16 bytes at a time.
    std::optional<MatrixPlan> stmatrix, ldmatrix;
    LinearLayout shared;
    auto tried = [&](std::optional<LinearLayout> layout) {
      if (ldmatrix || stmatrix || !layout) return;
      shared = *std::move(layout);
      ldmatrix = plan_load(to, shared);
      if (!ldmatrix && access_width(to.invert_and_compose(shared)) * bits_ == 128) stmatrix = plan_store(from, shared);
    };
    if (bits_ == 16 && !l_.shared.across.contains(&op_)) {
      tried(shared_layout_for_dot_operand(from, bits_));
      tried(shared_layout_for_dot_operand(to, bits_));
      tried(shared_layout_for_matrices(to, from));
      tried(shared_layout_for_matrices(from, to));
    }
    if (!ldmatrix && !stmatrix) shared = shared_layout_for_conversion(from, to, bits_, nullptr);
    l_.before_exchange(op_);
    write(stmatrix, regs, from, shared, owner);
    l_.exchange_barrier(op_);
    return read(ldmatrix, to, shared);
  }

  // Holds dimension 0, that of the parts, at its first element.
  static LinearLayout of_one_block(const LinearLayout& to) { return to.hold_tile_dim(0); }

  // Along dimension 0 the part that has this block's number, in all blocks.
  static LinearLayout of_this_block(const LinearLayout& to) {
    std::vector<LinearLayout::In> ins = to.ins();
    for (LinearLayout::In& in : ins)
      for (LinearLayout::Basis& basis : in.bases) basis[0] = 0;
    LinearLayout::In own{Dim::Block, {}};
    for (int bit = 1; bit < int(to.outs()[0].size); bit *= 2) {
      own.bases.emplace_back(to.outs().size(), 0);
      own.bases.back()[0] = bit;
    }
    std::erase_if(ins, [](const LinearLayout::In& in) { return in.dim == Dim::Block; });
    ins.push_back(std::move(own));
    return LinearLayout(std::move(ins), to.outs());
  }

  // `to` from the blocks that are numbered so along dimension 0, of each the elements `part_of`.
  Regs read_from_blocks(const LinearLayout& to, const LinearLayout& part_of, const LinearLayout& shared) {
    const LinearLayout to_offset = part_of.invert_and_compose(shared);
    Regs out(size_t(to.in_size(Dim::Register)), nullptr);
    for_each_access(to, to_offset, [&](llvm::ArrayRef<int> registers) {
      llvm::Value* there = l_.hw("address_in_block", {base_, l_.coordinate(to, Dim::Dim0, registers[0])});
      Regs part = l_.load_cluster(l_.element_address(there, to_offset, registers[0], bits_ / 8), element_,
                                  int(registers.size()), op_.loc);
      for (size_t i = 0; i < registers.size(); ++i) out[size_t(registers[i])] = part[i];
    });
    return with_copies(std::move(out), to);
  }

  std::optional<MatrixPlan> plan_load(const LinearLayout& to, const LinearLayout& shared) const {
    if (!l_.target.has(Feature::Ldmatrix)) return std::nullopt;
    return plan_matrices(to, shared, bits_);
  }
  // No thread may hold copies: all of a warp store.
  std::optional<MatrixPlan> plan_store(const LinearLayout& from, const LinearLayout& shared) const {
    if (!l_.target.has(Feature::Stmatrix) || !from.is_invertible()) return std::nullopt;
    return plan_matrices(from, shared, bits_);
  }

  // The widest access in elements at these offsets: the lowest offset bits belong to registers alone.
  int access_width(const LinearLayout& to_offset) const {
    for (int width = 128 / bits_; width > 1; width /= 2) {
      auto bits = vector_bits(to_offset, width);
      if ((1 << bits.size()) != width) continue;
      bool alone = true;
      for (auto& in : to_offset.ins()) {
        for (auto& repeat : in.repeats) alone &= repeat.image[0] % width == 0;
        for (int bit = 0; bit < int(in.bases.size()); ++bit)
          if (in.dim != Dim::Register || std::find(bits.begin(), bits.end(), bit) == bits.end())
            alone &= to_offset.basis(in.dim, bit, Dim::Offset) % width == 0;
      }
      if (alone) return width;
    }
    return 1;
  }

  llvm::Value* address(const LinearLayout& to_offset, int r) {
    return l_.element_address(base_, to_offset, r, bits_ / 8);
  }

  // Calls `access` for each group of registers (element i of the access is registers[i]) that is not a copy.
  void for_each_access(const LinearLayout& layout, const LinearLayout& to_offset,
                       const std::function<void(llvm::ArrayRef<int> registers)>& access) {
    int width = access_width(to_offset), low = 0;
    auto bits = vector_bits(to_offset, width);
    for (int bit : bits) low |= 1 << bit;
    for (int r = 0; r < layout.in_size(Dim::Register); ++r) {
      if ((r & low) || layout.canonical(Dim::Register, r) != r) continue;
      llvm::SmallVector<int> registers;
      for (int i = 0; i < width; ++i) {
        int which = r;
        for (size_t j = 0; j < bits.size(); ++j)
          if (i >> j & 1) which |= 1 << bits[j];
        registers.push_back(which);
      }
      access(registers);
    }
  }

  void write(const std::optional<MatrixPlan>& stmatrix, const Regs& regs, const LinearLayout& from,
             const LinearLayout& shared, llvm::Value* owner) {
    if (stmatrix) return write_by_stmatrix(*stmatrix, regs, from);
    LinearLayout to_offset = from.invert_and_compose(shared);
    for_each_access(from, to_offset, [&](llvm::ArrayRef<int> registers) {
      Regs values;
      for (int r : registers) values.push_back(regs[r]);
      l_.store_for_exchange(op_, address(to_offset, registers[0]), values, owner);
    });
  }

  Regs read(const std::optional<MatrixPlan>& ldmatrix, const LinearLayout& to, const LinearLayout& shared) {
    if (ldmatrix) return read_by_ldmatrix(*ldmatrix, to);
    LinearLayout to_offset = to.invert_and_compose(shared);
    Regs out(to.in_size(Dim::Register), nullptr);
    for_each_access(to, to_offset, [&](llvm::ArrayRef<int> registers) {
      Regs part = l_.load_shared(address(to_offset, registers[0]), element_, int(registers.size()), op_.loc);
      for (size_t i = 0; i < registers.size(); ++i) out[registers[i]] = part[i];
    });
    return with_copies(std::move(out), to);
  }

  std::optional<SpreadBanks> spread_over_banks(const LinearLayout& reg, const LinearLayout& shared) const {
    constexpr int kWord = 32;
    if (bits_ != kWord) return std::nullopt;
    return spread_banks(reg, shared, access_width(reg.invert_and_compose(shared)));
  }

  // Each lane's registers, of which it exchanges those that its bits say.
  Regs swapped(Regs regs, const std::vector<std::pair<int, int>>& swaps) {
    for (const auto& [lane, bit] : swaps) {
      llvm::Value* other = l_.b.CreateICmpNE(l_.b.CreateAnd(l_.thread(), l_.i32(1 << lane)), l_.i32(0));
      for (size_t r = 0; r < regs.size(); ++r) {
        if (r >> bit & 1) continue;
        llvm::Value *&a = regs[r], *&b = regs[r | size_t(1) << bit], *first = a;
        a = l_.b.CreateSelect(other, b, first);
        b = l_.b.CreateSelect(other, first, b);
      }
    }
    return regs;
  }

  static std::string matrix_row(const char* name, const MatrixPlan& plan) {
    return fmt::format("{}_x{}{}", name, plan.matrices, plan.transposed ? "_trans" : "");
  }

  void write_by_stmatrix(const MatrixPlan& plan, const Regs& regs, const LinearLayout& from) {
    const size_t moved = size_t(plan.packed * plan.matrices);
    for (int r = 0; r < from.in_size(Dim::Register); r += int(moved)) {
      llvm::SmallVector<llvm::Value*> args{address(plan.address, r)};
      args.append(l_.pack(llvm::ArrayRef(regs).slice(size_t(r), moved), 32));
      args.push_back(l_.site(op_.loc));
      l_.hw(matrix_row("stmatrix", plan), args);
    }
  }

  Regs read_by_ldmatrix(const MatrixPlan& plan, const LinearLayout& to) {
    const std::string row = matrix_row("ldmatrix", plan);
    Regs out(to.in_size(Dim::Register), nullptr);
    const int moved = plan.packed * plan.matrices;
    for (int r = 0; r < int(out.size()); r += moved) {
      const Regs part =
          l_.unpack(l_.results(l_.hw(row, {address(plan.address, r), l_.site(op_.loc)})), element_, moved);
      std::copy(part.begin(), part.end(), out.begin() + r);
    }
    return out;
  }

  Regs with_copies(Regs regs, const LinearLayout& layout) {
    for (int r = 0; r < int(regs.size()); ++r) regs[r] = regs[layout.canonical(Dim::Register, r)];
    return regs;
  }

  Lowering& l_;
  const ir::Op& op_;
  llvm::Value* base_;
  llvm::Type* element_;
  int bits_;
};

}  // namespace

Regs Lowering::convert(const Regs& regs, const ir::Type& element, const LinearLayout& from, const LinearLayout& to,
                       const ir::Op& op) {
  Conversion plan = plan_conversion(from, to);
  int n = to.in_size(Dim::Register);
  switch (plan.route) {
    case Conversion::Route::Registers:
      return convert_in_registers(*this, regs, plan.source_of, n);
    case Conversion::Route::Shuffle:
      return convert_by_shuffles(*this, regs, element, plan.source_of, n);
    case Conversion::Route::Exchange:
      return convert_by_exchange(*this, regs, element, plan, n);
    case Conversion::Route::Shared:
      return SharedExchange(*this, op, element, shared_address(shared.offset.at(&op))).run_in_rounds(regs, from, to);
    case Conversion::Route::Cluster:
      return SharedExchange(*this, op, element, shared_address(shared.offset.at(&op))).run(regs, from, to);
  }
  TEGULA_UNREACHABLE("route");
}

void Lowering::store_to_place(const Regs& regs, const ir::Type& element, const LinearLayout& from,
                              const LinearLayout& shared, llvm::Value* base, const ir::Op& op) {
  SharedExchange(*this, op, element, base).write_place(regs, from, shared);
}

Regs Lowering::load_from_place(const ir::Type& element, const LinearLayout& to, const LinearLayout& shared,
                               llvm::Value* base, const ir::Op& op) {
  return SharedExchange(*this, op, element, base).read_place(to, shared);
}

void lower_SharedStore(Lowering& l, const ir::Op& op) {
  const ir::Type &type = op.operand(0)->type, &place = op.operand(1)->type;
  l.store_to_place(l.get(op.operand(0)), type.element(), *type.layout, *place.layout, l.scalar(op.operand(1)), op);
}

void lower_SharedRead(Lowering& l, const ir::Op& op) {
  const ir::Type &type = op.result()->type, &place = op.operand(0)->type;
  l.set(op.result(), l.load_from_place(type.element(), *type.layout, *place.layout, l.scalar(op.operand(0)), op));
}

namespace {}  // namespace

void lower_ThreadStore(Lowering& l, const ir::Op& op) {
  const ThreadPart part(l, op.operand(0)->type, l.scalar(op.operand(1)));
  const Regs& regs = l.get(op.operand(0));
  for (int r = 0; r < part.registers; r += part.width)
    l.store_shared(part.address(r), llvm::ArrayRef(regs).slice(size_t(r), size_t(part.width)), nullptr, op.loc);
}

void lower_ThreadRead(Lowering& l, const ir::Op& op) {
  const ir::Type& type = op.result()->type;
  const ThreadPart part(l, type, l.scalar(op.operand(0)));
  Regs out;
  for (int r = 0; r < part.registers; r += part.width)
    for (llvm::Value* x : l.load_shared(part.address(r), l.element_type(type.element()), part.width, op.loc))
      out.push_back(x);
  l.set(op.result(), std::move(out));
}

// The layout of the operand's parts, one for each block: a tile of the result's shape, or one part for all.
LinearLayout exchanged_parts(const ir::Op& op) {
  const ir::Type &from = op.operand(0)->type, &to = op.result()->type;
  if (op.get(ir::attr::axis) < 0) return from.layout->insert_tile_dim(0);
  const auto axis = size_t(op.get(ir::attr::axis));
  ir::Shape divided = from.shape;
  divided[axis] = to.shape[axis + 1];
  divided.insert(divided.begin() + int64_t(axis), to.shape[0]);
  std::vector<int> order{int(axis)};
  for (int i = 0; i < int(divided.size()); ++i)
    if (i != int(axis)) order.push_back(i);
  return from.layout->reshape_tile(divided)->permute_tile(order);
}

void lower_ExchangeBlocks(Lowering& l, const ir::Op& op) {
  const LinearLayout& to = *op.result()->type.layout;
  SharedExchange exchange(l, op, op.operand(0)->type.element(), l.shared_address(l.shared.offset.at(&op)));
  l.set(op.result(), exchange.exchange_blocks(l.get(op.operand(0)), exchanged_parts(op), to));
}

}  // namespace tegula::lower
