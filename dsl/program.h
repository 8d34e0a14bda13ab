// Kernels from text: load a file, pick a kernel, launch it.
//
//   auto device = tegula::default_device();
//   auto program = tegula::Program::load("softmax.py");
//   auto softmax = program.kernel("softmax_kernel");
//   softmax.launch(*device, {rows}, {.constexprs = {{"BLOCK", 1024}}, .num_warps = 8}, out.as<float>(), in.as<float>(),
//                  n);
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsl/kernel.h"

namespace tegula {

namespace detail {
struct ProgramState;
}  // namespace detail

class Program {
 public:
  /// Parses a Triton source file. Throws FileError, or CompileError with all syntax errors. `globals` are values of
  /// module-level names, here and in the files that it imports from, in place of those that the files give them.
  /// `import_folders` are where packages lie that it imports from besides its own, as Python's sys.path.
  static Program load(const std::string& path, std::vector<ConstexprArg> globals = {},
                      std::vector<std::string> import_folders = {});
  /// The same from text; `name` stands for the file in messages and is where imports are found from. `modules` are
  /// texts of modules by their names, in place of files.
  static Program parse(std::string text, std::string name = "<text>", std::vector<ConstexprArg> globals = {},
                       std::vector<std::string> import_folders = {});
  static Program parse(std::string text, std::string name, std::vector<ConstexprArg> globals,
                       std::vector<std::string> import_folders,
                       std::vector<std::pair<std::string, std::string>> modules);

  /// Names of the @triton.jit functions, helpers included, in the order of the file.
  std::vector<std::string> kernels() const;
  /// Those of them that a host program would launch: no other one names them, and they return no value.
  std::vector<std::string> entry_points() const;
  /// Throws CompileError for an unknown name, with the nearest known one.
  Kernel kernel(std::string_view name) const;
  /// Checks all functions as far as that goes without argument types. Throws CompileError.
  void check() const;

  /// The cache that kernels of this program use; the process's default one unless set. Null: none.
  void set_cache(Shared<ImageCache> cache);

 private:
  explicit Program(Shared<detail::ProgramState> state) : state_(std::move(state)) {}
  Shared<detail::ProgramState> state_;
};

}  // namespace tegula
