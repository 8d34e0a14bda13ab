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
#include "codegen/layout/layout_hash.h"
#include "codegen/lower/folder.h"
#include "codegen/lower/hw.h"
#include "codegen/lower/llvm_headers.h"
#include "codegen/target/target.h"
#include "runtime/base/check.h"
#include "runtime/base/diag.h"
#include "runtime/kernel_image.h"

namespace tegula::lower {

/// The hardware has 16 named barriers. 0 is for all threads, 1 for the program's warps beside copy_warps. From these
/// numbers on there are barriers for warps that store boxes together, for the groups of warps that run a program, and
/// for two groups that take turns to store and to multiply.
inline constexpr int kBarriersOfBoxes = 2, kBarriersOfGroups = 10, kTurnsToStore = 12, kTurnsToMultiply = 14;

using Builder = llvm::IRBuilder<Folder>;

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
  Builder b;
  SharedPlan shared;
  std::unordered_map<const ir::Op*, int64_t> groups;  ///< of copies that an async_wait leaves under way
  AxisAnalysis axes;
  std::vector<Loc> sites;
  std::vector<ImageAssert> asserts;
  /// The ops that use each value, each as often as the value is an operand of it. None for values without a use.
  const std::unordered_map<const ir::Value*, std::vector<const ir::Op*>> users;

  /// The number of warps of the group whose code is being lowered: a group of the program's warps, or copy_warps.
  int num_warps() const { return warps_.count; }
  /// The number of groups that run this code at the same time.
  int num_groups() const { return warps_.groups; }
  /// The index of the thread's group, the same in all lanes of a warp.
  llvm::Value* group();
  /// The number of programs of the launch along an axis, where blocks take these in turns.
  llvm::Value* programs_of_launch(int axis) const;
  /// The first of the `count` named barriers of the thread's group, if those of all groups begin with number `first`.
  llvm::Value* barriers_of_group(int first, int count);
  /// The number of warps that only copy, beside the program's.
  int copy_warps() const { return copy_warps_ ? int(copy_warps_->get(ir::attr::warps)) : 0; }

  // ---- Values
  const Regs& get(const ir::Value* value) const;
  llvm::Value* scalar(const ir::Value* value) const { return get(value)[0]; }
  void set(const ir::Value* value, Regs regs);
  void set_scalar(const ir::Value* value, llvm::Value* v) { set(value, Regs{v}); }
  /// Registers of a type, and the lowest register that holds the same element as register r (copies are made once).
  /// Sums in flight are 32 bits each, or two of 16 bits.
  static int num_registers(const ir::Type& type);
  static int canonical_register(const ir::Type& type, int r);
  /// Makes a tile register by register; registers that hold the same element share one value.
  Regs map_registers(const ir::Type& type, const std::function<llvm::Value*(int)>& make);

  // ---- Types and constants
  llvm::Type* element_type(const ir::Type& type);
  llvm::Type* element_type(Elem elem);
  llvm::Value* i32(int64_t value) { return b.getInt32(uint32_t(value)); }

  // ---- Hardware
  llvm::Value* hw(std::string_view row, llvm::ArrayRef<llvm::Value*> args, std::string_view modifiers = {});
  /// The results of a call of a hardware function: its result, or the members of its struct.
  llvm::SmallVector<llvm::Value*> results(llvm::Value* call);
  llvm::Value* site(const Loc& loc);
  /// The operand `site` of a load, which also tells in which threads its result is used (kSiteBits).
  llvm::Value* site_of_load(const ir::Op& op);
  /// All threads of the group wait for each other.
  void barrier(const Loc& loc);
  /// All threads of all blocks of the cluster wait for each other.
  void cluster_barrier(const Loc& loc);
  /// The kernel may be launched before those ahead of it in the stream are done, and waits for them itself.
  bool dependent_launch() const;
  /// The number of programs above which launches are slower if the kernel lets the next one start early; 0: it never
  /// lets it.
  int64_t few_programs() const;
  /// Index of the thread within its group of warps.
  llvm::Value* thread();
  /// Index of the first thread of the thread's warp: known to be the same in all lanes, so that what follows from it
  /// takes scalar registers.
  llvm::Value* first_thread_of_warp();
  /// The index of the block in its cluster.
  llvm::Value* block_of_cluster();
  /// Whether the op initialises barriers before copy_warps separate from the program's warps.
  bool precedes_parting(const ir::Op& op) const;
  /// True in one thread of the group of warps.
  llvm::Value* is_elected();
  /// True in one thread of each group of `warps` consecutive warps, a power of two.
  llvm::Value* is_elected_of(int warps);

