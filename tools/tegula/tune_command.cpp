// tegula tune FILE::KERNEL: times the configurations of a kernel, shows all of them, and remembers the best one.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <memory>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "runtime/cuda_device.h"
#include "runtime/tuning/report.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"
#include "tools/tegula/json.h"
#include "tools/tegula/launch_values.h"

namespace tegula::cli {

namespace {

struct Options {
  std::string kernel;
  std::string grid = "1";
  std::vector<std::string> space;
  std::vector<std::string> key, reset_to_zero, restore_value;
  bool refresh = false;
  bool pinned = false;
  int gpus = 1;
  bool json = false;
  LaunchTexts launch;
};

/// "BLOCK=256..4096": powers of two; "BLOCK=256,512"; "num_warps=4".
SearchAxis parse_axis(const std::string& text) {
  auto [name, values] = split_assignment(text, "--space");
  if (size_t dots = values.find(".."); dots != std::string::npos) {
    auto bound = [&, &name = name](std::string_view number) {
      int64_t n = 0;
      auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), n);
      if (error != std::errc() || end != number.data() + number.size())
        throw UsageError(fmt::format("--space '{}': '{}' is no integer; expected {}=LOW..HIGH", text, number, name));
      return n;
    };
    return powers_of_two(name, bound(std::string_view(values).substr(0, dots)),
                         bound(std::string_view(values).substr(dots + 2)));
  }
  SearchAxis axis{name, {}};
  for (size_t at = 0; at <= values.size();) {
    size_t comma = std::min(values.find(',', at), values.size());
    axis.values.push_back(parse_constexpr(values.substr(at, comma - at)));
    at = comma + 1;
  }
  return axis;
}

/// A line that is written over itself, on a terminal alone.
class ProgressBar {
 public:
  void operator()(const TuningResult& r, size_t left) {
    ++done_;
    if (!isatty(STDERR_FILENO)) return;
    size_t all = done_ + left, width = 30, filled = all ? width * done_ / all : width;
    fmt::print(stderr, "\r\x1b[K[{:#<{}}{:.<{}}] {}/{} {}", "", filled, "", width - filled, done_, all, r.config);
    if (left == 0) fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
  }

 private:
  size_t done_ = 0;
};

void print_report(const TuneReport& report, const Device& device) {
  fmt::print("kernel  {}\nkey     {}\n", report.problem.kernel, report.problem.key);
  if (device.info().emulator)
    fmt::print("{}The emulator times nothing: this is the model's choice.\n",
               report.results.empty() ? "" : tuning_table(report.results, ""));
  else
    fmt::print("{}{} of {} candidates timed now, {:.2f} s\n", tuning_table(report.results, report.winner), report.timed,
               report.results.size(), report.seconds);
  fmt::print("best    {}\n", report.best.to_string());
}

Json report_json(const TuneReport& report, const Device& device) {
  Json candidates = Json::array();
  for (const TuningResult& r : report.results)
    candidates.push_back({{"config", r.config},
                          {"status", to_string(r.status)},
                          {"reason", r.reason},
                          {"times_us", r.times_us},
                          {"predicted_us", r.predicted_us},
                          {"registers", r.registers < 0 ? Json() : Json(r.registers)},
                          {"spill_bytes", r.spill_bytes < 0 ? Json() : Json(r.spill_bytes)},
                          {"shared_bytes", r.shared_bytes < 0 ? Json() : Json(r.shared_bytes)}});
  return {{"kernel", report.problem.kernel}, {"key", report.problem.key},
          {"best", report.best.to_string()}, {"by", device.info().emulator ? "model" : "times"},
          {"timed_now", report.timed},       {"seconds", report.seconds},
          {"candidates", candidates}};
}

