#include "tools/tegula/launch_values.h"

#include <fmt/format.h>

#include <random>

#include "codegen/exec/emulator.h"
#include "runtime/cuda_device.h"
#include "tools/tegula/arguments.h"

namespace tegula::cli {

namespace {

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

}  // namespace

const char* const kLaunchHelp =
    "Random floats are normally distributed, random integers lie between 0 and 99. The same seed gives the same "
    "data.\n";

void LaunchTexts::add_options(CLI::App& app) {
  auto repeated = [&](const char* option, std::vector<std::string>& into, const char* help) {
    app.add_option(option, into, help)->allow_extra_args(false);
  };
  repeated("--in", in, "NAME=FILE.npy: an array from a file");
  repeated("--random", random, "NAME=TYPE[SHAPE]: an array of random numbers, x_ptr=f32[64,1024]");
  repeated("--zeros", zeros, "NAME=TYPE[SHAPE]: an array of zeros");
  repeated("--empty", empty, "NAME=TYPE[SHAPE]: an array that nobody has written, which --check finds reads of");
  repeated("--arg", scalars, "NAME=NUMBER: a scalar; None for no array");
  repeated("--constexpr", constexprs, "NAME=VALUE of a compile-time argument");
  add_source_options(app, globals, import_folders);
  app.add_option("--device", device, "gpu or emulator; the first GPU if there is one, if not given")
      ->check(CLI::IsMember({"gpu", "emulator"}));
  app.add_option("--target", target, "The GPU that the emulator stands for");
  app.add_option("--seed", seed, "Of the random numbers")->capture_default_str();
  add_launch_options(app, options);
}

std::shared_ptr<Device> open_device(const LaunchTexts& o, std::string& why) {
  if (!o.target.empty() && o.device != "emulator" && !o.check) throw UsageError("--target is for --device=emulator");
  if (o.check && o.device == "gpu") throw UsageError("--check is for --device=emulator");
  if (o.device.empty() && !o.check) return {default_device(&why), [](Device*) {}};
  std::shared_ptr<Device> device;
  if (o.device == "gpu") {
    device = open_cuda_device();
  } else {
    EmulatorOptions options;
    if (!o.target.empty()) options.target = o.target;
    options.check_races = options.check_nans = o.check;
    device = make_emulator(options);
  }
  why = device->info().name;
  return device;
}

LaunchValue& LaunchValues::add(const std::string& name, const std::string& text) {
  auto [it, is_new] = values_.try_emplace(name);
  if (!is_new) throw UsageError(fmt::format("'{}': the argument '{}' is given twice", text, name));
  return it->second;
}

LaunchValues::LaunchValues(const LaunchTexts& o, const Kernel& kernel) : takes_types_(o.takes_types) {
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
  for (const std::string& text : o.empty) {
    auto [name, type] = split_assignment(text, "--empty");
    LaunchValue& value = add(name, text);
    value.array = wanted_array(type, "--empty");
    value.is_written = false;
  }
  for (const std::string& text : o.scalars) {
    auto [name, number] = split_assignment(text, "--arg");
    auto scalar = parse_scalar(number);
    if (!scalar)
      throw UsageError(fmt::format(
          "--arg '{}': '{}' is no number\n  hint: {}", text, number,
          takes_types_
              ? "types are for arrays alone, '*f32'; a number decides how much a launch does"
              : fmt::format("an array is --random {0}=f32[1024], --zeros {0}=f32[1024] or --in {0}=FILE.npy", name)));
    add(name, text).scalar = *scalar;
  }
  for (const auto& [argument, value] : values_) check_argument_name(kernel, argument);
}

std::vector<Arg> LaunchValues::upload(Device& device, const Kernel& kernel) {
  std::vector<Arg> args;
  for (const KernelParam& p : kernel.params()) {
    if (p.is_constexpr) continue;
    auto it = values_.find(p.name);
    if (it == values_.end()) {
      // The rest may have defaults; what follows cannot be passed without it.
      bool later = false;
      for (const KernelParam* q = &p + 1; q != kernel.params().data() + kernel.params().size(); ++q)
        later = later || values_.count(q->name);
      if (p.has_default && !later) break;
      throw UsageError(
          fmt::format("the argument '{0}' has no value: give --arg {0}=NUMBER, {1}or --in, --random or --zeros", p.name,
                      takes_types_ ? fmt::format("--arg {}='*f32', ", p.name) : ""));
    }
    LaunchValue& v = it->second;
    if (v.scalar) {
      args.push_back(*v.scalar);
    } else {
      v.buffer = v.is_written ? Buffer(device, v.array->bytes) : Buffer(device, v.array->bytes.size());
      args.push_back(Arg::pointer(v.buffer.address(), v.array->elem, v.buffer.bytes()));
    }
  }
  return args;
}

GridExpression parse_grid(const std::string& text) {
  try {
    return GridExpression(text);
  } catch (const CompileError& e) {
    std::string why = e.what();
    if (why.starts_with("error: ")) why.erase(0, 7);
    throw UsageError("--grid " + why.substr(0, why.find_last_not_of('\n') + 1));
  }
}

LaunchArgs grid_names(const Kernel& kernel, std::span<const Arg> args, const Config& config) {
  LaunchArgs names;
  for (const ConstexprArg& c : kernel.globals()) names.set_constexpr(c.name, c.value);
  const LaunchArgs own = kernel.named(args);
  for (const auto& [name, value] : own.items()) names.set(name, value);
  for (const ConstexprArg& c : config.constexprs) names.set_constexpr(c.name, c.value);
  return names;
}

}  // namespace tegula::cli
