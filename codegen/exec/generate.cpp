#include "codegen/exec/generate.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Verifier.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/CorrelatedValuePropagation.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/IndVarSimplify.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopDeletion.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopRotation.h>
#include <llvm/Transforms/Scalar/LoopUnrollPass.h>
#include <llvm/Transforms/Scalar/Reassociate.h>
#include <llvm/Transforms/Scalar/SCCP.h>
#include <llvm/Transforms/Scalar/SROA.h>

#include <chrono>

#include "codegen/exec/back_end.h"
#include "codegen/exec/fatal_errors.h"
#include "codegen/exec/llvm/llvm_passes.h"
#include "codegen/exec/llvm/merge_loads.h"
#include "codegen/exec/llvm/narrow_offsets.h"
#include "codegen/exec/llvm/order_by_use.h"
#include "codegen/exec/llvm/pair_divisions.h"
#include "codegen/exec/llvm/share_steps.h"
#include "codegen/exec/llvm/share_values.h"
#include "codegen/exec/llvm/simplify_blocks.h"
#include "codegen/exec/llvm/sink_indices.h"
#include "codegen/exec/llvm/small_integers.h"
#include "codegen/exec/llvm/sound_integers.h"
#include "codegen/exec/llvm/whole_words.h"
#include "codegen/exec/llvm/written_functions.h"
#include "codegen/exec/module_stash.h"
#include "codegen/exec/nvptx.h"
#include "codegen/ir/flow.h"
#include "codegen/ir/verify_steps.h"
#include "codegen/lower/libclc.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/tensor_maps.h"

namespace tegula {

namespace {

// LLVM's own handler ends the process on an error; ours hands it to the user.
class DiagnosticHandler : public llvm::DiagnosticHandler {
 public:
  DiagnosticHandler(Diagnostics& diags, Loc loc) : diags_(diags), loc_(loc) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      std::string text;
      llvm::raw_string_ostream stream(text);
      llvm::DiagnosticPrinterRawOStream printer(stream);
      info.print(printer);
      diags_.error(loc_, "LLVM: " + text);
    }
    return true;
  }

 private:
  Diagnostics& diags_;
  Loc loc_;
};

std::string text_of(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

// Passes of our own among LLVM's.
struct ShareSteps : llvm::PassInfoMixin<ShareSteps> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    return share_steps(function) ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
  }
};

struct ShareValues : llvm::PassInfoMixin<ShareValues> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    share_values(function, analyses.getResult<llvm::DominatorTreeAnalysis>(function));
    llvm::PreservedAnalyses preserved;
    preserved.preserveSet<llvm::CFGAnalyses>();
    return preserved;
  }
};

struct SimplifyBlocks : llvm::PassInfoMixin<SimplifyBlocks> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    return simplify_blocks(function, analyses);
  }
};

// Where it copies a loop's head, LLVM compares each value that the loop carries with all of them. Loops that carry more
// than registers hold are long, so that the branch at their end does not matter.
constexpr size_t kManyCarried = 512;

struct RotateLoop : llvm::PassInfoMixin<RotateLoop> {
  llvm::PreservedAnalyses run(llvm::Loop& loop, llvm::LoopAnalysisManager& analyses,
                              llvm::LoopStandardAnalysisResults& results, llvm::LPMUpdater& updater) {
    const auto carried = size_t(llvm::range_size(loop.getHeader()->phis()));
    return carried > kManyCarried ? llvm::PreservedAnalyses::all()
                                  : llvm::LoopRotatePass().run(loop, analyses, results, updater);
  }
};

llvm::SROAPass promote() { return llvm::SROAPass(llvm::SROAOptions::ModifyCFG); }
llvm::InstCombinePass combine() { return llvm::InstCombinePass(llvm::InstCombineOptions().setVerifyFixpoint(false)); }

template <class Manager, class... Passes>
Manager in_order(Passes... passes) {
  Manager all;
  (all.addPass(std::move(passes)), ...);
  return all;
}

template <class... Passes>
auto over_loops(bool memory_ssa, Passes... passes) {
  return llvm::createFunctionToLoopPassAdaptor(in_order<llvm::LoopPassManager>(std::move(passes)...), memory_ssa);
}

