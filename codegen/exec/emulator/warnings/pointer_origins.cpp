#include "codegen/exec/emulator/warnings/pointer_origins.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>

#include <optional>

#include "codegen/exec/emulator/code/link_bodies.h"
#include "codegen/exec/emulator/launch/fault.h"
#include "codegen/lower/hw.h"

namespace tegula::emulator {

namespace {

using llvm::Value;

/// An access to global memory: by the row's name, what it does and how many bytes it takes.
struct Accessed {
  Access access;
  unsigned bytes;
};

unsigned bytes_of(const llvm::Type* type) {
  if (const auto* parts = llvm::dyn_cast<llvm::StructType>(type)) {
    unsigned sum = 0;
    for (const llvm::Type* part : parts->elements()) sum += bytes_of(part);
    return sum;
  }
  return unsigned(type->getPrimitiveSizeInBits()) / 8;
}

std::optional<Accessed> accessed(const llvm::CallInst& call, llvm::StringRef row) {
  const bool is_byte = row.starts_with("ld_global_b8") || row.starts_with("st_global_b8");
  if (row.starts_with("ld_global")) return Accessed{Access::Read, is_byte ? 1 : bytes_of(call.getType())};
  if (row.starts_with("st_global")) {
    unsigned bytes = 0;
    for (unsigned i = 1; i < call.arg_size() && !call.getArgOperand(i)->getType()->isIntegerTy(1); ++i)
      bytes += bytes_of(call.getArgOperand(i)->getType());
    return Accessed{Access::Write, is_byte ? 1 : bytes};
  }
  if (row.starts_with("atom_")) return Accessed{Access::Atomic, std::max(1u, bytes_of(call.getType()))};
  if (row.starts_with("cp_async_")) return Accessed{Access::Read, 1};
  return std::nullopt;
}

class Origins {
 public:
  Origins(llvm::Module& module, const KernelImage& image) : image_(image) {
    llvm::LLVMContext& context = module.getContext();
    llvm::Type *i32 = llvm::Type::getInt32Ty(context), *i64 = llvm::Type::getInt64Ty(context);
    check_ = module.getOrInsertFunction(
        kOriginName, llvm::FunctionType::get(llvm::Type::getVoidTy(context), {i64, i32, i64, i32, i32}, false));
  }

  void run(llvm::Function& f) {
    llvm::SmallVector<llvm::CallInst*> accesses;
    for (llvm::Instruction& i : llvm::instructions(f)) {
      if (llvm::isa<llvm::PtrToIntInst>(i)) return;
      auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
      const llvm::Function* callee = call ? call->getCalledFunction() : nullptr;
      if (callee && callee->getName().starts_with(lower::kHwPrefix)) accesses.push_back(call);
    }
    for (llvm::CallInst* call : accesses) check(*call);
  }

 private:
  void check(llvm::CallInst& call) {
    const auto what = accessed(call, call.getCalledFunction()->getName().drop_front(lower::kHwPrefix.size()));
    if (!what) return;
    Value *pointer = nullptr, *site = call.arg_empty() ? nullptr : call.getArgOperand(call.arg_size() - 1);
    for (Value* argument : call.args())
      if (argument->getType()->isPointerTy() && !pointer) pointer = argument;
    if (!pointer || !site->getType()->isIntegerTy(32)) return;
    llvm::SmallPtrSet<const Value*, 16> seen;
    uint64_t arguments = 0;
    if (!find(pointer, seen, arguments)) return;
    llvm::IRBuilder<> b(&call);
    Value* predicate = b.getInt32(1);
    for (Value* argument : call.args())
      if (argument->getType()->isIntegerTy(1))
        predicate = b.CreateAnd(predicate, b.CreateZExt(argument, b.getInt32Ty()));
    b.CreateCall(check_, {b.CreatePtrToInt(pointer, b.getInt64Ty()),
                          b.getInt32(what->bytes | uint32_t(what->access) << kOriginAccessShift), b.getInt64(arguments),
                          predicate, site});
  }

  /// Adds the arguments that the pointer may be made of; false if it may be made of anything else.
  bool find(const Value* pointer, llvm::SmallPtrSetImpl<const Value*>& seen, uint64_t& arguments) const {
    constexpr size_t kMostSteps = 256;
    if (seen.size() > kMostSteps) return false;
    if (!seen.insert(pointer).second) return true;
    if (const auto* step = llvm::dyn_cast<llvm::GetElementPtrInst>(pointer))
      return find(step->getPointerOperand(), seen, arguments);
    if (const auto* select = llvm::dyn_cast<llvm::SelectInst>(pointer))
      return find(select->getTrueValue(), seen, arguments) && find(select->getFalseValue(), seen, arguments);
    if (const auto* phi = llvm::dyn_cast<llvm::PHINode>(pointer))
      return llvm::all_of(phi->incoming_values(), [&](const Value* x) { return find(x, seen, arguments); });
    const auto* argument = llvm::dyn_cast<llvm::Argument>(pointer);
    if (!argument || argument->getArgNo() >= std::min<size_t>(image_.params.size(), 64)) return false;
    arguments |= uint64_t(1) << argument->getArgNo();
    return true;
  }

  const KernelImage& image_;
  llvm::FunctionCallee check_;
};

}  // namespace

void check_origins(llvm::Module& module, const KernelImage& image) {
  llvm::Function* kernel = module.getFunction(image.kernel);
  if (kernel && !kernel->isDeclaration()) Origins(module, image).run(*kernel);
}

}  // namespace tegula::emulator
