// Arrays on the stack by which bodies take and give several numbers (link_bodies.h).
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Instructions.h>

#include <utility>

namespace tegula::emulator::bytecode {

/// Of a function's arrays those of which a block writes each element ahead of each call that takes the array, and
/// only reads it, and those that a call fills and the rest of its block reads. Such numbers may be handed over where
/// they lie.
class CallArrays {
 public:
  CallArrays(const llvm::Function& function, const llvm::DataLayout& layout);

  using Stores = llvm::SmallVector<const llvm::StoreInst*, 4>;
  /// What writes the array ahead of the call, by elements; null if it is none that the call takes.
  const Stores* taken(const llvm::CallInst& call, const llvm::Value* array) const;
  bool is_taken(const llvm::StoreInst& store) const { return taken_stores_.contains(&store); }

  /// A number that is read behind the call, and how many bytes behind the array's begin.
  using Loads = llvm::SmallVector<std::pair<const llvm::LoadInst*, int32_t>, 4>;
  /// What reads the array behind the call; null if it is none that the call gives.
  const Loads* given(const llvm::CallInst& call, const llvm::Value* array) const;
  bool is_given(const llvm::LoadInst& load) const { return given_loads_.contains(&load); }

 private:
  using Key = std::pair<const llvm::Value*, const llvm::Value*>;  ///< call, array
  void look_at(const llvm::AllocaInst& array, const llvm::DataLayout& layout);

  llvm::DenseMap<Key, Stores> taken_;
  llvm::DenseMap<Key, Loads> given_;
  llvm::DenseSet<const llvm::StoreInst*> taken_stores_;
  llvm::DenseSet<const llvm::LoadInst*> given_loads_;
};

}  // namespace tegula::emulator::bytecode
