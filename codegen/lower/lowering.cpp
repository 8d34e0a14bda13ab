#include "codegen/lower/lowering.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/Local.h>

#include <filesystem>

#include "codegen/analysis/occupancy.h"
#include "codegen/ir/flow.h"
#include "codegen/lower/tensor_maps.h"

namespace tegula::lower {

// ---------------------------------------------------------------------------------------------------- debug info

DebugInfo::DebugInfo(llvm::Module& module, llvm::Function* function, const ir::Func& func) : builder_(module) {
  main_file_ = func.loc.file ? func.loc.file : intern_file("<kernel>");
  llvm::DIFile* main = file(main_file_);
  builder_.createCompileUnit(llvm::DISourceLanguageName(llvm::dwarf::DW_LANG_C), main, "tegula", true, "", 0, "",
                             llvm::DICompileUnit::DebugDirectivesOnly);
  auto* type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
  subprogram_ = builder_.createFunction(main, func.name, func.name, main, std::max(func.loc.line, 1), type,
                                        std::max(func.loc.line, 1), llvm::DINode::FlagZero,
                                        llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
  function->setSubprogram(subprogram_);
  scopes_[main_file_] = subprogram_;
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
}

llvm::DIFile* DebugInfo::file(const std::string* path) {
  std::filesystem::path p(*path);
  return builder_.createFile(p.filename().string(), p.parent_path().string());
}

llvm::DebugLoc DebugInfo::at(const Loc& loc) {
  const std::string* path = loc.file ? loc.file : main_file_;
  llvm::DIScope*& scope = scopes_[path];
  if (!scope) scope = builder_.createLexicalBlockFile(subprogram_, file(path));
  return llvm::DILocation::get(subprogram_->getContext(), std::max(loc.line, 0), std::max(loc.column, 0), scope);
}

// ------------------------------------------------------------------------------------------------------- function

namespace {

std::unordered_map<const ir::Value*, std::vector<const ir::Op*>> users_in(const ir::Block& body) {
  std::unordered_map<const ir::Value*, std::vector<const ir::Op*>> users;
  ir::walk(body, [&](const ir::Op& op) {
    for (const ir::Value* operand : op.operands)
      if (operand) users[operand].push_back(&op);
  });
  return users;
}

}  // namespace

Lowering::Lowering(const ir::Func& func, const Target& target, llvm::Module& module, Diagnostics& diags, bool emulator)
    : func(func),
      target(target),
      module(module),
      context(module.getContext()),
      diags(diags),
      emulator(emulator),
      b(context),
      shared(plan_shared(func)),
      groups(groups_since(func)),
      axes(func),
      users(users_in(func.body)) {
  warps_.count = func.num_warps();
  copy_warps_ = ir::copy_warps_of(func);
}

namespace {

// The kernel needs more shared memory than there is: the place to change is the op that takes most of it.
void report_shared_memory(Lowering& l) {
  const ir::Op* largest = nullptr;
  int64_t most = 0;
  ir::walk(l.func.body, [&](const ir::Op& op) {
    int64_t bytes = l.shared.offset.count(&op) ? scratch_bytes(op) : 0;
    if (bytes > most) most = bytes, largest = &op;
  });
  Diag& diag =
      l.diags.error(l.func.loc, fmt::format("kernel '{}' needs {} bytes of shared memory, {} has {} for a program",
                                            l.func.name, l.shared.bytes, l.target.name, l.target.shared_per_program));
  diag.with_hint("use smaller tiles");
  if (!largest || !largest->loc) return;
  const ir::Type& type = (largest->info().combines() ? largest->operand(0) : largest->result())->type;
  diag.with_note(largest->loc,
                 fmt::format("{} bytes are for this: threads exchange a tile of {} {} here", most,
                             ir::shape_to_string(type.shape), type.pointer ? "pointers" : elem_info(type.elem).tl));
}

// Number of threads and bounds on registers, for the assembler.
void describe_kernel(const Lowering& l, llvm::Function& kernel) {
  kernel.setCallingConv(llvm::CallingConv::PTX_Kernel);
  kernel.addFnAttr("nvvm.reqntid",
                   fmt::format("{}", 32 * (l.func.num_warps() * ir::groups_of(l.func) + l.copy_warps())));
  if (l.copy_warps())
    kernel.addFnAttr("nvvm.minctasm", "1");  // registers that change hands are to be counted from the start
  else if (const int64_t programs = programs_to_fit(l.func, l.target, l.shared.bytes); programs > 1)
    kernel.addFnAttr("nvvm.minctasm", fmt::format("{}", programs));
  if (l.func.maxnreg()) kernel.addFnAttr("nvvm.maxnreg", fmt::format("{}", l.func.maxnreg()));
  kernel.setDoesNotThrow();
}

// Ops make all elements of their tiles: addresses of those that a vector's first one stands for, for one, have no use.
void erase_unused(llvm::Function& function) {
  for (llvm::BasicBlock& block : llvm::reverse(function))
    for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::reverse(block)))
      if (llvm::isInstructionTriviallyDead(&i)) i.eraseFromParent();
}

}  // namespace

