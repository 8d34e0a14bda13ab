// tegula check FILE...: what is wrong with the kernels of a file, without argument types.
#include <fmt/format.h>

#include <memory>

#include "dsl/program.h"
#include "tools/tegula/commands.h"

namespace tegula::cli {

Command add_check(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("check", "Check the kernels of Triton source files");
  auto files = std::make_shared<std::vector<std::string>>();
  app->add_option("FILE", *files, "Triton source files")->required();
  app->footer(
      "Every @triton.jit function is checked as far as that goes without argument types. Mistakes are told with\n"
      "file, line and column; the exit status is 1 if there are any.\n\n"
      "Examples:\n"
      "  tegula check softmax.py\n"
      "  tegula check kernels/*.py");
  return {app, [files] {
            int status = 0;
            for (const std::string& file : *files) {
              try {
                Program program = Program::load(file);
                program.check();
                size_t n = program.kernels().size();
                fmt::print("{}: {} {}, no errors\n", file, n, n == 1 ? "kernel" : "kernels");
              } catch (const CompileError& e) {
                fmt::print(stderr, "{}", e.what());
                status = 1;
              }
            }
            return status;
          }};
}

}  // namespace tegula::cli
