// tegula compile FILE::KERNEL: one kernel to tile IR, LLVM IR, PTX or machine code.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "codegen/compile.h"
#include "codegen/exec/ptxas.h"
#include "codegen/ir/printer.h"
#include "dsl/kernel_source.h"
#include "dsl/listing/assembler.h"
#include "dsl/program.h"
#include "dsl/tuner.h"
#include "runtime/base/files.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"
#include "tools/tegula/json.h"

namespace tegula::cli {

namespace {

struct Options {
  std::string kernel;
  std::string emit = "ptx";
  std::string target = "sm_90a";
  std::vector<std::string> args;
  std::vector<std::string> constexprs;
  std::vector<std::string> globals, import_folders;
  LaunchOptions launch;
  std::string output;
  bool times = false;
  bool json = false;
};

/// The code, to the file of -o or standard output; that is for the facts alone with --json.
void write_output(const Options& o, std::string_view data) {
  if (o.output.empty()) {
    if (!o.json) std::fwrite(data.data(), 1, data.size(), stdout);
    return;
  }
  std::ofstream out(o.output, std::ios::binary);
  out.write(data.data(), std::streamsize(data.size()));
  out.close();
  if (!out) throw FileError(fmt::format("cannot write '{}': {}", o.output, std::strerror(errno)));
}

/// Prints what is known of the code; `assembled` may be null, then `why` says why.
void report(const KernelImage& image, const dsl::Assembled* assembled, const std::string& why) {
  fmt::print(stderr, "{} for {}: {} warps{}{}, {} bytes of shared memory", image.kernel, image.target, image.num_warps,
             image.copy_warps ? fmt::format(" and {} that copy", image.copy_warps) : "",
             image.num_ctas > 1 ? fmt::format(" in each of {} blocks", image.num_ctas) : "", image.shared_bytes);
  if (assembled) {
    fmt::print(stderr, ", {} registers a thread, {} bytes spilled (by {})\n", assembled->registers,
               assembled->spill_bytes, assembled->by);
    if (std::string text = dsl::spill_warning(image.kernel, assembled->spill_bytes, image.num_warps); !text.empty())
      fmt::print(stderr, "tegula: warning: {}\n", text);
  } else {
    fmt::print(stderr, "\n  registers and spills are not known: {}\n", why);
  }
  if (const size_t maps = image.tensor_maps.maps.size())
    fmt::print(stderr,
               "  {} tensor map{} behind the arguments, which a launch by Tegula makes (--bulk-copies 1: none)\n", maps,
               maps == 1 ? "" : "s");
  if (image.program_loop)
    fmt::print(stderr,
               "  behind these the numbers of programs along each axis, which as few blocks as run at a time take in "
               "turns (--program-loop 1: a block a program)\n");
  for (const std::string& line : dsl::transfer_lines(image)) fmt::print(stderr, "  {}\n", line);
  if (std::string text = dsl::stages_warning(image); !text.empty()) fmt::print(stderr, "tegula: warning: {}\n", text);
}

// By CUDA's disassembler.
std::string disassemble(const std::string& cubin) {
  const auto nvdisasm = find_cuda_program("nvdisasm");
  if (!nvdisasm) throw FileError("--emit=sass takes nvdisasm of the CUDA toolkit in PATH, and it is not there");
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string file = (folder / fmt::format("tegula-{}.cubin", getpid())).string();
  replace_file(file, cubin);
  std::string text;
  FILE* pipe = popen(fmt::format("'{}' -c '{}' 2>&1", nvdisasm->string(), file).c_str(), "r");
  for (char buffer[4096]; size_t n = pipe ? std::fread(buffer, 1, sizeof buffer, pipe) : 0;) text.append(buffer, n);
  const int status = pipe ? pclose(pipe) : -1;
  std::filesystem::remove(file);
  if (status != 0) throw FileError(fmt::format("--emit=sass takes nvdisasm of the CUDA toolkit in PATH: {}", text));
  return text;
}

Target wanted_target(const std::string& name) {
  if (auto target = find_target(name)) return *target;
  std::vector<std::string> names;
  for (const Target& t : targets()) names.push_back(t.name);
  throw UsageError(fmt::format("--target '{}' is not known; known are {}", name, fmt::join(names, ", ")));
}

void print_times(const std::vector<PassTime>& times) {
  double sum = 0;
  for (const PassTime& t : times) {
    fmt::print(stderr, "{:8.3f} ms  {}\n", t.ms, t.pass);
    sum += t.ms;
  }
  fmt::print(stderr, "{:8.3f} ms  together\n", sum);
}

Shared<ir::Func> tile_func(const Kernel& kernel, const std::vector<ArgType>& types, const LaunchOptions& launch,
                           const Options& o, const Target& target) try {
  return kernel.tile_func(types, launch, target.name);
} catch (const CompileError& e) {
  if (o.json) throw;
  fmt::print(stderr, "{}{}", e.what(), note_of_untyped(kernel, o.args, e));
  return nullptr;
}

int compile_command(const Options& o) {
  if (o.emit == "cubin" && o.output.empty() && !o.json)
    throw UsageError("--emit=cubin writes a binary file: name it with -o FILE");
  KernelName name = parse_kernel_name(o.kernel);
  CompileOptions options;
  options.target = wanted_target(o.target);
  Program program = load_program(name.file, o.globals, o.import_folders);
  Kernel kernel = find_kernel(program, name);
  LaunchOptions launch = with_constexprs(o.launch, o.constexprs);
  std::vector<ArgType> types = parse_arg_types(kernel, o.args, launch);
  if (complete_options(kernel, types, launch)) {
    fmt::print(stderr,
               "{}: {} (what is not given: the first configuration, and heuristics for integers of {}, for "
               "multiples of 16 of {})\n",
               kernel.name(), dsl::config_of(launch).to_string(), kAssumedInteger + 1, kAssumedInteger);
  }
  // Who loads machine code by itself makes no tensor maps for it.
  if ((o.emit == "cubin" || o.emit == "sass") && launch.bulk_copies == 0) launch.bulk_copies = 1;
  const Shared<ir::Func> func = tile_func(kernel, types, launch, o, options.target);
  if (!func) return 1;
  if (o.emit == "tile") {
    write_output(o, ir::print(*func));
    if (!o.json) return 0;
  }

  std::string llvm;
  std::vector<PassTime> times;
  if (o.emit == "llvm")
    options.dump = [&](const std::string& pass, const std::string& text) {
      if (pass == "llvm-opt") llvm = text;
    };
  if (o.times) options.times = &times;
  Diagnostics diags;
  std::optional<KernelImage> image = compile(*func, options, diags);
  if (!image || diags.has_errors()) throw CompileError(diags);
  if (o.emit == "llvm") write_output(o, llvm);
  if (o.emit == "ptx") write_output(o, image->ptx);
  if (o.times) print_times(times);

  std::string why;
  std::optional<dsl::Assembled> assembled = dsl::assemble(*image, why);
  if (o.emit == "cubin" || o.emit == "sass") {
    if (!assembled || assembled->cubin.empty()) throw DeviceError(fmt::format("a cubin takes an assembler: {}", why));
    const std::string cubin(assembled->cubin.begin(), assembled->cubin.end());
    write_output(o, o.emit == "sass" ? disassemble(cubin) : cubin);
  }
  if (assembled) {
    image->registers = assembled->registers;
    image->spill_bytes = assembled->spill_bytes;
  }
  if (o.emit == "cubin" && !o.output.empty()) replace_file(o.output + ".json", image_json(*image).dump(2) + "\n");
  if (o.json) {
    print_json(image_json(*image));
    return 0;
  }
  report(*image, assembled ? &*assembled : nullptr, why);
  return 0;
}

}  // namespace

Command add_compile(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("compile", "Compile one kernel and print its code");
  auto o = std::make_shared<Options>();
  app->add_option("KERNEL", o->kernel, "FILE::KERNEL; FILE alone if it has one kernel beside helpers")->required();
  app->add_option("--emit", o->emit,
                  "tile (tile IR), llvm (LLVM IR), ptx, cubin (machine code, with its facts as JSON beside), or sass "
                  "(disassembled; by nvdisasm)")
      ->check(CLI::IsMember({"tile", "llvm", "ptx", "cubin", "sass"}))
      ->capture_default_str();
  app->add_option("--target", o->target, "GPU architecture: sm_80, sm_90a, ...")->capture_default_str();
  app->add_option(
         "--arg", o->args,
         "NAME=TYPE of a launch argument: x='*f32', eps=f32, n=i64, x='*f16:4', d='*f16[64,32]', xs='(*f32, i32)'")
      ->allow_extra_args(false);
  app->add_option("--constexpr", o->constexprs, "NAME=VALUE of a compile-time argument")->allow_extra_args(false);
  add_source_options(*app, o->globals, o->import_folders);
  add_launch_options(*app, o->launch);
  app->add_option("-o,--output", o->output, "Output file; standard output if not given");
  app->add_flag("--json", o->json,
                "Tell what is known of the code as JSON, in its place; -o names a file for the code");
  app->add_flag("--times", o->times, "Print the time of each pass");
  app->footer(
      "A kernel with @triton.autotune whose constexprs are not given is compiled with its first configuration.\n"
      "An argument without --arg is int32. Pointers are taken as multiples of 16 bytes, integers as any; another "
      "power\n"
      "of two stands behind a colon: x='*f32:4', n=i32:16. A number is compiled in: stride=1.\n"
      "Shared memory, and registers and spills if ptxas or a GPU is there, are printed to standard error.\n\n"
      "Examples:\n"
      "  tegula compile softmax.py::softmax --arg out_ptr='*f32' --arg x_ptr='*f32' --constexpr BLOCK=1024\n"
      "  tegula compile softmax.py::softmax --arg out_ptr='*f16' --arg x_ptr='*f16' --constexpr BLOCK=4096 \\\n"
      "      --emit=cubin --target=sm_80 --num-warps 8 -o softmax.cubin\n"
      "  tegula compile norm.py --arg x='*bf16' --arg eps=f32 --constexpr BLOCK=1024 --emit=tile");
  return {app, [o] { return compile_command(*o); }};
}

}  // namespace tegula::cli