bool Lowering::run() {
  llvm::FastMathFlags flags;
  flags.setAllowContract(func.fp_fusion());  // a * b + c may become one fma, as in Triton
  b.setFastMathFlags(flags);
  if (shared.bytes > target.shared_per_program) {
    report_shared_memory(*this);
    return false;
  }
  llvm::SmallVector<llvm::Type*> types;
  // int1 travels as a byte.
  for (auto& p : func.body.args) types.push_back(p->type.is_bool() ? b.getInt8Ty() : element_type(p->type));
  const std::vector<const ir::Op*> maps = tensor_maps_in(func);
  types.append(maps.size(), tensor_map_parameter(context));
  first_count_ = unsigned(types.size());
  if (ir::loops_over_programs(func)) types.append(3, b.getInt32Ty());
  function_ = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false),
                                     llvm::GlobalValue::ExternalLinkage, func.name, module);
  describe_kernel(*this, *function_);
  debug_ = std::make_unique<DebugInfo>(module, function_, func);

  auto* entry = llvm::BasicBlock::Create(context, "entry", function_);
  auto* body = llvm::BasicBlock::Create(context, "body", function_);
  b.SetInsertPoint(entry);
  b.SetCurrentDebugLocation(debug_->at(func.loc));
  warps_.begin = entry_end_ = b.CreateBr(body);
  b.SetInsertPoint(entry_end_);
  for (size_t i = 0; i < func.body.args.size(); ++i) {
    llvm::Argument* arg = function_->getArg(unsigned(i));
    const ir::Value* param = func.body.args[i].get();
    arg->setName(param->name);
    arg->addAttr(llvm::Attribute::NoUndef);
    if (param->type.pointer)
      arg->addAttr(llvm::Attribute::getWithAlignment(context, llvm::Align(uint64_t(func.divisibility[i]))));
    set_scalar(param, param->type.is_bool() ? b.CreateTrunc(arg, b.getInt1Ty()) : static_cast<llvm::Value*>(arg));
  }
  for (size_t i = 0; i < maps.size(); ++i) {
    llvm::Argument* arg = function_->getArg(unsigned(func.body.args.size() + i));
    describe_tensor_map_parameter(*arg);
    set_scalar(maps[i]->result(), b.CreatePtrToInt(arg, b.getInt64Ty()));
  }
  b.SetInsertPoint(body);
  lower_body();
  erase_unused(*function_);
  debug_->finalize();
  return !diags.has_errors();
}

llvm::Value* Lowering::programs_of_launch(int axis) const { return function_->getArg(first_count_ + unsigned(axis)); }

llvm::SmallVector<llvm::Value*> Lowering::results(llvm::Value* call) {
  if (!call->getType()->isStructTy()) return {call};
  llvm::SmallVector<llvm::Value*> out;
  for (unsigned i = 0; i < call->getType()->getStructNumElements(); ++i) out.push_back(b.CreateExtractValue(call, i));
  return out;
}

