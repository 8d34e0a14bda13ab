// tegula run FILE::KERNEL: launches one kernel on random data or .npy files.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "dsl/tegula.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"
#include "tools/tegula/json.h"
#include "tools/tegula/launch_values.h"

namespace tegula::cli {

namespace {

struct Options {
  std::string kernel;
  std::string grid = "1";
  std::vector<std::string> out;
  bool json = false;
  LaunchTexts launch;
};

struct Summary {
  double least = INFINITY, most = -INFINITY, mean = 0;  // of the finite elements
  int64_t finite = 0, not_finite = 0;
};

Summary summarise(const Array& array) {
  Summary s;
  for (int64_t i = 0; i < array.size(); ++i) {
    const double x = array.at(i);
    if (!std::isfinite(x)) {
      ++s.not_finite;
      continue;
    }
    ++s.finite;
    s.least = std::min(s.least, x);
    s.most = std::max(s.most, x);
    s.mean += x;
  }
  if (s.finite) s.mean /= double(s.finite);
  return s;
}

void print_summary(const std::string& name, const Array& array, const Summary& s, const std::string& file) {
  fmt::print("{}: {}", name, describe(array));
  if (s.finite) fmt::print(", from {:.6g} to {:.6g}, mean {:.6g}", s.least, s.most, s.mean);
  if (s.not_finite) fmt::print(", {} not finite", s.not_finite);
  if (!file.empty()) fmt::print(" -> {}", file);
  fmt::print("\n");
}

Json summary_json(const std::string& name, const Array& array, const Summary& s, const std::string& file) {
  auto of_finite = [&](double value) { return s.finite ? Json(value) : Json(); };
  return {{"name", name},
          {"type", elem_info(array.elem).text},
          {"shape", array.shape},
          {"least", of_finite(s.least)},
          {"most", of_finite(s.most)},
          {"mean", of_finite(s.mean)},
          {"not_finite", s.not_finite},
          {"file", file.empty() ? Json() : Json(file)}};
}

int run_command(const Options& o) {
  std::shared_ptr<Device> device;  // outlives the kernels and buffers below
  KernelName name = parse_kernel_name(o.kernel);
  GridExpression grid = parse_grid(o.grid);
  Program program = load_program(name.file, o.launch.globals, o.launch.import_folders);
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

  std::optional<Warnings> warnings;
  if (o.json) warnings.emplace();
  std::string why;
  device = open_device(o.launch, why);
  if (!o.json) fmt::print("{}\n", why);
  std::vector<Arg> args = values.upload(*device, kernel);
  auto extents = [&](const Config& c) { return grid(grid_names(kernel, args, c)); };
  const Kernel::Ready ready = kernel.ready(*device, detail::GridRef(extents), options, args);
  if (!o.json) fmt::print("{}: {}\n", kernel.name(), ready.config->to_string());
  std::fflush(stdout);
  {
    std::optional<KernelPrints> prints;
    if (o.json) prints.emplace();
    kernel.launch(*device, detail::GridRef(extents), options, std::span<const Arg>(args));
    device->synchronize();
  }
  Json arrays = Json::array();
  for (auto& [array, v] : values.items()) {
    if (!v.array) continue;
    v.buffer.download(std::span<uint8_t>(v.array->bytes));
    const auto found = files.find(array);
    const std::string file = found == files.end() ? "" : found->second;
    if (!file.empty()) write_npy(file, *v.array);
    const Summary summary = summarise(*v.array);
    if (o.json)
      arrays.push_back(summary_json(array, *v.array, summary, file));
    else
      print_summary(array, *v.array, summary, file);
  }
  if (o.json)
    print_json({{"device", why},
                {"kernel", kernel.name()},
                {"config", ready.config->to_string()},
                {"arrays", arrays},
                {"prints", KernelPrints::lines()},
                {"warnings", warnings->list}});
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
  app->add_flag("--json", o->json, "Tell of the run, what it prints, its warnings or its mistakes as JSON");
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
