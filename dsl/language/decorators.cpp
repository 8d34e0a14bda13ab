#include "dsl/language/decorators.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/hooks.h"
#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"
#include "dsl/launch_options.h"

namespace tegula::language {

namespace {

constexpr const char* kAutotune[] = {"configs",  "key",          "prune_configs_by", "reset_to_zero", "restore_value",
                                     "pre_hook", "post_hook",    "warmup",           "rep",           "use_cuda_graph",
                                     "do_bench", "cache_results"};

const std::string kConfigsInstead = "give the configurations in C++: kernel.autotune(...)";
const std::string kHookInstead =
    "hooks can be given in C++ (Autotune::pre_hook, Config::pre_hook) and Python (kernel.with_hooks) as well";
const std::string kValuesInstead = "give the value at the launch";

using File = std::shared_ptr<const SourceFile>;

/// Runs `body` on a fresh evaluator; throws its errors as one CompileError, each with the hint `instead`.
template <class T>
T with_checker(const SourceFile& file, const std::string& instead, const std::function<T(Checker&)>& body) {
  Checker checker(file, Checker::Code::Host);
  T result{};
  checker.evaluate([&] {
    result = body(checker);
    return Val(dsl::None{});
  });
  if (!checker.has_errors()) return result;
  Diagnostics found, out = file.diagnostics();
  checker.publish(found);
  for (const Diag& d : found.list()) {
    if (d.severity != Severity::Error) continue;
    out.add(d).hint = d.hint.empty() ? instead : d.hint + "; or " + instead;
  }
  throw CompileError(out);
}

/// A hook: a Python function of the file, evaluated when it is called.
struct Hook {
  File file;
  Val function;
  Loc loc;

  /// As Triton calls it, with a further argument by name where the function takes one.
  void operator()(HookedLaunch& launch, std::optional<Argument> more = {}) const {
    const auto& callee = *get_host<FunctionObject>(function);
    auto object = std::make_shared<ArgsObject>();
    object->args = &launch.args();
    object->launch = &launch;
    std::vector<Argument> args{{{}, dsl::HostRef(std::move(object)), loc}};
    auto is_named = [&](const Param& p) { return p.name == more->name; };
    if (more && callee.lambda && callee.lambda->names.size() > 1) {
      args.push_back({{}, more->value, loc});
    } else if (more && callee.function && std::ranges::any_of(callee.function->params, is_named)) {
      args.push_back({more->name, more->value, loc});
    }
    with_checker<int>(*file, kHookInstead, [&](Checker& checker) {
      checker.call_host(callee, std::move(args), loc);
      return 0;
    });
  }
};

/// The path of what a call calls, through imports: "triton.autotune".
std::string path_of_call(const Module& module, const Expr& call) {
  std::string path = dotted_name(*call.children[0]);
  const std::string top = path.substr(0, path.find('.'));
  for (const ImportBinding& i : module.imports)
    if (i.name == top) return i.path + path.substr(top.size());
  return path;
}

/// The call that a decorator is, if it is one of a function of this name, whatever module that is imported from.
const Expr* find_call(const Module& module, const Decorator& decorator, std::string_view name) {
  const Expr& e = *decorator.value;
  if (e.kind != Expr::Kind::Call) return nullptr;
  const std::string path = path_of_call(module, e);
  return path == name || path.ends_with("." + std::string(name)) ? &e : nullptr;
}

class Reader {
 public:
  Reader(Checker& checker, const File& file, const Function& function)
      : checker_(checker), file_(file), function_(function) {}

