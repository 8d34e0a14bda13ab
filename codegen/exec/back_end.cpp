#include "codegen/exec/back_end.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Pass.h>
#include <llvm/PassInfo.h>
#include <llvm/PassRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include "codegen/exec/fatal_errors.h"
#include "codegen/exec/llvm/fold_offsets.h"
#include "codegen/exec/llvm/join_pieces.h"
#include "codegen/exec/llvm/narrow_offsets.h"
#include "codegen/exec/llvm/own_registers.h"
#include "codegen/exec/llvm/share_operands.h"
#include "codegen/exec/llvm/share_values.h"
#include "codegen/exec/llvm/short_divisions.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

// LLVM keeps what may be chosen per process alone in its command line's options.
void set_option(llvm::StringRef name, llvm::StringRef value) {
  auto& options = llvm::cl::getRegisteredOptions();
  auto option = options.find(name);
  TEGULA_CHECK(option != options.end() && !option->second->addOccurrence(0, name, value), "LLVM takes no option -{}={}",
               std::string_view(name), std::string_view(value));
}

std::unique_ptr<llvm::TargetMachine> make_machine(const std::string& cpu, int ptx) {
  static std::once_flag once;
  std::call_once(once, [] {
    throw_fatal_errors();
    // Loop strength reduction chooses one of several formulae for each use of a loop's variable and prices as many
    // combinations as this. Its own limit, 65535, took more than a second where attention has hundreds of addresses.
    set_option("lsr-complexity-limit", "1000");
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  const llvm::Triple triple = nvptx_triple();
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, error);
  TEGULA_CHECK(backend, "{}", error);
  llvm::TargetOptions options;
  // Only what carries the flag `contract` may become one fma: the kernel's own a * b + c, never libclc's arithmetic on
  // values in two parts, which relies on each rounding.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(triple, cpu, fmt::format("+ptx{}", ptx),
                                                                           options, llvm::Reloc::PIC_, std::nullopt,
                                                                           llvm::CodeGenOptLevel::Aggressive));
}

}  // namespace

llvm::Triple nvptx_triple() { return llvm::Triple("nvptx64-nvidia-cuda"); }

