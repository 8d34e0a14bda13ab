#include "codegen/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "codegen/exec/asm_check.h"
#include "codegen/exec/generate.h"
#include "codegen/ir/printer.h"
#include "codegen/passes/pass_manager.h"
#include "runtime/base/internal_error.h"

namespace tegula {

namespace {

// A copy of the function after such passes; null after a diagnostic.
template <class RunPasses>
std::unique_ptr<ir::Func> after(RunPasses run, const ir::Func& func, PassContext& context) {
  if (func.num_ctas() > 1 && !context.target.has(Feature::Cluster)) {
    context.diags
        .error(func.loc, fmt::format("kernel '{}' asks for num_ctas={}; {} runs no clusters of thread blocks",
                                     func.name, func.num_ctas(), context.target.name))
        .with_hint("use num_ctas=1; GPUs from sm_90 on have clusters");
    return nullptr;
  }
  auto work = func.clone();
  return run(*work, context) ? std::move(work) : nullptr;
}

// Returns what `work` returns. It runs no code of the user's, so an exception that is not one of Tegula's is an
// internal error as well.
template <class Work>
auto told_as_ours(const ir::Func& func, const Target& target, Work work) {
  const std::string doing =
      fmt::format("compiling kernel '{}' for {} by {}", func.name, target.name, compiler_version());
  try {
    return work();
  } catch (const InternalError& e) {
    throw InternalError(e.place(), e.problem(), doing);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw InternalError("an unknown place", e.what(), doing);
  }
}

std::optional<KernelImage> compiled(const ir::Func& func, const CompileOptions& options, Diagnostics& diags) {
  CompileOptions with_dump = options;
  if (!with_dump.dump) with_dump.dump = dump_from_environment();
  PassContext context{options.target, diags, options.completion};
  auto work = after([&](auto&... x) { return run_passes(x..., with_dump.dump, options.times); }, func, context);
  if (!work) return std::nullopt;
  auto code = generate(*work, with_dump, diags);
  if (!code) return std::nullopt;
  if (!options.emulator) check_inline_asm(func, code->ptx, options.target.name, diags);
  if (diags.has_errors()) return std::nullopt;

  KernelImage image = image_of(func, options.target, std::move(*code));
  image.fewer_stages = std::move(context.fewer_stages);
  image.transfers = std::move(context.transfers);
  return image;
}

}  // namespace

std::optional<KernelImage> compile(const ir::Func& func, const CompileOptions& options, Diagnostics& diags) {
  return told_as_ours(func, options.target, [&] { return compiled(func, options, diags); });
}

std::unique_ptr<ir::Func> lay_out(const ir::Func& func, const Target& target, Diagnostics& diags) {
  PassContext context{target, diags};
  auto all = [](ir::Func& work, PassContext& c) { return run_passes(work, c); };
  return told_as_ours(func, target, [&] { return after(all, func, context); });
}

std::unique_ptr<ir::Func> stage_products(const ir::Func& func, const Target& target, Diagnostics& diags) {
  PassContext context{target, diags};
  return told_as_ours(func, target, [&] { return after(run_passes_up_to_staging, func, context); });
}

std::unique_ptr<ir::Func> lay_out_staged(const ir::Func& staged, const Target& target, Diagnostics& diags) {
  PassContext context{target, diags};
  return told_as_ours(staged, target, [&] { return after(run_passes_behind_staging, staged, context); });
}

}  // namespace tegula
