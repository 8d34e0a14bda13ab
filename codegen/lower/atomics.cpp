// Atomic operations in global memory.
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

std::string modifiers(const ir::Op& op) {
  std::string sem = op.get(ir::attr::sem), scope = op.get(ir::attr::scope);
  return fmt::format(".{}.{}", sem.empty() ? "acq_rel" : sem, scope.empty() ? "gpu" : scope);
}

/// Whether the operation depends on what a float's bits mean. (Wider floats have no extremes here: their bits do.)
bool combines_floats(const std::string& kind, const ir::Type& type) {
  return type.is_float() && (kind == "add" || kind == "min" || kind == "max");
}

/// The row of hw.def for `kind`. Sums depend on the whole type, extremes on the sign; the others move bits.
std::string row_of(const std::string& kind, const ir::Type& type, bool pair) {
  const int bits = type.bits();
  if (combines_floats(kind, type))
    return fmt::format("atom_{}_{}{}", kind, elem_info(type.elem).text, pair ? "x2" : "");
  if (kind == "add") return fmt::format("atom_add_i{}", bits);
  if (kind == "min" || kind == "max") return fmt::format("atom_{}_{}{}", kind, is_signed(type.elem) ? 's' : 'u', bits);
  return fmt::format("atom_{}_b{}", kind, bits);
}

/// The operand as the row takes it: sums of floats as they are, all else as integers.
llvm::Value* operand(Lowering& l, const std::string& kind, const ir::Type& type, llvm::Value* x) {
  if (kind == "add" || combines_floats(kind, type)) return x;
  return l.b.CreateBitCast(x, l.b.getIntNTy(unsigned(x->getType()->getPrimitiveSizeInBits())));
}

/// Gives the threads that hold copies of an element what its owner got.
Regs share(Lowering& l, const ir::Op& op, const Regs& owned, llvm::Value* owner) {
  const ir::Type& type = op.result()->type;
  const int bytes = std::max(1, type.bits() / 8);
  auto address = [&](int r) {
    llvm::Value* offset = l.b.CreateMul(l.linear_index(type, r), l.i32(bytes));
    return l.b.CreateAdd(l.shared_address(l.shared.offset.at(&op)), offset);
  };
  l.before_exchange(op);
  l.map_registers(type, [&](int r) { return l.store_for_exchange(op, address(r), {owned[r]}, owner), owned[r]; });
  l.exchange_barrier(op);
  return l.map_registers(type, [&](int r) { return l.load_shared(address(r), l.element_type(type), 1, op.loc)[0]; });
}

}  // namespace

void lower_AtomicRmw(Lowering& l, const ir::Op& op) {
  const ir::Value *value = op.operand(1), *mask = op.operand(2), *compare = op.operand(3);
  const ir::Type& type = value->type;
  const std::string kind = op.get(ir::attr::kind);
  const bool pair = op.get(ir::attr::vector) == 2 && (type.elem == Elem::F16 || l.target.has(Feature::AtomicBf16));
  const std::string row = row_of(kind, type, pair), mods = modifiers(op);
  const Regs &pointers = l.get(op.operand(0)), &values = l.get(value);
  llvm::Value* owner = l.is_owner_of_access(op, type.layout.get());
  const int n = Lowering::num_registers(type), width = pair ? 2 : 1;
  Regs old(n, nullptr);
  for (int r = 0; r < n; r += width) {
    if (int first = Lowering::canonical_register(type, r); first != r) {
      std::copy_n(old.begin() + first, width, old.begin() + r);
      continue;
    }
    llvm::Value* p = mask ? l.get(mask)[r] : l.b.getTrue();
    llvm::SmallVector<llvm::Value*> args{pointers[r]};
    if (compare) args.push_back(operand(l, kind, type, l.get(compare)[r]));
    args.push_back(pair ? l.pack(llvm::ArrayRef(values).slice(r, 2), 32)[0] : operand(l, kind, type, values[r]));
    args.push_back(owner ? l.b.CreateAnd(owner, p) : p);
    args.push_back(l.site(op.loc));
    llvm::Value* result = l.hw(row, args, mods);
    Regs part =
        pair ? l.unpack({result}, l.element_type(type), 2) : Regs{l.b.CreateBitCast(result, l.element_type(type))};
    std::copy(part.begin(), part.end(), old.begin() + r);
  }
  if (owner && l.uses[op.result()]) old = share(l, op, old, owner);
  l.set(op.result(), std::move(old));
}

}  // namespace tegula::lower
