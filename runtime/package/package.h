// Kernels compiled ahead of time, in one file: what a program loads and launches without a compiler.
//
//   Package package = Package::read("app.tgp");
//   std::shared_ptr<Device> gpu = open_cuda_device();
//   PackagedLaunch softmax(package, "softmax", *gpu);   // once
//   softmax(stream, {rows}, out, x, int64_t(stride), n);  // many times: compares, then cuLaunchKernel
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/launch.h"
#include "runtime/package/grid.h"
#include "runtime/package/signature.h"

namespace tegula {

/// Code of a kernel for one GPU architecture, or for the emulator.
struct PackagedCode {
  KernelImage image;
  /// Where `image` takes tensor maps: for launches whose arguments allow none.
  std::optional<KernelImage> without_bulk_copies;
  bool operator==(const PackagedCode&) const = default;
};

/// A compile-time value that is an integer.
struct NamedInteger {
  std::string name;
  int64_t value = 0;
  bool operator==(const NamedInteger&) const = default;
};

/// The value of an argument that is a number: an integer, a bool as one, or of floating point.
using Number = std::variant<int64_t, double>;
struct ArgumentValue {
  std::string name;
  Number value;
  bool operator==(const ArgumentValue&) const = default;
};

/// What a specialisation was chosen for, by tuning or by heuristics.
struct PackagedChoice {
  std::string gpu;                  ///< "NVIDIA H200"; empty: any
  std::string key;                  ///< of the tuning problem, for programs that compile
  std::vector<ArgumentValue> when;  ///< values that arguments of a launch must have
  bool operator==(const PackagedChoice&) const = default;
};

/// A file that the kernel's text imports from.
struct PackagedImport {
  std::string file;
  uint64_t digest = 0;  ///< of its text
  bool operator==(const PackagedImport&) const = default;
};

/// One specialisation of a kernel: types and assumptions of its arguments, compile-time values and options are settled.
struct PackagedKernel {
  std::string name;    ///< by which programs ask for it; several specialisations may share one
  std::string config;  ///< what is compiled in, as text: "BLOCK=1024 num_warps=8"
  std::vector<PackagedCode> codes;
  std::vector<NamedInteger> constexprs = {};  ///< those of `config` that are integers
  /// Launches take it for one of these alone; empty: for any.
  std::vector<PackagedChoice> choices = {};
  std::string key = {};                      ///< of text, types and options, for programs that compile; may be empty
  std::string options = {};                  ///< text of the options, likewise
  std::vector<PackagedImport> imports = {};  ///< likewise
  PackagedGrid grid = {};                    ///< of launches that leave it to the package
  bool operator==(const PackagedKernel&) const = default;
};

/// XXH3-64.
uint64_t text_digest(std::string_view text);

class Package {
 public:
  Package() = default;
  /// Whether the file begins as those of write() do. Throws FileError: it cannot be read.
  static bool is_package(const std::filesystem::path& file);
  /// Reads a file of write(). Throws FileError: it is not there, is no package, is one of another version, is damaged.
  static Package read(const std::filesystem::path& file);
  /// The same of bytes that a program has linked in; `name` stands for them in messages.
  static Package from_bytes(std::string_view bytes, std::string_view name);
  /// The same, of packages that the owner of the key has signed alone: another or no signature, or contents that it
  /// does not fit, are a FileError too.
  static Package read(const std::filesystem::path& file, const PublicKey& key);
  static Package from_bytes(std::string_view bytes, std::string_view name, const PublicKey& key);

  /// `key`: signs it; null: it has no signature.
  std::string to_bytes(const PrivateKey* key = nullptr) const;
  /// Writes the file anew; readers see all of the old one or all of the new one. Throws FileError.
  void write(const std::filesystem::path& file, const PrivateKey* key = nullptr) const;

  /// Takes in a kernel; codes of a specialisation that is there already are added to it, those for the same target
  /// replaced.
  void add(PackagedKernel kernel);
  std::span<const PackagedKernel> kernels() const { return kernels_; }

