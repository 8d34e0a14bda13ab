#include "codegen/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "codegen/analysis/shared_plan.h"
#include "codegen/exec/asm_check.h"
#include "codegen/exec/generate.h"
#include "codegen/ir/printer.h"
#include "codegen/passes/pass_manager.h"
#include "runtime/base/internal_error.h"

namespace tegula {

namespace {

// The function laid out; null after a diagnostic. Passes choose how many stages loops have, and what dots get through
// shared memory, before they know what all else needs of it: where that was too much they start again with less room.
// Dumps and times are those of the last run alone.
std::unique_ptr<ir::Func> lay_out(const ir::Func& func, const Target& target, Diagnostics& diags,
                                  const DumpCallback& dump, std::vector<PassTime>* times, ir::Completion completion) {
  PassContext context{target, diags};
  context.completion = completion;
  const int64_t limit = target.shared_per_program;
  for (;;) {
    std::vector<std::pair<std::string, std::string>> texts;
    std::vector<PassTime> run_times;
    DumpCallback keep;
    if (dump) keep = [&](const std::string& pass, const std::string& text) { texts.emplace_back(pass, text); };
    auto work = func.clone();
    const bool passed = run_passes(*work, context, keep, &run_times);
    const int64_t excess = passed ? plan_shared(*work).bytes - limit : 0;
    if (excess <= 0 || context.shared_for_others >= limit) {
      for (const auto& [pass, text] : texts) dump(pass, text);
      if (times) times->insert(times->end(), run_times.begin(), run_times.end());
      return passed ? std::move(work) : nullptr;
    }
    // Copies that are under way from round to round need their room beside what the epilogue exchanges.
    if (std::exchange(context.join_rounds, false)) continue;
    int64_t places = 0;
    ir::walk(work->body, [&](const ir::Op& op) {
      if (op.opcode == ir::Opcode::SharedAlloc) places += place_bytes(op.result()->type) * op.get(ir::attr::slots);
    });
    context.shared_for_others =
        std::max(context.shared_for_others + std::max(excess, limit / 16), limit - places + excess);
  }
}

// What `work` gives. It runs no code of the user's: an exception that is none of Tegula's is a mistake of ours as well.
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

std::optional<KernelImage> image_of(const ir::Func& func, const CompileOptions& options, Diagnostics& diags) {
  CompileOptions with_dump = options;
  if (!with_dump.dump) with_dump.dump = dump_from_environment();
  auto work = lay_out(func, options.target, diags, with_dump.dump, options.times, options.completion);
  if (!work) return std::nullopt;
  auto code = generate(*work, with_dump, diags);
  if (!code) return std::nullopt;
  if (!options.emulator) check_inline_asm(func, code->ptx, options.target.name, diags);
  if (diags.has_errors()) return std::nullopt;

  KernelImage image;
  image.kernel = func.name;
  image.target = options.target.name;
  for (size_t i = 0; i < func.body.args.size(); ++i) {
    const ir::Value& p = *func.body.args[i];
    image.params.push_back({p.name, p.type.elem, p.type.pointer, func.divisibility[i]});
  }
  image.num_warps = func.num_warps();
  image.shared_bytes = code->shared_bytes;
  image.dependent_launch = code->dependent_launch;
  image.ptx = std::move(code->ptx);
  image.bitcode = std::move(code->bitcode);
  image.sites = std::move(code->sites);
  return image;
}

}  // namespace

std::optional<KernelImage> compile(const ir::Func& func, const CompileOptions& options, Diagnostics& diags) {
  return told_as_ours(func, options.target, [&] { return image_of(func, options, diags); });
}

std::unique_ptr<ir::Func> lay_out(const ir::Func& func, const Target& target, Diagnostics& diags) {
  return told_as_ours(func, target, [&] { return lay_out(func, target, diags, {}, nullptr, ir::Completion::Group); });
}

}  // namespace tegula