  std::optional<Autotune> autotune(const Expr& call) {
    std::vector<Argument> args;
    if (!checker_.eval_arguments(call, args)) return std::nullopt;
    const std::string path = path_of_call(file_->module(), call);
    const bool foreign = path != "autotune" && !path.starts_with("triton.");
    if (foreign) {
      auto named = [](const Argument& a) { return std::find(std::begin(kAutotune), std::end(kAutotune), a.name); };
      std::erase_if(args, [&](const Argument& a) { return !a.name.empty() && named(a) == std::end(kAutotune); });
      auto configs = [](const Argument& a) { return a.name.empty() || a.name == "configs"; };
      if (std::none_of(args.begin(), args.end(), configs)) return std::nullopt;
    }
    auto matched = checker_.match_arguments("@triton.autotune", kAutotune, foreign ? 1 : 2, args, call.loc);
    if (!matched) return std::nullopt;
    auto given = [&](std::string_view name) -> const Argument* {
      const Argument* a = (*matched)[std::find(std::begin(kAutotune), std::end(kAutotune), name) - kAutotune];
      return a && !a->value.is<dsl::None>() ? a : nullptr;
    };
    Autotune out;
    if (const Argument* configs = given("configs")) add_configs(*configs, out);
    if (out.configs.empty()) out.configs.push_back(default_config());
    if (const Argument* key = given("key")) out.key = names(*key);
    std::erase_if(out.key, [&](const std::string& name) { return !find_param(name); });
    for (auto [name, list] : {std::pair{"reset_to_zero", &out.reset_to_zero}, {"restore_value", &out.restore_value}}) {
      const Argument* a = given(name);
      if (!a) continue;
      *list = names(*a);
      for (const std::string& n : *list)
        if (!find_param(n)) unknown_param(*a, n);
    }
    for (auto [name, ms] : {std::pair{"warmup", &out.warmup_ms}, {"rep", &out.rep_ms}}) {
      const Argument* a = given(name);
      if (!a) continue;
      const auto* whole = a->value.get_if<dsl::Int>();
      const auto* real = a->value.get_if<double>();
      *ms = whole ? whole->to_double() : real ? *real : -1;
      if (*ms < 0)
        checker_.error(a->loc, fmt::format("{} takes milliseconds, found {}", name, dsl::describe(a->value)));
    }
    if (const Argument* a = given("pre_hook"); a && check_hook("pre_hook", a->value, a->loc))
      out.pre_hook = [hook = Hook{file_, a->value, a->loc}](HookedLaunch& launch, bool reset_only) {
        hook(launch, Argument{"reset_only", reset_only, {}});
      };
    if (const Argument* a = given("post_hook"); a && check_hook("post_hook", a->value, a->loc))
      out.post_hook = [hook = Hook{file_, a->value, a->loc}](HookedLaunch& launch, const char* error) {
        hook(launch, Argument{"exception", error ? Val(std::string(error)) : Val(dsl::None{}), {}});
      };
    if (const Argument* a = given("prune_configs_by")) add_prune(*a, out);
    return out;
  }

  std::vector<Heuristic> heuristics(const Expr& call) {
    static constexpr const char* kParams[] = {"values"};
    std::vector<Argument> args;
    std::vector<Heuristic> out;
    if (!checker_.eval_arguments(call, args)) return out;
    auto matched = checker_.match_arguments("@triton.heuristics", kParams, 1, args, call.loc);
    if (!matched) return out;
    const Argument& values = *(*matched)[0];
    const auto* dict = get_host<DictObject>(values.value);
    if (!dict) {
      checker_.error(values.loc, fmt::format("@triton.heuristics takes a dict of functions, found {}",
                                             dsl::describe(values.value)));
      return out;
    }
    for (const auto& [key, value] : dict->items) {
      const auto* name = key.get_if<std::string>();
      if (!name || !get_host<FunctionObject>(value)) {
        checker_.error(values.loc,
                       fmt::format("@triton.heuristics takes names and functions of the arguments, found {}: "
                                   "{}",
                                   dsl::describe(key), dsl::describe(value)));
        continue;
      }
      if (!check_target(*name, values)) continue;
      out.push_back({*name, [file = file_, name = *name, function = value, loc = values.loc](const LaunchArgs& launch) {
                       return evaluate(file, name, function, loc, launch);
                     }});
    }
    return out;
  }

 private:
  static Val launch_object(const LaunchArgs& launch) {
    auto object = std::make_shared<ArgsObject>();
    object->args = &launch;
    return dsl::HostRef(std::move(object));
  }

