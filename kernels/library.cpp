#include "kernels/library.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/activation.h"
#include "kernels/gemm_call.h"
#include "kernels/kernels.h"
#include "kernels/launch_rules.h"
#include "runtime/base/check.h"

namespace tegula::kernels {

namespace {

using namespace std::string_view_literals;

// {name, text} of each kernel text beside this file, made by the build.
constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
#include "kernel_texts.inc"
};

}  // namespace

Program library_program(std::string_view file) {
  std::vector<std::string> names;
  std::vector<std::pair<std::string, std::string>> modules;  // the texts import from each other
  for (const auto& [name, text] : kTexts) {
    names.emplace_back(name);
    modules.emplace_back(name.substr(0, name.size() - 3), text);
  }
  for (const auto& [name, text] : kTexts)
    if (name == file) return Program::parse(std::string(text), "tegula/kernels/" + std::string(name), {}, {}, modules);
  throw LaunchError(
      fmt::format("the kernel library has no file '{}'\n  hint: it has {}", file, fmt::join(names, ", ")));
}

void run(Device& device, const Entry& entry, std::span<const Operand> operands, StreamHandle stream) {
  const BoundCall call(entry, operands);
  if (entry.run) return entry.run(device, call, stream);
  if (!call.empty()) detail::library_kernel(entry).launch(device, call, stream);
}

namespace detail {

namespace {

std::string upper(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = char(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// "None", "True", "1", "softmax"
Constexpr read_value(const std::string& text) {
  if (text == "None") return std::monostate();
  if (text == "True" || text == "False") return text == "True";
  char* end = nullptr;
  const long long number = std::strtoll(text.c_str(), &end, 10);
  if (*end == 0) return int64_t(number);
  return text;
}

// The kernel with the tensors that the entry writes set back after each timed run.
Kernel restoring(const Kernel& kernel, const Entry& entry) {
  if (!kernel.autotuning()) return kernel;
  Autotune tuning = *kernel.autotuning();
  for (const OperandInfo& info : entry.operands)
    if (info.written) tuning.restore_value.push_back(info.name + "_ptr");
  return kernel.autotune(std::move(tuning));
}

bool is_flag(const OperandInfo& info) {
  return info.kind == OperandInfo::Kind::Bool || info.kind == OperandInfo::Kind::Choice;
}

size_t flag_values(const OperandInfo& info) { return info.kind == OperandInfo::Kind::Bool ? 2 : info.choices.size(); }

// A choice as the kernel's constexpr: an element type if it names one, else as read_value() has it.
Constexpr choice_value(const std::string& choice) {
  if (const std::optional<Elem> elem = elem_from_text(choice)) return *elem;
  return read_value(choice);
}

size_t flag_value(const Operand& operand) {
  if (const bool* flag = std::get_if<bool>(&operand.value)) return *flag;
  return size_t(std::get<Operand::Choice>(operand.value).index);
}

Arg value(const Operand& operand) {
  if (const int64_t* n = std::get_if<int64_t>(&operand.value)) return integer(*n);
  if (const double* d = std::get_if<double>(&operand.value)) return *d;
  return std::get<bool>(operand.value);
}

}  // namespace

LibraryKernel::LibraryKernel(const Entry& entry)
    : entry_(entry),
      kernel_(library_program(entry.file).kernel(entry.kernel)),
      kernel_in_place_(restoring(kernel_, entry)) {
  read_fixed();
  for (const KernelParam& param : kernel_.params()) {
    if (!param.is_constexpr) {
      sources_.push_back(source_of(param.name));
      continue;
    }
    for (size_t i = 0; i < entry.operands.size(); ++i)
      if (is_flag(entry.operands[i]) && upper(entry.operands[i].name) == param.name) flags_.push_back(i);
  }
}

// "CENTER=False bias_ptr=None"
void LibraryKernel::read_fixed() {
  for (std::string_view rest = entry_.fixed; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    const size_t equals = one.find('=');
    fixed_.emplace_back(std::string(one.substr(0, equals)), read_value(std::string(one.substr(equals + 1))));
  }
}

LibraryKernel::Source LibraryKernel::source_of(std::string_view param) {
  using Kind = Source::Kind;
  if (const auto at = std::ranges::find(fixed_, param, &ConstexprArg::name); at != fixed_.end()) {
    const int64_t* number = std::get_if<int64_t>(&at->value);
    fixed_args_.push_back(number ? integer(*number) : Arg(nullptr));
    fixed_.erase(at);
    return {Kind::Fixed, fixed_args_.size() - 1};
  }
  if (param == "rows_class") return {Kind::RowsClass};
  if (param == "tokens_class") return {Kind::TokensClass};
  if (param == "m_class") return {Kind::RowClass};
  if (param == "batch_class") return {Kind::BatchClass};
  if (param == "partials_ptr") return {Kind::Partials};
  if (param == "counters_ptr") return {Kind::Counters};
  if (const int dim = entry_.find_dim(param); dim >= 0) return {Kind::Extent, size_t(dim)};
  if (const int i = entry_.find_operand(param); i >= 0) return {Kind::Value, size_t(i)};
  const size_t mark = std::min(param.rfind("_stride"), param.rfind("_ptr"));
  const int i = mark == param.npos ? -1 : entry_.find_operand(param.substr(0, mark));
  TEGULA_CHECK(i >= 0, "the library's entry '{}' has nothing for the parameter '{}' of its kernel", entry_.name, param);
  if (param.ends_with("_ptr")) return {Kind::Pointer, size_t(i)};
  const bool of_rows = param.ends_with("_stride");  // else "..._stride_1"
  return {Kind::Stride, size_t(i), of_rows ? 0 : size_t(param.back() - '0')};
}

Arg LibraryKernel::argument(const Source& source, const BoundCall& call, int num_sms,
                            const Workspace& workspace) const {
  switch (source.kind) {
    case Source::Kind::Fixed:
      return fixed_args_[source.operand];
    case Source::Kind::Pointer:
      return pointer(call.tensor(source.operand));
    case Source::Kind::Stride: {
      const Tensor* t = call.tensor(source.operand);
      return integer(t ? t->strides[source.dim] : 0);
    }
    case Source::Kind::Extent:
      return integer(call.extent(int(source.operand)));
    case Source::Kind::Value:
      return value(call[source.operand]);
    case Source::Kind::RowsClass:
      return rows_class(num_sms, call);
    case Source::Kind::TokensClass:
      return integer(rows_class(num_sms, call.extent("tokens")));
    case Source::Kind::RowClass: {
      const int64_t m = call.extent("M");
      return integer(m <= 2 ? m : m <= 4 ? 4 : m <= 8 ? 8 : row_class(m));
    }
    case Source::Kind::BatchClass:
      return integer(int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(1, call.extent("batch"))))));
    case Source::Kind::Partials:
      return Arg::pointer(workspace.partials, Elem::F32, workspace.bytes);
    case Source::Kind::Counters:
      return Arg::pointer(workspace.counters, Elem::I32, Workspace::kCounters * sizeof(int32_t));
  }
  TEGULA_UNREACHABLE("source of an argument");
}