void Lowering::lower_body() {
  bool waited = false, parted = !copy_warps_;
  shared_reads_ = loops_over_shared_reads();
  if (!copy_warps_ && !tensor_maps_in(func).empty()) prefetch_maps(is_elected());
  find_first_exchange();
  if (first_exchange_) {
    set_up_exchanges();
    hw("cluster_arrive", {site(func.loc)});
  }
  for (auto& op : func.body.ops) {
    const bool shared_barrier = precedes_parting(*op);
    if (!parted && !shared_barrier) {
      begin_copy_warps();
      parted = true;
    }
    if (!waited && !op->has(ir::Pure) && !shared_barrier) {
      b.SetCurrentDebugLocation(debug_->at(op->loc));
      fetch_early(*op);
      wait_for_earlier();
      waited = true;
    }
    if (op.get() == first_exchange_) hw("cluster_wait", {site(op->loc)});  // the other blocks have begun
    let_next_start_if_short(*op);
    lower_op(*op);
    let_next_start_behind(*op);
  }
  if (copy_warps_) lower_copy_warps();
}

// Barriers of the cluster must not come between the two steps of the one at the beginning either.
void Lowering::find_first_exchange() {
  if (copy_warps_) return;  // the blocks meet where these part
  auto waits = [&](const ir::Op& op) {
    return shared.across.contains(&op) || op.opcode == ir::Opcode::ExchangeBlocks ||
           (func.num_ctas() > 1 && op.opcode == ir::Opcode::Barrier);
  };
  for (auto& op : func.body.ops) {
    bool found = waits(*op);
    for (const auto& region : op->regions) ir::walk(*region, [&](const ir::Op& inner) { found |= waits(inner); });
    if (!found) continue;
    first_exchange_ = op.get();
    return;
  }
}

void Lowering::set_up_exchanges() {
  llvm::Value* first = nullptr;
  ir::walk(func.body, [&](const ir::Op& op) {
    if (op.opcode != ir::Opcode::Reduce || !shared.across.contains(&op)) return;
    if (!first) first = b.CreateICmpEQ(thread(), i32(0));
    for (int slot = 0; slot < exchange_slots(op); ++slot)
      hw("mbarrier_init", {shared_address(barriers_of_reduction(*this, op) + 8 * slot), i32(1), first, site(op.loc)});
  });
  if (first) hw("fence_mbarrier_init", {});
}

// Otherwise the first copy would wait for its map.
void Lowering::prefetch_maps(llvm::Value* is_thread) {
  for (const ir::Op* map : tensor_maps_in(func)) hw("prefetch_tensor_map", {scalar(map->result()), is_thread});
}

bool Lowering::precedes_parting(const ir::Op& op) const { return copy_warps_ && ir::precedes_copy_warps(op); }

void Lowering::begin_copy_warps() {
  const int groups = ir::groups_of(func);
  if (copy_warps_->get(ir::attr::one_thread)) {
    prefetch_maps(b.CreateICmpEQ(thread(), i32(32 * num_warps() * groups)));
    hw("fence_async_shared", {});  // bulk copies count on the barriers
  }
  if (func.num_ctas() > 1) {  // whose blocks arrive at each other's barriers
    hw("fence_mbarrier_init", {});
    hw("cluster_arrive_relaxed", {site(func.loc)});
    hw("cluster_wait", {site(func.loc)});
  } else {
    hw("barrier", {site(func.loc)});
  }
  copy_block_ = llvm::BasicBlock::Create(context, "copy_warps", function_);
  auto* program = llvm::BasicBlock::Create(context, "program", function_);
  b.CreateCondBr(b.CreateICmpULT(thread(), i32(32 * num_warps() * groups)), program, copy_block_);
  b.SetInsertPoint(program);
  const ir::Ints registers = copy_warps_->get(ir::attr::registers);
  if (!registers.empty()) hw("more_registers", {}, fmt::format(".{}", registers[0]));
  if (groups == 1) return;
  auto* body = llvm::BasicBlock::Create(context, "program.body", function_);
  WarpRole role;
  role.count = func.num_warps();
  role.groups = groups;
  role.begin = b.CreateBr(body);
  warps_ = std::move(role);
  b.SetInsertPoint(body);
}