// LLVM's inliner looks at each instruction of each function to see whether that can be inlined.
struct InlineMarked : llvm::PassInfoMixin<InlineMarked> {
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager& analyses) {
    const auto marked = [](const llvm::Function& f) { return f.hasFnAttribute(llvm::Attribute::AlwaysInline); };
    return llvm::any_of(module, marked) ? llvm::AlwaysInlinerPass().run(module, analyses)
                                        : llvm::PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

// Inlined calls first, then the passes over each function.
llvm::ModulePassManager over_functions(llvm::FunctionPassManager passes) {
  return in_order<llvm::ModulePassManager>(InlineMarked(), llvm::GlobalDCEPass(),
                                           llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
}

// Little of what -O3 does finds anything in tile code, which has no variables in memory and is one block but for its
// loops and branches; its rounds over straight lines of ten thousand instructions took three times as long for the same
// machine code within a thousandth. Each of these changes registers or code of some kernel. Combining instructions once
// more ahead of `reassociate` took 4 % of the compilation, and the code was longer; eliminating common subexpressions
// once more there, or by `gvn`, 1 % each, for the same code.
//
// Each pass over kManyInstructions is a large part of a second, and the assembler numbers values and combines
// instructions as well: left out is what finds a percent of the instructions at most. From kLongLoops on variables of
// loops stay as they are: whether sums with them wrap around LLVM asks of each branch on the way to the loop, which
// took a quarter of the compilation of loops with many masks. The machine code of 57 long public kernels was .4 %
// shorter.
constexpr unsigned kManyInstructions = 1 << 14, kLongLoops = 1 << 12;

llvm::ModulePassManager optimizing(unsigned instructions) {
  const bool brief = instructions >= kManyInstructions;
  auto passes = in_order<llvm::FunctionPassManager>(
      SimplifyBlocks(), promote(), ShareValues(), llvm::SCCPPass(), llvm::ReassociatePass(),
      over_loops(true, llvm::LICMPass(llvm::LICMOptions()), RotateLoop(), llvm::LICMPass(llvm::LICMOptions())),
      SimplifyBlocks(), ShareSteps());
  if (!brief) passes.addPass(combine());
  if (instructions < kLongLoops)
    passes.addPass(over_loops(false, llvm::IndVarSimplifyPass(), llvm::LoopDeletionPass(), llvm::LoopFullUnrollPass()));
  else
    passes.addPass(over_loops(false, llvm::LoopDeletionPass(), llvm::LoopFullUnrollPass()));
  if (!brief) passes.addPass(ShareValues());
  passes.addPass(llvm::CorrelatedValuePropagationPass());
  if (!brief)
    passes.addPass(in_order<llvm::FunctionPassManager>(llvm::ADCEPass(), SimplifyBlocks(), llvm::LoopUnrollPass()));
  passes.addPass(in_order<llvm::FunctionPassManager>(combine(), SimplifyBlocks()));
  return over_functions(std::move(passes));
}

// A twentieth of the time, for code of half as many instructions again. The emulator's code runs no slower for it:
// what runs for long its own compiler optimises.
llvm::ModulePassManager tidying() {
  return over_functions(in_order<llvm::FunctionPassManager>(SimplifyBlocks(), promote(), ShareValues()));
}

// Mathematical functions stay calls until the end: a tile has many, and each is as long as the rest of the kernel. Then
// those with few calls are inlined.
llvm::ModulePassManager inlining(lower::Inlined inlined) {
  auto passes = in_order<llvm::ModulePassManager>(llvm::AlwaysInlinerPass());
  if (inlined != lower::Inlined::Own)
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(
        in_order<llvm::FunctionPassManager>(promote(), llvm::EarlyCSEPass(), combine())));
  return passes;
}

void check_valid(const llvm::Module& module, const char* after) {
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  TEGULA_CHECK(!llvm::verifyModule(module, &stream), "invalid LLVM IR after {}: {}\n{}", after, problems,
               text_of(module));
}

// Times the stages and hands their text to the dump callback.
class Stages {
 public:
  explicit Stages(const CompileOptions& options) : options_(options) {}
  void done(const char* stage, const std::function<std::string()>& text) {
    auto now = Clock::now();
    if (options_.times)
      options_.times->push_back({stage, std::chrono::duration<double, std::milli>(now - last_).count()});
    if (options_.dump) options_.dump(stage, text());
    last_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const CompileOptions& options_;
  Clock::time_point last_ = Clock::now();
};

void set_target(llvm::Module& module) {
  const llvm::Triple triple = nvptx_triple();
  module.setTargetTriple(triple);
  module.setDataLayout(triple.computeDataLayout());
}

std::string finish_ptx(llvm::Module& module, const Target& target) {
  BackEnd back_end(target, insert_ptx(module, target));
  name_written_functions(module);
  return with_written_functions(back_end.emit(module));
}

// Programs of more instructions take longer than to let the next kernel start.
constexpr unsigned kLongProgram = 2048;

// PTX with a second entry of the kernel that does not let the next one start. A copy of the text: to emit the function
// again would take half as long as all of the compilation.
std::string with_entry_of_many(const std::string& ptx, const std::string& kernel) {
  const std::string head = ".visible .entry ", step = "\tgriddepcontrol.launch_dependents;\n", end_of_entry = "\n}\n";
  const size_t begin = ptx.find(head + kernel + "("), end = ptx.find(end_of_entry, begin), at = ptx.find(step, begin);
  TEGULA_CHECK(begin != ptx.npos && end != ptx.npos && at < end, "no entry of '{}' lets another start\n{}", kernel,
               ptx);
  const size_t named = begin + head.size() + kernel.size(), behind = end + end_of_entry.size();
  return ptx.substr(0, behind) + "\n" + head + entry_of_many(kernel) + ptx.substr(named, at - named) +
         ptx.substr(at + step.size(), behind - at - step.size()) + ptx.substr(behind);
}

bool has_dots(const ir::Func& func) {
  bool found = false;
  ir::walk(func.body, [&](const ir::Op& op) { found |= ir::is_product(op); });
  return found;
}

}  // namespace

std::string ptx_of_module(std::string_view ir, const Target& target) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(ir.data(), ir.size()));
  std::unique_ptr<llvm::Module> module = llvm::parseIR(*buffer, error, context);
  TEGULA_CHECK(module, "line {}: {}", error.getLineNo(), error.getMessage().str());
  set_target(*module);
  return finish_ptx(*module, target);
}

