// tegula build: kernels compiled into a package, which programs load without a compiler.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "dsl/program.h"
#include "dsl/tuner.h"
#include "runtime/package/package.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/assembler.h"
#include "tools/tegula/commands.h"

namespace tegula::cli {

namespace {

/// One kernel to build, as a command line or a line of a list gives it.
struct Wanted {
  std::string kernel;
  std::string name;
  std::vector<std::string> args;
  std::vector<std::string> constexprs;
  std::vector<std::string> globals;
  LaunchOptions launch;
};

struct Options {
  Wanted wanted;
  std::string list;
  std::vector<std::string> targets;
  bool emulator = false;
  std::string output;
};

void add_wanted(CLI::App& app, Wanted& w) {
  app.add_option("KERNEL", w.kernel, "FILE::KERNEL; FILE alone if it has one kernel beside helpers");
  app.add_option("--name", w.name, "Name by which programs ask for it; the kernel's own if not given");
  app.add_option("--arg", w.args, "NAME=TYPE of a launch argument, as `tegula compile` takes it")
      ->allow_extra_args(false);
  app.add_option("--constexpr", w.constexprs, "NAME=VALUE of a compile-time argument")->allow_extra_args(false);
  app.add_option("--global", w.globals, kGlobalHelp)->allow_extra_args(false);
  add_launch_options(app, w.launch);
}

/// The lines of a list: each is what could stand behind `tegula build`; empty ones and those that begin with # are
/// passed over.
std::vector<Wanted> read_list(const std::string& file) {
  std::vector<Wanted> all;
  const std::string text = read_text(file);
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    CLI::App app("", "tegula build");
    Wanted& wanted = all.emplace_back();
    add_wanted(app, wanted);
    try {
      std::vector<std::string> words = split_words(line);
      std::reverse(words.begin(), words.end());  // as CLI11 takes them
      app.parse(words);
    } catch (const std::exception& e) {  // CLI::ParseError, UsageError
      throw UsageError(fmt::format("{}:{}: {}\n  {}", file, number, e.what(), line));
    }
    if (wanted.kernel.empty()) throw UsageError(fmt::format("{}:{}: expected FILE::KERNEL\n  {}", file, number, line));
  }
  return all;
}

/// Machine code in place of PTX, or beside it where later GPUs can use the PTX. `missing` becomes why there is none.
void add_machine_code(KernelImage& image, std::string& missing) {
  std::string why;
  std::optional<Assembled> assembled = assemble(image, why);
  if (!assembled) {
    missing = why;
    return;
  }
  image.cubin = std::move(assembled->cubin);
  image.registers = assembled->registers;
  image.spill_bytes = assembled->spill_bytes;
  const bool for_this_one_alone = image.target.back() == 'a';
  if (for_this_one_alone) image.ptx.clear();
}

PackagedCode code_of(const Kernel& kernel, const std::vector<ArgType>& types, LaunchOptions launch,
                     const std::string& target, bool emulator, std::string& missing) {
  PackagedCode code{kernel.compile(types, launch, target, emulator), {}};
  if (!code.image.tensor_maps.empty()) {
    launch.bulk_copies = 1;
    code.without_bulk_copies = kernel.compile(types, launch, target, emulator);
  }
  if (!emulator) {
    add_machine_code(code.image, missing);
    if (code.without_bulk_copies) add_machine_code(*code.without_bulk_copies, missing);
  }
  return code;
}

PackagedKernel build_kernel(const Wanted& wanted, const Options& o, std::string& missing) {
  const KernelName name = parse_kernel_name(wanted.kernel);
  Program program = load_program(name.file, wanted.globals);
  Kernel kernel = find_kernel(program, name);
  LaunchOptions launch = with_constexprs(wanted.launch, wanted.constexprs);
  std::vector<ArgType> types = parse_arg_types(kernel, wanted.args, launch);
  complete_options(kernel, types, launch);
  PackagedKernel packaged;
  packaged.name = wanted.name.empty() ? kernel.name() : wanted.name;
  packaged.config = dsl::config_of(launch).to_string();
  for (const std::string& target : o.targets)
    packaged.codes.push_back(code_of(kernel, types, launch, target, false, missing));
  if (o.emulator) packaged.codes.push_back(code_of(kernel, types, launch, o.targets.back(), true, missing));
  return packaged;
}

void tell_of(const PackagedKernel& kernel) {
  fmt::print(stderr, "{} {} [{}]\n", kernel.name, signature_text(kernel.codes.front().image), kernel.config);
  for (const PackagedCode& code : kernel.codes) {
    const KernelImage& image = code.image;
    std::vector<std::string> forms;
    if (!image.cubin.empty()) forms.push_back("machine code");
    if (!image.ptx.empty()) forms.push_back("PTX");
    if (!image.bitcode.empty()) forms = {"for the emulator"};
    fmt::print(stderr, "  {}: {}, {} threads, {} bytes of shared memory", image.target, fmt::join(forms, " and "),
               image.threads(), image.shared_bytes);
    if (image.registers >= 0)
      fmt::print(stderr, ", {} registers, {} bytes spilled", image.registers, image.spill_bytes);
    fmt::print(stderr, "{}\n", code.without_bulk_copies ? ", and a form without tensor maps" : "");
  }
}

int build_command(const Options& o) {
  std::vector<Wanted> all;
  if (!o.wanted.kernel.empty()) all.push_back(o.wanted);
  if (!o.list.empty())
    for (Wanted& wanted : read_list(o.list)) all.push_back(std::move(wanted));
  if (all.empty()) throw UsageError("nothing to build: name a FILE::KERNEL, or a list with --from");
  Package package;
  std::string missing;
  for (const Wanted& wanted : all) {
    PackagedKernel kernel = build_kernel(wanted, o, missing);
    tell_of(kernel);
    package.add(std::move(kernel));
  }
  package.write(o.output);
  fmt::print(stderr, "{}: {} kernel{}, {} bytes\n", o.output, package.kernels().size(),
             package.kernels().size() == 1 ? "" : "s", package.to_bytes().size());
  if (!missing.empty())
    fmt::print(stderr, "  without machine code: the driver assembles the PTX when a program first loads it ({})\n",
               missing);
  return 0;
}

}  // namespace

Command add_build(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("build", "Compile kernels into a package for programs without a compiler");
  auto o = std::make_shared<Options>();
  add_wanted(*app, o->wanted);
  o->targets = {"sm_80", "sm_90a"};
  app->add_option("--from", o->list,
                  "File with one kernel a line, each as it could stand on this command line; -: "
                  "standard input");
  app->add_option("--target", o->targets, "GPU architecture; may be given again")
      ->allow_extra_args(false)
      ->capture_default_str();
  app->add_flag("--emulator", o->emulator, "Also code for the emulator, of the last target");
  app->add_option("-o,--output", o->output, "The package, usually NAME.tgp")->required();
  app->footer(
      "Machine code is made by ptxas, or by the driver of a GPU of that kind; else the package holds PTX, which a\n"
      "driver assembles when a program loads it. PTX of targets without an 'a' runs on later GPUs too.\n\n"
      "Examples:\n"
      "  tegula build softmax.py::softmax --arg out_ptr='*f32' --arg x_ptr='*f32' --constexpr BLOCK=1024 -o app.tgp\n"
      "  tegula build --from app.list --target sm_80 --target sm_90a -o app.tgp");
  return {app, [o] { return build_command(*o); }};
}

}  // namespace tegula::cli
