// tegula check FILE...: what is wrong with the kernels of a file, without argument types or for some.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "codegen/ir/ir.h"
#include "dsl/language/entry_points.h"
#include "dsl/program.h"
#include "runtime/base/files.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"
#include "tools/tegula/json.h"

namespace tegula::cli {

namespace {

struct Options {
  std::vector<std::string> files;
  std::vector<std::string> args;
  std::vector<std::string> constexprs;
  std::vector<std::string> globals, import_folders;
  std::string target = "sm_90a";
  LaunchOptions launch;
  bool json = false;

  bool typed() const { return !args.empty() || !constexprs.empty(); }
};

/// The kernels that types are given for: the one that is named, else all that are no helpers.
std::vector<Kernel> kernels_of(const Program& program, const KernelName& name) {
  if (!name.kernel.empty()) return {program.kernel(name.kernel)};
  std::vector<Kernel> kernels;
  for (const std::string& entry : program.entry_points()) kernels.push_back(program.kernel(entry));
  return kernels;
}

/// Those of the texts NAME=... whose name is a parameter of the kernel.
std::vector<std::string> texts_of(const Kernel& kernel, const std::vector<std::string>& texts, bool constexprs) {
  std::vector<std::string> out;
  for (const std::string& text : texts)
    for (const KernelParam& p : kernel.params())
      if (p.is_constexpr == constexprs && text.starts_with(p.name + "=")) out.push_back(text);
  return out;
}

/// Throws UsageError for a text that no kernel has a parameter for.
void check_names(const std::vector<Kernel>& kernels, const std::vector<std::string>& texts, bool constexprs) {
  const char* option = constexprs ? "--constexpr" : "--arg";
  for (const std::string& text : texts) {
    split_assignment(text, option);
    const bool known = std::any_of(kernels.begin(), kernels.end(),
                                   [&](const Kernel& k) { return !texts_of(k, {text}, constexprs).empty(); });
    if (!known) throw UsageError(fmt::format("{} '{}': no kernel of the file has such an argument", option, text));
  }
}

void check_typed(const Program& program, const KernelName& name, const Options& o) {
  const std::vector<Kernel> kernels = kernels_of(program, name);
  check_names(kernels, o.args, false);
  check_names(kernels, o.constexprs, true);
  for (const Kernel& kernel : kernels) {
    LaunchOptions options = with_constexprs(o.launch, texts_of(kernel, o.constexprs, true));
    const std::vector<ArgType> types = parse_arg_types(kernel, texts_of(kernel, o.args, false), options);
    complete_options(kernel, types, options);
    kernel.tile_func(types, options, o.target);
  }
}

int check_command(const Options& o) {
  int status = 0;
  Json files = Json::array();
  for (const std::string& file : o.files) {
    std::optional<Warnings> warnings;
    if (o.json) warnings.emplace();
    const KernelName name = parse_kernel_name(file);
    std::optional<std::vector<std::string>> kernels;
    Json mistakes = Json::array();
    try {
      Program program = load_program(name.file, o.globals, o.import_folders);
      kernels = program.kernels();
      program.check();
      if (o.typed()) check_typed(program, name, o);
      const size_t n = kernels->size();
      if (!o.json) fmt::print("{}: {} {}, no errors\n", file, n, n == 1 ? "kernel" : "kernels");
    } catch (const CompileError& e) {
      mistakes = mistakes_json(e);
      if (!o.json) fmt::print(stderr, "{}", e.what());
      status = 1;
    }
    if (!o.json) continue;
    if (!kernels && name.file != "-") kernels = language::kernel_names(read_file(name.file), name.file);
    files.push_back({{"file", file},
                     {"kernels", kernels.value_or(std::vector<std::string>())},
                     {"errors", mistakes},
                     {"warnings", warnings->list}});
  }
  if (o.json) print_json(files);
  return status;
}

}  // namespace

Command add_check(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("check", "Check the kernels of Triton source files");
  auto o = std::make_shared<Options>();
  app->add_option("FILE", o->files, "Triton source files; FILE::KERNEL for one kernel where types are given")
      ->required();
  app->add_option("--arg", o->args, "NAME=TYPE of a launch argument: x='*f32', eps=f32, n=i64")
      ->allow_extra_args(false);
  app->add_option("--constexpr", o->constexprs, "NAME=VALUE of a compile-time argument")->allow_extra_args(false);
  add_source_options(*app, o->globals, o->import_folders);
  app->add_option("--target", o->target, "GPU architecture that a kernel may ask for: sm_80, sm_90a, ...")
      ->capture_default_str();
  add_launch_options(*app, o->launch);
  app->add_flag("--json", o->json, "Tell of the files as JSON");
  app->footer(
      "Every @triton.jit function is checked as far as that goes without argument types; names of files that are not "
      "there,\n"
      "and globals whose values are not known here, are warned of then. With --arg or --constexpr "
      "the\n"
      "kernels are checked for these types too, as tegula compile does: those that are not called by others, or the "
      "one\n"
      "that is named. Mistakes are told with file, line and column; the exit status is 1 if there are any.\n\n"
      "Examples:\n"
      "  tegula check softmax.py\n"
      "  tegula check kernels/*.py\n"
      "  tegula check softmax.py --arg out_ptr='*f32' --arg x_ptr='*f32' --constexpr BLOCK=1024");
  return {app, [o] { return check_command(*o); }};
}

}  // namespace tegula::cli
