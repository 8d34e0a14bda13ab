// Taints of values (taints.h) by parts of 8 bits, and what instructions that compute make of them.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

namespace tegula::emulator {

/// The taint of each part of a value, an i32; null: none. Parts are the bytes of integers, as these pack other numbers,
/// and any other number as it is; those of vectors and structs follow each other.
using TaintParts = llvm::SmallVector<llvm::Value*, 4>;

/// The bits of each part of a value of that type.
llvm::SmallVector<unsigned, 4> part_bits(const llvm::Type& type);

/// Of a call without the function.
llvm::User::op_range operands_of(llvm::Instruction& i);

/// Adds code for taints with `b`.
class TaintCode {
 public:
  explicit TaintCode(llvm::IRBuilder<>& b) : b_(b) {}

  /// A taint that is there where one of both is.
  llvm::Value* join(llvm::Value* x, llvm::Value* y);
  llvm::Value* all_of(llvm::ArrayRef<llvm::Value*> parts);
  /// x where the condition holds, else y.
  llvm::Value* choose(llvm::Value* condition, llvm::Value* x, llvm::Value* y);

  /// Of what the pure instruction gives, `of` its operands'.
  TaintParts computed(llvm::Instruction& i, llvm::function_ref<TaintParts(llvm::Value*)> of);

 private:
  TaintParts of_choice(llvm::SelectInst& i);
  TaintParts of_integers(llvm::BinaryOperator& i);
  TaintParts of_conditions(llvm::BinaryOperator& i);
  TaintParts of_cast(llvm::CastInst& i);
  TaintParts of_moved(llvm::Instruction& i);
  TaintParts of_bytes(llvm::CallInst& i);
  TaintParts of_packed(llvm::CallInst& i);
  TaintParts of_elements(llvm::Instruction& i);
  /// Of a value of type `to` whose bit 0 is bit `first` of one of type `from`.
  TaintParts regrouped(const TaintParts& parts, const llvm::Type& from, const llvm::Type& to, int64_t first = 0);

  llvm::IRBuilder<>& b_;
  llvm::function_ref<TaintParts(llvm::Value*)> of_;
};

}  // namespace tegula::emulator
