#include "dsl/specialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/ir/options.h"
#include "runtime/base/diag.h"
#include "runtime/base/error.h"

namespace tegula::dsl {

namespace {

Val to_val(const Constexpr& value) {
  return std::visit(
      [](const auto& v) -> Val {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return None{};
        else if constexpr (std::is_same_v<T, Elem>)
          return DType{ir::Type::scalar(v)};
        else
          return v;
      },
      value);
}

[[noreturn]] void fail(const std::string& message) { throw LaunchError(message); }

}  // namespace

std::string warning_text(const Diag& warning, Diagnostics list) {
  Diag& copy = list.warning(warning.loc, warning.message);
  copy.hint = warning.hint;
  copy.notes = warning.notes;
  std::string text = list.render();
  text.pop_back();
  return text.erase(text.find("warning: "), 9);
}

void Specialization::set_options(ir::Func& func) const {
  auto set = [&](const ir::OptionInfo& option, int value) { func.attrs[std::string(option.name)] = int64_t(value); };
  set(ir::option::num_warps, num_warps);
  set(ir::option::num_stages, num_stages);
  if (maxnreg) set(ir::option::maxnreg, maxnreg);
}

void check_options(const KernelSource& kernel, const LaunchOptions& options) {
  const std::string& name = kernel.name();
  std::string mistakes;
  auto wrong = [&](const std::string& what, const std::string& hint = {}) {
    mistakes += fmt::format("{}kernel '{}': {}", mistakes.empty() ? "" : "\n", name, what);
    if (!hint.empty()) mistakes += "\n  hint: " + hint;
  };
  for (auto [option, value] : {std::pair{&ir::option::num_warps, options.num_warps},
                               {&ir::option::maxnreg, options.maxnreg},
                               {&ir::option::num_stages, options.num_stages}})
    if (!option->allows(value)) wrong(option->wrong(value));
  std::vector<std::string> known, runtime;
  for (const KernelParam& p : kernel.params()) (p.is_constexpr ? known : runtime).push_back(p.name);
  std::set<std::string> given;
  for (const ConstexprArg& c : options.constexprs) {
    if (!given.insert(c.name).second) wrong(fmt::format("the constexpr parameter '{}' is given twice", c.name));
    if (std::find(known.begin(), known.end(), c.name) != known.end()) continue;
    bool is_runtime = std::find(runtime.begin(), runtime.end(), c.name) != runtime.end();
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

std::vector<const KernelParam*> runtime_params(const KernelSource& kernel, size_t count) {
  std::vector<const KernelParam*> params;
  for (const KernelParam& p : kernel.params())
    if (!p.is_constexpr) params.push_back(&p);
  size_t required = params.size();
  while (required > 0 && params[required - 1]->has_default) --required;
  if (count < required || count > params.size()) {
    std::string names;
    for (const KernelParam* p : params) names += (names.empty() ? "" : ", ") + p->name;
    bool has_constexpr = params.size() < kernel.params().size();
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

Specialization specialization(const KernelSource& kernel, std::span<const ArgType> types,
                              const LaunchOptions& options) {
  Specialization spec;
  spec.num_warps = options.num_warps;
  spec.num_stages = options.num_stages;
  spec.maxnreg = options.maxnreg;
  auto params = runtime_params(kernel, types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const ArgType& type = types[i];
    ArgSpec arg;
    arg.name = params[i]->name;
    arg.type = type.pointer ? ir::Type::pointer_to(type.elem) : ir::Type::scalar(type.elem);
    arg.divisible_by = type.divisible_by;
    if (type.constant) arg.constant = type.pointer ? Val(None{}) : Val(Int(*type.constant));
    spec.args.push_back(std::move(arg));
  }
  for (const ConstexprArg& c : options.constexprs) {
    ArgSpec arg;
    arg.name = c.name;
    arg.constant = to_val(c.value);
    spec.args.push_back(std::move(arg));
  }
  return spec;
}

std::vector<ArgType> classify(const KernelSource& kernel, std::span<const Arg> args) {
  auto params = runtime_params(kernel, args.size());
  std::vector<ArgType> types;
  for (size_t i = 0; i < args.size(); ++i) {
    const Arg& arg = args[i];
    const KernelParam& param = *params[i];
    ArgType type;
    switch (arg.kind) {
      case Arg::Kind::Pointer:
        if (param.annotated)
          fail(fmt::format("kernel '{}', argument '{}': expected {}, found a pointer{}", kernel.name(), param.name,
                           elem_info(*param.annotated).text,
                           arg.elem ? fmt::format(" to {}", elem_info(*arg.elem).text) : ""));
        type.pointer = true;
        if (arg.u == 0 && !arg.elem) {
          type.constant = 0;  // None
        } else if (!arg.elem) {
          fail(
              fmt::format("kernel '{}', argument '{}': a pointer to elements of unknown type\n"
                          "  hint: pass a typed pointer, such as buffer.as<float>() or Arg::pointer(address, type)",
                          kernel.name(), param.name));
        } else {
          type.elem = *arg.elem;
          type.divisible_by = arg.u % 16 == 0 ? 16 : 1;
        }
        break;
      case Arg::Kind::Bool:
        type.elem = param.annotated.value_or(Elem::I1);
        break;
      case Arg::Kind::Float:
        type.elem = param.annotated.value_or(Elem::F32);
        break;
      case Arg::Kind::Signed:
      case Arg::Kind::Unsigned: {
        bool fits_i32 = arg.kind == Arg::Kind::Signed ? arg.i == int32_t(arg.i) : arg.u <= uint64_t(INT32_MAX);
        bool fits_i64 = arg.kind == Arg::Kind::Signed || arg.u <= uint64_t(INT64_MAX);
        type.elem = param.annotated.value_or(fits_i32 ? Elem::I32 : fits_i64 ? Elem::I64 : Elem::U64);
        if (is_float(type.elem)) break;
        if (arg.u == 1 && !param.annotated)
          type.constant = 1;
        else if (arg.u % 16 == 0)
          type.divisible_by = 16;
        break;
      }
    }
    types.push_back(type);
  }
  return types;
}

std::string types_text(std::span<const ArgType> types) {
  std::string text;
  for (const ArgType& t : types) {
    text +=
        fmt::format("{}{}{}/{}", text.empty() ? "" : " ", t.pointer ? "*" : "", elem_info(t.elem).text, t.divisible_by);
    if (t.constant) text += fmt::format("={}", *t.constant);
  }
  return text;
}

std::string specialization_text(std::span<const ArgType> types, const LaunchOptions& options) {
  std::string text = fmt::format("warps {} stages {} registers {}{}; {}", options.num_warps, options.num_stages,
                                 options.maxnreg, options.dependent_launch ? "" : " alone", types_text(types));
  for (const ConstexprArg& c : options.constexprs) text += fmt::format(" {}={}", c.name, to_string(c.value));
  return text;
}

}  // namespace tegula::dsl
