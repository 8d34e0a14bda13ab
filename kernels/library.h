// What the entries of the kernel library share. Not for users.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/kernel.h"
#include "kernels/matrix.h"

namespace tegula::kernels::detail {

/// A kernel of the library's texts with values for its constexpr flags: parsed at its first use, tuned as its file
/// says.
class LibraryKernel {
 public:
  /// `outputs`: the names of the arguments that it writes.
  LibraryKernel(std::string_view file, std::string_view kernel, std::vector<ConstexprArg> flags,
                std::vector<std::string> outputs);

  /// Launches over the rows: a program for each ROWS rows (and, where the configuration has them, COLS columns),
  /// or with STAGES above 0 as many programs as the device runs at a time. `in_place`: an output is an input too, which
  /// timed runs must not spoil.
  void launch(Device& device, int64_t rows, int64_t cols, bool in_place, StreamHandle stream,
              std::span<const Arg> args) const;
  /// Launches with a grid of the configuration's.
  void launch(Device& device, tegula::detail::GridRef grid, bool in_place, StreamHandle stream,
              std::span<const Arg> args) const;

 private:
  LaunchOptions& options() const;

  Kernel kernel_;
  Kernel kernel_in_place_;
  std::vector<ConstexprArg> flags_;
  size_t index_;  ///< among all of these objects
};

/// A kernel whose flag `flag` names an activation, for each Activation; `more`: flags of all of them.
std::vector<LibraryKernel> by_activation(std::string_view file, std::string_view kernel, const char* flag,
                                         const std::vector<std::string>& outputs,
                                         const std::vector<ConstexprArg>& more = {});

/// 0: at most a row for each multiprocessor, 1: some, 2: many. Part of the key of tuning.
int rows_class(const Device& device, int64_t rows);

/// The rows, columns and inputs of a call, checked.
class Call {
 public:
  Call(const char* name, const AnyMatrix& out) : name_(name), out_(out) { check_matrix("out", out); }

  /// Throw LaunchError if the shape does not fit the output's.
  void matrix(const char* what, const AnyMatrix& m);
  /// Likewise, of a matrix that may have any shape.
  void any_matrix(const char* what, const AnyMatrix& m) { check_matrix(what, m); }
  void vector(const char* what, const AnyVector& v);
  /// Whether a matrix that is given is the output (or `other`) itself.
  bool same(const AnyMatrix& a, const AnyMatrix& b) const;

  [[noreturn]] void refuse(const std::string& why) const;

  bool empty() const { return out_.rows == 0 || out_.cols == 0; }

 private:
  void check_matrix(const char* what, const AnyMatrix& m);

  const char* name_;
  const AnyMatrix& out_;
};

/// Arguments as the kernels take them; null where none is given.
Arg pointer(const AnyMatrix& m);
Arg pointer(const AnyVector& v);
/// int32 where it fits, as almost always.
Arg integer(int64_t value);

}  // namespace tegula::kernels::detail