  static Constexpr evaluate(const File& file, const std::string& name, const Val& function, Loc loc,
                            const LaunchArgs& launch) {
    return with_checker<Constexpr>(*file, kValuesInstead, [&](Checker& checker) {
      Val v = checker.call_host(*get_host<FunctionObject>(function), {{{}, launch_object(launch), loc}}, loc);
      if (v.is_poison()) return Constexpr();
      auto value = val_to_constexpr(v);
      if (!value)
        checker.error(loc,
                      fmt::format("the heuristic of '{}' gives {}, which no constexpr can be", name, dsl::describe(v)));
      return value.value_or(Constexpr());
    });
  }

  const Param* find_param(std::string_view name) const {
    for (const Param& p : function_.params)
      if (p.name == name) return &p;
    return nullptr;
  }
  void unknown_param(const Argument& where, const std::string& name) {
    std::vector<std::string> names;
    for (const Param& p : function_.params) names.push_back(p.name);
    checker_.error(where.loc, fmt::format("kernel '{}' has no argument '{}'", function_.name, name),
                   nearest_hint(name, names, fmt::format("its arguments are {}", fmt::join(names, ", "))));
  }
  /// What configurations and heuristics set are constexprs or options.
  bool check_target(const std::string& name, const Argument& where, Loc loc = {}) {
    if (dsl::find_launch_option(name)) return true;
    const Param* p = find_param(name);
    if (p && is_constexpr_annotation(p->annotation.get())) return true;
    if (!p) {
      Argument at = where;
      if (loc) at.loc = loc;
      unknown_param(at, name);
    } else {
      checker_.error(loc ? loc : where.loc,
                     fmt::format("argument '{}' of kernel '{}' is not a tl.constexpr, so it is no matter of tuning",
                                 name, function_.name),
                     fmt::format("annotate it: {}: tl.constexpr", name));
    }
    return false;
  }

  std::vector<std::string> names(const Argument& a) {
    std::vector<std::string> out;
    const auto* list = a.value.get_if<dsl::TupleVal>();
    bool ok = list != nullptr;
    if (list)
      for (const Val& item : *list->items) {
        if (const auto* name = item.get_if<std::string>()) {
          out.push_back(*name);
        } else {
          ok = false;
        }
      }
    if (!ok)
      checker_.error(a.loc, fmt::format("'{}' takes a list of argument names, found {}",
                                        a.name.empty() ? "key" : a.name, dsl::describe(a.value)));
    return out;
  }

  bool check_hook(const char* what, const Val& hook, Loc loc) {
    if (get_host<FunctionObject>(hook)) return true;
    checker_.error(loc, fmt::format("{} takes a function of the file, found {}", what, dsl::describe(hook)));
    return false;
  }

  /// Whether an entry of a configuration's dict has no effect, as in Triton: an option, which triton.Config's own
  /// arguments give (or their defaults), and no parameter of the kernel.
  bool is_overridden(const std::string& name) const {
    const dsl::LaunchOption* option = dsl::find_launch_option(name);
    return option && !option->info.is_optional() && !find_param(name);
  }

  /// A parameter that is called as an option of triton.Config gets its value, whatever the dict says, as in Triton.
  void bind_options(Config& config) const {
    for (const char* name : {"num_warps", "num_stages", "num_ctas", "maxnreg"}) {
      const dsl::LaunchOption& option = *dsl::find_launch_option(name);
      const auto& value = config.*option.config;
      const Param* p = find_param(name);
      if (!p || !is_constexpr_annotation(p->annotation.get()) || (!value && option.info.is_optional())) continue;
      std::erase_if(config.constexprs, [&](const ConstexprArg& c) { return c.name == name; });
      config.constexprs.emplace_back(name, value.value_or(option.info.fallback));
    }
  }

