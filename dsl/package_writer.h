// Packages of kernels compiled ahead of time (runtime/package/package.h), written by a program that has the compiler:
// `tegula build`, or a program whose kernels are C++ functions.
//
//   auto softmax = kernel("softmax", [](Ptr<"out"> out, ...) { ... });
//   write_package("app.tgp", parse_kernel_list("c++::softmax --arg out='*f32' --arg x='*f32' --constexpr BLOCK=1024"),
//                 {.kernels = {softmax}});
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dsl/kernel_list.h"

namespace tegula {

struct PackageOptions {
  std::vector<std::string> targets = {"sm_80", "sm_90a"};
  bool emulator = false;             ///< also code for the emulator, of the last target
  std::vector<Kernel> kernels = {};  ///< C++ functions that the list names as c++::KERNEL
  int threads = 0;                   ///< 0: one a core
  /// Told of each kernel, in the order of the list. Null: nobody.
  Function<void(const PackagedKernel&)> progress = {};
};

struct BuiltPackage {
  Package package;
  /// Why it holds PTX alone, which drivers assemble when programs load it; empty: it holds machine code for each
  /// target.
  std::string without_machine_code;
};

/// Compiles all of a list for all targets, without a GPU. Machine code is made by ptxas, or by the driver of a GPU of
/// that kind. Throws CompileError, or LaunchError that names the line; then nothing is built.
BuiltPackage build_package(const std::vector<ListedKernel>& list, const PackageOptions& options = {});
/// The same, written to a file, which is replaced as a whole. Throws FileError too.
void write_package(const std::filesystem::path& file, const std::vector<ListedKernel>& list,
                   const PackageOptions& options = {});

}  // namespace tegula
