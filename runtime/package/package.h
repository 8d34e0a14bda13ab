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
#include <vector>

#include "runtime/launch.h"

namespace tegula {

/// Code of a kernel for one GPU architecture, or for the emulator.
struct PackagedCode {
  KernelImage image;
  /// Where `image` takes tensor maps: for launches whose arguments allow none.
  std::optional<KernelImage> without_bulk_copies;
  bool operator==(const PackagedCode&) const = default;
};

/// One specialisation of a kernel: types and assumptions of its arguments, compile-time values and options are settled.
struct PackagedKernel {
  std::string name;    ///< by which programs ask for it; several specialisations may share one
  std::string config;  ///< what is compiled in, as text: "BLOCK=1024 num_warps=8"
  std::vector<PackagedCode> codes;
  bool operator==(const PackagedKernel&) const = default;
};

class Package {
 public:
  Package() = default;
  /// Reads a file of write(). Throws FileError: it is not there, is no package, is one of another version, is damaged.
  static Package read(const std::filesystem::path& file);
  /// The same of bytes that a program has linked in; `name` stands for them in messages.
  static Package from_bytes(std::string_view bytes, std::string_view name);

  std::string to_bytes() const;
  /// Writes the file anew; readers see all of the old one or all of the new one. Throws FileError.
  void write(const std::filesystem::path& file) const;

  /// Takes in a kernel; codes of a specialisation that is there already are added to it, those for the same target
  /// replaced.
  void add(PackagedKernel kernel);
  std::span<const PackagedKernel> kernels() const { return kernels_; }

 private:
  std::vector<PackagedKernel> kernels_;
};

/// What takes the arguments of a launch: "(out_ptr: *f32, n: i32 a multiple of 16, stride = 1)".
std::string signature_text(const KernelImage& image);

/// The code that a device takes, the best first: machine code for this very architecture, machine code of an earlier
/// one of the same generation, PTX that its driver assembles. Null: none of them runs there.
const PackagedCode* code_for(const PackagedKernel& kernel, const DeviceInfo& device);

/// A kernel of a package made ready on a device, which must outlive it. May be called from any thread.
class PackagedLaunch {
 public:
  /// Makes all specialisations of this name ready that run on the device; with `config`, those with these values and
  /// options compiled in alone. Throws LaunchError if there is none, DeviceError if the device refuses one.
  PackagedLaunch(const Package& package, std::string_view name, Device& device, std::string_view config = {});

  /// Launches the specialisation that assumes most of what these arguments fulfil. Throws LaunchError that says for
  /// each specialisation why it does not take them.
  void launch(StreamHandle stream, Grid grid, std::span<const Arg> args) const;

  template <class... Args>
  requires(std::convertible_to<const Args&, Arg>&&...) void operator()(StreamHandle stream, Grid grid,
                                                                       const Args&... values) const {
    const std::array<Arg, sizeof...(Args)> args{Arg(values)...};
    launch(stream, grid, args);
  }

  /// The specialisations, in the order in which they are tried.
  std::span<const LaunchHandle> handles() const { return handles_; }

 private:
  std::string name_;
  std::vector<LaunchHandle> handles_;
};

}  // namespace tegula
