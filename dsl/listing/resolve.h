// From a line of a list to the kernel that it names, and back.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dsl/kernel_list.h"
#include "dsl/kernel_source.h"
#include "dsl/program.h"

namespace tegula::dsl {

/// What a line of a list stands for.
struct ResolvedKernel {
  Kernel kernel;
  std::vector<ArgType> types;
  LaunchOptions options;  ///< with every constexpr
};

/// Finds the kernels of lines; each file is read once. Any thread may ask.
class Resolver {
 public:
  /// `functions`: those that lines name as c++::KERNEL.
  explicit Resolver(std::vector<Kernel> functions = {}) : functions_(std::move(functions)) {}
  /// Throws TextError, CompileError, FileError, LaunchError.
  ResolvedKernel resolve(const ListedKernel& listed);

 private:
  Kernel find(const ListedKernel& listed);

  const std::vector<Kernel> functions_;
  std::mutex mutex_;
  std::map<std::string, Program> programs_;
};

/// How a list names kernels that are C++ functions.
inline constexpr std::string_view kFunctionPrefix = "c++::";

/// The line for a specialisation, but for `kernel`, which names its source; none if its values cannot stand on a line.
std::optional<ListedKernel> listed(const KernelSource& source, const std::vector<ArgType>& types,
                                   const LaunchOptions& options);

/// The problem that a configuration was chosen for, as lines and packages have it.
PackagedChoice choice_of(const ListedKernel& listed);
/// "cols=4096": a value of a choice as `--when` takes it.
std::string when_text(const ArgumentValue& value);

}  // namespace tegula::dsl