// Made once a thread for each value of the flags, so that a launch does not allocate.
LaunchOptions& LibraryKernel::options_for(const BoundCall& call) const {
  thread_local std::vector<std::vector<LaunchOptions>> all(entries().size());
  std::vector<LaunchOptions>& mine = all[size_t(&entry_ - entries().data())];
  size_t which = 0, count = 1;
  for (size_t flag : flags_) {
    which += count * flag_value(call[flag]);
    count *= flag_values(entry_.operands[flag]);
  }
  if (mine.empty()) mine.resize(count);
  LaunchOptions& options = mine[which];
  if (!options.constexprs.empty() || (fixed_.empty() && flags_.empty())) return options;
  options.constexprs = fixed_;
  for (size_t flag : flags_) {
    const OperandInfo& info = entry_.operands[flag];
    const size_t value = flag_value(call[flag]);
    if (info.kind == OperandInfo::Kind::Bool)
      options.constexprs.emplace_back(upper(info.name), value != 0);
    else
      options.constexprs.emplace_back(upper(info.name), choice_value(info.choices[value]));
  }
  return options;
}

void LibraryKernel::launch(Device& device, const BoundCall& call, StreamHandle stream) const {
  const int num_sms = device.info().num_sms;
  const LaunchRule& rule = *entry_.rule;
  if (rule.check) rule.check(call);
  if (rule.instead && rule.instead(device, call, stream)) return;
  Workspace workspace{};
  if (rule.partial_bytes && (!rule.has_partials || rule.has_partials(call, num_sms)))
    workspace = device.workspace(stream, rule.partial_bytes(call, num_sms));
  std::array<std::byte, sizeof(Arg) * kMaxArgs> memory;
  Arg* args = reinterpret_cast<Arg*>(memory.data());
  for (size_t i = 0; i < sources_.size(); ++i) new (args + i) Arg(argument(sources_[i], call, num_sms, workspace));
  auto grid = [&](const Config& config) { return rule.grid(call, config, num_sms); };
  LaunchOptions& options = options_for(call);
  options.stream = stream;
  (call.in_place() ? kernel_in_place_ : kernel_)
      .launch(device, tegula::detail::GridRef(grid), options, std::span<const Arg>(args, sources_.size()));
}