// LLVM's passes and our own, on the module with hardware functions as declarations. Sums of a dot fill the registers,
// and the code that follows them is long: there the order of instructions matters.
static void optimize(llvm::Module& module, const CompileOptions& options, bool has_dots) {
  lower::link_libclc(module);
  BackEnd back_end(options.target, options.target.ptx);
  if (options.emulator && !options.all_passes)  // without the back end, which takes as long to make as a small kernel
    run_llvm_passes(module, nullptr, tidying());
  else
    run_llvm_passes(module, &back_end.machine(), optimizing(module.getInstructionCount()));
  for (llvm::Function& function : module) {
    merge_loads(function);
    pair_divisions(function);
    keep_words_whole(function);
    convert_small_integers(function);
  }
  for (llvm::Function& function : module) {
    if (has_dots && !options.emulator) order_by_use(function);
    if (has_dots) narrow_offsets(function);
    if (!has_dots && !options.emulator) sink_behind_wait(function);
  }
  const auto written_out = [&](llvm::Function& f) { return !options.emulator && write_out_calls_of(f); };
  const lower::Inlined inlined = lower::inline_functions(module, written_out);
  if (inlined != lower::Inlined::Nothing) run_llvm_passes(module, &back_end.machine(), inlining(inlined));
  if (options.emulator) return;
  for (llvm::Function& function : module) {
    sink_indices(function);
    extend_beside_products(function);
  }
  make_integers_sound(module);
}

std::optional<GeneratedCode> generate(const ir::Func& func, const CompileOptions& options, Diagnostics& diags) {
  throw_fatal_errors();
  Stages stages(options);
  StashedModule made;
  made.context = std::make_unique<llvm::LLVMContext>();
  made.context->setDiagnosticHandler(std::make_unique<DiagnosticHandler>(diags, func.loc));
  made.module = std::make_unique<llvm::Module>(func.name, *made.context);
  llvm::Module& module = *made.module;
  set_target(module);

  lower::Lowering lowering(func, options.target, module, diags, options.emulator);
  if (!lowering.run()) return std::nullopt;
  if (ir::kVerifyEachStep) check_valid(module, "lowering");
  stages.done("llvm", [&] { return text_of(module); });

  optimize(module, options, has_dots(func));
  stages.done("llvm-opt", [&] { return text_of(module); });

  GeneratedCode code;
  code.num_warps = lowering.func.num_warps() * ir::groups_of(lowering.func);
  code.copy_warps = lowering.copy_warps();
  code.shared_bytes = lowering.shared.bytes;
  code.dependent_launch = lowering.dependent_launch();
  code.tensor_maps = lower::launch_maps(func);
  code.program_loop = ir::loops_over_programs(func);
  code.sites = lowering.sites;
  code.asserts = lowering.asserts;
  if (options.emulator) {
    llvm::SmallString<0> bitcode;
    llvm::raw_svector_ostream stream(bitcode);
    llvm::WriteBitcodeToFile(module, stream);
    code.bitcode.assign(bitcode.begin(), bitcode.end());
    made.context->setDiagnosticHandler(nullptr);
    stash_module(code.bitcode, std::move(made));
    return code;
  }
  if (instructions_when_written(module) < kLongProgram) code.few_programs = lowering.few_programs();
  code.ptx = finish_ptx(module, options.target);
  if (code.few_programs) code.ptx = with_entry_of_many(code.ptx, func.name);
  stages.done("ptx", [&] { return code.ptx; });
  if (diags.has_errors()) return std::nullopt;
  return code;
}

KernelImage image_of(const ir::Func& func, const Target& target, GeneratedCode code) {
  KernelImage image;
  image.kernel = func.name;
  image.target = target.name;
  for (size_t i = 0; i < func.body.args.size(); ++i) {
    const ir::Value& p = *func.body.args[i];
    image.params.push_back({p.name, p.type.elem, p.type.pointer, func.divisibility[i]});
  }
  image.tensor_maps = std::move(code.tensor_maps);
  image.num_warps = code.num_warps;
  image.copy_warps = code.copy_warps;
  image.num_ctas = func.num_ctas();
  image.shared_bytes = code.shared_bytes;
  image.dependent_launch = code.dependent_launch;
  image.few_programs = code.few_programs;
  image.program_loop = code.program_loop;
  image.ptx = std::move(code.ptx);
  image.bitcode = std::move(code.bitcode);
  image.sites = std::move(code.sites);
  image.asserts = std::move(code.asserts);
  return image;
}

}  // namespace tegula
