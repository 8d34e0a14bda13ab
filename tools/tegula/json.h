// What the subcommands tell, as JSON: --json.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/messages.h"
#include "runtime/package/package.h"

namespace tegula::cli {

using Json = nlohmann::ordered_json;

/// All that a program has to know which loads the code of an image by itself: the entry symbol, arguments with their
/// types and assumptions, threads, shared memory, registers.
Json image_json(const KernelImage& image);
/// A specialisation of a package with the codes that it has.
Json packaged_json(const PackagedKernel& kernel);
/// What an error says: the mistakes of a CompileError, each with its place and hint, else its text.
Json mistakes_json(const std::exception& error);
/// A warning or mistake that is a text, with the first place that it names as FILE:LINE:COLUMN (null and 0: none).
Json message_json(const std::string& text);

/// Collects the warnings that are told for as long as it lives; the standard error stream still has them.
class Warnings {
 public:
  Warnings();
  ~Warnings();
  Warnings(const Warnings&) = delete;

  Json list = Json::array();  ///< message_json() of each

 private:
  MessageHandler before_;
};

/// Keeps what kernels print (tl.device_print) from standard output, where JSON alone is wanted, until it ends: then its
/// lines are the last ones of lines(). A GPU's driver writes them to the process's output by itself, so that is what
/// goes to a file meanwhile.
class KernelPrints {
 public:
  KernelPrints();
  ~KernelPrints();
  KernelPrints(const KernelPrints&) = delete;

  /// What kernels have printed so far, a text a line.
  static Json& lines();

 private:
  std::FILE* kept_;
  int standard_output_ = -1;  ///< a copy of its descriptor
};

/// Prints it, with an end of line, to standard output.
void print_json(const Json& json);
/// The same as one line.
void print_line(const Json& json);

}  // namespace tegula::cli
