#include "dsl/specialize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "dsl/launch_options.h"
#include "dsl/semantics/sema.h"
#include "runtime/base/diag.h"
#include "runtime/base/error.h"

namespace tegula::dsl {

namespace {

std::shared_ptr<const TupleFields> fields_of(const ConstexprTuple& tuple) {
  if (tuple.names.empty()) return nullptr;
  return std::make_shared<const TupleFields>(TupleFields{tuple.type, tuple.names});
}

}  // namespace

Val to_val(const Constexpr& value) {
  return std::visit(
      [](const auto& v) -> Val {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return None{};
        } else if constexpr (std::is_same_v<T, Elem>) {
          return DType{ir::Type::scalar(v)};
        } else if constexpr (std::is_same_v<T, NextArg>) {
          return {};
        } else if constexpr (std::is_same_v<T, ConstexprTuple>) {
          std::vector<Val> items;
          for (const Constexpr& item : v.items) items.push_back(to_val(item));
          return make_tuple(std::move(items), fields_of(v));
        } else {
          return v;
        }
      },
      value);
}

namespace {

[[noreturn]] void fail(const std::string& message) { throw LaunchError(message); }

}  // namespace

std::string warning_text(const Diag& warning, Diagnostics list) {
  list.add(warning);
  std::string text = list.render();
  text.pop_back();
  return text.erase(text.find("warning: "), 9);
}

std::string spill_warning(std::string_view kernel, int bytes, int num_warps) {
  constexpr int kWorthTelling = 1024;
  if (bytes < kWorthTelling) return {};
  const bool more = ir::option::num_warps.allows(2 * num_warps);
  return fmt::format(
      "kernel '{}': its tiles do not fit the registers, a thread spills {} bytes to memory\n  hint: use {}", kernel,
      bytes, more ? fmt::format("num_warps={} or smaller tiles", 2 * num_warps) : "smaller tiles");
}

std::string stages_warning(const KernelImage& image) {
  std::string text;
  for (const FewerStages& loop : image.fewer_stages)
    text += fmt::format(
        "{}kernel '{}'{}: memory is short for {} stages, the loop runs with {}\n  hint: use num_stages={} or smaller "
        "tiles",
        text.empty() ? "" : "\n", image.kernel, loop.loc ? ", " + loop.loc.to_string() : "", loop.asked, loop.given,
        loop.given);
  return text;
}

std::vector<std::string> transfer_lines(const KernelImage& image) {
  std::vector<std::string> lines;
  for (const Transfer& transfer : image.transfers)
    lines.push_back(fmt::format("{}{}{}", transfer.loc ? transfer.loc.to_string() + ": " : "", transfer.by,
                                transfer.why_not.empty() ? "" : fmt::format("; not in bulk: {}", transfer.why_not)));
  return lines;
}

namespace {

bool debug_from_environment() {
  for (const char* name : {"TEGULA_DEBUG", "TRITON_DEBUG"})
    if (const char* value = std::getenv(name)) return *value && std::string_view(value) != "0";
  return false;
}

// What an option is in the compiled code.
int value_of(const LaunchOption& option, const LaunchOptions& options) {
  const int value = options.*option.launch;
  return &option.info == &ir::option::debug && value == 0 ? debug_from_environment() : value;
}

}  // namespace

void Specialization::set_options(ir::Func& func, Sema& sema) const {
  for (const LaunchOption& option : launch_options())
    if (const int value = value_of(option, options); !option.info.asks_nothing(value))
      func.attrs[std::string(option.info.name)] = int64_t(value);
  sema.debug = func.debug();
  sema.watched = func.watched();
  // Who looks at a program by a debugger wants to see it to its end.
  sema.sanitizes_overflow = options.sanitize_overflow && sema.debug && !sema.watched;
}

