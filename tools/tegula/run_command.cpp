// tegula run FILE::KERNEL: launches one kernel on random data or .npy files.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <random>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "runtime/cuda_device.h"
#include "tools/tegula/arguments.h"
#include "tools/tegula/commands.h"
#include "tools/tegula/npy.h"

namespace tegula::cli {

namespace {

struct Options {
  std::string kernel;
  std::string grid = "1";
  std::string device;
  std::string target;
  std::vector<std::string> in, random, zeros, scalars, out, constexprs;
  uint64_t seed = 0;
  int num_warps = 4;
  int num_stages = 3;
};

/// A launch argument: an array in device memory, or a scalar.
struct Value {
  std::optional<Array> array;
  Buffer buffer;
  std::optional<Arg> scalar;
};
using Values = std::map<std::string, Value, std::less<>>;

Grid parse_grid(const std::string& text) {
  unsigned extents[3] = {1, 1, 1};
  const char *p = text.data(), *end = p + text.size();
  for (int i = 0; i < 3; ++i) {
    auto [next, error] = std::from_chars(p, end, extents[i]);
    if (error != std::errc() || (next != end && (*next != ',' || i == 2)))
      throw UsageError(fmt::format("--grid '{}': expected X, X,Y or X,Y,Z", text));
    if (next == end) break;
    p = next + 1;
  }
  return {extents[0], extents[1], extents[2]};
}

std::shared_ptr<Device> open_device(const Options& o, std::string& why) {
  if (!o.target.empty() && o.device != "emulator") throw UsageError("--target is for --device=emulator");
  if (o.device.empty()) return default_device(&why);
  std::shared_ptr<Device> device;
  if (o.device == "gpu") {
    device = open_cuda_device();
  } else {
    EmulatorOptions options;
    if (!o.target.empty()) options.target = o.target;
    device = make_emulator(options);
  }
  why = device->info().name;
  return device;
}

/// Normally distributed floats; integers from 0 to 99; every second bit at random.
void fill_randomly(Array& array, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> small(0, array.elem == Elem::I1 ? 1 : 99);
  for (int64_t i = 0, n = array.size(); i < n; ++i) array.set(i, is_float(array.elem) ? normal(random) : small(random));
}

Array wanted_array(const std::string& type, const std::string& option) {
  auto array = parse_array_type(type);
  if (!array)
    throw UsageError(fmt::format("{}: '{}' is no array type; expected one like f32[4096,1024]", option, type));
  return std::move(*array);
}

Values read_values(const Options& o) {
  Values values;
  auto add = [&](const std::string& name, const std::string& text) -> Value& {
    auto [it, is_new] = values.try_emplace(name);
    if (!is_new) throw UsageError(fmt::format("'{}': the argument '{}' is given twice", text, name));
    return it->second;
  };
  std::mt19937_64 random(o.seed);
  for (const std::string& text : o.in) {
    auto [name, path] = split_assignment(text, "--in");
    add(name, text).array = read_npy(path);
  }
  for (const std::string& text : o.random) {
    auto [name, type] = split_assignment(text, "--random");
    Array array = wanted_array(type, "--random");
    fill_randomly(array, random);
    add(name, text).array = std::move(array);
  }
  for (const std::string& text : o.zeros) {
    auto [name, type] = split_assignment(text, "--zeros");
    add(name, text).array = wanted_array(type, "--zeros");
  }
  for (const std::string& text : o.scalars) {
    auto [name, number] = split_assignment(text, "--arg");
    auto scalar = parse_scalar(number);
    if (!scalar) throw UsageError(fmt::format("--arg '{}': '{}' is no number", text, number));
    add(name, text).scalar = *scalar;
  }
  return values;
}

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
  Grid grid = parse_grid(o.grid);
  Program program = Program::load(name.file);
  Kernel kernel = find_kernel(program, name);
  LaunchOptions launch = parse_options(o.constexprs, o.num_warps, o.num_stages);
  Values values = read_values(o);
  for (const auto& [argument, value] : values) check_argument_name(kernel, argument);
  std::map<std::string, std::string, std::less<>> files;
  for (const std::string& text : o.out) {
    auto [array, file] = split_assignment(text, "--out");
    auto it = values.find(array);
    if (it == values.end() || !it->second.array)
      throw UsageError(
          fmt::format("--out '{0}': '{1}' is no array; make it with --in, --random or --zeros {1}=...", text, array));
    files[array] = file;
  }

