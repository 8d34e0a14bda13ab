// What stands for a kernel and its arguments on a command line and in a list of kernels: FILE::KERNEL, and the texts
// after --arg and --constexpr.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsl/program.h"
#include "runtime/base/error.h"

namespace tegula::dsl {

/// A text that stands for a kernel or for its arguments does not make sense.
class TextError : public Error {
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
/// TextError, CompileError, FileError.
Kernel find_kernel(const Program& program, const KernelName& name);

/// Splits NAME=VALUE. `option` is for the message; without `may_be_empty` there must be a value.
std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& option,
                                                     bool may_be_empty = false);

/// The value of a compile-time argument: 1024, 1e-5, True, None, float32 or tl.float32, 'text' or text, (1, 2),
/// Point(x=1, y=2).
Constexpr parse_constexpr(const std::string& text);
/// The text that parse_constexpr() makes the same value of; none if it cannot stand on one line.
std::optional<std::string> constexpr_text(const Constexpr& value);

/// A launch value: an integer, a float, true or false.
std::optional<Arg> parse_scalar(const std::string& text);

/// Throws TextError unless `name` is one of the kernel's launch arguments (constexprs are not).
void check_argument_name(const Kernel& kernel, const std::string& name);

/// Types of the launch arguments from "--arg NAME=TYPE[:DIVISOR]": "*f32" is a pointer. An argument that is not named
/// is int32, of any value; pointers are multiples of 16 unless another divisor is given, "n=i32:16" is one; "n=1" makes
/// the value 1 a constant; "d=*f16[64,32]" and "d=tensordesc<f16[64,32]>" are descriptors, whose extents and strides
/// are taken as multiples of 16 unless "{i32:16,i32;i64:8}" after the brackets gives their types (the last stride is
/// 1), and which pad with NaN where "nan" ends the text; of "xs=(*f32, i32)" and "p=Point(x=*f32, y==3)" the options
/// get the form, where an item after '=' is known at compile time.
std::vector<ArgType> parse_arg_types(const Kernel& kernel, const std::vector<std::string>& texts,
                                     LaunchOptions& options);
/// The texts "NAME=TYPE" that parse_arg_types() makes these types of; none if they cannot stand on one line.
std::optional<std::vector<std::string>> arg_texts(const std::vector<KernelParam>& params,
                                                  const std::vector<ArgType>& types, const LaunchOptions& options);

/// The words of a command line as a shell takes them apart: blanks between them, '...' and "..." around what is one.
/// Nothing is expanded. Throws TextError for a quote without its end.
std::vector<std::string> split_words(const std::string& line);
/// The text as one word of such a line.
std::string quoted_word(const std::string& text);

/// All of a file; of "-", of standard input. Throws FileError.
std::string read_text(const std::string& file);

/// The file's program ("-": standard input) with values of module-level names from "--global NAME=VALUE"; packages that
/// it imports from are looked up in `folders`, then in those of PYTHONPATH.
Program load_program(const std::string& file, const std::vector<std::string>& globals,
                     std::vector<std::string> folders = {});
/// Values of module-level names from "NAME=VALUE".
std::vector<ConstexprArg> parse_globals(const std::vector<std::string>& globals);

/// What integers without a value are taken to be where heuristics and pruning ask: this if they are multiples of 16,
/// else one more.
inline constexpr int64_t kAssumedInteger = 4096;
/// Gives constexprs that are left open the values of the kernel's first configuration and of its heuristics. False if
/// there was nothing to give.
bool complete_options(const Kernel& kernel, const std::vector<ArgType>& types, LaunchOptions& options);

/// The options with constexprs from "--constexpr NAME=VALUE".
LaunchOptions with_constexprs(LaunchOptions options, const std::vector<std::string>& texts);

}  // namespace tegula::dsl