  // ---- Layout to index arithmetic
  /// The part of `layout`'s coordinate `out` that lane, warp and block give; registers add (xor) constants to it.
  llvm::Value* thread_part(const LinearLayout& layout, Dim out);
  /// Address of register r's element in shared memory from `base` on, in elements of `bytes` bytes.
  llvm::Value* element_address(llvm::Value* base, const LinearLayout& to_offset, int r, int bytes);
  /// thread_part ^ constant, computed by an addition if no bit can be set in both.
  llvm::Value* add_register_part(llvm::Value* thread_part, const LinearLayout& layout, Dim out, int32_t constant);
  /// Coordinate `out` of register r.
  llvm::Value* coordinate(const LinearLayout& layout, Dim out, int r);
  /// Row-major index, among all elements of the tile, of the one in register r (0 for a scalar).
  llvm::Value* linear_index(const ir::Type& type, int r);
  /// True in the thread that owns an element, if several threads of the block hold it; null if there are no copies.
  llvm::Value* is_owner(const LinearLayout* layout);
  /// The same among the threads of all blocks of the cluster.
  llvm::Value* is_owner_in_cluster(const LinearLayout* layout);
  /// The thread that accesses memory for a store or an atomic operation on a tile in that layout.
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
  /// store_shared() at that address in the block with this index.
  void store_in_block(llvm::Value* block, llvm::Value* address, llvm::ArrayRef<llvm::Value*> values, llvm::Value* owner,
                      const Loc& loc);
  /// To be called before the stores of an op that exchanges data between the blocks of a cluster. In a loop it makes
  /// sure that all blocks have read what the previous exchange left in the same scratch.
  void before_exchange(const ir::Op& op);
  /// Stores elements for the threads that read them after the next exchange_barrier: those of the block, or of all
  /// blocks if the op exchanges data between blocks.
  void store_for_exchange(const ir::Op& op, llvm::Value* address, llvm::ArrayRef<llvm::Value*> values,
                          llvm::Value* owner);
  void exchange_barrier(const ir::Op& op);
  /// The registers of all threads, as the elements' owners have found them (ir::is_by_owners()).
  Regs pass_to_holders(const ir::Op& op, const Regs& owned, llvm::Value* owner);
  /// A counter that a thread steps through 0, 1, 2 and 3 in turn each time it executes this code.
  llvm::Value* next_turn();
  /// True in the thread that stores an element for an exchange.
  llvm::Value* exchange_owner(const ir::Op& op, const LinearLayout* layout);
  /// Stores registers in the layout `from` to shared memory at `base` in the layout `shared`, for the op.
  void store_to_place(const Regs& regs, const ir::Type& element, const LinearLayout& from, const LinearLayout& shared,
                      llvm::Value* base, const ir::Op& op);
  /// Loads from shared memory at `base` into registers in the layout `to`.
  Regs load_from_place(const ir::Type& element, const LinearLayout& to, const LinearLayout& shared, llvm::Value* base,
                       const ir::Op& op);
  /// Stores a tile to the op's scratch in row-major order, where all threads can read it.
  void store_in_order(const ir::Value* tile, const ir::Op& op);
  /// Converts a tile between two layouts of the same coordinates.
  Regs convert(const Regs& regs, const ir::Type& element, const LinearLayout& from, const LinearLayout& to,
               const ir::Op& op);
  llvm::Value* shuffle(llvm::Value* x, llvm::Value* lane_or_mask, bool butterfly);

