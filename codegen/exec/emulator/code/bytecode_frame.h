// The room in a frame of bytecode while its function is made.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/exec/emulator/code/bytecode_module.h"

namespace tegula::emulator::bytecode {

/// Gives room, all of it behind the frame's begin but for that of constants, which lie before it.
class FrameMaker {
 public:
  explicit FrameMaker(ModuleMaker& module) : module_(module) {}

  /// Room that nothing else ever has: a block that stands ahead of this one may run while the value is alive.
  int32_t allocate(uint32_t bytes);
  /// Room until it is released, which is before the block ends.
  int32_t allocate_in_block(uint32_t bytes);
  void release(int32_t at, uint32_t bytes) { free_[room_for(bytes)].push_back(at); }

  /// Room until release_temporaries().
  int32_t temporary(uint32_t bytes);
  void is_temporary(int32_t at, uint32_t bytes) { temporaries_.push_back({at, bytes}); }
  void release_temporaries();

  int32_t constant(const llvm::Constant& value);
  int32_t constant(std::string bytes);  ///< without addresses
  /// An integer of that kind.
  int32_t constant(Kind kind, uint64_t number) {
    return constant(std::string(reinterpret_cast<const char*>(&number), bytes_of(kind)));
  }

  /// Fills in how large the function's frame is, and its constants.
  void finish(Function& function) const;

 private:
  static uint32_t round_up(uint32_t bytes, uint32_t to = kAlignment) { return (bytes + to - 1) / to * to; }
  static uint32_t room_for(uint32_t bytes) { return bytes <= 4 ? 4 : bytes <= 8 ? 8 : round_up(bytes); }
  int32_t allocate_constant(uint32_t bytes);

  ModuleMaker& module_;
  uint32_t bytes_ = 0, constant_bytes_ = 0;
  std::unordered_map<uint32_t, std::vector<int32_t>> free_;  ///< by their sizes
  std::vector<std::pair<int32_t, uint32_t>> temporaries_;
  llvm::DenseMap<const llvm::Constant*, int32_t> constants_;
  std::unordered_map<std::string, int32_t> constants_by_bytes_;
  std::vector<std::pair<Constants, int32_t>> addresses_;  ///< constants that hold some
};

}  // namespace tegula::emulator::bytecode
