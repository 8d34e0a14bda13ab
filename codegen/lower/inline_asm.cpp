// Inline assembly over tiles: each call takes `pack` elements of every operand, narrow ones side by side in registers.
#include <llvm/IR/InlineAsm.h>

#include "codegen/lower/asm_block.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

llvm::Type* register_type(Lowering& l, char letter) {
  switch (letter) {
    case 'b':
      return l.b.getInt1Ty();
    case 'c':
    case 'h':
      return l.b.getInt16Ty();
    case 'l':
      return l.b.getInt64Ty();
    case 'f':
      return l.b.getFloatTy();
    case 'd':
      return l.b.getDoubleTy();
    default:
      return l.b.getInt32Ty();
  }
}

/// The bits of x in a register of that type, zeros above them; and back.
llvm::Value* resize(Lowering& l, llvm::Value* x, llvm::Type* type) {
  auto bits = [](llvm::Type* t) { return t->isPointerTy() ? 64u : unsigned(t->getPrimitiveSizeInBits()); };
  llvm::Type* whole = l.b.getIntNTy(bits(x->getType()));
  llvm::Value* integer = x->getType()->isPointerTy() ? l.b.CreatePtrToInt(x, whole) : l.b.CreateBitCast(x, whole);
  integer = l.b.CreateZExtOrTrunc(integer, l.b.getIntNTy(bits(type)));
  return type->isPointerTy() ? l.b.CreateIntToPtr(integer, type) : l.b.CreateBitCast(integer, type);
}

/// One op being lowered.
class Blocks {
 public:
  Blocks(Lowering& l, const ir::Op& op, bool pure)
      : l_(l),
        op_(op),
        pack_(size_t(op.get(ir::attr::pack))),
        registers_(asm_registers(op.get(ir::attr::constraints))) {
    for (int r = 0; r < Lowering::num_registers(op.result()->type); ++r)
      if (Lowering::canonical_register(op.result()->type, r) == r) elements_.push_back(r);
    llvm::SmallVector<llvm::Type*> results, arguments;
    for (char letter : registers_.results) results.push_back(register_type(l, letter));
    for (char letter : registers_.arguments) arguments.push_back(register_type(l, letter));
    llvm::Type* result = results.size() == 1 ? results[0] : llvm::StructType::get(l.context, results);
    declare(llvm::FunctionType::get(result, arguments, false), pure);
  }

  void lower() {
    if (!function_) return;
    std::vector<Regs> out(op_.results.size());
    for (size_t first = 0; first < elements_.size(); first += pack_) call(first, out);
    for (size_t k = 0; k < out.size(); ++k) {
      auto next = out[k].begin();  // registers come in ascending order
      l_.set(op_.result(int(k)), l_.map_registers(op_.result(int(k))->type, [&](int) { return *next++; }));
    }
  }

 private:
  void declare(llvm::FunctionType* type, bool pure) {
    const std::string text = op_.get(ir::attr::assembly), constraints = op_.get(ir::attr::constraints);
    if (llvm::Error error = llvm::InlineAsm::verify(type, constraints)) {
      l_.diags.error(op_.loc, fmt::format("inline assembly with the constraints '{}': {}", constraints,
                                          llvm::toString(std::move(error))));
      for (const auto& r : op_.results)
        l_.set(r.get(), Regs(Lowering::num_registers(r->type), llvm::PoisonValue::get(l_.element_type(r->type))));
      return;
    }
    int number = 0;
    auto name = [&] { return fmt::format("inline{}", number); };
    while (l_.module.getFunction(fmt::format("{}{}", kAsmPrefix, name()))) ++number;
    const int site = int(llvm::cast<llvm::ConstantInt>(l_.site(op_.loc))->getZExtValue());
    function_ = declare_asm(l_.module, name(), type, {text, constraints, pure, site});
  }

  /// How many elements of a type share a register.
  size_t together(const ir::Type& type) const { return size_t(ir::elements_of_register(type, int64_t(pack_))); }

  /// Emits one call, on the elements from `first` on; beyond the last one there are zeros.
  void call(size_t first, std::vector<Regs>& out) {
    llvm::SmallVector<llvm::Value*> arguments;
    for (const ir::Value* operand : op_.operands) {
      llvm::Type* element = l_.element_type(operand->type);
      Regs elements;
      for (size_t i = 0; i < pack_; ++i)
        elements.push_back(first + i < elements_.size() ? l_.get(operand)[size_t(elements_[first + i])]
                                                        : llvm::Constant::getNullValue(element));
      const size_t n = together(operand->type);
      for (size_t i = 0; i < pack_; i += n)
        arguments.push_back(resize(l_, word(llvm::ArrayRef(elements).slice(i, n)),
                                   register_type(l_, registers_.arguments[arguments.size()])));
    }
    llvm::Value* results = l_.b.CreateCall(function_, arguments);
    unsigned next = 0;
    for (size_t k = 0; k < out.size(); ++k) {
      const ir::Type& type = op_.result(int(k))->type;
      const size_t n = together(type);
      for (size_t i = 0; i < pack_; i += n) {
        llvm::Value* word = registers_.results.size() == 1 ? results : l_.b.CreateExtractValue(results, next);
        ++next;
        for (size_t j = 0; j < n; ++j) out[k].push_back(part(word, type, j, n));
      }
    }
  }

  /// Elements side by side, the first one lowest. An i1 among several takes a byte.
  llvm::Value* word(llvm::ArrayRef<llvm::Value*> elements) {
    if (elements.size() == 1) return elements[0];
    llvm::SmallVector<llvm::Value*> values;
    for (llvm::Value* x : elements)
      values.push_back(x->getType()->isIntegerTy(1) ? l_.b.CreateZExt(x, l_.b.getInt8Ty()) : x);
    const unsigned bits = unsigned(values[0]->getType()->getPrimitiveSizeInBits());
    return l_.pack(values, int(bits * values.size()))[0];
  }

  llvm::Value* part(llvm::Value* word, const ir::Type& type, size_t index, size_t count) {
    llvm::Type* element = l_.element_type(type);
    if (count == 1) return resize(l_, word, element);
    const unsigned bits = std::max(8u, unsigned(element->getPrimitiveSizeInBits()));
    llvm::Value* integer = resize(l_, word, l_.b.getIntNTy(bits * unsigned(count)));
    return resize(l_, l_.b.CreateTrunc(l_.b.CreateLShr(integer, bits * index), l_.b.getIntNTy(bits)), element);
  }

  Lowering& l_;
  const ir::Op& op_;
  const size_t pack_;
  const AsmRegisters registers_;
  std::vector<int> elements_;  ///< registers that hold distinct elements
  llvm::Function* function_ = nullptr;
};

}  // namespace

void lower_InlineAsm(Lowering& l, const ir::Op& op) { Blocks(l, op, true).lower(); }
void lower_InlineAsmEffects(Lowering& l, const ir::Op& op) { Blocks(l, op, false).lower(); }

}  // namespace tegula::lower