  // ---- Control
  void lower_block(const ir::Block& block);
  void lower_op(const ir::Op& op);
  /// Calls a function of libclc, which is linked in later; the name is mangled from the arguments' types. The result is
  /// of the first one's, unless another type is given.
  llvm::Value* libclc(std::string_view name, llvm::ArrayRef<llvm::Value*> args, llvm::Type* result = nullptr);
  /// Calls a function of one number, whose body `body` makes from its argument if the module lacks it. Like libclc's
  /// functions it stays a call until the end.
  llvm::Value* own_function(std::string_view name, llvm::Value* x,
                            const std::function<llvm::Value*(llvm::Value*)>& body);
  /// x to the power y, of fp32 or fp64.
  llvm::Value* pow(llvm::Value* x, llvm::Value* y);

 private:
  // A group of warps that run the same code, and the position where values that are computed once are placed.
  struct WarpRole {
    int count = 0, first = 0;            // warps
    int groups = 1;                      // of so many warps each
    bool one_thread = false;             // alone runs the code
    llvm::Instruction* begin = nullptr;  // what is computed once goes ahead of it
    llvm::Value *thread = nullptr, *first_thread = nullptr, *elected = nullptr, *block = nullptr, *group = nullptr;
    std::map<Dim, std::unordered_map<LinearLayout, llvm::Value*, LayoutHash>> thread_parts;
    std::map<int, llvm::Value*> elected_of;
  };

  // The bits of a thread's index in its block that distinguish copies; they are 0 in the owner of each element.
  uint32_t bits_of_copies(const LinearLayout* layout) const;
  void lower_body();
  void wait_for_earlier();
  /// The ops of the kernel's body in which concurrent programs traverse the same rows and columns.
  std::vector<const ir::Op*> loops_over_shared_reads() const;
  void let_next_start_if_short(const ir::Op& op);
  void let_next_start_behind(const ir::Op& loop);
  /// Brings what loads from `first` on read of a loop's first iteration to the L2 cache, before the wait.
  void fetch_early(const ir::Op& first);
  void find_first_exchange();
  // Initialises the barriers at which reductions over the blocks of a cluster wait.
  void set_up_exchanges();
  // Separates the copying warps from the program's warps, whose code continues here, after the barriers that they share
  // are initialised.
  void begin_copy_warps();
  void lower_copy_warps();
  void prefetch_maps(llvm::Value* is_thread);
  // The first thread of the group continues, the others end.
  void go_on_with_one_thread();
  /// Splits `constant`: returns thread_part ^ those bits of it that lane and warp reach too, and the remaining bits,
  /// which are to be added.
  std::pair<llvm::Value*, int32_t> meet_register_part(llvm::Value* thread_part, const LinearLayout& layout, Dim out,
                                                      int32_t constant);

  std::unordered_map<const ir::Value*, Regs> values_;
  WarpRole warps_;
  const ir::Op* copy_warps_ = nullptr;
  std::vector<const ir::Op*> shared_reads_;
  const ir::Op* first_exchange_ = nullptr;  // of the function's ops, the first with data for other blocks
  llvm::BasicBlock* copy_block_ = nullptr;
  llvm::Function* function_ = nullptr;
  unsigned first_count_ = 0;  ///< the parameter behind all that the function and tensor maps have
  llvm::Value* shared_base_ = nullptr;
  llvm::Instruction* entry_end_ = nullptr;
  std::unique_ptr<DebugInfo> debug_;
  std::optional<OwnedValues> owned_;  // made when first asked for
};

/// The shared-memory offset of the barriers at which a reduction over the blocks of a cluster waits, exchange_slots()
/// of them.
int64_t barriers_of_reduction(const Lowering& l, const ir::Op& op);

#define TEGULA_OP(Name, ...) void lower_##Name(Lowering& l, const ir::Op& op);
#include "codegen/ir/ops.def"

/// Brings what a load reads to the L2 cache.
void fetch_load(Lowering& l, const ir::Op& load);

}  // namespace tegula::lower
