// Lists of specialisations: what a run needed, written down by TEGULA_RECORD=app.list; what `tegula build --from` puts
// into a package; and what prewarm() makes ready, so that nothing compiles under a request.
//
//   prewarm(*device, read_kernel_list("app.list"));   // or prewarm(*device, Package::read("app.tgp"))
//   seal();                                           // from here on nothing compiles, tunes, or opens a file
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dsl/kernel.h"
#include "runtime/package/package.h"
#include "runtime/sealing.h"

namespace tegula {

/// A kernel and everything that it is compiled for, as a line of a list: the arguments of `tegula build`.
struct ListedKernel {
  std::string kernel;                                      ///< FILE::KERNEL; c++::KERNEL for one that is a C++ function
  std::string name = {};                                   ///< in a package; empty: the kernel's own
  std::vector<std::string> args = {};                      ///< NAME=TYPE
  std::vector<std::string> constexprs = {}, globals = {};  ///< NAME=VALUE
  std::vector<std::string> import_folders = {};
  std::string modules = {};            ///< folder with texts of modules, in place of what imports would find
  std::vector<std::string> when = {};  ///< NAME=VALUE of arguments that this configuration was chosen for
  std::string gpu = {}, choice = {};   ///< and the GPU, and the tuning problem's key
  std::string grid = {};               ///< as an expression of arguments and constexprs: "cdiv(n, BLOCK)"
  LaunchOptions options = {};
  std::string place = {};  ///< "app.list:3", for messages
};

/// The kernels of a list; empty lines and those that begin with # are passed over. "-": standard input. Throws
/// FileError, LaunchError that names the line of what is not understood.
std::vector<ListedKernel> read_kernel_list(const std::string& file);
/// The same from text; `name` stands for the file in messages.
std::vector<ListedKernel> parse_kernel_list(std::string_view text, std::string_view name);
/// The kernel as a line of a list.
std::string to_string(const ListedKernel& kernel);

/// Progress of prewarm(): a kernel that it has finished.
struct PrewarmStep {
  std::string kernel;  ///< its line, or its name and configuration in the package
  size_t done = 0, total = 0;
  double seconds = 0;      ///< since the beginning
  std::string error = {};  ///< why it cannot be made ready; empty: it is ready
};

struct PrewarmOptions {
  std::vector<Kernel> kernels = {};  ///< C++ functions that the list names as c++::KERNEL
  int threads = 0;                   ///< 0: one a core
  /// Called by one thread at a time. May be null.
  Function<void(const PrewarmStep&)> progress = {};
};

/// Makes everything ready on the device that these specialisations need, in parallel: for launches of any Program with
/// the same text, and of the C++ kernels given. `choices` of tuning that the list holds are made too. Returns how many
/// are ready. Throws LaunchError that lists those that cannot be made ready, after the others were.
size_t prewarm(Device& device, const std::vector<ListedKernel>& list, const PrewarmOptions& options = {});
/// The same from a package, which is loaded, not compiled. Specialisations without code for the device, and those whose
/// imported files have changed since, are left out; a package without any code for the device is a LaunchError.
size_t prewarm(Device& device, const Package& package, const PrewarmOptions& options = {});

}  // namespace tegula
