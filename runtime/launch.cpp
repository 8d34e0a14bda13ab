#include "runtime/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "runtime/base/check.h"
#include "runtime/base/float8.h"

namespace tegula {

namespace {

// The bits of `value` in a floating type, rounded once to nearest, ties to even (float8: by way of fp32).
uint64_t float_bits(double value, Elem elem) {
  switch (elem) {
    case Elem::F64:
      return std::bit_cast<uint64_t>(value);
    case Elem::F32:
      return std::bit_cast<uint32_t>(float(value));
    case Elem::BF16:
      return bfloat16::round(value).bits;
    case Elem::F16:
      return float16::round(value).bits;
    default:
      if (is_float8(elem)) return float8_bits(float(value), elem);
      TEGULA_UNREACHABLE("{} is no float", elem_info(elem).tl);
  }
}

bool fits(const Arg& arg, Elem elem) {
  int bits = elem_bits(elem);
  bool into_signed = is_signed(elem);
  if (arg.kind == Arg::Kind::Unsigned) return bits - into_signed == 64 || arg.u >> (bits - into_signed) == 0;
  if (!into_signed) return arg.i >= 0 && (bits == 64 || arg.i >> bits == 0);
  int64_t high = arg.i >> (bits - 1);  // all sign bits if it fits
  return high == 0 || high == -1;
}

std::string type_text(const ImageParam& param) {
  return fmt::format("{}{}", param.pointer ? "*" : "", elem_info(param.elem).text);
}

std::string found_text(const Arg& arg) {
  switch (arg.kind) {
    case Arg::Kind::Pointer:
      return arg.elem ? fmt::format("a pointer to {}", elem_info(*arg.elem).text) : "a pointer";
    case Arg::Kind::Signed:
      return fmt::format("the integer {}", arg.i);
    case Arg::Kind::Unsigned:
      return fmt::format("the unsigned integer {}", arg.u);
    case Arg::Kind::Float:
      return fmt::format("the floating-point number {}", arg.f);
    case Arg::Kind::Bool:
      return arg.u ? "the bool true" : "the bool false";
    case Arg::Kind::Descriptor:
      return "a tensor descriptor";
  }
  return {};
}

std::string range_text(Elem elem) {
  int bits = elem_bits(elem);
  if (is_signed(elem)) {
    int64_t low = std::numeric_limits<int64_t>::min() >> (64 - bits);
    return fmt::format("{} to {}", low, ~low);
  }
  return fmt::format("0 to {}", std::numeric_limits<uint64_t>::max() >> (64 - bits));
}

bool is_int(const Arg& arg) { return arg.kind == Arg::Kind::Signed || arg.kind == Arg::Kind::Unsigned; }

// Whether an argument of this kind may go to a parameter of this type, whatever its value.
bool kind_fits(const Arg& arg, bool pointer, Elem elem) {
  if (pointer) return arg.kind == Arg::Kind::Pointer && (!arg.elem || *arg.elem == elem);
  switch (elem_info(elem).kind) {
    case ElemKind::Bool:
      return arg.kind == Arg::Kind::Bool;
    case ElemKind::Float:
      return arg.kind != Arg::Kind::Pointer && arg.kind != Arg::Kind::Descriptor;
    default:
      return is_int(arg);
  }
}

// What to compile for, in place of what was, as the command and lists of kernels have it.
std::string without_assumption(const ImageParam& param) {
  const std::string type = fmt::format("{}={}", param.name, type_text(param));
  const std::string any = param.pointer ? fmt::format("{}:{}", type, elem_bytes(param.elem)) : type;
  return fmt::format("'{}' in place of '{}:{}'", any, type, param.divisible_by);
}

// Why `arg` does not fit; null text if it does.
std::string reason(const ImageParam& param, const Arg& arg) {
  if (!kind_fits(arg, param.pointer, param.elem)) {
    std::string text = fmt::format("expected {}, found {}", type_text(param), found_text(arg));
    if (param.pointer && is_int(arg))
      text += "\n  hint: pass a Buffer, a pointer to device memory, or Arg::pointer(address)";
    return text;
  }
  uint64_t slot;
  if (ArgRule(param).pack(arg, slot)) return {};
  if (param.pointer) {
    if (arg.u == 0) return fmt::format("expected {}, found a null pointer", type_text(param));
    int64_t needed = std::max<int64_t>(param.divisible_by, elem_bytes(param.elem));
    bool by_type = needed == elem_bytes(param.elem);
    return fmt::format("address {:#x} is not a multiple of {}, which {}", arg.u, needed,
                       by_type ? fmt::format("{} needs", type_text(param))
                               : "the kernel was compiled for\n  hint: pass an aligned address, or compile the kernel "
                                 "without this assumption: " +
                                     without_assumption(param));
  }
  if (!fits(arg, param.elem))
    return fmt::format("{} does not fit {} ({})",
                       arg.kind == Arg::Kind::Signed ? fmt::format("{}", arg.i) : fmt::format("{}", arg.u),
                       type_text(param), range_text(param.elem));
  return fmt::format(
      "{} is not a multiple of {}, which the kernel was compiled for\n  hint: compile the kernel without this "
      "assumption: {}",
      arg.kind == Arg::Kind::Signed ? fmt::format("{}", arg.i) : fmt::format("{}", arg.u), param.divisible_by,
      without_assumption(param));
}

// The parameter or constant that argument `index` of a launch belongs to; the other one is null.
std::pair<const ImageParam*, const ImageConstant*> launch_argument(const KernelImage& image, size_t index) {
  size_t before = 0;
  for (const ImageConstant& c : image.constants) {
    if (size_t(c.position) == index) return {nullptr, &c};
    before += size_t(c.position) < index;
  }
  return {&image.params[index - before], nullptr};
}

size_t launch_argument_count(const KernelImage& image) { return image.params.size() + image.constants.size(); }

std::string reason(const ImageConstant& constant, const Arg& arg) {
  uint64_t slot;
  if (ArgRule(constant).pack(arg, slot)) return {};
  return fmt::format("expected {}, which is compiled in, found {}\n  hint: compile the kernel for this argument",
                     constant.pointer ? std::string("None") : fmt::format("{}", constant.value), found_text(arg));
}

[[noreturn]] void refuse_arg(const KernelImage& image, size_t index, std::string_view why) {
  auto [param, constant] = launch_argument(image, index);
  throw LaunchError(
      fmt::format("kernel '{}', argument '{}': {}", image.kernel, param ? param->name : constant->name, why));
}

}  // namespace

std::vector<Arg> in_parts(std::span<const Arg> args) {
  std::vector<Arg> out;
  for (const Arg& arg : args) {
    if (arg.kind != Arg::Kind::Descriptor) {
      out.push_back(arg);
      continue;
    }
    out.push_back(Arg::pointer(arg.u, arg.elem, arg.bytes));
    for (const auto* numbers : {&arg.descriptor->shape, &arg.descriptor->strides})
      for (int64_t n : *numbers) out.emplace_back(n);
  }
  return out;
}

ArgRule::ArgRule(const ImageParam& param)
    : elem(param.elem), pointer(param.pointer), low_bits(0), divisor(1), passed(true) {
  uint64_t multiple = uint64_t(std::max<int64_t>(param.divisible_by, 1));
  if (pointer) multiple = std::max<uint64_t>(multiple, elem_bytes(elem));
  if (std::has_single_bit(multiple))
    low_bits = multiple - 1;
  else
    divisor = int64_t(multiple);
}

ArgRule::ArgRule(const ImageConstant& c)
    : elem(Elem::I64), pointer(c.pointer), low_bits(0), divisor(1), passed(false), constant(uint64_t(c.value)) {}

std::vector<ArgRule> launch_rules(const KernelImage& image) {
  std::vector<ArgRule> rules;
  for (size_t i = 0; i < launch_argument_count(image); ++i) {
    auto [param, constant] = launch_argument(image, i);
    rules.push_back(param ? ArgRule(*param) : ArgRule(*constant));
  }
  return rules;
}

bool ArgRule::pack(const Arg& arg, uint64_t& slot) const {
  if (!passed) return (pointer ? arg.kind == Arg::Kind::Pointer : is_int(arg)) && arg.u == constant;
  if (!kind_fits(arg, pointer, elem)) return false;
  slot = arg.u;
  // A null pointer with a type is that of an empty tensor; without one it is None.
  if (pointer)
    return (arg.u != 0 || arg.elem) && (arg.u & low_bits) == 0 && (divisor == 1 || arg.u % uint64_t(divisor) == 0);
  if (arg.kind == Arg::Kind::Float) return slot = float_bits(arg.f, elem), true;
  if (is_float(elem)) {  // as Python's float()
    slot = float_bits(arg.kind == Arg::Kind::Signed ? double(arg.i) : double(arg.u), elem);
    return true;
  }
  if (arg.kind == Arg::Kind::Bool) return true;
  // The slot holds the value's low bits in its own size: two's complement, little-endian.
  return fits(arg, elem) && (arg.u & low_bits) == 0 &&
         (divisor == 1 || (arg.kind == Arg::Kind::Signed ? arg.i % divisor == 0 : arg.u % uint64_t(divisor) == 0));
}

namespace {

// Packs the arguments that the code takes, in their order; false if one does not fit.
bool pack_args(std::span<const ArgRule> rules, std::span<const Arg> args, uint64_t* slots, void** pointers) {
  if (args.size() != rules.size()) return false;
  size_t taken = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!rules[i].pack(args[i], slots[taken])) return false;
    if (!rules[i].passed) continue;
    pointers[taken] = &slots[taken];
    ++taken;
  }
  return true;
}

}  // namespace

