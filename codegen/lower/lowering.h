// Lowering of laid-out tile IR to LLVM IR: one LLVM value for each register of a tile's layout.
//
// Every opcode has one function lower_<Name>, declared here from ops.def; a missing one is a link error. A function
// looks at its own op only. Hardware is reached through hw() alone.
#pragma once

#include <set>
#include <unordered_map>

#include "codegen/analysis/async_groups.h"
#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/conversion.h"
#include "codegen/analysis/owned_values.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/ir.h"
#include "codegen/lower/hw.h"
#include "codegen/lower/llvm_headers.h"
#include "codegen/target/target.h"
#include "runtime/base/check.h"
#include "runtime/base/diag.h"
#include "runtime/kernel_image.h"

namespace tegula::lower {

/// The hardware has 16 barriers. 0 is that of all threads, 1 the program's beside copy_warps. From these on come those
/// of warps that store boxes together; of the groups of warps that run a program; where two groups wait for their turn
/// to store, and to multiply.
inline constexpr int kBarriersOfBoxes = 2, kBarriersOfGroups = 10, kTurnsToStore = 12, kTurnsToMultiply = 14;

/// A tile in registers: element i is what register i of the layout holds in this thread. A scalar has one.
using Regs = llvm::SmallVector<llvm::Value*, 8>;

/// The line table of a kernel, so that profilers and debuggers show the user's lines.
class DebugInfo {
 public:
  DebugInfo(llvm::Module& module, llvm::Function* function, const ir::Func& func);
  llvm::DebugLoc at(const Loc& loc);
  void finalize() { builder_.finalize(); }

 private:
  llvm::DIFile* file(const std::string* path);

  llvm::DIBuilder builder_;
  llvm::DISubprogram* subprogram_ = nullptr;
  const std::string* main_file_ = nullptr;
  std::map<const std::string*, llvm::DIScope*> scopes_;
};

class Lowering {
 public:
  /// `emulator`: the code is for the emulator, whose checks look at operands that are out of range.
  Lowering(const ir::Func& func, const Target& target, llvm::Module& module, Diagnostics& diags, bool emulator = false);
  /// Lowers the whole function. False after a diagnostic.
  bool run();

  const ir::Func& func;
  const Target& target;
  llvm::Module& module;
  llvm::LLVMContext& context;
  Diagnostics& diags;
  const bool emulator;
  llvm::IRBuilder<> b;
  SharedPlan shared;
  std::unordered_map<const ir::Op*, int64_t> groups;  ///< of copies that an async_wait leaves under way
  AxisAnalysis axes;
  std::vector<Loc> sites;
  std::vector<ImageAssert> asserts;
  std::unordered_map<const ir::Value*, int> uses;

  /// Of the group of warps whose code is being lowered: a group of the program's, or those of copy_warps.
  int num_warps() const { return warps_.count; }
  /// Groups of so many warps that run this code side by side.
  int num_groups() const { return warps_.groups; }
  /// The number of the thread's group among them, the same in all lanes.
  llvm::Value* group();
  /// The first of `count` barriers of the hardware for the thread's group, if those of all groups begin with `first`.
  llvm::Value* barriers_of_group(int first, int count);
  /// Warps that only copy, beside the program's.
  int copy_warps() const { return copy_warps_ ? int(copy_warps_->get(ir::attr::warps)) : 0; }

  // ---- Values
  const Regs& get(const ir::Value* value) const;
  llvm::Value* scalar(const ir::Value* value) const { return get(value)[0]; }
  void set(const ir::Value* value, Regs regs);
  void set_scalar(const ir::Value* value, llvm::Value* v) { set(value, Regs{v}); }
  /// Registers of a type, and the lowest register that holds the same element as register r (copies are made once).
  static int num_registers(const ir::Type& type);
  static int canonical_register(const ir::Type& type, int r);
  /// Result register by register, each distinct one computed once.
  Regs map_registers(const ir::Type& type, const std::function<llvm::Value*(int)>& make);

  // ---- Types and constants
  llvm::Type* element_type(const ir::Type& type);
  llvm::Type* element_type(Elem elem);
  llvm::Value* i32(int64_t value) { return b.getInt32(uint32_t(value)); }

