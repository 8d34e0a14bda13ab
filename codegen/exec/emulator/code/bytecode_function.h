// The code of one function under way: instructions, and where in the frame each value of LLVM's lies.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Instructions.h>

#include <optional>

#include "codegen/exec/emulator/code/bytecode_frame.h"
#include "codegen/exec/emulator/code/bytecode_module.h"

namespace tegula::emulator::bytecode {

/// Where in its operand the result lies, if it is some of the operand's very bits: so many bytes behind the begin.
std::optional<int32_t> alias_offset(const llvm::Instruction& i);
inline bool is_alias(const llvm::Instruction& i) { return alias_offset(i).has_value(); }

/// Values that one block alone uses share room.
class FunctionCode {
 public:
  FunctionCode(ModuleMaker& module, const llvm::Function& from);

  ModuleMaker& module() { return module_; }
  FrameMaker& frame() { return frame_; }
  uint32_t bytes_of_value(const llvm::Type* type) const;

  int32_t position() const { return int32_t(function_.code.size()); }
  Instruction& emit(Instruction i) { return function_.code.emplace_back(i); }
  Instruction& instruction(int32_t number) { return function_.code[size_t(number)]; }
  /// By itself or, where it goes on from where the instruction ahead of it ends, as part of that.
  void move(int32_t to, int32_t from, uint32_t bytes);
  /// Tells that code may jump to what comes next.
  int32_t begin_sequence() { return sequence_ = position(); }
  void apply(const Computation& computation, uint32_t count, int32_t to, int32_t a, int32_t b = 0, int32_t c = 0);

  /// Where the value lies; emits what makes it lie somewhere.
  int32_t read(const llvm::Value* value);
  /// Where the instruction's result goes; to be asked for behind its operands.
  int32_t result(const llvm::Instruction& i);
  /// Where an array of so many bytes goes whose parts, so many bytes behind its begin, these instructions' results are.
  int32_t results(llvm::ArrayRef<std::pair<const llvm::LoadInst*, int32_t>> parts, uint32_t bytes);
  /// Behind what fills that array: moves the parts that blocks which stand ahead of this one read to where these do.
  void hand_results_ahead();
  /// In place of the vector that it changes, which nobody else reads.
  int32_t result_in_place(const llvm::InsertElementInst& i);
  /// Where what the function returns lies until it does.
  int32_t returned() const { return function_.result; }
  /// How far from the frame's begin what the pointer points to lies; none if that is elsewhere.
  std::optional<int32_t> frame_offset(const llvm::Value* pointer);
  /// The array in the frame that the pointer points into, so many bytes behind its begin; null if it points elsewhere.
  const llvm::AllocaInst* array_of(const llvm::Value* pointer, int32_t* offset = nullptr) const;
  /// Behind each instruction: what nobody reads any more leaves its room.
  void release_operands(const llvm::Instruction& i);

  /// `callees_bytes`: the most that a called function needs.
  Function finish(uint32_t callees_bytes);

 private:
  int32_t slot_of_array(const llvm::AllocaInst& array);

  ModuleMaker& module_;
  Function function_;
  int32_t sequence_ = 0;  ///< the instruction that code may jump to last
  FrameMaker frame_;
  llvm::DenseMap<const llvm::Value*, int32_t> slots_;
  llvm::DenseMap<const llvm::Value*, uint32_t> left_;  ///< uses to come of what one block alone uses
  struct Room {
    int32_t at;
    uint32_t bytes;
    uint32_t values;  ///< in it that have uses to come
  };
  std::vector<Room> rooms_;                             ///< that several values share
  llvm::DenseMap<const llvm::Value*, size_t> room_of_;  ///< of the values in them
  struct ReadAhead {
    int32_t to, from;
    uint32_t bytes;
  };
  std::vector<ReadAhead> read_ahead_;
};

}  // namespace tegula::emulator::bytecode