void refuse_args(const KernelImage& image, std::span<const Arg> args) {
  size_t count = launch_argument_count(image);
  if (args.size() != count) {
    std::string expected;
    for (size_t i = 0; i < count; ++i) {
      auto [param, constant] = launch_argument(image, i);
      expected += fmt::format("{}{}", expected.empty() ? "" : ", ",
                              param ? fmt::format("{}: {}", param->name, type_text(*param)) : constant->name);
    }
    throw LaunchError(fmt::format("kernel '{}' takes {} argument{} ({}), found {}", image.kernel, count,
                                  count == 1 ? "" : "s", expected, args.size()));
  }
  for (size_t i = 0; i < args.size(); ++i) {
    auto [param, constant] = launch_argument(image, i);
    std::string why = param ? reason(*param, args[i]) : reason(*constant, args[i]);
    if (!why.empty()) refuse_arg(image, i, why);
  }
  TEGULA_UNREACHABLE("kernel '{}': arguments refused without a reason", image.kernel);
}

struct ArgPack::Packed {
  std::vector<uint64_t> slots;
  std::vector<void*> pointers;
};

ArgPack::ArgPack(const KernelImage& image, std::span<const Arg> args) : packed_(Shared<Packed>::make()) {
  const std::vector<Arg> parts = in_parts(args);
  packed_->slots.resize(parts.size());
  packed_->pointers.resize(parts.size());
  if (!pack_args(launch_rules(image), parts, packed_->slots.data(), packed_->pointers.data()))
    refuse_args(image, parts);
}