  void add_configs(const Argument& a, Autotune& out) {
    const auto* list = a.value.get_if<dsl::TupleVal>();
    if (!list) {
      checker_.error(a.loc, fmt::format("configs takes a list of triton.Config, found {}", dsl::describe(a.value)));
      return;
    }
    for (const Val& item : *list->items) {
      const auto* object = get_host<ConfigObject>(item);
      if (!object) {
        checker_.error(a.loc,
                       fmt::format("configs takes a list of triton.Config, found {} in it", dsl::describe(item)));
        return;
      }
      auto with_constexprs = config_of(checker_, *object);
      if (!with_constexprs) return;
      Config& config = *with_constexprs;
      std::erase_if(config.constexprs, [&](const ConstexprArg& c) { return is_overridden(c.name); });
      for (const ConstexprArg& c : config.constexprs)
        if (!check_target(c.name, a, object->loc)) return;
      bind_options(config);
      if (!object->hook.is<dsl::None>()) {
        if (!check_hook("the pre_hook of triton.Config", object->hook, object->hook_loc)) return;
        config.pre_hook = [hook = Hook{file_, object->hook, object->hook_loc}](HookedLaunch& launch) { hook(launch); };
      }
      out.configs.push_back(std::move(config));
    }
  }

  void add_prune(const Argument& a, Autotune& out) {
    const auto* dict = get_host<DictObject>(a.value);
    if (!dict) {
      checker_.error(a.loc, fmt::format("prune_configs_by takes a dict, found {}", dsl::describe(a.value)));
      return;
    }
    const std::vector<std::string> known = {"early_config_prune", "perf_model", "top_k", "within"};
    for (const auto& [key, value] : dict->items) {
      std::string name = key.is<std::string>() ? key.as<std::string>() : dsl::describe(key);
      if (name == "prune_num_stages_by") continue;  // of an older Triton; today's ignores it
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        checker_.error(a.loc, fmt::format("prune_configs_by has no entry '{}'", name), nearest_hint(name, known));
      } else if (name == "early_config_prune" && !value.is<dsl::None>()) {
        if (!get_host<FunctionObject>(value)) {
          checker_.error(a.loc, fmt::format("early_config_prune takes a function, found {}", dsl::describe(value)));
          continue;
        }
        out.prune = [file = file_, function = value, loc = a.loc](const std::vector<Config>& configs,
                                                                  const LaunchArgs& launch) {
          return prune(file, function, loc, configs, launch);
        };
      } else if (const auto* count = value.get_if<dsl::Int>(); name == "top_k" && count) {
        out.top_k = int(std::clamp(count->to_double(), 0.0, 1e6));
      } else if (name == "within") {
        if (const auto* factor = value.get_if<double>()) out.within = *factor;
        if (const auto* factor = value.get_if<dsl::Int>()) out.within = factor->to_double();
      }
    }
  }

  /// What host code has made of it.
  static std::optional<Config> config_of(Checker& checker, const ConfigObject& object) {
    std::string wrong;
    auto config = object.config(wrong);
    if (!config)
      checker.error(object.loc,
                    fmt::format("the kwargs of a triton.Config are names and their values, found {}", wrong));
    return config;
  }

  static std::vector<Config> prune(const File& file, const Val& function, Loc loc, const std::vector<Config>& configs,
                                   const LaunchArgs& launch) {
    std::vector<Val> list;
    for (const Config& c : configs) list.push_back(make_host(ConfigObject(c, loc)));
    return with_checker<std::vector<Config>>(
        *file, "narrow them down in C++ with Autotune::prune", [&](Checker& checker) {
          std::vector<Argument> args{{{}, dsl::make_tuple(list), loc}, {{}, launch_object(launch), loc}};
          const auto& called = *get_host<FunctionObject>(function);
          // What the launch got by name Triton hands on by **; all that it got does as well.
          if (called.function && called.function->keywords)
            args.push_back({std::string(kAllKeywords), launch_object(launch), loc});
          Val v = checker.call_host(called, std::move(args), loc);
          std::vector<Config> kept;
          if (v.is_poison()) return kept;
          const auto* result = v.get_if<dsl::TupleVal>();
          for (size_t i = 0; result && i < result->items->size(); ++i) {
            const auto* object = get_host<ConfigObject>((*result->items)[i]);
            auto config = object ? config_of(checker, *object) : std::nullopt;
            if (object && !config) return kept;
            if (config) kept.push_back(std::move(*config));
          }
          if (!result || kept.size() != result->items->size()) {
            checker.error(
                loc, fmt::format("early_config_prune gives {}, expected a list of triton.Config", dsl::describe(v)));
          } else if (kept.empty()) {
            checker.error(loc, "early_config_prune leaves no configuration");
          }
          return kept;
        });
  }