void check_options(const KernelSource& kernel, const LaunchOptions& options) {
  const std::string& name = kernel.name();
  std::string mistakes;
  auto wrong = [&](const std::string& what, const std::string& hint = {}) {
    mistakes += fmt::format("{}kernel '{}': {}", mistakes.empty() ? "" : "\n", name, what);
    if (!hint.empty()) mistakes += "\n  hint: " + hint;
  };
  for (const LaunchOption& option : launch_options())
    if (const int value = options.*option.launch; !option.info.allows(value)) wrong(option.info.wrong(value));
  std::vector<std::string> known, runtime;
  for (const KernelParam& p : kernel.params()) (p.is_constexpr ? known : runtime).push_back(p.name);
  std::set<std::string> given;
  for (const ConstexprArg& c : options.constexprs) {
    if (!given.insert(c.name).second) wrong(fmt::format("the constexpr parameter '{}' is given twice", c.name));
    const auto* tuple = std::get_if<ConstexprTuple>(&c.value);
    if (std::find(known.begin(), known.end(), c.name) != known.end()) {
      if (tuple && tuple->num_args())
        wrong(fmt::format("the tuple for the constexpr parameter '{}' holds arguments of the launch", c.name),
              "all its items are known at compile time");
      continue;
    }
    bool is_runtime = std::find(runtime.begin(), runtime.end(), c.name) != runtime.end();
    if (is_runtime && tuple) continue;
    auto near = nearest_name(c.name, known);
    wrong(is_runtime ? fmt::format("the parameter '{}' is no tl.constexpr", c.name)
                     : fmt::format("there is no constexpr parameter '{}'", c.name),
          is_runtime      ? "pass its value with the arguments of the launch, or annotate it with tl.constexpr"
          : near          ? fmt::format("did you mean '{}'?", *near)
          : known.empty() ? "the kernel has none"
                          : fmt::format("the kernel has {}", fmt::join(known, ", ")));
  }
  for (const KernelParam& p : kernel.params())
    if (p.is_constexpr && !p.has_default && !given.contains(p.name))
      wrong(fmt::format("the constexpr parameter '{}' has no value", p.name),
            fmt::format("give it at the launch: .constexprs = {{{{\"{0}\", value}}}} in C++, --constexpr {0}=VALUE on "
                        "the command "
                        "line, {0}=value in Python",
                        p.name));
  if (!mistakes.empty()) fail(mistakes);
}

const ConstexprTuple* tuple_argument(const KernelParam& param, const LaunchOptions& options) {
  if (param.is_constexpr) return nullptr;
  for (const ConstexprArg& c : options.constexprs)
    if (c.name == param.name) return std::get_if<ConstexprTuple>(&c.value);
  return nullptr;
}

bool has_tuple_arguments(const LaunchOptions& options) {
  return std::any_of(options.constexprs.begin(), options.constexprs.end(), [](const ConstexprArg& c) {
    const auto* tuple = std::get_if<ConstexprTuple>(&c.value);
    return tuple && tuple->num_args() > 0;
  });
}

std::vector<const KernelParam*> runtime_params(const KernelSource& kernel, const LaunchOptions& options, size_t count) {
  std::vector<const KernelParam*> params;
  size_t required = 0;
  for (const KernelParam& p : kernel.params()) {
    if (p.is_constexpr) continue;
    const ConstexprTuple* tuple = tuple_argument(p, options);
    params.insert(params.end(), tuple ? tuple->num_args() : 1, &p);
    if (tuple || !p.has_default) required = params.size();
  }
  if (count < required || count > params.size()) {
    std::string names;
    for (const KernelParam* p : params) names += (names.empty() ? "" : ", ") + p->name;
    const auto is_constexpr = [](const KernelParam& p) { return p.is_constexpr; };
    const bool has_constexpr = std::any_of(kernel.params().begin(), kernel.params().end(), is_constexpr);
    fail(fmt::format("kernel '{}' takes {}{} argument{} ({}), found {}{}", kernel.name(),
                     required < params.size() ? fmt::format("{} to ", required) : "", params.size(),
                     params.size() == 1 ? "" : "s", names, count,
                     count > params.size() && has_constexpr
                         ? "\n  hint: values of tl.constexpr parameters are no arguments: give them in the options"
                         : ""));
  }
  params.resize(count);
  return params;
}

std::vector<const KernelParam*> runtime_params(const KernelSource& kernel, const LaunchOptions& options,
                                               std::span<const ArgType> types) {
  std::vector<size_t> parts;
  for (size_t i = 0; i < types.size(); i += parts.back()) parts.push_back(1 + 2 * types[i].block_shape.size());
  std::vector<const KernelParam*> params;
  const auto each = runtime_params(kernel, options, parts.size());
  for (size_t i = 0; i < parts.size(); ++i) params.insert(params.end(), parts[i], each[i]);
  params.resize(types.size());
  return params;
}

