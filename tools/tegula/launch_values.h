// The arguments of a launch from the command line: arrays from files, random or zero, and numbers. Shared by `tegula
// run` and `tegula tune`.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "tools/tegula/npy.h"

namespace tegula::cli {

/// What the options say, as text.
struct LaunchTexts {
  std::string device;
  std::string target;
  std::vector<std::string> in, random, zeros, empty, scalars, constexprs, globals, import_folders;
  uint64_t seed = 0;
  bool check = false;        ///< by the emulator, which looks for races too
  bool takes_types = false;  ///< an array may be told by its type alone, --arg x='*f32'
  LaunchOptions options;

  /// Adds --in, --random, --zeros, --empty, --arg, --constexpr, --global, --device, --target, --seed, and
  /// add_launch_options().
  void add_options(CLI::App& app);
};

/// What says how the options above read, for help texts.
extern const char* const kLaunchHelp;

/// A launch argument: an array in device memory, or a scalar.
struct LaunchValue {
  std::optional<Array> array;
  bool is_written = true;  ///< the array, ahead of the launch
  Buffer buffer;
  std::optional<Arg> scalar;
};

/// The arguments by name. Throws UsageError for what makes no sense, FileError.
class LaunchValues {
 public:
  LaunchValues(const LaunchTexts& texts, const Kernel& kernel);

  /// Copies the arrays to the device; the arguments in the order of the signature. Throws UsageError for missing ones.
  std::vector<Arg> upload(Device& device, const Kernel& kernel);

  std::map<std::string, LaunchValue, std::less<>>& items() { return values_; }

 private:
  LaunchValue& add(const std::string& name, const std::string& text);
  std::map<std::string, LaunchValue, std::less<>> values_;
  bool takes_types_;
};

/// The device that --device and --target ask for; `why` receives a sentence that says which and why.
std::shared_ptr<Device> open_device(const LaunchTexts& texts, std::string& why);

/// What --grid says. Throws UsageError.
GridExpression parse_grid(const std::string& text);

/// The names and values that a grid expression may use: arguments, constexprs, and constants of the file.
LaunchArgs grid_names(const Kernel& kernel, std::span<const Arg> args, const Config& config);

}  // namespace tegula::cli
