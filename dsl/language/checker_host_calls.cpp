// Calls in host code: lambdas and functions of the module, and methods. (Functions: checker_host_builtins.cpp.)
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "dsl/hooks.h"
#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"
#include "dsl/launch_options.h"
#include "dsl/specialize.h"

namespace tegula::language {

namespace {

constexpr int kMaxCalls = 64;

/// Whether a value of the kernel is (within) v.
bool holds_value(const Val& v) {
  const auto* tuple = v.get_if<dsl::TupleVal>();
  return v.is_value() || (tuple && std::any_of(tuple->items->begin(), tuple->items->end(), holds_value));
}

}  // namespace

std::optional<std::vector<const Argument*>> Checker::match_arguments(std::string_view function,
                                                                     std::span<const char* const> params,
                                                                     size_t required, const std::vector<Argument>& args,
                                                                     Loc loc) {
  std::vector<const Argument*> out(params.size());
  size_t positional = 0;
  bool ok = true;
  for (const Argument& a : args) {
    size_t at =
        a.name.empty() ? positional++ : size_t(std::find(params.begin(), params.end(), a.name) - params.begin());
    if (at >= params.size() && a.name.empty()) {
      error(a.loc, fmt::format("{} takes at most {} arguments", function, params.size()));
      return std::nullopt;
    }
    if (at >= params.size()) {
      std::vector<std::string> names(params.begin(), params.end());
      error(a.loc, fmt::format("{} has no argument '{}'", function, a.name),
            nearest_hint(a.name, names, fmt::format("its arguments are {}", fmt::join(names, ", "))));
      ok = false;
    } else if (out[at]) {
      error(a.loc, fmt::format("argument '{}' of {} is given twice", params[at], function));
      ok = false;
    } else {
      out[at] = &a;
    }
    ok = ok && !a.value.is_poison();
  }
  for (size_t i = 0; ok && i < required; ++i) {
    if (out[i]) continue;
    error(loc, fmt::format("argument '{}' of {} is missing", params[i], function));
    ok = false;
  }
  if (!ok) return std::nullopt;
  return out;
}

Val Checker::make_config(const std::vector<Argument>& args, Loc loc) {
  static constexpr const char* kParams[] = {"kwargs",  "num_warps", "num_stages", "num_ctas",
                                            "maxnreg", "pre_hook",  "ir_override"};
  auto matched = match_arguments("triton.Config", kParams, 1, args, loc);
  if (!matched) return Val();
  Config config = default_config();
  const Argument& kwargs = *(*matched)[0];
  const auto* dict = get_host<DictObject>(kwargs.value);
  if (!dict)
    return error(kwargs.loc,
                 fmt::format("triton.Config takes a dict of argument values, found {}", dsl::describe(kwargs.value)));
  if (std::string wrong; !constexprs_of(*dict, wrong))
    return error(kwargs.loc, fmt::format("triton.Config takes a dict of names and their values, found {}", wrong));
  for (size_t i = 0; i < std::size(kParams); ++i) {
    const dsl::LaunchOption* option = dsl::find_launch_option(kParams[i]);
    const Argument* a = (*matched)[i];
    if (!option || !a || a->value.is<dsl::None>()) continue;
    const auto* n = a->value.get_if<dsl::Int>();
    if (n && option->info.allows(n->clamped()))
      config.*option->config = int(n->clamped());
    else
      error(a->loc, n ? option->info.wrong(n->clamped())
                      : fmt::format("{} takes an int, found {}", kParams[i], dsl::describe(a->value)));
  }
  ConfigObject object(std::move(config), kwargs.value, loc);
  if (const Argument* hook = (*matched)[5]) object.hook = hook->value, object.hook_loc = hook->loc;
  return make_host(std::move(object));
}

// What goes into **kwargs, which becomes no argument of a parameter; what is after the parameters is dropped.
Val Checker::take_keywords(const Function& f, std::vector<Argument>& args) {
  DictObject dict;
  std::optional<Val> whole;
  size_t positional = 0;
  std::erase_if(args, [&](const Argument& a) {
    if (a.name.empty()) return ++positional > f.params.size() && !f.rest;
    if (std::any_of(f.params.begin(), f.params.end(), [&](const Param& p) { return p.name == a.name; })) return false;
    if (a.name == kAllKeywords)
      whole = a.value;
    else if (!a.value.is_poison())
      dict.set(a.name, a.value);
    return true;
  });
  return whole ? *whole : make_host(std::move(dict));
}

Val Checker::call_host(const FunctionObject& function, std::vector<Argument> args, Loc loc) {
  if (function.file && function.file != file_)
    return in_file(function.file, [&] { return call_host(function, std::move(args), loc); });
  if (function.function && !host_) {
    const std::vector<Param>& params = function.function->params;
    if (std::any_of(params.begin(), params.end(), [](const Param& p) { return p.name == "_semantic"; }))
      return error(loc,
                   fmt::format("'{}' is a builtin of its own, which works on Triton's compiler by '_semantic'",
                               function.function->name),
                   "write a @triton.jit function");
    for (const Argument& a : args)
      if (holds_value(a.value))
        return error(
            loc,
            fmt::format("'{}' is a function without @triton.jit, which takes compile-time values alone, found {}",
                        function.function->name, dsl::describe(a.value)),
            fmt::format("put @triton.jit above 'def {}' in line {}", function.function->name,
                        function.function->loc.line));
    for (Argument& a : args) a.value = dsl::as_literals(a.value);
    for (const Argument& a : args) keep(a.value, fmt::format("an argument of '{}'", function.function->name));
    return as_host([&] { return call_host(function, std::move(args), loc); });
  }
  int depth = 0;
  for (const Frame* f = frame_; f; f = f->parent)
    if (++depth > kMaxCalls) return error(loc, fmt::format("calls are nested more than {} deep", kMaxCalls));
  Frame frame, *caller = frame_;
  frame.parent = caller;
  frame.scope = function.scope;
  if (function.function) {
    const Function& f = *function.function;
    frame.function = &f;
    Val keywords;
    if (f.variadic) keywords = take_keywords(f, args);
    if (!bind_arguments(f, args, loc, frame.scope)) return Val();
    if (f.keywords) frame.scope[f.keywords->name] = Binding{std::move(keywords), {}, f.keywords->loc};
    for (const auto& [name, binding] : frame.scope)
      if (binding.value.is_poison()) return Val();
  } else {
    const std::vector<std::string>& names = function.lambda->names;
    if (names.size() != args.size())
      return error(loc, fmt::format("the lambda takes {} arguments, found {}", names.size(), args.size()));
    for (size_t i = 0; i < names.size(); ++i) frame.scope[names[i]] = Binding{args[i].value, {}, args[i].loc};
  }
  frame_ = &frame;
  Val result = dsl::None{};
  if (function.lambda) {
    frame.lambda = &function;
    result = eval(*function.lambda->children[0]);
  } else {
    result = with_note(loc, fmt::format("in the call of '{}'", function.function->name), [&] {
      Val value = dsl::None{};
      host_execute(function.function->body, value);
      return value;
    });
  }
  frame_ = caller;
  for (const Function* made : frame.made)
    captured_[made] = frame.scope;  // with the values that the names have in the end
  return result;
}

bool Checker::takes_arguments(size_t low, size_t high, const std::string& name, const std::vector<Argument>& args,
                              Loc loc) {
  if (args.size() >= low && args.size() <= high) return true;
  error(loc, fmt::format("'{}' takes {} argument{}, found {}", name, high, high == 1 ? "" : "s", args.size()));
  return false;
}

std::optional<Val> Checker::dict_method(const Val& object, const DictObject& dict, const Expr& callee,
                                        const std::vector<Argument>& args, Loc loc) {
  const std::string& name = callee.text;
  if (name == "items" || name == "keys" || name == "values") {
    if (!takes_arguments(0, 0, name, args, loc)) return Val();
    std::vector<Val> items;
    for (const auto& [k, v] : dict.items)
      items.push_back(name == "keys" ? k : name == "values" ? v : dsl::make_tuple({k, v}));
    return make_iterator(dsl::make_tuple(std::move(items)), {object}, false, true);
  }
  if (name == "copy") return make_host(DictObject(dict));
  if (name == "update") return update_dict(object, *callee.children[0], args, loc);
  if (name == "get" && takes_arguments(1, 2, name, args, loc)) {
    const Val* value = dict.find(args[0].value);
    return value ? *value : args.size() > 1 ? args[1].value : Val(dsl::None{});
  }
  return std::nullopt;
}

std::optional<Val> Checker::tensor_method(const Val& object, const PointerObject& tensor, const std::string& name,
                                          const std::vector<Argument>& args, Loc loc) {
  if (name == "data_ptr") return Val(dsl::Int(tensor.pointer.address));
  if (name == "element_size" && tensor.pointer.elem)
    return Val(dsl::Int(std::max(1, elem_bits(*tensor.pointer.elem) / 8)));
  const bool zeroes = name == "zero_" || (name == "fill_" && args.size() == 1 && args[0].value.is<dsl::Int>() &&
                                          args[0].value.as<dsl::Int>() == 0);
  if (!zeroes || !tensor.launch) return std::nullopt;
  if (!takes_arguments(0, name == "zero_" ? 0 : 1, name, args, loc)) return Val();
  tensor.launch->zero(tensor.name);
  return object;
}

namespace {

// What config.all_kwargs() has: constexprs, and the options that are given or have a value without.
DictObject all_kwargs(const ConfigObject& config) {
  DictObject all;
  for (const auto& [name, value] : get_host<DictObject>(config.kwargs)->items) all.set(name, value);
  for (const dsl::LaunchOption& option : dsl::launch_options()) {
    const auto& value = config.options.*option.config;
    if (value || !option.info.is_optional())
      all.set(std::string(option.info.name), dsl::Int(value.value_or(option.info.fallback)));
  }
  return all;
}

}  // namespace

std::optional<Val> Checker::host_method(const Val& object, const Expr& callee, const std::vector<Argument>& args,
                                        Loc loc) {
  const std::string& name = callee.text;
  const auto* list = object.get_if<dsl::TupleVal>();
  const bool grows = list && list->is_list && (name == "append" || name == "extend");
  for (const Argument& a : args)
    if (a.value.is_poison() && !grows) return Val();
  if (grows) return grow_list(object, callee, args, loc);
  if (list && name == "tolist")
    return takes_arguments(0, 0, name, args, loc) ? dsl::make_list(*list->items) : Val();  // of an array
  if (const auto* n = object.get_if<dsl::Int>(); n && name == "bit_length")
    return takes_arguments(0, 0, name, args, loc) ? Val(dsl::Int(n->bits())) : Val();
  if (const auto* text = object.get_if<std::string>()) return text_method(*text, name, args, loc);
  if (const auto* launch = get_host<ArgsObject>(object); launch && name == "get") {
    if (!takes_arguments(1, 2, name, args, loc)) return Val();
    const auto* key = args[0].value.get_if<std::string>();
    const auto* value = key ? launch->args->find(*key) : nullptr;
    return value ? launch_value(*key, *value, launch->launch) : args.size() > 1 ? args[1].value : Val(dsl::None{});
  }
  if (const auto dict = dict_of(object))
    if (auto result = dict_method(object, *dict, callee, args, loc)) return result;
  if (get_host<SpecObject>(object) && name == "exec_module") return Val(dsl::None{});  // it is there
  if (const auto* tensor = get_host<PointerObject>(object))
    if (auto result = tensor_method(object, *tensor, name, args, loc)) return result;
  if (const auto* config = get_host<ConfigObject>(object); config && name == "all_kwargs")
    return make_host(all_kwargs(*config));
  if (const auto* host = object.get_if<dsl::HostRef>()) {
    if (get_host<PointerObject>(object)) return host_attribute(*host, callee);
    return error(callee.loc, fmt::format("{} has no method '{}'", dsl::describe(object), name));
  }
  return std::nullopt;
}

}  // namespace tegula::language
