// Time of the first call of a kernel in a fresh process, with an empty cache folder and with a filled one.
//
//   first_call [--runs N] [--kernels FILE]     N processes of each kind (15; 3 on the emulator), medians
//
// The first call is all that a program does to get its first result, once the device is open and the data is there:
// load the kernel file, compile or find the softmax of a 4096 x 4096 matrix, launch it, wait. Opening the device is
// told apart. Opening also starts a thread that loads the driver's PTX compiler, so there are two figures: the call
// right after opening, and the call after that thread had time to finish.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "codegen/compile.h"
#include "dsl/tegula.h"
#include "runtime/timing.h"

using namespace tegula;
namespace fs = std::filesystem;

namespace {

constexpr auto kWarmUp = std::chrono::milliseconds(400);  // several times what loading the PTX compiler takes
constexpr int kCols = 4096;

class Stopwatch {
 public:
  /// Milliseconds since the last call, or since it was made.
  double lap() {
    auto now = std::chrono::steady_clock::now();
    double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return ms;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// The passes by what they belong to. In order of running; the lowered module is named "llvm", as in CompileOptions.
std::vector<PassTime> grouped(const std::vector<PassTime>& times) {
  PassTime tile{"tile IR passes", 0}, lower{"lowering to LLVM IR", 0}, optimize{"LLVM optimisation", 0},
      code{"code generation", 0};
  for (const PassTime& t : times) {
    PassTime& group = t.pass == "llvm" ? lower : t.pass == "llvm-opt" ? optimize : t.pass == "ptx" ? code : tile;
    group.ms += t.ms;
  }
  return {tile, lower, optimize, code};
}

// One line "name ms" a figure; the parent reads them.
void tell(const std::string& name, double ms) { fmt::print("{}\t{:.4f}\n", name, ms); }

// The work of a child process. `mode`: now or later (first call right after opening, or after the warm-up), or steps
// (what a first call consists of).
int child(const std::string& mode, const std::string& file) {
  Stopwatch watch;
  Device* const device = default_device();
  tell("open the device", watch.lap());
  const bool gpu = !device->info().emulator;
  const int rows = gpu ? 4096 : 16;
  Buffer x_buffer(*device, std::vector<float>(size_t(rows) * kCols, 1.0f));
  Buffer y_buffer(*device, size_t(rows) * kCols * sizeof(float));
  float* x = x_buffer.as<float>();
  float* y = y_buffer.as<float>();
  const LaunchOptions options{.constexprs = {{"BLOCK", kCols}}, .num_warps = 8};
  const std::vector<Arg> args{y, x, kCols, kCols, kCols};
  const Grid grid{unsigned(rows)};
  if (gpu && mode != "now") std::this_thread::sleep_for(kWarmUp);

  watch.lap();
  if (mode == "steps") {
    Program program = Program::load(file);
    tell("parse", watch.lap());
    const Kernel kernel = program.kernel("softmax_row");
    auto func = kernel.tile_func(kernel.classify(args, options), options);
    tell("check, make tile IR", watch.lap());
    std::vector<PassTime> times;
    CompileOptions compile_options;
    compile_options.target = target_for_sm(device->info().sm);
    compile_options.emulator = !gpu;
    compile_options.times = &times;
    Diagnostics diags;
    std::optional<KernelImage> image = compile(*func, compile_options, diags);
    if (!image) throw CompileError(diags);
    const double together = watch.lap();
    double known = 0;
    for (const PassTime& t : grouped(times)) tell(t.pass, t.ms), known += t.ms;
    tell("rest of compiling", together - known);
    const LaunchHandle handle(device->load(std::move(*image)));
    tell(gpu ? "link PTX, load" : "load", watch.lap());
    handle.launch(nullptr, grid, args);
    device->synchronize();
    tell("launch, wait", watch.lap());
  } else {
    Program program = Program::load(file);
    const double parse = watch.lap();
    const Kernel kernel = program.kernel("softmax_row");
    kernel.launch(*device, grid, options, std::span<const Arg>(args));
    const double launch = watch.lap();
    device->synchronize();
    const double wait = watch.lap();
    tell("first call", parse + launch + wait);
    tell("  parse", parse);
    tell("  compile or find, launch", launch);
    tell("  wait", wait);
    kernel.launch(*device, grid, options, std::span<const Arg>(args));
    device->synchronize();
    tell("second call", watch.lap());
  }

  std::vector<float> row(kCols);
  device->copy_to_host(row.data(), y_buffer.address() + size_t(rows - 1) * kCols * sizeof(float),
                       kCols * sizeof(float));
  for (float value : row)
    if (!(std::abs(value * kCols - 1) < 1e-4f)) {
      fmt::print(stderr, "WRONG: a softmax of {} equal numbers gave {}\n", kCols, value);
      return 1;
    }
  return 0;
}

// Figures by name, in order of first appearance; one value a process.
struct Figures {
  std::vector<std::string> names;
  std::map<std::string, std::vector<double>> ms;

  void add(const std::string& name, double value) {
    if (!ms.contains(name)) names.push_back(name);
    ms[name].push_back(value);
  }
};

// Runs this program as a child and collects what it tells. Throws Error if it fails.
void run_child(const std::string& mode, const std::string& file, Figures& figures) {
  const std::string command =
      fmt::format("'{}' --child {} '{}'", fs::read_symlink("/proc/self/exe").string(), mode, file);
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) throw Error(fmt::format("cannot start {}", command));
  std::vector<std::pair<std::string, double>> told;
  char line[256];
  while (std::fgets(line, sizeof line, pipe)) {
    const std::string text = line;
    if (size_t tab = text.find('\t'); tab != text.npos)
      told.emplace_back(text.substr(0, tab), std::strtod(text.c_str() + tab, nullptr));
  }
  if (pclose(pipe) != 0) throw Error(fmt::format("failed: {}", command));
  for (const auto& [name, ms] : told) figures.add(name, ms);
}

void print(const std::string& title, const Figures& figures) {
  fmt::print("{}\n", title);
  for (const std::string& name : figures.names) {
    const std::vector<double>& ms = figures.ms.at(name);
    auto [low, high] = std::minmax_element(ms.begin(), ms.end());
    fmt::print("  {:28} {:9.3f} ms   ({:.3f} to {:.3f})\n", name, median(ms), *low, *high);
  }
}

int parent(int runs, const std::string& file) {
  // An empty folder for each cold process, in which a warm one follows.
  std::string scratch = (fs::temp_directory_path() / "first_call-XXXXXX").string();
  if (!mkdtemp(scratch.data())) throw Error(fmt::format("cannot make the folder {}", scratch));
  // The driver keeps a cache of its own of what it assembled: there a first call would find what the last process left.
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  Figures cold_now, warm_now, cold_later, warm_later, steps;
  for (int i = 0; i < runs; ++i) {
    for (bool later : {false, true}) {
      // The driver keeps a cache of its own of what it assembled; a first call would find there what the last process
      // left.
      setenv("CUDA_CACHE_DISABLE", "1", 1);
      setenv("TEGULA_CACHE_DIR", fmt::format("{}/{}-{}", scratch, later ? "later" : "now", i).c_str(), 1);
      run_child(later ? "later" : "now", file, later ? cold_later : cold_now);
      run_child(later ? "later" : "now", file, later ? warm_later : warm_now);
    }
    if (i % 3 == 0) run_child("steps", file, steps);
  }
  fs::remove_all(scratch);
  fmt::print("First call of softmax in a fresh process, medians of {} processes (least to most)\n", runs);
  print("empty cache, right after opening the device", cold_now);
  print("filled cache, right after opening the device", warm_now);
  print(fmt::format("empty cache, {} ms after opening the device (nothing on the emulator)", kWarmUp.count()),
        cold_later);
  print("filled cache, likewise", warm_later);
  print("steps of a first call, likewise, without any cache", steps);
  auto first = [](const Figures& figures) { return median(figures.ms.at("first call")); };
  fmt::print("first call: cold {:.2f} ms, warm {:.2f} ms; later: cold {:.2f} ms, warm {:.2f} ms\n", first(cold_now),
             first(warm_now), first(cold_later), first(warm_later));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string file = TEGULA_BENCH "/first_call.py";
  int runs = 0;
  if (argc == 4 && std::string(argv[1]) == "--child") return child(argv[2], argv[3]);
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    const bool known = (name == "--runs" || name == "--kernels") && i + 1 < argc;
    if (known && name == "--kernels") file = argv[i + 1];
    if (known && name == "--runs") runs = std::atoi(argv[i + 1]);
    if (!known || (name == "--runs" && runs < 1)) {
      fmt::print(stderr, "usage: {} [--runs N] [--kernels FILE]\n", argv[0]);
      return 2;
    }
  }
  if (runs == 0) {
    Figures probe;
    run_child("now", file, probe);  // also brings the program and the driver into the page cache
    const char* wanted = std::getenv("TEGULA_DEVICE");
    const bool gpu = wanted ? std::string(wanted) == "gpu" : fs::exists("/dev/nvidiactl");
    runs = gpu ? 15 : 3;
  }
  return parent(runs, file);
} catch (const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
