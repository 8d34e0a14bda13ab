// tegula run FILE::KERNEL: launches one kernel on random data or .npy files.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "dsl/tegula.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"
#include "tools/tegula/launch_values.h"

namespace tegula::cli {

namespace {

struct Options {
  std::string kernel;
  std::string grid = "1";
  std::vector<std::string> out;
  LaunchTexts launch;
};

void print_summary(const std::string& name, const Array& array, const std::string& file) {
  double least = INFINITY, most = -INFINITY, sum = 0;
  int64_t n = array.size(), not_finite = 0;
  for (int64_t i = 0; i < n; ++i) {
    double x = array.at(i);
    if (!std::isfinite(x)) {
      ++not_finite;
      continue;
    }
    least = std::min(least, x);
    most = std::max(most, x);
    sum += x;
  }
  fmt::print("{}: {}", name, describe(array));
  if (n > not_finite) fmt::print(", from {:.6g} to {:.6g}, mean {:.6g}", least, most, sum / double(n - not_finite));
  if (not_finite) fmt::print(", {} not finite", not_finite);
  if (!file.empty()) fmt::print(" -> {}", file);
  fmt::print("\n");
}

int run_command(const Options& o) {
  std::shared_ptr<Device> device;  // outlives the kernels and buffers below
  KernelName name = parse_kernel_name(o.kernel);
  GridExpression grid = parse_grid(o.grid);
  Program program = load_program(name.file, o.launch.globals);
  Kernel kernel = find_kernel(program, name);
  LaunchOptions options = with_constexprs(o.launch.options, o.launch.constexprs);
  if (o.launch.check) options.debug = 1;
  LaunchValues values(o.launch, kernel);
  std::map<std::string, std::string, std::less<>> files;
  for (const std::string& text : o.out) {
    auto [array, file] = split_assignment(text, "--out");
    auto it = values.items().find(array);
    if (it == values.items().end() || !it->second.array)
      throw UsageError(
          fmt::format("--out '{0}': '{1}' is no array; make it with --in, --random or --zeros {1}=...", text, array));
    files[array] = file;
  }

  std::string why;
  device = open_device(o.launch, why);
  fmt::print("{}\n", why);
  std::vector<Arg> args = values.upload(*device, kernel);
  auto extents = [&](const Config& c) { return grid(grid_names(kernel, args, c)); };
  const Kernel::Ready ready = kernel.ready(*device, detail::GridRef(extents), options, args);
  fmt::print("{}: {}\n", kernel.name(), ready.config->to_string());
  std::fflush(stdout);
  kernel.launch(*device, detail::GridRef(extents), options, std::span<const Arg>(args));
  device->synchronize();
  for (auto& [array, v] : values.items()) {
    if (!v.array) continue;
    v.buffer.download(std::span<uint8_t>(v.array->bytes));
    auto file = files.find(array);
    if (file != files.end()) write_npy(file->second, *v.array);
    print_summary(array, *v.array, file == files.end() ? "" : file->second);
  }
  return 0;
}

}  // namespace

Command add_run(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("run", "Run one kernel on random data or .npy files");
  auto o = std::make_shared<Options>();
  app->add_option("KERNEL", o->kernel, "FILE::KERNEL; FILE alone if it has one kernel beside helpers")->required();
  app->add_option("--grid", o->grid, "Programs to start: 64, cdiv(n, BLOCK), or up to three of these: rows, batch")
      ->capture_default_str();
  o->launch.add_options(*app);
  app->add_flag("--check", o->launch.check,
                "Run on the emulator with all its checks: bounds, races, what nobody has written, overflow of indices, "
                "births of NaNs, and asserts of the kernel");
  app->add_option("--out", o->out, "NAME=FILE.npy: where to write an array after the run")->allow_extra_args(false);
  app->footer(std::string(kLaunchHelp) +
              "After the run every array is summarised, and those of --out are written.\n\n"
              "Examples:\n"
              "  tegula run softmax.py::softmax --grid 64 --random x_ptr=f32[64,1000] \\\n"
              "      --zeros out_ptr=f32[64,1000] --arg cols=1000 --constexpr BLOCK=1024 \\\n"
              "      --out out_ptr=y.npy\n"
              "  tegula run add.py --grid 'cdiv(n, BLOCK)' --in x=a.npy --in y=b.npy --zeros out=f32[1000] \\\n"
              "      --arg n=1000 --constexpr BLOCK=256 --device emulator --out out=sum.npy");
  return {app, [o] { return run_command(*o); }};
}

}  // namespace tegula::cli