namespace {

ArgSpec spec_of(const ArgType& type, std::string name) {
  ArgSpec arg;
  arg.name = std::move(name);
  arg.type = type.pointer ? ir::Type::pointer_to(type.elem) : ir::Type::scalar(type.elem);
  arg.divisible_by = type.divisible_by;
  if (type.constant) arg.constant = type.pointer ? Val(None{}) : Val(Int(*type.constant));
  return arg;
}

/// What the next of the types is, with the parts of a descriptor; takes them away.
ArgSpec take_argument(std::span<const ArgType>& types, std::string name) {
  const ArgType& type = types.front();
  ArgSpec arg = spec_of(type, std::move(name));
  const size_t rank = type.block_shape.size(), count = std::min(1 + 2 * rank, types.size());
  if (rank)
    arg.form = BlockForm{BlockForm::Kind::Descriptor, ir::Type::tile(type.elem, type.block_shape), type.pad_nan};
  for (size_t k = 0; k + 1 < count; ++k)
    arg.parts.push_back(
        spec_of(types[1 + k], fmt::format("{}.{}{}", arg.name, k < rank ? "shape" : "stride", k % rank)));
  types = types.subspan(count);
  return arg;
}

/// Its items are named after it: "xs.0", or "p.x" of a named tuple.
ArgSpec take_tuple(std::span<const ArgType>& types, const ConstexprTuple& tuple, std::string name) {
  ArgSpec arg;
  arg.name = std::move(name);
  arg.is_tuple = true;
  arg.fields = fields_of(tuple);
  for (size_t i = 0; i < tuple.items.size(); ++i) {
    const Constexpr& item = tuple.items[i];
    std::string part = arg.name + "." + (i < tuple.names.size() ? tuple.names[i] : std::to_string(i));
    if (const auto* inner = std::get_if<ConstexprTuple>(&item)) {
      arg.parts.push_back(take_tuple(types, *inner, std::move(part)));
    } else if (std::holds_alternative<NextArg>(item)) {
      arg.parts.push_back(take_argument(types, std::move(part)));
    } else {
      arg.parts.emplace_back().name = std::move(part);
      arg.parts.back().constant = to_val(item);
    }
  }
  return arg;
}

}  // namespace

Specialization specialization(const KernelSource& kernel, std::span<const ArgType> types,
                              const LaunchOptions& options) {
  Specialization spec;
  spec.options = options;
  runtime_params(kernel, options, types);  // which tells of a wrong number
  for (const KernelParam& p : kernel.params()) {
    if (p.is_constexpr) continue;
    if (const ConstexprTuple* tuple = tuple_argument(p, options))
      spec.args.push_back(take_tuple(types, *tuple, p.name));
    else if (!types.empty())
      spec.args.push_back(take_argument(types, p.name));
  }
  for (const KernelParam& p : kernel.params()) {
    if (!p.is_constexpr) continue;
    for (const ConstexprArg& c : options.constexprs) {
      if (c.name != p.name) continue;
      spec.args.emplace_back().name = c.name;
      spec.args.back().constant = to_val(c.value);
    }
  }
  return spec;
}

Val add_param(ir::Func& func, ir::Builder& builder, const ArgSpec& arg) {
  if (arg.is_tuple) {
    std::vector<Val> items;
    for (const ArgSpec& part : arg.parts)
      items.push_back(part.constant ? *part.constant : add_param(func, builder, part));
    return make_tuple(std::move(items), arg.fields);
  }
  ir::Value* value = func.add_param(arg.type, arg.name, arg.divisible_by);
  if (!arg.form) return value;
  std::vector<Val> parts{value};
  for (const ArgSpec& part : arg.parts) {
    const auto* constant = part.constant ? part.constant->get_if<Int>() : nullptr;
    parts.emplace_back(constant ? builder.constant(part.type, constant->clamped())
                                : func.add_param(part.type, part.name, part.divisible_by));
  }
  return BlockView{std::make_shared<const BlockForm>(*arg.form),
                   std::make_shared<const std::vector<Val>>(std::move(parts))};
}

