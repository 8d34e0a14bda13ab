// Global and shared memory.
#include "codegen/analysis/equal_elements.h"
#include "codegen/lower/branch.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/thread_part.h"

namespace tegula::lower {

namespace {

// The width in bits of the words of an access of `bits` bits, and the suffix of its hardware rows.
struct AccessShape {
  int word_bits;
  const char* suffix;
};

AccessShape access_shape(int bits) {
  switch (bits) {
    case 8:
      return {16, "b8"};
    case 16:
      return {16, "b16"};
    case 32:
      return {32, "b32"};
    case 64:
      return {32, "v2b32"};
    case 128:
      return {32, "v4b32"};
  }
  TEGULA_UNREACHABLE("no access of {} bits", bits);
}

AccessShape access_shape(int element_bits, int count) {
  if (element_bits == 64 && count == 1) return {64, "b64"};
  return access_shape(element_bits * count);
}

// Bits of an element in memory.
int memory_bits(llvm::Type* element) {
  if (element->isPointerTy()) return 64;
  return std::max(8u, unsigned(element->getPrimitiveSizeInBits()));
}

// PTX takes either a cache operator or an eviction priority: the priority where the operator is the default one anyway.
std::string cache_modifiers(const ir::Op& op) {
  if (!op.info().attr(ir::attr::cache.name)) return {};
  if (op.has(ir::attr::volatile_) && op.get(ir::attr::volatile_)) return ".volatile";
  std::string cache = op.get(ir::attr::cache), evict = op.get(ir::attr::evict);
  bool by_default = cache.empty() || cache == ".ca" || cache == ".wb";
  return by_default && !evict.empty() ? ".L1::" + evict : cache;
}

// Elements of one access of a memory op.
int access_width(const ir::Op& op) { return int(op.get(ir::attr::vector)); }

llvm::Value* predicate(Lowering& l, const ir::Value* mask, int r) { return mask ? l.get(mask)[r] : l.b.getTrue(); }

}  // namespace

// Vectors have the elements' own type: the back end then sees pairs of fp16 and bf16 as such.
llvm::SmallVector<llvm::Value*> Lowering::pack(llvm::ArrayRef<llvm::Value*> elements, int word_bits) {
  llvm::SmallVector<llvm::Value*> values;
  for (llvm::Value* x : elements) {
    if (x->getType()->isPointerTy()) x = b.CreatePtrToInt(x, b.getInt64Ty());
    if (x->getType()->isIntegerTy(1)) x = b.CreateZExt(x, b.getInt8Ty());
    values.push_back(x);
  }
  int bits = int(values[0]->getType()->getPrimitiveSizeInBits());
  auto as_int = [&](llvm::Value* x) { return b.CreateBitCast(x, b.getIntNTy(unsigned(bits))); };
  llvm::Type* word = b.getIntNTy(unsigned(word_bits));
  llvm::SmallVector<llvm::Value*> words;
  if (bits == word_bits) {
    for (llvm::Value* x : values) words.push_back(as_int(x));
    return words;
  }
  if (bits > word_bits) {
    for (llvm::Value* x : values)
      for (int part = 0; part < bits / word_bits; ++part)
        words.push_back(b.CreateTrunc(b.CreateLShr(as_int(x), uint64_t(part * word_bits)), word));
    return words;
  }
  size_t per_word = size_t(word_bits / bits);
  if (values.size() < per_word) return {b.CreateZExt(as_int(values[0]), word)};  // a lone byte
  for (size_t i = 0; i < values.size(); i += per_word) {
    llvm::Value* v = llvm::PoisonValue::get(llvm::FixedVectorType::get(values[0]->getType(), unsigned(per_word)));
    for (size_t j = 0; j < per_word; ++j) v = b.CreateInsertElement(v, values[i + j], j);
    words.push_back(b.CreateBitCast(v, word));
  }
  return words;
}

Regs Lowering::unpack(llvm::ArrayRef<llvm::Value*> words, llvm::Type* element, int count) {
  int bits = memory_bits(element), word_bits = int(words[0]->getType()->getIntegerBitWidth());
  llvm::Type* as_int = b.getIntNTy(unsigned(bits));
  llvm::Type* stored = element->isPointerTy() || element->isIntegerTy(1) ? as_int : element;
  Regs out;
  llvm::Value* vector = nullptr;  // the word as its elements
  for (int i = 0; i < count; ++i) {
    llvm::Value* x = nullptr;
    if (bits == word_bits) {
      x = b.CreateBitCast(words[i], stored);
    } else if (bits > word_bits) {
      int parts = bits / word_bits;
      x = b.CreateZExt(words[i * parts], as_int);
      for (int p = 1; p < parts; ++p)
        x = b.CreateOr(x, b.CreateShl(b.CreateZExt(words[i * parts + p], as_int), uint64_t(p * word_bits)));
      x = b.CreateBitCast(x, stored);
    } else {
      int per_word = word_bits / bits;
      auto* type = llvm::FixedVectorType::get(stored, unsigned(per_word));
      if (i % per_word == 0) vector = b.CreateBitCast(words[i / per_word], type);
      x = b.CreateExtractElement(vector, uint64_t(i % per_word));
    }
    if (element->isPointerTy())
      x = b.CreateIntToPtr(x, element);
    else if (element->isIntegerTy(1))
      x = b.CreateICmpNE(x, llvm::Constant::getNullValue(as_int));
    out.push_back(x);
  }
  return out;
}

// --------------------------------------------------------------------------------------------------------- shared

void Lowering::store_shared(llvm::Value* address, llvm::ArrayRef<llvm::Value*> values, llvm::Value* owner,
                            const Loc& loc) {
  AccessShape shape = access_shape(memory_bits(values[0]->getType()), int(values.size()));
  llvm::SmallVector<llvm::Value*> args{address};
  args.append(pack(values, shape.word_bits));
  args.push_back(owner ? owner : b.getTrue());
  args.push_back(site(loc));
  hw(fmt::format("st_shared_{}", shape.suffix), args);
}

void Lowering::store_in_block(llvm::Value* block, llvm::Value* address, llvm::ArrayRef<llvm::Value*> values,
                              llvm::Value* owner, const Loc& loc) {
  AccessShape shape = access_shape(memory_bits(values[0]->getType()), int(values.size()));
  llvm::SmallVector<llvm::Value*> args{hw("address_in_block", {address, block})};
  args.append(pack(values, shape.word_bits));
  args.push_back(owner ? owner : b.getTrue());
  args.push_back(site(loc));
  hw(fmt::format("st_cluster_{}", shape.suffix), args);
}

void Lowering::store_in_all_blocks(llvm::Value* address, llvm::ArrayRef<llvm::Value*> values, llvm::Value* owner,
                                   const Loc& loc) {
  for (int block = 0; block < func.num_ctas(); ++block) store_in_block(i32(block), address, values, owner, loc);
}

namespace {
Regs load_from(Lowering& l, const char* memory, llvm::Value* address, llvm::Type* element, int count, const Loc& loc) {
  AccessShape shape = access_shape(memory_bits(element), count);
  llvm::Value* call = l.hw(fmt::format("ld_{}_{}", memory, shape.suffix), {address, l.site(loc)});
  return l.unpack(l.results(call), element, count);
}
}  // namespace

Regs Lowering::load_shared(llvm::Value* address, llvm::Type* element, int count, const Loc& loc) {
  return load_from(*this, "shared", address, element, count, loc);
}

Regs Lowering::load_cluster(llvm::Value* address, llvm::Type* element, int count, const Loc& loc) {
  return load_from(*this, "cluster", address, element, count, loc);
}

// --------------------------------------------------------------------------------------------------------- global

namespace {

// The words of as many consecutive elements as `fallback` has, or of those where the predicate does not hold.
llvm::SmallVector<llvm::Value*> load_words(Lowering& l, llvm::Value* pointer, llvm::ArrayRef<llvm::Value*> fallback,
                                           llvm::Value* predicate, const ir::Op& op) {
  AccessShape shape = access_shape(memory_bits(fallback[0]->getType()), int(fallback.size()));
  llvm::SmallVector<llvm::Value*> args{pointer};
  args.append(l.pack(fallback, shape.word_bits));
  args.push_back(predicate);
  args.push_back(l.site_of_load(op));
  return l.results(l.hw(fmt::format("ld_global_{}", shape.suffix), args, cache_modifiers(op)));
}

Regs load_global(Lowering& l, llvm::Value* pointer, llvm::ArrayRef<llvm::Value*> fallback, llvm::Value* predicate,
                 const ir::Op& op) {
  return l.unpack(load_words(l, pointer, fallback, predicate, op), fallback[0]->getType(), int(fallback.size()));
}

// The accesses of a load or store: `width` registers each, from these on.
struct Accesses {
  std::vector<int> firsts;
  int width;
};

// Whether the mask may be true for some elements of an access alone: for one run of them (is_one_run()).
bool may_end_within(const Lowering& l, const ir::Value* mask, int width) {
  if (!mask || width == 1) return false;
  for (int axis = 0; axis < mask->type.rank(); ++axis)
    if (mask->type.layout->contiguous_registers(axis) >= width)
      return l.axes.info(mask).constancy[size_t(axis)] < width;
  TEGULA_UNREACHABLE("an access of {} elements that are not side by side", width);
}

// Whether each of these accesses is made by one instruction: the mask, true for one run of its elements, is true for
// all of them, and its address is a multiple of its bytes, which is asked where that is but promised.
llvm::Value* are_whole(Lowering& l, const ir::Op& op, const ir::Value* mask, llvm::ArrayRef<int> firsts, int width) {
  llvm::Value *whole = l.b.getTrue(), *addresses = nullptr;
  const ir::Value* pointers = op.operand(0);
  for (int r : firsts) {
    whole = l.b.CreateAnd(whole, l.b.CreateAnd(predicate(l, mask, r), predicate(l, mask, r + width - 1)));
    if (!op.get(ir::attr::alignment_promised)) continue;
    llvm::Value* address = l.b.CreatePtrToInt(l.get(pointers)[size_t(r)], l.b.getInt64Ty());
    addresses = addresses ? l.b.CreateOr(addresses, address) : address;
  }
  if (!addresses) return whole;
  llvm::Value* rest = l.b.CreateAnd(addresses, uint64_t(elem_bytes(pointers->type.elem) * width - 1));
  return l.b.CreateAnd(whole, l.b.CreateICmpEQ(rest, l.b.getInt64(0)));
}

// A predicate computed here from the comparisons that it joins, which LLVM moves to their uses by itself: predicates of
// all elements would be held from the mask to its last access.
llvm::Value* computed_again(Lowering& l, llvm::Value* predicate) {
  auto* op = llvm::dyn_cast<llvm::BinaryOperator>(predicate);
  if (!op || op->getOpcode() != llvm::Instruction::And) return predicate;
  return l.b.CreateAnd(computed_again(l, op->getOperand(0)), computed_again(l, op->getOperand(1)));
}

// Words of the accesses. Where the mask is not true throughout, each access has a branch of its own: those of which it
// is true remain whole, and few registers hold single elements at a time. (What is taken from words waits for them:
// that stands after the branch, so that the next load is on its way before.)
Regs load_by_parts(Lowering& l, const ir::Op& op, const Accesses& accesses, const Regs& fallback) {
  const ir::Value* mask = op.operand(1);
  const Regs& pointers = l.get(op.operand(0));
  const int bits = memory_bits(fallback[0]->getType()), word_bits = access_shape(bits, accesses.width).word_bits;
  auto whole = [&](int r) {
    return Regs(load_words(l, pointers[r], llvm::ArrayRef(fallback).slice(r, accesses.width), l.b.getTrue(), op));
  };
  auto by_elements = [&](int r) {
    Regs elements;
    for (int k = r; k < r + accesses.width; ++k)
      elements.append(load_global(l, pointers[k], fallback[k], computed_again(l, predicate(l, mask, k)), op));
    return Regs(l.pack(elements, word_bits));
  };
  auto all = [&](const auto& load) {
    Regs words;
    for (int r : accesses.firsts) words.append(load(r));
    return words;
  };
  auto each = [&](int r) {
    return branch(
        l, are_whole(l, op, mask, r, accesses.width), [&] { return whole(r); }, [&] { return by_elements(r); });
  };
  return branch(
      l, are_whole(l, op, mask, accesses.firsts, accesses.width), [&] { return all(whole); },
      [&] { return all(each); });
}

}  // namespace

void lower_Load(Lowering& l, const ir::Op& op) {
  const ir::Type& type = op.result()->type;
  const ir::Value *mask = op.operand(1), *other = op.operand(2);
  const Regs& pointers = l.get(op.operand(0));
  const int n = Lowering::num_registers(type), width = std::min(access_width(op), n);
  const Regs fallback = other ? l.get(other) : Regs(n, llvm::Constant::getNullValue(l.element_type(type)));
  std::vector<int> firsts;  // of each access, where the same elements are loaded first
  const ir::Ints repeats = op.get(ir::attr::repeats);
  if (!repeats.empty()) firsts = first_registers(type, repeats);
  auto first = [&](int r) { return firsts.empty() ? Lowering::canonical_register(type, r) : firsts[size_t(r)]; };
  Accesses accesses{{}, width};
  for (int r = 0; r < n; r += width)
    if (first(r) == r) accesses.firsts.push_back(r);
  Regs words, out(n, nullptr);
  llvm::Value* owner = op.get(ir::attr::by_owners) ? l.is_owner_of_access(op, type.layout.get()) : nullptr;
  const auto loads = [&](int r) {
    llvm::Value* exists = predicate(l, mask, r);
    return owner ? l.b.CreateAnd(owner, exists) : exists;
  };
  if (may_end_within(l, mask, width)) words = load_by_parts(l, op, accesses, fallback);
  const size_t words_each = words.size() / accesses.firsts.size();
  for (size_t i = 0; i < accesses.firsts.size(); ++i) {
    const int r = accesses.firsts[i];
    const Regs part =
        words_each ? l.unpack(llvm::ArrayRef(words).slice(i * words_each, words_each), l.element_type(type), width)
                   : load_global(l, pointers[r], llvm::ArrayRef(fallback).slice(r, width), loads(r), op);
    std::copy(part.begin(), part.end(), out.begin() + r);
  }
  for (int r = 0; r < n; r += width)
    if (first(r) != r) std::copy_n(out.begin() + first(r), width, out.begin() + r);
  if (l.shared.offset.contains(&op)) out = l.pass_to_holders(op, out, owner);
  l.set(op.result(), std::move(out));
}

void lower_Store(Lowering& l, const ir::Op& op) {
  const ir::Value *value = op.operand(1), *mask = op.operand(2);
  const ir::Type& type = value->type;
  const Regs& pointers = l.get(op.operand(0));
  const Regs& values = l.get(value);
  const int n = Lowering::num_registers(type), width = std::min(access_width(op), n);
  llvm::Value* owner = l.is_owner_of_access(op, type.layout.get());
  auto store = [&](int first, int count, llvm::Value* exists) {
    AccessShape shape = access_shape(memory_bits(l.element_type(type)), count);
    llvm::SmallVector<llvm::Value*> args{pointers[first]};
    args.append(l.pack(llvm::ArrayRef(values).slice(first, count), shape.word_bits));
    args.push_back(owner ? l.b.CreateAnd(owner, exists) : exists);
    args.push_back(l.site(op.loc));
    l.hw(fmt::format("st_global_{}", shape.suffix), args, cache_modifiers(op));
  };
  Accesses accesses{{}, width};
  for (int r = 0; r < n; r += width)
    if (Lowering::canonical_register(type, r) == r) accesses.firsts.push_back(r);
  if (!may_end_within(l, mask, width)) {
    for (int r : accesses.firsts) store(r, width, predicate(l, mask, r));
    return;
  }
  auto whole = [&](int r) {
    store(r, width, l.b.getTrue());
    return Regs();
  };
  auto by_elements = [&](int r) {
    for (int k = r; k < r + width; ++k) store(k, 1, computed_again(l, predicate(l, mask, k)));
    return Regs();
  };
  auto all = [&](const auto& store) {
    for (int r : accesses.firsts) store(r);
    return Regs();
  };
  auto each = [&](int r) {
    return branch(
        l, are_whole(l, op, mask, r, width), [&] { return whole(r); }, [&] { return by_elements(r); });
  };
  branch(
      l, are_whole(l, op, mask, accesses.firsts, accesses.width), [&] { return all(whole); },
      [&] { return all(each); });
}

void fetch_load(Lowering& l, const ir::Op& load) {
  const ir::Value *ptr = load.operand(0), *mask = load.operand(1);
  const int n = Lowering::num_registers(ptr->type), width = std::min(access_width(load), n);
  for (int r = 0; r < n; r += width)
    if (Lowering::canonical_register(ptr->type, r) == r) l.hw("prefetch_l2", {l.get(ptr)[r], predicate(l, mask, r)});
}

namespace {

constexpr int64_t kBarrierBytes = 8;

// Calls act(address, whether the thread is to act) for the barriers of a shared_alloc: once, as each thread has one of
// them, or more often where they are more than the threads.
template <class F>
void for_each_barrier(Lowering& l, const ir::Op& alloc, const F& act) {
  const int64_t count = alloc.get(ir::attr::slots) * alloc.result()->type.num_elements(), threads = 32 * l.num_warps();
  llvm::Value* own = l.b.CreateAdd(l.scalar(alloc.result()), l.b.CreateMul(l.thread(), l.i32(kBarrierBytes)));
  for (int64_t i = 0; i < count; i += threads)
    act(l.b.CreateAdd(own, l.i32(kBarrierBytes * i)),
        l.b.CreateICmpULT(l.thread(), l.i32(std::min(count - i, threads))));
}

}  // namespace

void lower_Barrier(Lowering& l, const ir::Op& op) {
  if (op.get(ir::attr::async_proxy)) l.hw("fence_async_shared", {});
  if (op.get(ir::attr::whole_program) && l.func.num_ctas() > 1)
    l.cluster_barrier(op.loc);
  else
    l.barrier(op.loc);
}

// ---------------------------------------------------------------------------------------- places in shared memory

void lower_SharedAlloc(Lowering& l, const ir::Op& op) {
  l.set_scalar(op.result(), l.shared_address(l.shared.offset.at(&op)));
  if (!op.get(ir::attr::barriers)) return;
  const int64_t arrivals = op.get(ir::attr::arrivals);
  for_each_barrier(l, op, [&](llvm::Value* address, llvm::Value* first) {
    l.hw("mbarrier_init", {address, l.i32(arrivals ? arrivals : 32 * l.num_warps()), first, l.site(op.loc)});
  });
  if (l.precedes_parting(op)) return;
  if (arrivals) l.hw("fence_async_shared", {});  // bulk copies count on them
  l.barrier(op.loc);
}

void lower_SharedFree(Lowering& l, const ir::Op& op) {
  for_each_barrier(l, *op.operand(0)->def, [&](llvm::Value* address, llvm::Value* first) {
    l.hw("mbarrier_inval", {address, first, l.site(op.loc)});
  });
}

void lower_SharedSlot(Lowering& l, const ir::Op& op) {
  const ir::Type& type = op.result()->type;
  llvm::Value* distance = l.i32(type.num_elements() * type.bits() / 8);
  l.set_scalar(op.result(), l.b.CreateAdd(l.scalar(op.operand(0)), l.b.CreateMul(l.scalar(op.operand(1)), distance)));
}

// ------------------------------------------------------------------------------------ barriers between groups of warps

namespace {

llvm::Value* is_first_lane(Lowering& l) { return l.b.CreateICmpEQ(l.b.CreateAnd(l.thread(), l.i32(31)), l.i32(0)); }

// Of the two that take turns, the thread's warpgroup or group of the program's, the same number in all lanes.
llvm::Value* group_in_turns(Lowering& l) {
  return l.num_groups() > 1 ? l.group() : l.b.CreateLShr(l.first_thread_of_warp(), l.i32(7));
}

// The number of the barrier at which a group waits for its turn.
llvm::Value* turn_of(Lowering& l, const ir::Op& op, llvm::Value* group) {
  const bool of_stores = op.get(ir::attr::of_stores);
  return l.b.CreateAdd(group, l.i32(of_stores ? kTurnsToStore : kTurnsToMultiply));
}

std::string two_groups(Lowering& l) {
  TEGULA_CHECK(l.num_warps() * l.num_groups() == 8, "turns of {} groups of {} warps", l.num_groups(), l.num_warps());
  return ".256";
}

}  // namespace

namespace {

// Each of the first lanes at the barrier of one block.
void arrive_in_all_blocks(Lowering& l, const ir::Op& op) {
  llvm::Value* lane = l.b.CreateAnd(l.thread(), l.i32(31));
  llvm::Value* arrives = l.b.CreateICmpULT(lane, l.i32(l.func.num_ctas()));
  if (op.operand(1)) arrives = l.b.CreateAnd(arrives, l.scalar(op.operand(1)));
  llvm::Value* block = l.b.CreateAnd(lane, l.i32(l.func.num_ctas() - 1));
  llvm::Value* there = l.hw("address_in_block", {l.scalar(op.operand(0)), block});
  l.hw("mbarrier_arrive_cluster", {there, arrives, l.site(op.loc)});
}

}  // namespace

void lower_PhaseArrive(Lowering& l, const ir::Op& op) {
  if (const int64_t bytes = op.get(ir::attr::bytes)) {
    if (op.get(ir::attr::async_proxy)) l.hw("fence_async_shared", {});
    llvm::Value* arrives = l.is_elected();
    if (op.operand(1)) arrives = l.b.CreateAnd(arrives, l.scalar(op.operand(1)));
    return void(l.hw("mbarrier_arrive_expect", {l.scalar(op.operand(0)), l.i32(bytes), arrives, l.site(op.loc)}));
  }
  if (op.get(ir::attr::async_proxy)) l.hw("fence_async_shared", {});
  l.hw("warp_barrier", {});
  if (op.get(ir::attr::whole_program)) return arrive_in_all_blocks(l, op);
  llvm::Value* arrives = is_first_lane(l);
  if (op.operand(1)) arrives = l.b.CreateAnd(arrives, l.scalar(op.operand(1)));
  l.hw("mbarrier_arrive", {l.scalar(op.operand(0)), arrives, l.site(op.loc)});
}

void lower_PhaseWait(Lowering& l, const ir::Op& op) {
  l.hw("mbarrier_wait", {l.scalar(op.operand(0)), l.scalar(op.operand(1)), l.site(op.loc)});
}

void lower_TurnWait(Lowering& l, const ir::Op& op) {
  l.hw("turn_wait", {turn_of(l, op, group_in_turns(l)), l.site(op.loc)}, two_groups(l));
}

void lower_TurnPass(Lowering& l, const ir::Op& op) {
  if (op.get(ir::attr::of_stores)) l.hw("bulk_store_wait_all", {});
  llvm::Value *group = group_in_turns(l), *last = l.b.CreateICmpEQ(group, l.i32(1));
  llvm::Value* passes = l.b.CreateSelect(last, l.scalar(op.operand(1)), l.scalar(op.operand(0)));
  llvm::Value* other = l.b.CreateXor(group, l.i32(1));
  l.hw("turn_pass", {turn_of(l, op, other), passes, l.site(op.loc)}, two_groups(l));
}

void lower_CopyWarps(Lowering&, const ir::Op&) {}  // lowered after the program, which it stands beside

// --------------------------------------------------------------------------------------------- asynchronous copies

namespace {

// Each thread copies all that it would load, by vectors of 16 bytes.
void copy_to_own_part(Lowering& l, const ir::Op& op) {
  const ir::Value *ptr = op.operand(0), *mask = op.operand(2);
  ir::Type tile = ptr->type;
  tile.pointer = false;
  const ThreadPart part(l, tile, l.scalar(op.operand(1)));
  const Regs& pointers = l.get(ptr);
  for (int r = 0; r < part.registers; r += part.width)
    l.hw("cp_async_16", {part.address(r), pointers[size_t(r)], predicate(l, mask, r), l.site(op.loc)});
}

}  // namespace

// What the hardware cannot copy is loaded and stored at once: for the waits after it this is a copy that is done
// early. Of the threads that hold an element one copies it.
void lower_AsyncCopy(Lowering& l, const ir::Op& op) {
  const ir::Value *ptr = op.operand(0), *mask = op.operand(2);
  const ir::Type& place = op.operand(1)->type;
  const LinearLayout& layout = *ptr->type.layout;
  if (op.get(ir::attr::own)) return copy_to_own_part(l, op);
  LinearLayout to_offset = layout.invert_and_compose(*place.layout);
  llvm::Value* base = l.scalar(op.operand(1));
  const int bytes = place.bits() / 8, n = Lowering::num_registers(ptr->type);
  // Registers that lie side by side in global memory do so in the place, as far as its swizzle leaves them together.
  int width = 1;
  for (int bit = 0; bit < to_offset.in_bits(Dim::Register) && width < access_width(op) &&
                    to_offset.basis(Dim::Register, bit, Dim::Offset) == width;
       ++bit)
    width *= 2;
  const Regs& pointers = l.get(ptr);
  llvm::Value* zero = llvm::Constant::getNullValue(l.element_type(place.elem));
  llvm::Value* owner = l.is_owner(&layout);
  for (int r = 0; r < n; r += width) {
    if (layout.canonical(Dim::Register, r) != r) continue;
    llvm::Value *to = l.element_address(base, to_offset, r, bytes), *exists = predicate(l, mask, r);
    if (width * bytes < kLeastCopyBytes) {
      llvm::Value* loads = owner ? l.b.CreateAnd(owner, exists) : exists;
      l.store_shared(to, load_global(l, pointers[r], Regs(width, zero), loads, op), owner, op.loc);
    } else if (owner) {
      l.hw(fmt::format("cp_async_by_some_{}", width * bytes), {to, pointers[r], exists, owner, l.site(op.loc)});
    } else {
      l.hw(fmt::format("cp_async_{}", width * bytes), {to, pointers[r], exists, l.site(op.loc)});
    }
  }
}

// A group's token is no value of the program: the wait counts groups. A barrier's is its address; bit 0 is the phase.
void lower_AsyncCommit(Lowering& l, const ir::Op& op) {
  if (!op.operand(0)) {
    l.hw("cp_async_commit", {});
    return l.set_scalar(op.result(), l.i32(0));
  }
  llvm::Value* address = l.scalar(op.operand(0));
  if (const int64_t in_bulk = op.get(ir::attr::bytes)) {
    llvm::Value* bytes = l.i32(in_bulk);
    if (op.operand(2)) bytes = l.b.CreateSelect(l.scalar(op.operand(2)), bytes, l.i32(0));
    l.hw("mbarrier_arrive_expect", {address, bytes, l.is_elected(), l.site(op.loc)});
  } else {
    l.hw("cp_async_mbarrier_arrive", {address, l.site(op.loc)});
  }
  l.set_scalar(op.result(), l.b.CreateOr(address, l.scalar(op.operand(1))));
}

void lower_AsyncWait(Lowering& l, const ir::Op& op) {
  if (auto groups = l.groups.find(&op); groups != l.groups.end()) {
    l.hw("cp_async_wait", {}, fmt::format(".{}", groups->second));
    return;
  }
  for (const ir::Value* token : op.operands) {
    llvm::Value *value = l.scalar(token), *address = l.b.CreateAnd(value, l.i32(-kBarrierBytes));
    l.hw("mbarrier_wait", {address, l.b.CreateAnd(value, l.i32(1)), l.site(op.loc)});
  }
}

}  // namespace tegula::lower