  Checker& checker_;
  const File& file_;
  const Function& function_;
};

}  // namespace

std::optional<Autotune> find_autotune(const std::shared_ptr<const SourceFile>& file, const Function& function) {
  std::optional<Autotune> found;
  for (const Decorator& d : function.decorators)
    if (const Expr* call = find_call(file->module(), d, "autotune"))
      found = with_checker<std::optional<Autotune>>(*file, kConfigsInstead, [&](Checker& checker) {
        checker.stop_ahead_of(d.loc);
        if (found) checker.error(call->loc, fmt::format("kernel '{}' has two @triton.autotune", function.name));
        return Reader(checker, file, function).autotune(*call);
      });
  return found;
}

void read_jit_options(const std::shared_ptr<const SourceFile>& file, const Function& function,
                      std::vector<KernelParam>& params) {
  auto read = [&](const Keyword& k, const std::function<void(KernelParam&)>& apply) {
    Checker checker(*file, Checker::Code::Host);
    const Val value = checker.evaluate([&] { return checker.value_of(*k.value); });
    const auto* list = value.get_if<dsl::TupleVal>();
    for (const Val& item : list ? *list->items : std::vector<Val>{value})
      for (size_t i = 0; i < params.size(); ++i)
        if ((item.is<dsl::Int>() && item.as<dsl::Int>() == dsl::Int(i)) ||
            (item.is<std::string>() && item.as<std::string>() == params[i].name))
          apply(params[i]);
  };
  for (const Decorator& d : function.decorators)
    if (const Expr* call = find_call(file->module(), d, "jit"))
      for (const Keyword& k : call->keywords) {
        if (k.name == "do_not_specialize")
          read(k, [](KernelParam& p) { p.specialize = p.specialize_alignment = false; });
        if (k.name == "do_not_specialize_on_alignment") read(k, [](KernelParam& p) { p.specialize_alignment = false; });
      }
}

bool is_noinline(const SourceFile& file, const Function& function) {
  for (const Decorator& d : function.decorators)
    if (const Expr* call = find_call(file.module(), d, "jit"))
      for (const Keyword& k : call->keywords)
        if (k.name == "noinline") {
          Checker checker(file, Checker::Code::Host);
          const Val value = checker.evaluate([&] { return checker.value_of(*k.value); });
          return value.is_constant() && dsl::truth(value);
        }
  return false;
}

std::vector<ConstexprArg> constant_globals(const SourceFile& file) {
  std::vector<ConstexprArg> out;
  Checker checker(file, Checker::Code::Host);
  for (const std::string& name : file.plan().assigned()) {
    const Val value = checker.evaluate([&] { return checker.value_of(name); });
    if (auto constant = val_to_constexpr(value)) out.emplace_back(name, std::move(*constant));
  }
  return out;
}

std::vector<Heuristic> find_heuristics(const std::shared_ptr<const SourceFile>& file, const Function& function) {
  std::vector<Heuristic> found;
  for (const Decorator& d : function.decorators)
    if (const Expr* call = find_call(file->module(), d, "heuristics")) {
      auto more = with_checker<std::vector<Heuristic>>(*file, kValuesInstead, [&](Checker& checker) {
        checker.stop_ahead_of(d.loc);
        return Reader(checker, file, function).heuristics(*call);
      });
      found.insert(found.end(), more.begin(), more.end());
    }
  return found;
}

}  // namespace tegula::language
