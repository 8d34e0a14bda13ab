// What a launch gives and what it leaves to configurations and heuristics.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "dsl/launch_options.h"
#include "dsl/specialize.h"
#include "dsl/tuner.h"
#include "runtime/base/diag.h"
#include "runtime/base/error.h"

namespace tegula::dsl {

using detail::KernelState;

namespace {

[[noreturn]] void fail(const KernelSource& kernel, const std::string& message) {
  throw LaunchError(fmt::format("kernel '{}': {}", kernel.name(), message));
}

const KernelParam* find_param(const KernelSource& kernel, std::string_view name) {
  for (const KernelParam& p : kernel.params())
    if (p.name == name) return &p;
  return nullptr;
}

// Throws unless the kernel has such a parameter, of the kind that `wanted` takes.
void check_name(const KernelSource& kernel, std::string_view name, std::string_view where, std::string_view expected,
                bool (*wanted)(const KernelParam&)) {
  if (const KernelParam* p = find_param(kernel, name); p && wanted(*p)) return;
  std::vector<std::string> names;
  for (const KernelParam& p : kernel.params())
    if (wanted(p)) names.push_back(p.name);
  auto near = nearest_name(name, names);
  fail(kernel, fmt::format("{} names '{}', which is no {}\n  hint: {}", where, name, expected,
                           near            ? fmt::format("did you mean '{}'?", *near)
                           : names.empty() ? std::string("the kernel has none")
                                           : fmt::format("the kernel has {}", fmt::join(names, ", "))));
}

std::set<std::string> tuned_names(const Autotune& tuning) {
  std::set<std::string> names;
  for (const Config& config : tuning.configs)
    for (const ConstexprArg& c : config.constexprs) names.insert(c.name);
  return names;
}

}  // namespace

LaunchArgs launch_args(const KernelSource& kernel, std::span<const Arg> args, const LaunchOptions& options) {
  LaunchArgs out;
  auto params = runtime_params(kernel, options, args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const Arg& arg = args[i];
    if (tuple_argument(*params[i], options)) continue;
    LaunchArgs::Value value;
    switch (arg.kind) {
      case Arg::Kind::Pointer:
      case Arg::Kind::Descriptor:
        if (arg.u || arg.elem) value = PointerArg{arg.elem, arg.u};
        break;
      case Arg::Kind::Signed:
      case Arg::Kind::Unsigned:
        value = arg.i;
        break;
      case Arg::Kind::Float:
        value = arg.f;
        break;
      case Arg::Kind::Bool:
        value = arg.u != 0;
        break;
    }
    out.set(params[i]->name, std::move(value));
  }
  for (const ConstexprArg& c : options.constexprs) out.set_constexpr(c.name, c.value);
  for (const LaunchOption& option : launch_options())
    if (const int value = options.*option.launch; !option.info.is_none(value) && !out.has(option.info.name))
      out.set(std::string(option.info.name), int64_t(value));
  return out;
}

void check_autotune(const KernelSource& kernel, const Autotune& tuning) {
  if (tuning.configs.empty()) fail(kernel, "autotune() takes at least one configuration, found none");
  auto is_constexpr = [](const KernelParam& p) { return p.is_constexpr; };
  auto is_runtime = [](const KernelParam& p) { return !p.is_constexpr; };
  for (const std::string& name : tuned_names(tuning))
    check_name(kernel, name, "a configuration", "constexpr parameter", is_constexpr);
  for (const std::string& name : tuning.key)
    check_name(kernel, name, "the key", "parameter", [](const KernelParam&) { return true; });
  for (const std::string& name : tuning.reset_to_zero)
    check_name(kernel, name, "reset_to_zero", "argument", is_runtime);
  for (const std::string& name : tuning.restore_value)
    check_name(kernel, name, "restore_value", "argument", is_runtime);
}

void check_heuristics(const KernelSource& kernel, const std::vector<Heuristic>& heuristics) {
  for (const Heuristic& h : heuristics)
    if (!find_launch_option(h.param))
      check_name(kernel, h.param, "a heuristic", "constexpr parameter",
                 [](const KernelParam& p) { return p.is_constexpr; });
}

std::vector<int> key_positions(const KernelSource& kernel, const Autotune* tuning, bool has_heuristics) {
  std::vector<int> positions;
  int position = 0;
  for (const KernelParam& p : kernel.params()) {
    if (p.is_constexpr) continue;
    bool in_key = tuning && std::find(tuning->key.begin(), tuning->key.end(), p.name) != tuning->key.end();
    if (in_key || has_heuristics) positions.push_back(position);
    ++position;
  }
  return positions;
}

bool leaves_open(const KernelState& state, const LaunchOptions& options) {
  auto is_given = [&](const std::string& name) {
    return std::any_of(options.constexprs.begin(), options.constexprs.end(),
                       [&](const ConstexprArg& c) { return c.name == name; });
  };
  if (state.declaration_error)
    for (const KernelParam& p : state.params())
      if (p.is_constexpr && !p.has_default && !is_given(p.name)) std::rethrow_exception(state.declaration_error);
  if (!state.autotune) return false;
  std::set<std::string> tuned = tuned_names(*state.autotune);
  std::vector<std::string> given, open;
  for (const std::string& name : tuned) (is_given(name) ? given : open).push_back(name);
  if (!given.empty() && !open.empty())
    fail(*state.source,
         fmt::format("the launch gives {}, which the configurations give too, but not {}\n  hint: give all "
                     "of them to choose yourself, or none to have the best configuration chosen",
                     fmt::join(given, ", "), fmt::join(open, ", ")));
  return given.empty();
}

LaunchOptions with_heuristics(const KernelState& state, std::span<const Arg> args, const LaunchOptions& options,
                              std::vector<std::string>* asked) {
  LaunchOptions out = options;
  if (state.heuristics.empty()) return out;
  LaunchArgs view = launch_args(*state.source, args, options);
  view.note_asked(asked);
  for (const Heuristic& h : state.heuristics) {
    if (std::any_of(options.constexprs.begin(), options.constexprs.end(),
                    [&](const ConstexprArg& c) { return c.name == h.param; }))
      continue;
    Constexpr value = h.value(view);
    view.set_constexpr(h.param, value);
    const LaunchOption* option = find_launch_option(h.param);
    if (!option)
      out.constexprs.emplace_back(h.param, value);
    else if (const auto* i = std::get_if<int64_t>(&value))
      out.*option->launch = int(*i);
    else
      fail(*state.source, fmt::format("the heuristic of {} gives {}, no integer", h.param, to_string(value)));
  }
  return out;
}

Config config_of(const LaunchOptions& options) {
  Config config;
  config.constexprs = options.constexprs;
  for (const LaunchOption& option : launch_options())
    if (const int value = options.*option.launch; !option.info.is_none(value)) config.*option.config = value;
  return config;
}

LaunchOptions options_of(const Config& config, const LaunchOptions& launch) {
  LaunchOptions options = launch;
  for (const ConstexprArg& c : config.constexprs) {
    std::erase_if(options.constexprs, [&](const ConstexprArg& old) { return old.name == c.name; });
    options.constexprs.push_back(c);
  }
  for (const LaunchOption& option : launch_options())
    if (config.*option.config) options.*option.launch = *(config.*option.config);
  return options;
}

}  // namespace tegula::dsl