void Lowering::lower_copy_warps() {
  const ir::Ints registers = copy_warps_->get(ir::attr::registers);
  b.SetInsertPoint(copy_block_);
  b.SetCurrentDebugLocation(debug_->at(copy_warps_->loc));
  auto* body = llvm::BasicBlock::Create(context, "copy_warps.body", function_);
  if (!registers.empty()) hw("fewer_registers", {}, fmt::format(".{}", registers[1]));
  llvm::Instruction* begin = b.CreateBr(body);
  WarpRole role;
  role.count = copy_warps();
  role.first = func.num_warps() * ir::groups_of(func);
  role.begin = begin;
  const WarpRole program = std::exchange(warps_, std::move(role));
  b.SetInsertPoint(body);
  if (copy_warps_->get(ir::attr::one_thread)) go_on_with_one_thread();
  for (auto& op : func.body.ops)
    if (op->opcode == ir::Opcode::SharedAlloc) set_scalar(op->result(), shared_address(shared.offset.at(op.get())));
  bool waited = false;
  for (auto& op : copy_warps_->regions[0]->ops) {
    if (!waited && !op->has(ir::Pure)) wait_for_earlier();
    waited |= !op->has(ir::Pure);
    if (!op->has(ir::Terminator)) lower_op(*op);
  }
  b.CreateRetVoid();
  warps_ = program;
}

void Lowering::go_on_with_one_thread() {
  auto* one = llvm::BasicBlock::Create(context, "copy_thread", function_);
  auto* others = llvm::BasicBlock::Create(context, "copy_warps.others", function_);
  b.CreateCondBr(b.CreateICmpEQ(thread(), i32(0)), one, others);
  b.SetInsertPoint(others);
  wait_for_earlier();
  b.CreateRetVoid();
  b.SetInsertPoint(one);
  warps_.one_thread = true;
}

void Lowering::lower_block(const ir::Block& block) {
  for (auto& op : block.ops) lower_op(*op);
}

void Lowering::lower_op(const ir::Op& op) {
  b.SetCurrentDebugLocation(debug_->at(op.loc));
  switch (op.opcode) {
#define TEGULA_OP(Name, ...) \
  case ir::Opcode::Name:     \
    return lower_##Name(*this, op);
#include "codegen/ir/ops.def"
  }
}

// --------------------------------------------------------------------------------------------------------- values

const Regs& Lowering::get(const ir::Value* value) const {
  auto it = values_.find(value);
  TEGULA_CHECK(it != values_.end(), "value used before it is lowered");
  return it->second;
}

void Lowering::set(const ir::Value* value, Regs regs) { values_[value] = std::move(regs); }

namespace {
bool is_in_pairs(const ir::Type& type) { return type.is_in_flight() && type.elem == Elem::F16; }
}  // namespace

int Lowering::num_registers(const ir::Type& type) {
  return type.layout ? type.layout->in_size(Dim::Register) / (is_in_pairs(type) ? 2 : 1) : 1;
}

int Lowering::canonical_register(const ir::Type& type, int r) {
  if (is_in_pairs(type)) return type.layout->canonical(Dim::Register, 2 * r) / 2;
  return type.layout ? type.layout->canonical(Dim::Register, r) : r;
}

Regs Lowering::map_registers(const ir::Type& type, const std::function<llvm::Value*(int)>& make) {
  int n = num_registers(type);
  Regs out(n, nullptr);
  for (int r = 0; r < n; ++r) {
    int first = canonical_register(type, r);
    out[r] = first == r ? make(r) : out[first];
  }
  return out;
}

llvm::Type* Lowering::element_type(Elem elem) {
  switch (elem) {
    case Elem::F16:
      return b.getHalfTy();
    case Elem::BF16:
      return b.getBFloatTy();
    case Elem::F32:
      return b.getFloatTy();
    case Elem::F64:
      return b.getDoubleTy();
    default:
      return b.getIntNTy(unsigned(elem_bits(elem)));
  }
}