void* const* ArgPack::data() const { return packed_->pointers.data(); }

struct LaunchHandle::Other {
  std::once_flag made;
  MakeOther make;
  Shared<LoadedKernel> kernel;
};

LaunchHandle::LaunchHandle(Shared<LoadedKernel> kernel, MakeOther without_bulk_copies)
    : kernel_(std::move(kernel)), rules_(launch_rules(kernel_->image())) {
  if (!without_bulk_copies || kernel_->image().tensor_maps.empty()) return;
  other_ = Shared<Other>::make();
  other_->make = std::move(without_bulk_copies);
}

LaunchHandle::LaunchHandle(const LaunchHandle& other)
    : kernel_(other.kernel_), rules_(other.rules_), other_(other.other_) {}

LaunchHandle& LaunchHandle::operator=(const LaunchHandle& other) {
  kernel_ = other.kernel_;
  rules_ = other.rules_;
  other_ = other.other_;
  std::atomic_ref(access_checked_).store(false, std::memory_order_relaxed);
  return *this;
}

bool LaunchHandle::fits(std::span<const Arg> args) const {
  if (args.size() != rules_.size()) {
    const std::vector<Arg> parts = in_parts(args);
    return parts.size() == rules_.size() && fits(parts);
  }
  uint64_t slot;
  for (size_t i = 0; i < args.size(); ++i)
    if (!rules_[i].pack(args[i], slot)) return false;
  return true;
}

void LaunchHandle::pack(std::span<const Arg> args, uint64_t* slots, void** pointers) const {
  if (!pack_args(rules_, args, slots, pointers)) [[unlikely]]
    refuse_args(image(), args);
  if (!std::atomic_ref(access_checked_).load(std::memory_order_relaxed)) [[unlikely]]
    check_access(args);
}

void LaunchHandle::prepare_other() const {
  if (other_) std::call_once(other_->made, [&] { other_->kernel = other_->make(); });
}

void LaunchHandle::start_other(Grid grid, void* const* args, StreamHandle stream) const {
  if (!other_) return kernel_->launch(grid, args, stream);  // says why it cannot
  prepare_other();
  other_->kernel->launch(grid, args, stream);
}

void LaunchHandle::check_access(std::span<const Arg> args) const {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].kind != Arg::Kind::Pointer || !rules_[i].passed || args[i].u == 0)
      continue;  // null: of an empty tensor
    if (std::string what = kernel_->why_inaccessible(args[i].u); !what.empty())
      refuse_arg(image(), i,
                 fmt::format("the device cannot reach address {:#x}: it is {}\n  hint: copy the data to a Buffer",
                             args[i].u, what));
  }
  std::atomic_ref(access_checked_).store(true, std::memory_order_relaxed);
}

void LaunchHandle::launch(StreamHandle stream, Grid grid, std::span<const Arg> args) const {
  constexpr size_t kInline = 32;
  std::vector<Arg> parts;
  if (args.size() != rules_.size()) [[unlikely]] {
    parts = in_parts(args);
    args = parts;
  }
  if (args.size() <= kInline) [[likely]] {
    std::array<uint64_t, kInline> slots;
    std::array<void*, kInline> pointers;
    pack(args, slots.data(), pointers.data());
    start(grid, pointers.data(), stream);
    return;
  }
  std::vector<uint64_t> slots(args.size());
  std::vector<void*> pointers(args.size());
  pack(args, slots.data(), pointers.data());
  start(grid, pointers.data(), stream);
}

}  // namespace tegula