  std::string why;
  device = open_device(o, why);
  fmt::print("{}\n", why);
  std::vector<Arg> args;
  for (const KernelParam& p : kernel.params()) {
    if (p.is_constexpr) continue;
    auto it = values.find(p.name);
    if (it == values.end()) {
      // The rest may have defaults; what follows cannot be passed without it.
      bool later = false;
      for (const KernelParam* q = &p + 1; q != kernel.params().data() + kernel.params().size(); ++q)
        later = later || values.count(q->name);
      if (p.has_default && !later) break;
      throw UsageError(
          fmt::format("the argument '{0}' has no value: give --arg {0}=NUMBER, or --in, --random or --zeros", p.name));
    }
    Value& v = it->second;
    if (v.scalar) {
      args.push_back(*v.scalar);
    } else {
      v.buffer = Buffer(*device, v.array->bytes);
      args.push_back(Arg::pointer(v.buffer.address(), v.array->elem));
    }
  }
  kernel.launch(*device, grid, launch, std::span<const Arg>(args));
  device->synchronize();
  for (auto& [array, v] : values) {
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
  app->add_option("KERNEL", o->kernel, "FILE::KERNEL; FILE alone if it has one kernel")->required();
  app->add_option("--grid", o->grid, "Programs to start: X, X,Y or X,Y,Z")->capture_default_str();
  auto repeated = [&](const char* option, std::vector<std::string>& into, const char* help) {
    app->add_option(option, into, help)->allow_extra_args(false);
  };
  repeated("--in", o->in, "NAME=FILE.npy: an array from a file");
  repeated("--random", o->random, "NAME=TYPE[SHAPE]: an array of random numbers, x=f32[64,1024]");
  repeated("--zeros", o->zeros, "NAME=TYPE[SHAPE]: an array of zeros");
  repeated("--arg", o->scalars, "NAME=NUMBER: a scalar; None for no array");
  repeated("--out", o->out, "NAME=FILE.npy: where to write an array after the run");
  repeated("--constexpr", o->constexprs, "NAME=VALUE of a compile-time argument");
  app->add_option("--device", o->device, "gpu or emulator; the first GPU if there is one, if not given")
      ->check(CLI::IsMember({"gpu", "emulator"}));
  app->add_option("--target", o->target, "The GPU that the emulator stands for");
  app->add_option("--seed", o->seed, "Of the random numbers")->capture_default_str();
  app->add_option("--num-warps", o->num_warps, "Warps a program")->capture_default_str();
  app->add_option("--num-stages", o->num_stages, "Stages of prefetching loops")->capture_default_str();
  app->footer(
      "Random floats are normally distributed, random integers lie between 0 and 99. The same seed gives the same "
      "data.\n"
      "After the run every array is summarised, and those of --out are written.\n\n"
      "Examples:\n"
      "  tegula run softmax.py::softmax --grid 64 --random x=f32[64,1000] --zeros out=f32[64,1000] \\\n"
      "      --arg stride=1000 --arg n=1000 --constexpr BLOCK=1024 --out out=y.npy\n"
      "  tegula run add.py --grid 4 --in x=a.npy --in y=b.npy --zeros out=f32[1000] --arg n=1000 \\\n"
      "      --constexpr BLOCK=256 --device emulator --out out=sum.npy");
  return {app, [o] { return run_command(*o); }};
}

}  // namespace tegula::cli