llvm::Type* Lowering::element_type(const ir::Type& type) {
  if (is_in_pairs(type)) return b.getInt32Ty();
  return type.pointer ? llvm::PointerType::get(context, 1) : element_type(type.elem);
}

// ------------------------------------------------------------------------------------------------------- hardware

llvm::Value* Lowering::hw(std::string_view row, llvm::ArrayRef<llvm::Value*> args, std::string_view modifiers) {
  const HwInfo* info = find_hw(row);
  TEGULA_CHECK(info, "hw.def has no row '{}'", row);
  TEGULA_CHECK(target.has(info->feature), "{} lacks what '{}' needs", target.name, row);
  return b.CreateCall(declare_hw(module, *info, modifiers), args);
}

llvm::Value* Lowering::site(const Loc& loc) {
  for (size_t i = 0; i < sites.size(); ++i)
    if (sites[i] == loc) return i32(int64_t(i));
  sites.push_back(loc);
  return i32(int64_t(sites.size() - 1));
}

llvm::Value* Lowering::site_of_load(const ir::Op& op) {
  auto* number = llvm::cast<llvm::ConstantInt>(site(op.loc));
  TEGULA_CHECK(number->getZExtValue() >> kSiteBits == 0, "{} places of accesses", sites.size());
  if (op.opcode != ir::Opcode::Load || op.get(ir::attr::volatile_)) return number;
  const uint32_t copies = bits_of_copies(op.result()->type.layout.get());
  if (!copies) return number;
  if (!owned_) owned_.emplace(func);
  const uint64_t unused = copies & owned_->unused_bits(op.result());
  return i32(int64_t(number->getZExtValue() | unused << kSiteBits));
}

void Lowering::barrier(const Loc& loc) {
  if (num_groups() > 1)
    hw("barrier_between", {barriers_of_group(kBarriersOfGroups, 1), site(loc)}, fmt::format(".{}", 32 * num_warps()));
  else if (copy_warps_)
    hw("barrier_of", {site(loc)}, fmt::format(".{}", 32 * num_warps()));
  else
    hw("barrier", {site(loc)});
}

void Lowering::cluster_barrier(const Loc& loc) {
  hw("cluster_arrive", {site(loc)});
  hw("cluster_wait", {site(loc)});
}

llvm::Value* Lowering::block_of_cluster() {
  if (!warps_.block) {
    Builder::InsertPointGuard guard(b);
    b.SetInsertPoint(warps_.begin);
    auto* call = llvm::cast<llvm::CallInst>(hw("block_of_cluster", {}));
    call->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, uint64_t(func.num_ctas()))));
    warps_.block = call;
  }
  return warps_.block;
}

llvm::Value* Lowering::thread() {
  if (!warps_.thread) {
    Builder::InsertPointGuard guard(b);
    b.SetInsertPoint(warps_.begin);
    auto* call = llvm::cast<llvm::CallInst>(hw("thread_id", {}));
    const uint64_t all = uint64_t(func.num_warps() * ir::groups_of(func) + copy_warps()) * 32;
    call->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, uint64_t(warps_.first) * 32), llvm::APInt(32, all)));
    warps_.thread = warps_.first       ? b.CreateSub(call, i32(32 * warps_.first), "", true, true)
                    : num_groups() > 1 ? b.CreateAnd(call, i32(32 * num_warps() - 1))
                                       : call;
  }
  return warps_.thread;
}

llvm::Value* Lowering::group() {
  if (num_groups() == 1) return i32(0);
  if (!warps_.group) {
    Builder::InsertPointGuard guard(b);
    b.SetInsertPoint(warps_.begin);
    llvm::Value* number = b.CreateUDiv(hw("thread_id", {}), i32(32 * num_warps()));
    warps_.group = hw("shfl_idx_b32", {number, i32(0)});
  }
  return warps_.group;
}

llvm::Value* Lowering::barriers_of_group(int first, int count) {
  return b.CreateAdd(b.CreateMul(group(), i32(count)), i32(first));
}