namespace {

// Passes that the back end adds and that cost more than they give, and where they stay nevertheless. Straight-line
// strength reduction compares each address with those before it, quadratic in the accesses of a block, and took two
// thirds of code generation. Elimination of common subexpressions, which comes four times after our own, and motion
// out of loops find a thousandth of the instructions at most; reassociation of addresses and freezes find nothing.
enum class Stays { Nowhere, ForAddresses, UnlessVeryLong };
struct LeftOut {
  std::string_view pass;
  Stays stays;
};
constexpr LeftOut kLeftOut[] = {
    {"slsr", Stays::Nowhere},
    {"gvn", Stays::Nowhere},
    {"nary-reassociate", Stays::Nowhere},
    {"early-cse", Stays::Nowhere},
    {"early-machinelicm", Stays::Nowhere},
    {"canon-freeze", Stays::Nowhere},
    // It sinks address arithmetic to its uses, which the assembler does better. `short_divisions` takes its place.
    {"codegenprepare", Stays::Nowhere},
    // Loop strength reduction searches among the ways to write all addresses of a loop, up to half of the compilation
    // of a loop around products. It pays where a loop carries a pointer for each of many accesses: they become one.
    // Without it, 249 public kernels had 2.5 % less machine code and 30 % fewer bytes spilled. Where offsets were
    // narrowed it would make a pointer of each again. In long functions it took more than half of code generation, and
    // the machine code of 34 public kernels was 2.1 % shorter without, unless products fill the registers with their
    // sums. It pays too in short loops that load where what they loaded says, as rows by their numbers: from pointers
    // that go on by a constant the assembler loads the numbers of four iterations at a time, else each waits for the
    // row before.
    {"loop-reduce", Stays::ForAddresses},
    // It follows the registers of whole blocks, and the assembler places instructions anew.
    {"machine-sink", Stays::UnlessVeryLong},
    // What these look for no module of ours holds: comparisons of memory, calls of a C library, vectors under masks or
    // summed up, a collector's roots, exceptions, a protected stack, places of variables, instrumentation. Each costs
    // what it takes to add it, and a look at the function.
    {"mergeicmps", Stays::Nowhere},
    {"expand-memcmp", Stays::Nowhere},
    {"replace-with-veclib", Stays::Nowhere},
    {"partially-inline-libcalls", Stays::Nowhere},
    {"scalarize-masked-mem-intrin", Stays::Nowhere},
    {"expand-reductions", Stays::Nowhere},
    {"gc-lowering", Stays::Nowhere},
    {"shadow-stack-gc-lowering", Stays::Nowhere},
    {"gc-analysis", Stays::Nowhere},
    {"fixup-statepoint-caller-saved", Stays::Nowhere},
    {"nvptx-lower-ctor-dtor", Stays::Nowhere},
    {"objc-arc-contract", Stays::Nowhere},
    {"lowerinvoke", Stays::Nowhere},
    {"callbrprepare", Stays::Nowhere},
    {"safe-stack", Stays::Nowhere},
    {"stack-protector", Stays::Nowhere},
    {"removeredundantdebugvalues", Stays::Nowhere},
    {"livedebugvalues", Stays::Nowhere},
    {"post-inline-ee-instrument", Stays::Nowhere},
    {"fentry-insert", Stays::Nowhere},
    {"xray-instrumentation", Stays::Nowhere},
    {"machine-sanmd", Stays::Nowhere},
    {"stack-frame-layout", Stays::Nowhere},
};

// Integers and pointers that a loop carries, or a branch merges, in one place.
constexpr int kManyCarried = 5;
constexpr size_t kLongFunction = 1024, kVeryLongFunction = 1 << 14;  // instructions
// Sums of products that a loop carries beside them, which leave few registers for addresses.
constexpr int kManySums = 64;

bool carries_many(const llvm::Module& module) {
  const auto is_address = [](const llvm::PHINode& phi) {
    return phi.getType()->isIntOrPtrTy() && !phi.getType()->isIntegerTy(1);
  };
  for (const llvm::Function& f : module) {
    if (f.hasFnAttribute(kNarrowOffsets)) continue;
    const bool is_long = f.getInstructionCount() >= kLongFunction;
    for (const llvm::BasicBlock& block : f) {
      const auto addresses = llvm::count_if(block.phis(), is_address);
      const auto others = std::distance(block.phis().begin(), block.phis().end()) - addresses;
      if (addresses >= kManyCarried && (!is_long || others >= kManySums)) return true;
    }
  }
  return false;
}

bool is_very_long(const llvm::Module& module) {
  return llvm::any_of(module, [](const llvm::Function& f) { return f.getInstructionCount() >= kVeryLongFunction; });
}

constexpr size_t kShortLoop = 256;  // instructions

// Whether a block that is a loop loads at addresses that follow from what it loaded.
bool gathers(const llvm::BasicBlock& block) {
  if (block.size() > kShortLoop || !llvm::is_contained(llvm::successors(&block), &block)) return false;
  llvm::SmallPtrSet<const llvm::Value*, 16> loaded;  // and what follows from it
  for (const llvm::Instruction& i : block) {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
    const auto* text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
    const bool loads = text && llvm::StringRef(text->getAsmString()).contains("ld.global");
    const bool follows = !llvm::isa<llvm::PHINode>(i) &&
                         llvm::any_of(i.operands(), [&](const llvm::Use& use) { return loaded.contains(use.get()); });
    if (loads && llvm::any_of(call->args(), [&](const llvm::Use& use) {
          return use->getType()->isPointerTy() && loaded.contains(use.get());
        }))
      return true;
    if (loads || follows) loaded.insert(&i);
  }
  return false;
}

bool gathers(const llvm::Module& module) {
  return llvm::any_of(module, [](const llvm::Function& f) {
    return llvm::any_of(f, [](const llvm::BasicBlock& block) { return gathers(block); });
  });
}

// What the passes write, without a buffer: that would not be written out before the passes are gone.
struct Text {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream{text};
};

// What passes are chosen by.
struct Form {
  bool addresses;  ///< loops carry many addresses
  bool very_long;
};

// The passes of a machine, but for those left out.
class Passes : private Text, public llvm::legacy::PassManager {
 public:
  Passes(llvm::TargetMachine& machine, Form form) : form_(form) {
    bool failed = machine.addPassesToEmitFile(*this, stream, nullptr, llvm::CodeGenFileType::AssemblyFile);
    TEGULA_CHECK(!failed, "the NVPTX back end emits no assembly");
    TEGULA_CHECK(met_.size() == std::size(kLeftOut), "the NVPTX back end lacks a pass that is to be left out");
  }
  void add(llvm::Pass* pass) override {
    const llvm::PassInfo* info = llvm::PassRegistry::getPassRegistry()->getPassInfo(pass->getPassID());
    const std::string_view name = info ? std::string_view(info->getPassArgument()) : std::string_view();
    if (name == "finalize-isel") llvm::legacy::PassManager::add(join_pieces());
    if (name == "register-coalescer") llvm::legacy::PassManager::add(own_registers());
    if (name == "nary-reassociate") llvm::legacy::PassManager::add(share_values_of_pieces());
    if (name == "codegenprepare") llvm::legacy::PassManager::add(short_divisions());
    const auto* left_out =
        std::find_if(std::begin(kLeftOut), std::end(kLeftOut), [&](const LeftOut& row) { return row.pass == name; });
    if (left_out == std::end(kLeftOut)) return llvm::legacy::PassManager::add(pass);
    met_.insert(left_out->pass);
    if (stays(left_out->stays)) return llvm::legacy::PassManager::add(pass);
    delete pass;
  }
  std::string emit(llvm::Module& module) {
    text.clear();
    run(module);
    return std::string(text);
  }

