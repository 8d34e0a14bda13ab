// What the decorators of a kernel say: @triton.autotune and @triton.heuristics.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "dsl/config.h"
#include "dsl/kernel.h"
#include "dsl/language/source_file.h"

namespace tegula::language {

/// The @triton.autotune of a function of the file, none if it has none. Configurations have num_warps 4 and num_stages
/// 3 unless they say otherwise, and an empty list is one such configuration, as with Triton. Names in the key that are
/// no arguments are left out, as Triton leaves them out. early_config_prune becomes Autotune::prune, which evaluates
/// the Python function, and throws CompileError if it cannot; so do the hooks, which may zero tensors and give tensor
/// descriptors a block_shape. perf_model and do_bench have no effect. Decorators of that name that are not
/// Triton's may have further arguments; without configs they are none.
///
/// Throws CompileError with the place of what cannot be evaluated and what to do instead.
std::optional<Autotune> find_autotune(const std::shared_ptr<const SourceFile>& file, const Function& function);

/// The constexprs (or num_warps, num_stages, maxnreg) that @triton.heuristics sets, in the order of evaluation: the
/// decorators from the top down, each in the order of its dict. A value is computed from the arguments of a launch and
/// those computed before; it throws CompileError where the lambda cannot be evaluated.
///
/// Throws CompileError as find_autotune().
std::vector<Heuristic> find_heuristics(const std::shared_ptr<const SourceFile>& file, const Function& function);

/// Notes in `params`, which are the function's, what @triton.jit(do_not_specialize=...,
/// do_not_specialize_on_alignment=...) names, by name or position. What cannot be evaluated has no effect.
void read_jit_options(const std::shared_ptr<const SourceFile>& file, const Function& function,
                      std::vector<KernelParam>& params);

/// Whether a function of the file is under @triton.jit(noinline=True).
bool is_noinline(const SourceFile& file, const Function& function);

/// The module-level names of the file that stand for constants, with their values.
std::vector<ConstexprArg> constant_globals(const SourceFile& file);

}  // namespace tegula::language
