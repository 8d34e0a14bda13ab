// Where the tile IR of a kernel comes from: a function of a Triton file, or a C++ function that is traced.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/ir/builder.h"
#include "dsl/config.h"
#include "dsl/kernel.h"
#include "dsl/semantics/val.h"
#include "runtime/base/diag.h"

namespace tegula::dsl {

/// What a kernel is compiled for, for one of its arguments.
struct ArgSpec {
  std::string name;
  std::optional<Val> constant;  ///< the value of a compile-time argument
  ir::Type type;                ///< scalar or pointer, used when there is no constant
  int64_t divisible_by = 1;     ///< the value or address is a multiple of it, a power of two
  /// For a tensor descriptor, whose pointer the fields above describe: the array's extents and strides.
  std::optional<BlockForm> form = {};
  std::vector<ArgSpec> parts = {};
  bool is_tuple = false;                           ///< of the parts; `type` then means nothing
  std::shared_ptr<const TupleFields> fields = {};  ///< of a named tuple
};

/// What stands in the kernel for an argument without a constant, which it becomes a parameter of (a descriptor: one for
/// each of its parts that is not compiled in, a tuple those of its items). `builder` is at the beginning of the
/// function.
Val add_param(ir::Func& func, ir::Builder& builder, const ArgSpec& arg);

struct Sema;

struct Specialization {
  std::vector<ArgSpec> args;  ///< in any order; an argument without a row takes its default from the signature
  LaunchOptions options;      ///< their constexprs are among the args
  int capability = 90;        ///< of the target: 90 for sm_90

  /// Makes the options attributes of the kernel's function, and tells its front end what they ask of it.
  void set_options(ir::Func& func, Sema& sema) const;
};

/// A warning as the message handler gets it: place, text, source lines and hint. `list`: one that shows the sources.
std::string warning_text(const Diag& warning, Diagnostics list);

/// The warning for a kernel whose threads each spill kilobytes of registers (`bytes`; -1: not known); empty for others.
std::string spill_warning(std::string_view kernel, int bytes, int num_warps);

/// A line for each of the image's transfers: where, by what, and why not in bulk.
std::vector<std::string> transfer_lines(const KernelImage& image);

/// The warning for loops that run with fewer stages than asked for; empty if there are none.
std::string stages_warning(const KernelImage& image);

/// The text that a kernel comes from, and what its imports were given.
struct SourceTexts {
  std::string file;
  std::string text;
  std::vector<std::pair<std::string, std::string>> modules = {};  ///< texts in place of files, by the modules' names
  std::vector<ConstexprArg> globals = {};
  std::vector<std::string> import_folders = {};
};

class KernelSource {
 public:
  virtual ~KernelSource() = default;

  virtual const std::string& name() const = 0;
  /// The signature, in order.
  virtual const std::vector<KernelParam>& params() const = 0;
  /// The kernel's tile IR, its parameters being the arguments without a constant, in the order of the signature. Null
  /// after errors in `diags`. `prints` receives the lines of static_print.
  virtual std::unique_ptr<ir::Func> build(const Specialization& spec, Diagnostics& diags,
                                          std::vector<std::string>& prints) const = 0;
  /// Text that, with the specialisation, decides what build() makes; empty if there is none.
  virtual std::string identity() const { return {}; }
  /// Whether what build() made so far depends on more than identity() tells of: on files that the kernel's imports
  /// from.
  virtual bool reads_others() const { return false; }
  /// None: a C++ function.
  virtual std::optional<SourceTexts> texts() const { return std::nullopt; }
  /// Path and text of the files that what build() made so far read besides.
  virtual std::vector<std::pair<std::string, std::string>> imported() const { return {}; }
  /// Compile-time values of the file that the kernel may use beside its parameters.
  virtual std::vector<ConstexprArg> globals() const { return {}; }
  /// A list that shows source lines of this kernel.
  virtual Diagnostics diagnostics() const { return {}; }

  /// How the source itself says that it is to be tuned (@triton.autotune), and constexprs that follow from arguments
  /// (@triton.heuristics, in the order of evaluation). Throw CompileError with the place of what is not understood.
  virtual std::optional<Autotune> autotune() const { return std::nullopt; }
  virtual std::vector<Heuristic> heuristics() const { return {}; }
};

}  // namespace tegula::dsl