llvm::Value* Lowering::first_thread_of_warp() {
  llvm::Value* tid = thread();
  if (!warps_.first_thread) {
    Builder::InsertPointGuard guard(b);
    b.SetInsertPoint(warps_.begin);
    warps_.first_thread = hw("shfl_idx_b32", {tid, i32(0)});
  }
  return warps_.first_thread;
}

llvm::Value* Lowering::is_elected() {
  if (warps_.one_thread) return b.getTrue();
  llvm::Value* first = first_thread_of_warp();
  if (!warps_.elected) {
    Builder::InsertPointGuard guard(b);
    b.SetInsertPoint(warps_.begin);
    llvm::Value* first_warp = b.CreateICmpEQ(first, i32(0));
    warps_.elected = b.CreateAnd(hw("elect_lane", {}), first_warp);
  }
  return warps_.elected;
}

llvm::Value* Lowering::is_elected_of(int warps) {
  llvm::Value* first = first_thread_of_warp();
  llvm::Value*& elected = warps_.elected_of[warps];
  if (!elected) {
    Builder::InsertPointGuard guard(b);
    b.SetInsertPoint(warps_.begin);
    elected = hw("elect_lane", {});
    if (warps > 1) elected = b.CreateAnd(elected, b.CreateICmpEQ(b.CreateAnd(first, i32(32 * warps - 1)), i32(0)));
  }
  return elected;
}

llvm::Value* Lowering::shared_address(int64_t offset) {
  if (!shared_base_) {
    Builder::InsertPointGuard guard(b);
    b.SetInsertPoint(entry_end_);
    shared_base_ = hw("shared_base", {});
  }
  llvm::Value* base = shared_base_;
  if (num_groups() > 1 && offset >= shared.common_bytes)
    base = b.CreateAdd(base, b.CreateMul(group(), i32(shared.group_bytes)));
  return b.CreateAdd(base, i32(offset));
}

// ------------------------------------------------------------------------------- exchanges through shared memory

// Scratch that other blocks write to is the op's alone, so only the op itself can have read it before.
void Lowering::before_exchange(const ir::Op& op) {
  if (shared.across.contains(&op) && exchange_slots(op) > 1) cluster_barrier(op.loc);
}

llvm::Value* Lowering::next_turn() {
  llvm::Value* turn = nullptr;  // becomes a register
  {
    Builder::InsertPointGuard guard(b);
    b.SetInsertPoint(entry_end_);
    turn = b.CreateAlloca(b.getInt32Ty());
    b.CreateStore(i32(0), turn);
  }
  llvm::Value* now = b.CreateLoad(b.getInt32Ty(), turn);
  b.CreateStore(b.CreateAnd(b.CreateAdd(now, i32(1)), i32(3)), turn);
  return now;
}

llvm::Value* Lowering::exchange_owner(const ir::Op& op, const LinearLayout* layout) {
  return shared.across.contains(&op) ? is_owner_in_cluster(layout) : is_owner(layout);
}

void Lowering::store_for_exchange(const ir::Op& op, llvm::Value* address, llvm::ArrayRef<llvm::Value*> values,
                                  llvm::Value* owner) {
  if (shared.across.contains(&op))
    store_in_all_blocks(address, values, owner, op.loc);
  else
    store_shared(address, values, owner, op.loc);
}

Regs Lowering::pass_to_holders(const ir::Op& op, const Regs& owned, llvm::Value* owner) {
  const ir::Type& type = op.result()->type;
  const int bytes = std::max(1, type.bits() / 8);
  auto address = [&](int r) {
    llvm::Value* offset = b.CreateMul(linear_index(type, r), i32(bytes));
    return b.CreateAdd(shared_address(shared.offset.at(&op)), offset);
  };
  before_exchange(op);
  map_registers(type, [&](int r) { return store_for_exchange(op, address(r), {owned[r]}, owner), owned[r]; });
  exchange_barrier(op);
  return map_registers(type, [&](int r) { return load_shared(address(r), element_type(type), 1, op.loc)[0]; });
}

void Lowering::exchange_barrier(const ir::Op& op) {
  if (shared.across.contains(&op))
    cluster_barrier(op.loc);
  else
    barrier(op.loc);
}

}  // namespace tegula::lower
