// What the subcommands share: FILE::KERNEL, and the texts behind --arg and --constexpr.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsl/program.h"

namespace tegula::cli {

/// What was written on the command line does not make sense.
class UsageError : public Error {
 public:
  using Error::Error;
};

struct KernelName {
  std::string file;
  std::string kernel;  ///< empty: the file's only kernel
};
/// Splits FILE::KERNEL.
KernelName parse_kernel_name(const std::string& text);
/// The kernel; if the name has none, the only one of the file, or the only one that is no helper of others. Throws
/// UsageError, CompileError, FileError.
Kernel find_kernel(const Program& program, const KernelName& name);

/// Splits NAME=VALUE. `option` is for the message.
std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& option);

/// The value of a compile-time argument: 1024, 1e-5, True, None, float32 or tl.float32, 'text' or text, (1, 2).
Constexpr parse_constexpr(const std::string& text);

/// A launch value: an integer, a float, true or false.
std::optional<Arg> parse_scalar(const std::string& text);

/// Throws UsageError unless `name` is one of the kernel's launch arguments (constexprs are not).
void check_argument_name(const Kernel& kernel, const std::string& name);

/// Types of the launch arguments from "--arg NAME=TYPE[:DIVISOR]": "*f32" is a pointer. An argument that is not named
/// is int32, of any value; pointers are multiples of 16 unless another divisor is given, "n=i32:16" is one; "n=1" makes
/// the value 1 a constant; "d=*f16[64,32]" and "d=tensordesc<f16[64,32]>" are descriptors; of "xs=(*f32, i32)" the
/// options get the form.
std::vector<ArgType> parse_arg_types(const Kernel& kernel, const std::vector<std::string>& texts,
                                     LaunchOptions& options);

/// The words of a command line as a shell takes them apart: blanks between them, '...' and "..." around what is one.
/// Nothing is expanded. Throws UsageError for a quote without its end.
std::vector<std::string> split_words(const std::string& line);

/// All of a file; of "-", of standard input. Throws FileError.
std::string read_text(const std::string& file);

/// The file's program ("-": standard input) with values of module-level names from "--global NAME=VALUE"; packages that
/// it imports from are looked up in the folders of PYTHONPATH too.
Program load_program(const std::string& file, const std::vector<std::string>& globals);
inline constexpr const char* kGlobalHelp = "NAME=VALUE of a module-level name, in place of what the files give it";

/// What integers without a value are taken to be where heuristics and pruning ask: this if they are multiples of 16,
/// else one more.
inline constexpr int64_t kAssumedInteger = 4096;
/// Gives constexprs that are left open the values of the kernel's first configuration and of its heuristics. False if
/// there was nothing to give.
bool complete_options(const Kernel& kernel, const std::vector<ArgType>& types, LaunchOptions& options);

/// Adds --num-warps, --num-stages, ...: a flag for each option of options.def that can have several values; and
/// --no-fp-fusion.
void add_launch_options(CLI::App& app, LaunchOptions& options);
/// The options with constexprs from "--constexpr NAME=VALUE".
LaunchOptions with_constexprs(LaunchOptions options, const std::vector<std::string>& texts);

}  // namespace tegula::cli
