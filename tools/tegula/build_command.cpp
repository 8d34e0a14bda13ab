// tegula build: kernels compiled into a package, which programs load without a compiler.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>

#include "dsl/package_writer.h"
#include "runtime/base/files.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"
#include "tools/tegula/elf_object.h"
#include "tools/tegula/json.h"
#include "tools/tegula/package_headers.h"

namespace tegula::cli {

namespace {

struct Options {
  ListedKernel wanted;
  std::string list;
  PackageOptions package;
  std::string output;
  std::string header, cpp_header, object, key;
  bool json = false;
};

void add_wanted(CLI::App& app, ListedKernel& w) {
  app.add_option("KERNEL", w.kernel, "FILE::KERNEL; FILE alone if it has one kernel beside helpers");
  app.add_option("--name", w.name, "Name by which programs ask for it; the kernel's own if not given");
  app.add_option("--arg", w.args, "NAME=TYPE of a launch argument, as `tegula compile` takes it")
      ->allow_extra_args(false);
  app.add_option("--constexpr", w.constexprs, "NAME=VALUE of a compile-time argument")->allow_extra_args(false);
  add_source_options(app, w.globals, w.import_folders);
  app.add_option("--when", w.when, "NAME=VALUE of a number among the arguments: launches with this value alone take it")
      ->allow_extra_args(false);
  app.add_option(
      "--grid", w.grid,
      "The grid of launches that leave it to the package, over its arguments and constexprs: 'cdiv(n, BLOCK)'");
  app.add_option("--gpu", w.gpu, "Name of the GPU that this configuration was chosen on: there it goes first");
  add_launch_options(app, w.options);
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

/// Nothing if a kernel has mistakes, which are told then.
std::optional<BuiltPackage> build(const Options& o, const std::vector<ListedKernel>& all,
                                  const PackageOptions& options) try {
  return build_package(all, options);
} catch (const CompileError& e) {
  if (o.json || !o.list.empty()) throw;
  const KernelName name = parse_kernel_name(o.wanted.kernel);
  const Program program = load_program(name.file, o.wanted.globals, o.wanted.import_folders);
  fmt::print(stderr, "{}{}", e.what(), note_of_untyped(find_kernel(program, name), o.wanted.args, e));
  return std::nullopt;
}

int build_command(const Options& o) {
  std::vector<ListedKernel> all;
  if (!o.wanted.kernel.empty()) all.push_back(o.wanted);
  if (!o.list.empty())
    for (ListedKernel& listed : read_kernel_list(o.list)) all.push_back(std::move(listed));
  if (all.empty()) throw UsageError("nothing to build: name a FILE::KERNEL, or a list with --from");
  PackageOptions options = o.package;
  Json kernels = Json::array();
  if (o.json)
    options.progress = [&](const PackagedKernel& kernel) { kernels.push_back(packaged_json(kernel)); };
  else
    options.progress = tell_of;
  std::optional<PrivateKey> key;  // read first: a wrong one is told before anything is compiled
  if (!o.key.empty()) key = PrivateKey::read(o.key);
  const std::optional<BuiltPackage> wanted = build(o, all, options);
  if (!wanted) return 1;
  const BuiltPackage& built = *wanted;
  built.package.write(o.output, key ? &*key : nullptr);
  const std::string symbol = package_symbol(o.output);
  if (!o.header.empty()) replace_file(o.header, c_header(built.package, symbol, !o.object.empty()));
  if (!o.cpp_header.empty()) replace_file(o.cpp_header, cpp_header(built.package, symbol, !o.object.empty()));
  if (!o.object.empty())
    replace_file(o.object, elf_object(built.package.to_bytes(key ? &*key : nullptr), symbol + "_tgp"));
  if (o.json) {
    print_json({{"package", o.output},
                {"bytes", built.package.to_bytes().size()},
                {"without_machine_code", built.without_machine_code},
                {"kernels", kernels}});
    return 0;
  }
  fmt::print(stderr, "{}: {} kernel{}, {} bytes\n", o.output, built.package.kernels().size(),
             built.package.kernels().size() == 1 ? "" : "s", built.package.to_bytes().size());
  if (!built.without_machine_code.empty())
    fmt::print(stderr, "  without machine code: the driver assembles the PTX when a program first loads it ({})\n",
               built.without_machine_code);
  return 0;
}

}  // namespace

Command add_build(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("build", "Compile kernels into a package for programs without a compiler");
  auto o = std::make_shared<Options>();
  add_wanted(*app, o->wanted);
  app->add_option("--from", o->list,
                  "File with one kernel a line, each as it could stand on this command line; -: "
                  "standard input");
  app->add_option("--target", o->package.targets, "GPU architecture; may be given again")
      ->allow_extra_args(false)
      ->capture_default_str();
  app->add_flag("--emulator", o->package.emulator, "Also code for the emulator, of the last target");
  app->add_option("-o,--output", o->output, "The package, usually NAME.tgp")->required();
  app->add_option("--header", o->header, "Also a C header with a typed function for each kernel");
  app->add_option("--cpp-header", o->cpp_header, "Also a C++ header, in the library's calling style");
  app->add_option("--sign", o->key, "File with a private Ed25519 key in PEM form, which signs the package");
  app->add_flag("--json", o->json, "Tell what was built as JSON");
  app->add_option("--object", o->object, "Also an object file with the package in it, for this machine's linker");
  app->footer(
      "Machine code is made by ptxas, or by the driver of a GPU of that kind; else the package holds PTX, which a\n"
      "driver assembles when a program loads it. PTX of targets without an 'a' runs on later GPUs too.\n\n"
      "Examples:\n"
      "  tegula build softmax.py::softmax --arg out_ptr='*f32' --arg x_ptr='*f32' --constexpr BLOCK=1024 -o app.tgp\n"
      "  tegula build --from app.list --target sm_80 --target sm_90a -o app.tgp");
  return {app, [o] { return build_command(*o); }};
}

}  // namespace tegula::cli
