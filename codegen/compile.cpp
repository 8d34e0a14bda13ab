#include "codegen/compile.h"

#include "codegen/exec/generate.h"
#include "codegen/ir/printer.h"
#include "codegen/passes/pass_manager.h"

namespace tegula {

std::optional<KernelImage> compile(const ir::Func& func, const CompileOptions& options, Diagnostics& diags) {
  CompileOptions with_dump = options;
  if (!with_dump.dump) with_dump.dump = dump_from_environment();
  auto work = func.clone();
  PassContext context{options.target, diags};
  if (!run_passes(*work, context, with_dump.dump, options.times)) return std::nullopt;
  auto code = generate(*work, with_dump, diags);
  if (!code) return std::nullopt;

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

std::unique_ptr<ir::Func> lay_out(const ir::Func& func, const Target& target, Diagnostics& diags) {
  auto work = func.clone();
  PassContext context{target, diags};
  return run_passes(*work, context) ? std::move(work) : nullptr;
}

}  // namespace tegula