  // ---- Hardware
  llvm::Value* hw(std::string_view row, llvm::ArrayRef<llvm::Value*> args, std::string_view modifiers = {});
  /// What a hardware function gave: its result, or the members of the struct.
  llvm::SmallVector<llvm::Value*> results(llvm::Value* call);
  llvm::Value* site(const Loc& loc);
  /// The site of a load, which says as well in which threads its result is used (kSiteBits).
  llvm::Value* site_of_load(const ir::Op& op);
  /// All threads of the group wait for each other.
  void barrier(const Loc& loc);
  /// All threads of all blocks of the cluster wait for each other.
  void cluster_barrier(const Loc& loc);
  /// The kernel may be launched before those ahead of it in the stream are done, and waits for them itself.
  bool dependent_launch() const;
  /// Launches of more programs take longer if the kernel lets the next one start before it ends. 0: none does.
  int64_t few_programs() const;
  /// Index of the thread within its group of warps.
  llvm::Value* thread();
  /// Index of the first thread of the thread's warp: known to be the same in all lanes, so that what follows from it
  /// takes scalar registers.
  llvm::Value* first_thread_of_warp();
  /// The number of the block in its cluster.
  llvm::Value* block_of_cluster();
  /// Whether the op sets up barriers behind which copy_warps part from the program.
  bool precedes_parting(const ir::Op& op) const;
  /// True in the one thread of the group of warps that does what one thread does.
  llvm::Value* is_elected();
  /// True in one thread of each so many consecutive warps, a power of two.
  llvm::Value* is_elected_of(int warps);

  // ---- Layout to index arithmetic
  /// The part of `layout`'s coordinate `out` that lane, warp and block give; registers add (xor) constants to it.
  llvm::Value* thread_part(const LinearLayout& layout, Dim out);
  /// Address of register r's element in shared memory from `base` on, in elements of `bytes` bytes.
  llvm::Value* element_address(llvm::Value* base, const LinearLayout& to_offset, int r, int bytes);
  /// thread_part ^ constant, as an addition where no bits can meet.
  llvm::Value* add_register_part(llvm::Value* thread_part, const LinearLayout& layout, Dim out, int32_t constant);
  /// Coordinate `out` of register r.
  llvm::Value* coordinate(const LinearLayout& layout, Dim out, int r);
  /// Row-major index, among all elements of the tile, of the one in register r (0 for a scalar).
  llvm::Value* linear_index(const ir::Type& type, int r);
  /// True in one thread of the block for each element that the layout gives to several; null if there are no copies.
  llvm::Value* is_owner(const LinearLayout* layout);
  /// The same, in one thread of all blocks of the cluster.
  llvm::Value* is_owner_in_cluster(const LinearLayout* layout);
  /// Which of them accesses memory for a store or an atomic operation on a tile laid out so.
  llvm::Value* is_owner_of_access(const ir::Op& op, const LinearLayout* layout);

  // ---- float8: held as i8, computed with as half
  /// Numbers of a float8 type as half, exactly.
  Regs widen_float8(Elem from, llvm::ArrayRef<llvm::Value*> x);
  /// Numbers of 8 bits as numbers of 16 bits, four at a time by the row of that name.
  Regs widen_bytes(std::string_view row, llvm::ArrayRef<llvm::Value*> x, llvm::Type* to);
  /// fp32 numbers as float8, rounded to nearest even; beyond the largest finite number (infinities too) that one.
  Regs narrow_to_float8(Elem to, llvm::ArrayRef<llvm::Value*> x);

  // ---- Data movement
  /// The words (i16, i32, i64 as the access width wants) of consecutive elements, and back.
  llvm::SmallVector<llvm::Value*> pack(llvm::ArrayRef<llvm::Value*> elements, int word_bits);
  Regs unpack(llvm::ArrayRef<llvm::Value*> words, llvm::Type* element, int count);
  /// A shared-memory access of `values` consecutive elements at the byte address; store where `owner` (null: always).
  void store_shared(llvm::Value* address, llvm::ArrayRef<llvm::Value*> values, llvm::Value* owner, const Loc& loc);
  Regs load_shared(llvm::Value* address, llvm::Type* element, int count, const Loc& loc);
  /// The same from any block of the cluster, by the address there.
  Regs load_cluster(llvm::Value* address, llvm::Type* element, int count, const Loc& loc);
  llvm::Value* shared_address(int64_t offset);
  /// store_shared() at that address in all blocks of the cluster.
  void store_in_all_blocks(llvm::Value* address, llvm::ArrayRef<llvm::Value*> values, llvm::Value* owner,
                           const Loc& loc);
  /// At that address in the block with this number.
  void store_in_block(llvm::Value* block, llvm::Value* address, llvm::ArrayRef<llvm::Value*> values, llvm::Value* owner,
                      const Loc& loc);
  /// Stands ahead of the stores of an op that exchanges data between the blocks of a cluster: what the op before in its
  /// scratch has read, in a loop, is read in all blocks.
  void before_exchange(const ir::Op& op);
  /// Elements that one thread stores for those that read them behind the next exchange_barrier: of its block, or of
  /// all blocks where the op goes across them.
  void store_for_exchange(const ir::Op& op, llvm::Value* address, llvm::ArrayRef<llvm::Value*> values,
                          llvm::Value* owner);
  void exchange_barrier(const ir::Op& op);
  /// 0, 1, 2 and 3 in turn, each time that a thread comes here.
  llvm::Value* next_turn();
  /// Who stores for an exchange.
  llvm::Value* exchange_owner(const ir::Op& op, const LinearLayout* layout);
  /// Puts registers laid out as `from` into shared memory at `base`, which is laid out as `shared`, for the op.
  void store_to_place(const Regs& regs, const ir::Type& element, const LinearLayout& from, const LinearLayout& shared,
                      llvm::Value* base, const ir::Op& op);
  /// Brings what lies there into registers laid out as `to`.
  Regs load_from_place(const ir::Type& element, const LinearLayout& to, const LinearLayout& shared, llvm::Value* base,
                       const ir::Op& op);
  /// Puts a tile into the op's scratch in row-major order, whence all threads may read it.
  void store_in_order(const ir::Value* tile, const ir::Op& op);
  /// Moves a tile between layouts over the same coordinates.
  Regs convert(const Regs& regs, const ir::Type& element, const LinearLayout& from, const LinearLayout& to,
               const ir::Op& op);
  llvm::Value* shuffle(llvm::Value* x, llvm::Value* lane_or_mask, bool butterfly);