int tune_command(const Options& o) {
  std::shared_ptr<Device> device;  // outlives the kernels and buffers below
  KernelName name = parse_kernel_name(o.kernel);
  GridExpression grid = parse_grid(o.grid);
  if (o.refresh && o.pinned) throw UsageError("--refresh and --pinned exclude each other");
  Program program = load_program(name.file, o.launch.globals, o.launch.import_folders);
  Kernel kernel = find_kernel(program, name);
  LaunchOptions options = with_constexprs(o.launch.options, o.launch.constexprs);
  LaunchValues values(o.launch, kernel);
  if (!o.space.empty()) {
    std::vector<SearchAxis> axes;
    for (const std::string& text : o.space) axes.push_back(parse_axis(text));
    Autotune tuning;
    tuning.configs = search_space(axes);
    tuning.key = o.key;
    tuning.reset_to_zero = o.reset_to_zero;
    tuning.restore_value = o.restore_value;
    kernel = kernel.autotune(std::move(tuning));
  }

  std::string why;
  device = open_device(o.launch, why);
  if (!o.json) fmt::print("{}\n", why);
  std::vector<std::unique_ptr<Device>> more;
  for (int i = 1; i < o.gpus; ++i) more.push_back(open_cuda_device(i));
  TuneOptions how;
  how.mode = o.refresh ? TuneOptions::Mode::Refresh : o.pinned ? TuneOptions::Mode::Pinned : TuneOptions::Mode::Normal;
  for (const auto& d : more) how.more_devices.push_back(d.get());
  ProgressBar bar;
  how.progress = [&](const TuningResult& r, size_t left) { bar(r, left); };

  std::vector<Arg> args = values.upload(*device, kernel);
  auto extents = [&](const Config& c) { return grid(grid_names(kernel, args, c)); };
  TuneReport report = kernel.tune(*device, detail::GridRef(extents), options, args, how);
  if (o.json)
    print_json(report_json(report, *device));
  else
    print_report(report, *device);
  return 0;
}

}  // namespace

Command add_tune(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("tune", "Find the best configuration of a kernel and remember it");
  auto o = std::make_shared<Options>();
  app->add_option("KERNEL", o->kernel, "FILE::KERNEL; FILE alone if it has one kernel beside helpers")->required();
  app->add_option("--grid", o->grid, "Programs to start: 64, cdiv(n, BLOCK), or up to three of these: rows, batch")
      ->capture_default_str();
  auto repeated = [&](const char* option, std::vector<std::string>& into, const char* help) {
    app->add_option(option, into, help)->allow_extra_args(false);
  };
  repeated("--space", o->space,
           "NAME=LOW..HIGH (powers of two) or NAME=A,B,C: values of a constexpr, of num_warps, num_stages or maxnreg; "
           "all combinations are candidates. Without it, those of the file's @triton.autotune");
  repeated("--key", o->key, "With --space: an argument whose values are tuned for one by one");
  repeated("--reset-to-zero", o->reset_to_zero, "With --space: an array that is zeroed before each run");
  repeated("--restore-value", o->restore_value, "With --space: an array that each run finds as it was");
  app->add_flag("--refresh", o->refresh, "Time everything anew");
  app->add_flag("--pinned", o->pinned, "Time nothing: show what is known");
  app->add_option("--gpus", o->gpus, "GPUs of this host that share the work")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  o->launch.add_options(*app);
  app->add_flag("--json", o->json, "Tell of the choice and its candidates as JSON");
  app->footer(std::string(kLaunchHelp) +
              "Results are kept, and launches find them; see tegula cache --help.\n\n"
              "Examples:\n"
              "  tegula tune softmax.py::softmax --grid 4096 --random x_ptr=f32[4096,1000] \\\n"
              "      --zeros out_ptr=f32[4096,1000] --arg cols=1000 --key cols \\\n"
              "      --space BLOCK=1024 --space num_warps=1..32\n"
              "  tegula tune matmul.py --grid 'cdiv(M, BM) * cdiv(N, BN)' --random a=f16[512,512] ...");
  return {app, [o] { return tune_command(*o); }};
}

}  // namespace tegula::cli