namespace {

constexpr size_t kMaxDescriptorRank = 5;

// Where the argument stands, for messages.
std::string place(const KernelSource& kernel, const KernelParam& param) {
  return fmt::format("kernel '{}', argument '{}'", kernel.name(), param.name);
}

ArgType classify_pointer(const KernelSource& kernel, const KernelParam& param, const Arg& arg) {
  ArgType type;
  if (param.annotated)
    fail(fmt::format("{}: expected {}, found a pointer{}", place(kernel, param), elem_info(*param.annotated).text,
                     arg.elem ? fmt::format(" to {}", elem_info(*arg.elem).text) : ""));
  type.pointer = true;
  if (arg.u == 0 && !arg.elem) {
    type.constant = 0;  // None
  } else if (!arg.elem) {
    fail(
        fmt::format("{}: a pointer to elements of unknown type\n"
                    "  hint: pass a typed pointer, such as buffer.as<float>() or Arg::pointer(address, type)",
                    place(kernel, param)));
  } else {
    type.elem = *arg.elem;
    type.divisible_by = param.specialize_alignment && arg.u % 16 == 0 ? 16 : 1;
  }
  return type;
}

ArgType classify_number(const KernelParam& param, const Arg& arg) {
  ArgType type;
  if (arg.kind == Arg::Kind::Bool) {
    type.elem = param.annotated.value_or(Elem::I1);
  } else if (arg.kind == Arg::Kind::Float) {
    type.elem = param.annotated.value_or(Elem::F32);
  } else {
    bool fits_i32 = arg.kind == Arg::Kind::Signed ? arg.i == int32_t(arg.i) : arg.u <= uint64_t(INT32_MAX);
    bool fits_i64 = arg.kind == Arg::Kind::Signed || arg.u <= uint64_t(INT64_MAX);
    type.elem = param.annotated.value_or(fits_i32 ? Elem::I32 : fits_i64 ? Elem::I64 : Elem::U64);
    if (is_float(type.elem)) return type;
    if (arg.u == 1 && !param.annotated && param.specialize)
      type.constant = 1;
    else if (param.specialize_alignment)
      type.divisible_by = divisor_class(arg.u);
  }
  return type;
}

void check_descriptor(const KernelSource& kernel, const KernelParam& param, const TensorDescriptor& d) {
  auto wrong = [&](const std::string& what, const char* hint) {
    fail(fmt::format("{}: {}\n  hint: {}", place(kernel, param), what, hint));
  };
  const size_t rank = d.shape.size();
  if (rank != d.strides.size() || rank != d.block_shape.size())
    wrong(fmt::format("a tensor descriptor with {} extents, {} strides and {} extents of its blocks", rank,
                      d.strides.size(), d.block_shape.size()),
          "give one of each a dimension");
  if (rank < 1 || rank > kMaxDescriptorRank)
    wrong(fmt::format("a tensor descriptor of {} dimensions", rank), "it has 1 to 5");
  if (d.base.kind != Arg::Kind::Pointer || d.base.u == 0 || !d.base.elem)
    wrong("a tensor descriptor whose base is no typed pointer",
          "pass a pointer such as buffer.as<float>() or Arg::pointer(address, type)");
  if (d.strides.back() != 1)
    wrong(fmt::format("a tensor descriptor whose last stride is {}, expected 1", d.strides.back()),
          "the array's rows are contiguous");
  for (int64_t extent : d.block_shape)
    if (!is_tile_extent(extent))
      wrong(fmt::format("a tensor descriptor of blocks of extent {}", extent),
            "extents are those of tiles: powers of two");
  if (d.pad_nan && !is_float(*d.base.elem))
    wrong("a tensor descriptor of integers that is padded with NaN", "pad with 0");
}

// The pointer, the extents, the strides. The largest power of two up to 16 that divides a number is compiled in.
void classify_descriptor(const KernelSource& kernel, const KernelParam& param, const Arg& arg,
                         std::vector<ArgType>& types) {
  const TensorDescriptor& d = *arg.descriptor;
  check_descriptor(kernel, param, d);
  ArgType base = classify_pointer(kernel, param, d.base);
  base.block_shape = d.block_shape;
  base.pad_nan = d.pad_nan;
  types.push_back(std::move(base));
  auto divisor = [](int64_t n) { return std::min<int64_t>(16, n ? n & -n : 16); };
  for (int64_t extent : d.shape)
    types.push_back({.elem = extent == int32_t(extent) ? Elem::I32 : Elem::I64, .divisible_by = divisor(extent)});
  for (int64_t stride : d.strides) types.push_back({.elem = Elem::I64, .divisible_by = divisor(stride)});
  types.back() = {.elem = Elem::I64, .constant = 1};
}

}  // namespace

std::vector<ArgType> classify(const KernelSource& kernel, const LaunchOptions& options, std::span<const Arg> args) {
  auto params = runtime_params(kernel, options, args.size());
  std::vector<ArgType> types;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].kind == Arg::Kind::Descriptor)
      classify_descriptor(kernel, *params[i], args[i], types);
    else
      types.push_back(args[i].kind == Arg::Kind::Pointer ? classify_pointer(kernel, *params[i], args[i])
                                                         : classify_number(*params[i], args[i]));
  }
  return types;
}

std::string types_text(std::span<const ArgType> types) {
  std::string text;
  for (const ArgType& t : types) {
    text +=
        fmt::format("{}{}{}/{}", text.empty() ? "" : " ", t.pointer ? "*" : "", elem_info(t.elem).text, t.divisible_by);
    if (t.constant) text += fmt::format("={}", *t.constant);
    if (!t.block_shape.empty()) text += fmt::format("[{}]{}", fmt::join(t.block_shape, ","), t.pad_nan ? "nan" : "");
  }
  return text;
}

std::string specialization_text(std::span<const ArgType> types, const LaunchOptions& options) {
  std::string text;
  for (const LaunchOption& option : launch_options())
    text += fmt::format("{} {} ", option.info.name, value_of(option, options));
  text += fmt::format("{}{}{}{}; {}", options.dependent_launch ? "" : "alone",
                      options.cooperative_grid ? "cooperative" : "", options.enable_fp_fusion ? "" : "unfused",
                      options.sanitize_overflow ? "" : "unsanitized", types_text(types));
  for (const ConstexprArg& c : options.constexprs) text += fmt::format(" {}={}", c.name, to_string(c.value));
  return text;
}

}  // namespace tegula::dsl