  // ---- Control
  void lower_block(const ir::Block& block);
  void lower_op(const ir::Op& op);
  /// Calls a function of libclc, which is linked in later; the name is mangled from the arguments' types. The result is
  /// of the first one's, unless another type is given.
  llvm::Value* libclc(std::string_view name, llvm::ArrayRef<llvm::Value*> args, llvm::Type* result = nullptr);
  /// Calls a function of one number, made by `body` of its argument where the module lacks it, which stays a call until
  /// the end as libclc's do.
  llvm::Value* own_function(std::string_view name, llvm::Value* x,
                            const std::function<llvm::Value*(llvm::Value*)>& body);
  /// x to the power y, of fp32 or fp64.
  llvm::Value* pow(llvm::Value* x, llvm::Value* y);

 private:
  // A group of warps that run the same code, and what of it is computed once, where that code begins.
  struct WarpRole {
    int count = 0, first = 0;            // warps
    int groups = 1;                      // of so many warps each
    bool one_thread = false;             // alone runs the code
    llvm::Instruction* begin = nullptr;  // what is computed once goes ahead of it
    llvm::Value *thread = nullptr, *first_thread = nullptr, *elected = nullptr, *block = nullptr, *group = nullptr;
    std::map<std::pair<std::string, int>, llvm::Value*> thread_parts;
    std::map<int, llvm::Value*> elected_of;
  };

  // The bits of a thread's index in its block that are 0 in the owner of each element.
  uint32_t bits_of_copies(const LinearLayout* layout) const;
  void lower_body();
  void wait_for_earlier();
  /// The ops of the kernel's body in which programs that run at a time go through the same rows and columns.
  std::vector<const ir::Op*> loops_over_shared_reads() const;
  void let_next_start_if_short(const ir::Op& op);
  void find_first_exchange();
  // The barriers that reductions over the blocks of a cluster wait at.
  void set_up_exchanges();
  // Parts the copying warps from those of the program, which go on here, behind the set-up of the barriers that they
  // share.
  void begin_copy_warps();
  void lower_copy_warps();
  void prefetch_maps();
  // The group's first thread goes on, the others end.
  void go_on_with_one_thread();
  /// thread_part ^ the bits of `constant` that lane and warp reach too, and what is left of it, to be added.
  std::pair<llvm::Value*, int32_t> meet_register_part(llvm::Value* thread_part, const LinearLayout& layout, Dim out,
                                                      int32_t constant);

  std::unordered_map<const ir::Value*, Regs> values_;
  WarpRole warps_;
  const ir::Op* copy_warps_ = nullptr;
  std::vector<const ir::Op*> shared_reads_;
  const ir::Op* first_exchange_ = nullptr;  // of the function's ops, the first with data for other blocks
  llvm::BasicBlock* copy_block_ = nullptr;
  llvm::Function* function_ = nullptr;
  llvm::Value* shared_base_ = nullptr;
  llvm::Instruction* entry_end_ = nullptr;
  std::unique_ptr<DebugInfo> debug_;
  std::optional<OwnedValues> owned_;  // made when first asked for
};

/// Where the barriers stand that a reduction over the blocks of a cluster waits at, exchange_slots() of them.
int64_t barriers_of_reduction(const Lowering& l, const ir::Op& op);

#define TEGULA_OP(Name, ...) void lower_##Name(Lowering& l, const ir::Op& op);
#include "codegen/ir/ops.def"

}  // namespace tegula::lower
