// Atomic operations in global memory.
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

std::string semantics(const ir::Op& op) {
  const std::string sem = op.get(ir::attr::sem);
  return sem.empty() ? "acq_rel" : sem;
}

std::string scope(const ir::Op& op) {
  const std::string scope = op.get(ir::attr::scope);
  return scope.empty() ? "gpu" : scope;
}

/// Whether the operation depends on what a float's bits mean. (Wider floats have no extremes here: their bits do.)
bool combines_floats(const std::string& kind, const ir::Type& type) {
  return type.is_float() && (kind == "add" || kind == "min" || kind == "max");
}

/// The row of hw.def for `kind` of `count` elements side by side. Sums depend on the whole type, extremes on the sign;
/// the others move bits.
std::string row_of(const std::string& kind, const ir::Type& type, int count) {
  const int bits = type.bits(), words = count > 1 ? count * bits / 32 : 1;
  if (combines_floats(kind, type))
    return fmt::format("atom_{}_{}{}{}", kind, words > 1 ? fmt::format("v{}", words) : "", elem_info(type.elem).text,
                       bits == 16 && count > 1 ? "x2" : "");
  if (kind == "add") return fmt::format("atom_add_i{}", bits);
  if (kind == "min" || kind == "max") return fmt::format("atom_{}_{}{}", kind, is_signed(type.elem) ? 's' : 'u', bits);
  return fmt::format("atom_{}_b{}", kind, bits);
}

/// The operand as the row takes it: sums of floats as they are, all else as integers.
llvm::Value* operand(Lowering& l, const std::string& kind, const ir::Type& type, llvm::Value* x) {
  if (kind == "add" || combines_floats(kind, type)) return x;
  return l.b.CreateBitCast(x, l.b.getIntNTy(unsigned(x->getType()->getPrimitiveSizeInBits())));
}

}  // namespace

// A thread with several elements orders them all by one fence on either side, since on GPUs each operation that orders
// memory has a fence of its own. An operation whose result is not used need not acquire.
void lower_AtomicRmw(Lowering& l, const ir::Op& op) {
  const ir::Value *value = op.operand(1), *mask = op.operand(2), *compare = op.operand(3);
  const ir::Type& type = value->type;
  const std::string kind = op.get(ir::attr::kind), sem = semantics(op);
  const int n = Lowering::num_registers(type), width = int(op.get(ir::attr::vector));
  const bool fenced = n > width && sem != "relaxed";
  const std::string row = row_of(kind, type, width), fence = ".acq_rel." + scope(op);
  const std::string order = fenced ? "relaxed" : sem;
  // PTX takes either order; this one is Triton's, which tests of programs look for.
  const std::string mods =
      kind == "cas" ? fmt::format(".{}.{}", order, scope(op)) : fmt::format(".{}.{}", scope(op), order);
  const Regs &pointers = l.get(op.operand(0)), &values = l.get(value);
  llvm::Value* owner = l.is_owner_of_access(op, type.layout.get());
  if (fenced && sem != "acquire") l.hw("fence", {}, fence);
  Regs old(n, nullptr);
  for (int r = 0; r < n; r += width) {
    if (int first = Lowering::canonical_register(type, r); first != r) {
      std::copy_n(old.begin() + first, width, old.begin() + r);
      continue;
    }
    llvm::Value* p = mask ? l.get(mask)[r] : l.b.getTrue();
    llvm::SmallVector<llvm::Value*> args{pointers[r]};
    if (compare) args.push_back(operand(l, kind, type, l.get(compare)[r]));
    if (width > 1)
      args.append(l.pack(llvm::ArrayRef(values).slice(r, width), 32));
    else
      args.push_back(operand(l, kind, type, values[r]));
    args.push_back(owner ? l.b.CreateAnd(owner, p) : p);
    args.push_back(l.site(op.loc));
    const llvm::SmallVector<llvm::Value*> results = l.results(l.hw(row, args, mods));
    Regs part = width > 1 ? l.unpack(results, l.element_type(type), width)
                          : Regs{l.b.CreateBitCast(results[0], l.element_type(type))};
    std::copy(part.begin(), part.end(), old.begin() + r);
  }
  if (fenced && sem != "release" && l.users.contains(op.result())) l.hw("fence", {}, fence);
  if (owner && l.users.contains(op.result())) old = l.pass_to_holders(op, old, owner);
  l.set(op.result(), std::move(old));
}

}  // namespace tegula::lower