const LibraryKernel& library_kernel(const Entry& entry) {
  struct Slot {
    std::once_flag once;
    std::unique_ptr<LibraryKernel> kernel;
  };
  static const auto slots = std::make_unique<Slot[]>(entries().size());
  Slot& slot = slots[size_t(&entry - entries().data())];
  std::call_once(slot.once, [&] { slot.kernel = std::make_unique<LibraryKernel>(entry); });
  return *slot.kernel;
}

namespace {
std::atomic<size_t> flagged_kernels = 0;
}

FlaggedKernel::FlaggedKernel(std::string_view file, std::string_view kernel, std::vector<ConstexprArg> flags)
    : kernel_(library_program(file).kernel(kernel)), flags_(std::move(flags)), index_(flagged_kernels++) {}

LaunchOptions& FlaggedKernel::options() const {
  thread_local std::vector<LaunchOptions> all;
  if (index_ >= all.size()) all.resize(flagged_kernels);
  LaunchOptions& mine = all[index_];
  if (mine.constexprs.size() != flags_.size()) mine.constexprs = flags_;
  return mine;
}

void FlaggedKernel::launch(Device& device, tegula::detail::GridRef grid, StreamHandle stream,
                           std::span<const Arg> args) const {
  LaunchOptions& options = this->options();
  options.stream = stream;
  kernel_.launch(device, grid, options, args);
}

std::vector<FlaggedKernel> by_activation(std::string_view file, std::string_view kernel, const char* flag,
                                         const std::vector<ConstexprArg>& more) {
  std::vector<FlaggedKernel> kernels;
  for (const char* name : kActivations) {
    std::vector<ConstexprArg> flags = more;
    flags.emplace_back(flag, name);
    kernels.push_back(FlaggedKernel(file, kernel, std::move(flags)));
  }
  return kernels;
}

void check_span(std::string_view entry, std::string_view what, int64_t count, int64_t stride) {
  constexpr int64_t kMostRows = 256;
  if (stride > INT32_MAX || (std::min(count, kMostRows) - 1) * stride <= INT32_MAX) return;
  throw LaunchError(fmt::format(
      "{}: rows of {} lie {} elements apart, so that those of a tile span more than 2^31 - 1\n  hint: up to "
      "{} apart they do not",
      entry, what, stride, INT32_MAX / (kMostRows - 1)));
}

void Call::refuse(const std::string& why) const { throw LaunchError(fmt::format("{}: {}", name_, why)); }

void Call::any_matrix(const char* what, const AnyMatrix& m) {
  constexpr int64_t kMost = Tensor::kMostExtent;
  if (m.rows < 0 || m.cols < 0 || m.rows > kMost || m.cols > kMost)
    refuse(fmt::format("{} is {} x {}, expected extents from 0 to {}", what, m.rows, m.cols, kMost));
  if (m.rows > 1 && m.stride < m.cols)
    refuse(fmt::format("the rows of {} overlap: they have {} elements and lie {} apart", what, m.cols, m.stride));
  if (!m.address && m.rows > 0 && m.cols > 0) refuse(fmt::format("{} has no address", what));
  check_span(name_, what, m.rows, m.stride);
}

void Call::vector(const char* what, const AnyVector& v) {
  if (v.size != out_.cols)
    refuse(fmt::format("{} has {} elements, but out is {} x {}\n  hint: one element a column", what, v.size, out_.rows,
                       out_.cols));
  if (!v.address && !empty()) refuse(fmt::format("{} has no address", what));
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

Arg pointer(const Tensor* t) {
  if (!t || !t->address) return nullptr;
  return Arg::pointer(t->address, t->elem, size_t(t->bytes()));
}

Arg integer(int64_t value) {
  if (value == int32_t(value)) return int32_t(value);
  return value;
}

}  // namespace detail
}  // namespace tegula::kernels