 private:
  std::vector<PackagedKernel> kernels_;
};

/// How much code relies on of the values of arguments: of several specialisations that take a launch the one with the
/// highest number is the best.
int assumptions(const KernelImage& image);

/// What takes the arguments of a launch: "(out_ptr: *f32, n: i32 a multiple of 16, stride = 1)".
std::string signature_text(const KernelImage& image);

/// What it is built for: "sm_80, sm_90a, the emulator of sm_90a".
std::string targets_text(const PackagedKernel& kernel);

/// The code that a device takes, the best first: machine code for this very architecture, machine code of an earlier
/// one of the same generation, PTX that its driver assembles. Null: none of them runs there.
const PackagedCode* code_for(const PackagedKernel& kernel, const DeviceInfo& device);

/// The code made ready on the device, which must outlive it. Throws DeviceError.
LaunchHandle make_ready(Device& device, const PackagedCode& code);

/// What a specialisation of a package has compiled in, for grids.
struct PackagedConfig {
  std::string text;  ///< "BLOCK=1024 num_warps=8"
  std::vector<NamedInteger> constexprs;
  /// The value of an integer among them: `config["BLOCK"]`. Throws LaunchError for other names.
  int64_t operator[](std::string_view name) const;
};

/// In the place of a launch's grid: the one that `tegula build --grid` gave the kernel as an expression of its
/// arguments.
struct OwnGrid {};
inline constexpr OwnGrid own_grid{};

/// A kernel of a package made ready on a device, which must outlive it. May be called from any thread.
class PackagedLaunch {
 public:
  /// Makes all specialisations of this name ready that run on the device; with `config`, those with these values and
  /// options compiled in alone. Throws LaunchError if there is none, DeviceError if the device refuses one.
  PackagedLaunch(const Package& package, std::string_view name, Device& device, std::string_view config = {});

  /// Launches the specialisation that assumes most of what these arguments fulfil; of those that tuning chose for some
  /// values of arguments on some GPU, the one for these. Throws LaunchError that says for each specialisation why it
  /// does not take them.
  void launch(StreamHandle stream, Grid grid, std::span<const Arg> args) const {
    handles_[find(args)].launch(stream, grid, args);
  }
  /// The same with a grid that follows from what the specialisation has compiled in:
  /// `[&](const PackagedConfig& c) { return Grid{unsigned(cdiv(n, c["BLOCK"]))}; }`
  template <class F>
  requires std::is_invocable_r_v<Grid, const F&, const PackagedConfig&>
  void launch(StreamHandle stream, const F& grid, std::span<const Arg> args) const {
    const size_t form = find(args);
    handles_[form].launch(stream, grid(configs_[form]), args);
  }

  /// The same with the package's own grid. Throws LaunchError also if the specialisation has none.
  void launch(StreamHandle stream, OwnGrid, std::span<const Arg> args) const;

  template <class... Args>
  requires(std::convertible_to<const Args&, Arg>&&...) void operator()(StreamHandle stream, OwnGrid grid,
                                                                       const Args&... values) const {
    const std::array<Arg, sizeof...(Args)> args{Arg(values)...};
    launch(stream, grid, std::span<const Arg>(args));
  }
  template <class... Args>
  requires(std::convertible_to<const Args&, Arg>&&...) void operator()(StreamHandle stream, Grid grid,
                                                                       const Args&... values) const {
    const std::array<Arg, sizeof...(Args)> args{Arg(values)...};
    launch(stream, grid, std::span<const Arg>(args));
  }
  template <class F, class... Args>
  requires(std::is_invocable_r_v<Grid, const F&, const PackagedConfig&> &&
           (std::convertible_to<const Args&, Arg> && ...)) void
  operator()(StreamHandle stream, const F& grid, const Args&... values) const {
    const std::array<Arg, sizeof...(Args)> args{Arg(values)...};
    launch(stream, grid, std::span<const Arg>(args));
  }

  /// The specialisations, those that assume most first.
  std::span<const LaunchHandle> handles() const { return handles_; }
  /// Makes ready what launches may need besides: code for arguments that allow no tensor maps. Throws DeviceError.
  void prewarm() const;

 private:
  /// A specialisation and what it is chosen for; `when` by position among the arguments.
  struct Candidate {
    size_t form;
    std::vector<std::pair<size_t, Number>> when;
  };

  /// The specialisation for these arguments. Throws LaunchError.
  size_t find(std::span<const Arg> args) const;

  std::string name_;
  std::vector<LaunchHandle> handles_;
  std::vector<PackagedConfig> configs_;  ///< of the handles
  std::vector<PackagedGrid> grids_;      ///< likewise
  std::vector<Candidate> candidates_;    ///< in the order in which they are tried
};

}  // namespace tegula
