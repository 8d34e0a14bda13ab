#include "codegen/exec/emulator/code/call_arrays.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/Function.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/exec/emulator/hardware/hw_bodies.h"

namespace tegula::emulator::bytecode {

namespace {

/// A store, a load or a call, and which element it accesses.
struct Use {
  const llvm::Instruction* by;
  uint64_t element = 0;
};

/// Others may be code of the module, or be told where the array lies and look at it later.
bool calls_body(const llvm::CallInst& call) {
  const llvm::Function* callee = call.getCalledFunction();
  return callee && callee->isDeclaration() && !callee->isIntrinsic() && callee->getName().starts_with(kBodyPrefix);
}

/// All uses, in the order of each block; none if there are others than stores and loads of one element and calls.
std::optional<std::vector<Use>> uses_of(const llvm::AllocaInst& array, const llvm::DataLayout& layout) {
  const auto* type = llvm::dyn_cast<llvm::ArrayType>(array.getAllocatedType());
  if (!type || array.isArrayAllocation()) return std::nullopt;
  const uint64_t bytes = layout.getTypeAllocSize(type->getElementType());
  std::vector<Use> uses;
  auto add = [&](const llvm::User* user, const llvm::Value* pointer, uint64_t offset) {
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(user);
    const bool accesses = store ? store->isSimple() && store->getPointerOperand() == pointer &&
                                      store->getValueOperand()->getType() == type->getElementType()
                                : load && load->isSimple() && load->getType() == type->getElementType();
    const bool inside = offset % bytes == 0 && offset / bytes < type->getNumElements();
    if (accesses && inside) uses.push_back({llvm::cast<llvm::Instruction>(user), offset / bytes});
    return accesses && inside;
  };
  for (const llvm::User* user : array.users()) {
    if (const auto* call = llvm::dyn_cast<llvm::CallInst>(user)) {
      if (!calls_body(*call) || llvm::count(call->args(), &array) != 1) return std::nullopt;
      uses.push_back({call});
    } else if (const auto* step = llvm::dyn_cast<llvm::GetElementPtrInst>(user)) {
      llvm::APInt offset(64, 0);
      if (!step->accumulateConstantOffset(layout, offset)) return std::nullopt;
      for (const llvm::User* access : step->users())
        if (!add(access, step, offset.getZExtValue())) return std::nullopt;
    } else if (!add(user, &array, 0)) {
      return std::nullopt;
    }
  }
  std::ranges::sort(uses, [](const Use& a, const Use& b) {
    return a.by->getParent() != b.by->getParent() ? a.by->getParent() < b.by->getParent() : a.by->comesBefore(b.by);
  });
  return uses;
}

unsigned argument_of(const llvm::CallInst& call, const llvm::AllocaInst& array) {
  return unsigned(llvm::find(call.args(), &array) - call.arg_begin());
}
bool only_reads(const llvm::CallInst& call, const llvm::AllocaInst& array) {
  return call.onlyReadsMemory(argument_of(call, array));
}
bool only_writes(const llvm::CallInst& call, const llvm::AllocaInst& array) {
  return call.onlyWritesMemory(argument_of(call, array));
}

}  // namespace

CallArrays::CallArrays(const llvm::Function& function, const llvm::DataLayout& layout) {
  for (const llvm::Instruction& i : function.getEntryBlock())
    if (const auto* array = llvm::dyn_cast<llvm::AllocaInst>(&i)) look_at(*array, layout);
}

void CallArrays::look_at(const llvm::AllocaInst& array, const llvm::DataLayout& layout) {
  const auto uses = uses_of(array, layout);
  if (!uses) return;
  const uint64_t elements = llvm::cast<llvm::ArrayType>(array.getAllocatedType())->getNumElements();
  const uint64_t bytes = layout.getTypeAllocSize(array.getAllocatedType()) / elements;
  std::vector<std::pair<const llvm::CallInst*, Stores>> taken;
  std::vector<std::pair<const llvm::CallInst*, Loads>> given;
  const llvm::BasicBlock* block = nullptr;
  Stores stores;
  size_t stored = 0;
  for (const auto& [by, element] : *uses) {
    if (by->getParent() != block) {
      if (stored) return;
      block = by->getParent();
      stores.assign(elements, nullptr);
    }
    if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(by)) {
      if (std::exchange(stores[element], store)) return;
      ++stored;
    } else if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(by)) {
      if (given.empty() || given.back().first->getParent() != block || !only_writes(*given.back().first, array)) return;
      given.back().second.push_back({load, int32_t(element * bytes)});
    } else {
      const auto* call = llvm::cast<llvm::CallInst>(by);
      given.push_back({call, {}});
      if (stored && (stored != elements || !only_reads(*call, array))) return;
      if (stored) taken.push_back({call, stores});
      stores.assign(elements, nullptr);
      stored = 0;
    }
  }
  const bool is_read = llvm::any_of(given, [](const auto& call) { return !call.second.empty(); });
  if (stored || (is_read && !taken.empty()) || (!is_read && taken.size() != given.size())) return;
  for (auto& [call, all] : taken) {
    taken_stores_.insert_range(all);
    taken_[{call, &array}] = std::move(all);
  }
  if (!taken.empty()) return;
  for (auto& [call, all] : given) {
    for (const auto& [load, offset] : all) given_loads_.insert(load);
    given_[{call, &array}] = std::move(all);
  }
}

const CallArrays::Stores* CallArrays::taken(const llvm::CallInst& call, const llvm::Value* array) const {
  const auto it = taken_.find({&call, array});
  return it == taken_.end() ? nullptr : &it->second;
}

const CallArrays::Loads* CallArrays::given(const llvm::CallInst& call, const llvm::Value* array) const {
  const auto it = given_.find({&call, array});
  return it == given_.end() ? nullptr : &it->second;
}

}  // namespace tegula::emulator::bytecode
