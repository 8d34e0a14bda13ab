// From tile IR to a kernel image: what the front ends call.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/target/target.h"
#include "runtime/base/diag.h"
#include "runtime/kernel_image.h"

namespace tegula {

/// Changes whenever generated code may: part of every image's key.
std::string compiler_version();

struct PassTime {
  std::string pass;
  double ms;
};

/// The names by which dumps and timings know the steps after the passes: LLVM IR as lowered, LLVM IR as optimised, and
/// the text for the driver.
inline constexpr const char* kStages[] = {"llvm", "llvm-opt", "ptx"};

struct CompileOptions {
  Target target;
  bool emulator = false;                              ///< fill image.bitcode instead of image.ptx
  ir::Completion completion = ir::Completion::Group;  ///< of the asynchronous copies that loops are given
  /// Runs LLVM's passes for the emulator as well, where few do otherwise: to test them.
  bool all_passes = false;
  /// Called with a pass's name and the function (or LLVM module) text after it; null: no dumps. Passes: those of
  /// passes.def, then kStages. TEGULA_DUMP=all or a list of names prints to stderr.
  std::function<void(const std::string& pass, const std::string& text)> dump;
  std::vector<PassTime>* times = nullptr;  ///< time of each pass, in order
};

/// Whether TEGULA_DUMP is set. Caches of images are then bypassed, so that there is something to print.
bool dump_requested();

/// Compiles `func` (stage Tile). Null if something the user did stands in the way (too much shared memory, say): then
/// `diags` says what.
std::optional<KernelImage> compile(const ir::Func& func, const CompileOptions& options, Diagnostics& diags);

/// A copy of `func` (stage Tile) with layouts: what analyses look at (codegen/analysis/cost.h). Null after errors.
std::unique_ptr<ir::Func> lay_out(const ir::Func& func, const Target& target, Diagnostics& diags);

/// The same in two parts. The first one, a fraction of the work, plans products and puts their operands into shared
/// memory: enough for a bound of what the kernel takes (codegen/analysis/cost_bound.h).
std::unique_ptr<ir::Func> stage_products(const ir::Func& func, const Target& target, Diagnostics& diags);
std::unique_ptr<ir::Func> lay_out_staged(const ir::Func& staged, const Target& target, Diagnostics& diags);

}  // namespace tegula
