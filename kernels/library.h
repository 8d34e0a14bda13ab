// What the entries of the kernel library share. Not for users.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/kernel.h"
#include "kernels/entry.h"
#include "kernels/matrix.h"
#include "runtime/workspace.h"

namespace tegula::kernels::detail {

/// The kernel of an entry: parsed at its first use, tuned as its file says. Its arguments follow from the names of its
/// parameters, which are those of kernels.def.
class LibraryKernel {
 public:
  explicit LibraryKernel(const Entry& entry);

  void launch(Device& device, const BoundCall& call, StreamHandle stream) const;
  const Kernel& kernel() const { return kernel_; }

 private:
  static constexpr size_t kMaxArgs = 64;

  /// Where an argument comes from.
  struct Source {
    enum class Kind {
      Fixed,
      Pointer,
      Stride,
      Extent,
      Value,
      RowsClass,
      TokensClass,
      RowClass,
      BatchClass,
      Partials,
      Counters
    };
    Kind kind;
    size_t operand = 0;  ///< of Extent: the dimension; of Fixed: the argument's number in fixed_args_
    size_t dim = 0;      ///< of Stride
  };

  Source source_of(std::string_view param);
  void read_fixed();
  Arg argument(const Source& source, const BoundCall& call, int num_sms, const Workspace& workspace) const;
  LaunchOptions& options_for(const BoundCall& call) const;

  const Entry& entry_;
  Kernel kernel_;
  Kernel kernel_in_place_;           ///< the same, with what it writes set back after each timed run
  std::vector<Source> sources_;      ///< one an argument
  std::vector<size_t> flags_;        ///< operands that are constexprs of the kernel
  std::vector<ConstexprArg> fixed_;  ///< constexprs, and arguments that no operand gives
  std::vector<Arg> fixed_args_;
};

/// The kernel of an entry, made at the first call.
const LibraryKernel& library_kernel(const Entry& entry);

/// A kernel with flags, launched on arguments that its caller makes.
class FlaggedKernel {
 public:
  FlaggedKernel(std::string_view file, std::string_view kernel, std::vector<ConstexprArg> flags);
  void launch(Device& device, tegula::detail::GridRef grid, StreamHandle stream, std::span<const Arg> args) const;

 private:
  LaunchOptions& options() const;

  Kernel kernel_;
  std::vector<ConstexprArg> flags_;
  size_t index_;  ///< among all of these objects
};

/// A kernel whose flag `flag` names an activation, for each Activation; `more`: flags of all of them.
std::vector<FlaggedKernel> by_activation(std::string_view file, std::string_view kernel, const char* flag,
                                         const std::vector<ConstexprArg>& more = {});

/// Throws LaunchError where rows, of which a tile has 256 at most, lie so far apart that 32 bits do not count a tile's
/// elements. (Strides that take more than 32 bits themselves are multiplied in 64.)
void check_span(std::string_view entry, std::string_view what, int64_t count, int64_t stride);

/// The rows, columns and inputs of a product, checked.
class Call {
 public:
  Call(const char* name, const AnyMatrix& out) : name_(name), out_(out) { any_matrix("out", out); }

  /// Throw LaunchError for extents or memory that cannot be.
  void any_matrix(const char* what, const AnyMatrix& m);
  /// Likewise of one element a column of the output.
  void vector(const char* what, const AnyVector& v);
  /// Whether a matrix that is given is `other` itself.
  bool same(const AnyMatrix& a, const AnyMatrix& b) const { return a.address && a.address == b.address; }

  [[noreturn]] void refuse(const std::string& why) const;

  bool empty() const { return out_.rows == 0 || out_.cols == 0; }

 private:
  const char* name_;
  const AnyMatrix& out_;
};

/// Arguments as the kernels take them; null where none is given.
Arg pointer(const AnyMatrix& m);
Arg pointer(const AnyVector& v);
Arg pointer(const Tensor* t);
/// int32 where it fits, as almost always.
Arg integer(int64_t value);

}  // namespace tegula::kernels::detail
