#include "kernels/library.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "kernels/activation.h"
#include "kernels/kernels.h"

namespace tegula::kernels {

namespace {

// {name, text} of each kernel text beside this file, made by the build.
constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
#include "kernel_texts.inc"
};

}  // namespace

Program library_program(std::string_view file) {
  std::vector<std::string> names;
  for (const auto& [name, text] : kTexts) {
    if (name == file) return Program::parse(std::string(text), "tegula/kernels/" + std::string(name));
    names.emplace_back(name);
  }
  throw LaunchError(
      fmt::format("the kernel library has no file '{}'\n  hint: it has {}", file, fmt::join(names, ", ")));
}

namespace detail {

namespace {

std::atomic<size_t> kernel_count = 0;

// The kernel with the buffers that it writes set back after each timed run.
Kernel restoring(const Kernel& kernel, std::vector<std::string> outputs) {
  Autotune tuning = *kernel.autotuning();
  tuning.restore_value = std::move(outputs);
  return kernel.autotune(std::move(tuning));
}

// Programs of these many warps and elements a thread that one multiprocessor runs at a time, about: what limits them
// are threads and registers.
int64_t resident_programs(int warps, int64_t elements) {
  const int64_t threads = 32 * warps;
  const int64_t registers = std::clamp<int64_t>(32 + 2 * elements / threads, 32, 255);
  return std::max<int64_t>(1, std::min(2048 / threads, 65536 / (registers * threads)));
}

}  // namespace

LibraryKernel::LibraryKernel(std::string_view file, std::string_view kernel, std::vector<ConstexprArg> flags,
                             std::vector<std::string> outputs)
    : kernel_(library_program(file).kernel(kernel)),
      kernel_in_place_(restoring(kernel_, std::move(outputs))),
      flags_(std::move(flags)),
      index_(kernel_count++) {}

// Made once a thread, so that a launch does not allocate.
LaunchOptions& LibraryKernel::options() const {
  thread_local std::vector<LaunchOptions> all;
  if (index_ >= all.size()) all.resize(kernel_count);
  LaunchOptions& mine = all[index_];
  if (mine.constexprs.size() != flags_.size()) mine.constexprs = flags_;
  return mine;
}

void LibraryKernel::launch(Device& device, int64_t rows, int64_t cols, bool in_place, StreamHandle stream,
                           std::span<const Arg> args) const {
  auto grid = [&](const Config& config) {
    const int64_t tile_rows = config["ROWS"];
    const int64_t tiles = (rows + tile_rows - 1) / tile_rows;
    if (config.find("COLS")) return Grid{unsigned(tiles * ((cols + config["COLS"] - 1) / config["COLS"]))};
    if (config["STAGES"] == 0 || config["PIECE"] > 0) return Grid{unsigned(tiles)};
    const int64_t at_a_time = device.info().num_sms * resident_programs(*config.num_warps, tile_rows * cols);
    return Grid{unsigned(std::min(tiles, at_a_time))};
  };
  launch(device, tegula::detail::GridRef(grid), in_place, stream, args);
}

void LibraryKernel::launch(Device& device, tegula::detail::GridRef grid, bool in_place, StreamHandle stream,
                           std::span<const Arg> args) const {
  LaunchOptions& options = this->options();
  options.stream = stream;
  (in_place ? kernel_in_place_ : kernel_).launch(device, grid, options, args);
}

std::vector<LibraryKernel> by_activation(std::string_view file, std::string_view kernel, const char* flag,
                                         const std::vector<std::string>& outputs,
                                         const std::vector<ConstexprArg>& more) {
  std::vector<LibraryKernel> kernels;
  for (const char* name : kActivations) {
    std::vector<ConstexprArg> flags = more;
    flags.emplace_back(flag, name);
    kernels.push_back(LibraryKernel(file, kernel, std::move(flags), outputs));
  }
  return kernels;
}

int rows_class(const Device& device, int64_t rows) {
  const int64_t programs = device.info().num_sms;
  return rows <= programs ? 0 : rows <= 16 * programs ? 1 : 2;
}

void Call::refuse(const std::string& why) const { throw LaunchError(fmt::format("{}: {}", name_, why)); }

void Call::check_matrix(const char* what, const AnyMatrix& m) {
  if (m.rows < 0 || m.cols < 0 || m.rows > INT32_MAX || m.cols > INT32_MAX)
    refuse(fmt::format("{} is {} x {}, expected extents from 0 to 2^31 - 1", what, m.rows, m.cols));
  if (m.rows > 1 && m.stride < m.cols)
    refuse(fmt::format("the rows of {} overlap: they have {} elements and lie {} apart", what, m.cols, m.stride));
  if (!m.address && m.rows > 0 && m.cols > 0) refuse(fmt::format("{} has no address", what));
}

void Call::matrix(const char* what, const AnyMatrix& m) {
  check_matrix(what, m);
  if (m.rows != out_.rows || m.cols != out_.cols)
    refuse(fmt::format("{} is {} x {}, but out is {} x {}\n  hint: all matrices have the same shape", what, m.rows,
                       m.cols, out_.rows, out_.cols));
}

void Call::vector(const char* what, const AnyVector& v) {
  if (v.size != out_.cols)
    refuse(fmt::format("{} has {} elements, but out is {} x {}\n  hint: one element a column", what, v.size, out_.rows,
                       out_.cols));
  if (!v.address && !empty()) refuse(fmt::format("{} has no address", what));
}

bool Call::same(const AnyMatrix& a, const AnyMatrix& b) const {
  if (!a.address || a.address != b.address) return false;
  if (a.stride != b.stride && a.rows > 1)
    refuse(fmt::format("works in place only with equal row strides, found {} and {}", a.stride, b.stride));
  return true;
}

Arg pointer(const AnyMatrix& m) {
  if (!m.address) return nullptr;
  const int64_t elements = m.rows > 0 ? (m.rows - 1) * m.stride + m.cols : 0;
  return Arg::pointer(m.address, m.elem, size_t(elements * elem_info(m.elem).bits / 8));
}

Arg pointer(const AnyVector& v) {
  if (!v.address) return nullptr;
  return Arg::pointer(v.address, v.elem, size_t(v.size * elem_info(v.elem).bits / 8));
}

Arg integer(int64_t value) {
  if (value == int32_t(value)) return int32_t(value);
  return value;
}

}  // namespace detail
}  // namespace tegula::kernels