 private:
  bool stays(Stays where) const {
    return where == Stays::ForAddresses ? form_.addresses : where == Stays::UnlessVeryLong && !form_.very_long;
  }

  const Form form_;
  std::set<std::string_view> met_;
};

}  // namespace

// What takes as long to make as a small kernel's passes. The passes run over one module after the other: LLVM begins
// and ends each run anew.
struct BackEnd::Kept {
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<Passes> passes[2][2];  // by their form
};

struct BackEnd::Pool {
  std::mutex mutex;
  std::multimap<std::pair<std::string, int>, std::unique_ptr<Kept>> free;
};

BackEnd::Pool& BackEnd::pool() {
  static Pool& pool = *new Pool;  // threads may compile while the process ends
  return pool;
}

BackEnd::Kept& BackEnd::kept() {
  if (!kept_) {
    std::lock_guard lock(pool().mutex);
    if (auto node = pool().free.extract(key_)) kept_ = std::move(node.mapped());
  }
  if (!kept_) {
    kept_ = std::make_unique<Kept>();
    kept_->machine = make_machine(key_.first, key_.second);
  }
  return *kept_;
}

BackEnd::BackEnd(const Target& target, int ptx) : key_(target.name, ptx) {}

BackEnd::~BackEnd() {
  if (!kept_) return;
  std::lock_guard lock(pool().mutex);
  pool().free.emplace(key_, std::move(kept_));
}

llvm::TargetMachine& BackEnd::machine() { return *kept().machine; }

std::string BackEnd::emit(llvm::Module& module) {
  for (llvm::Function& f : module) {
    fold_offsets(f);
    cut_huge_blocks(f);
    bound_shared_operands(f);
  }
  const Form form{.addresses = carries_many(module) || gathers(module), .very_long = is_very_long(module)};
  kept();
  std::unique_ptr<Kept> used = std::move(kept_);  // what an exception ends in the middle serves nobody
  std::unique_ptr<Passes>& passes = used->passes[form.addresses][form.very_long];
  if (!passes) passes = std::make_unique<Passes>(*used->machine, form);
  std::string text = passes->emit(module);
  kept_ = std::move(used);
  return text;
}

}  // namespace tegula
