// Calls in host code: lambdas and functions of the module, methods, and the functions of Python, os, itertools and
// triton that decorators use.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "dsl/hooks.h"
#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"
#include "dsl/launch_options.h"
#include "dsl/specialize.h"

namespace tegula::language {

namespace {

constexpr int kMaxCalls = 64;
constexpr size_t kMaxItems = 1 << 16;

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
  ConfigObject object;
  object.config = default_config();
  object.loc = loc;
  const Argument& kwargs = *(*matched)[0];
  const auto* dict = get_host<DictObject>(kwargs.value);
  if (!dict)
    return error(kwargs.loc,
                 fmt::format("triton.Config takes a dict of argument values, found {}", dsl::describe(kwargs.value)));
  for (const auto& [key, value] : dict->items) {
    auto constant = val_to_constexpr(value);
    if (!key.is<std::string>() || !constant)
      return error(kwargs.loc, fmt::format("triton.Config takes a dict of names and their values, found {}: {}",
                                           dsl::describe(key), dsl::describe(value)));
    object.config.constexprs.emplace_back(key.as<std::string>(), *constant);
  }
  for (size_t i = 0; i < std::size(kParams); ++i) {
    const dsl::LaunchOption* option = dsl::find_launch_option(kParams[i]);
    const Argument* a = (*matched)[i];
    if (!option || !a || a->value.is<dsl::None>()) continue;
    const auto* n = a->value.get_if<dsl::Int>();
    if (n && option->info.allows(n->clamped()))
      object.config.*option->config = int(n->clamped());
    else
      error(a->loc, n ? option->info.wrong(n->clamped())
                      : fmt::format("{} takes an int, found {}", kParams[i], dsl::describe(a->value)));
  }
  if (const Argument* hook = (*matched)[5]) object.hook = hook->value, object.hook_loc = hook->loc;
  return make_host(std::move(object));
}

Val Checker::call_host(const FunctionObject& function, std::vector<Argument> args, Loc loc) {
  if (function.file && function.file != file_)
    return in_file(function.file, [&] { return call_host(function, std::move(args), loc); });
  if (function.function && !host_) {
    for (const Argument& a : args)
      if (holds_value(a.value))
        return error(
            loc,
            fmt::format("'{}' is a function without @triton.jit, which takes compile-time values alone, found {}",
                        function.function->name, dsl::describe(a.value)),
            fmt::format("put @triton.jit above 'def {}' in line {}", function.function->name,
                        function.function->loc.line));
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
    if (f.variadic) {  // what goes into *args and **kwargs is dropped: a use of them is an unknown name
      size_t positional = 0;
      std::erase_if(args, [&](const Argument& a) {
        if (a.name.empty()) return ++positional > f.params.size() && !f.rest;
        return std::none_of(f.params.begin(), f.params.end(), [&](const Param& p) { return p.name == a.name; });
      });
    }
    if (!bind_arguments(f, args, loc, frame.scope)) return Val();
    for (const auto& [name, binding] : frame.scope)
      if (binding.value.is_poison()) return Val();
  } else {
    const std::vector<std::string>& names = function.lambda->names;
    if (names.size() != args.size())
      return error(loc, fmt::format("the lambda takes {} arguments, found {}", names.size(), args.size()));
    for (size_t i = 0; i < names.size(); ++i) frame.scope[names[i]] = Binding{args[i].value, false, {}, args[i].loc};
  }
  frame_ = &frame;
  Val result = dsl::None{};
  if (function.lambda) {
    result = eval(*function.lambda->children[0]);
  } else {
    result = with_note(loc, fmt::format("in the call of '{}'", function.function->name), [&] {
      Val value = dsl::None{};
      host_execute(function.function->body, value);
      return value;
    });
  }
  frame_ = caller;
  return result;
}

std::optional<Val> Checker::host_method(const Val& object, const Expr& callee, const std::vector<Argument>& args,
                                        Loc loc) {
  const std::string& name = callee.text;
  const auto* list = object.get_if<dsl::TupleVal>();
  const bool grows = list && list->is_list && (name == "append" || name == "extend");
  for (const Argument& a : args)
    if (a.value.is_poison() && !grows) return Val();
  auto takes = [&](size_t low, size_t high) {
    if (args.size() >= low && args.size() <= high) return true;
    error(loc, fmt::format("'{}' takes {} argument{}, found {}", name, high, high == 1 ? "" : "s", args.size()));
    return false;
  };
  if (grows) {
    if (!takes(1, 1)) return Val();
    const Expr& target = *callee.children[0];
    bool parameter = frame_->function && std::any_of(frame_->function->params.begin(), frame_->function->params.end(),
                                                     [&](const Param& p) { return p.name == target.text; });
    if (target.kind != Expr::Kind::Name || !frame_->scope.contains(target.text) || parameter)
      return error(loc, fmt::format("'{}' is followed on lists that a function made itself only", name),
                   "return the list");
    if (unknown_ || (name == "extend" && args[0].value.is_poison())) {  // how many items it has then is not known
      bind(target.text, Val(), false, target.loc);
      return Val(dsl::None{});
    }
    std::vector<Val> more{args[0].value};
    if (name == "extend") {
      auto iterated = iterate(args[0].value, args[0].loc);
      if (!iterated) return Val();
      more = std::move(*iterated);
    }
    // The list as it was lives on where another name or a container has it too.
    auto* own = own_object(list->items, 2);  // the name's and `object`
    const size_t before = list->items->size();
    if (!count_made(int64_t(more.size() + (own ? 0 : before)), loc)) return Val();
    if (before + more.size() > kMaxItems) return error(loc, fmt::format("a list of more than {} items", kMaxItems));
    std::vector<Val> copy;
    std::vector<Val>& items = own ? * own : copy = *list->items;
    items.insert(items.end(), more.begin(), more.end());
    bind(target.text, own ? object : dsl::make_list(std::move(copy)), false, target.loc);
    return Val(dsl::None{});
  }
  if (const auto* n = object.get_if<dsl::Int>(); n && name == "bit_length") {
    if (!takes(0, 0)) return Val();
    return Val(dsl::Int(n->bits()));
  }
  if (const auto* text = object.get_if<std::string>()) return text_method(*text, name, args, loc);
  if (const auto* dict = get_host<DictObject>(object)) {
    std::vector<Val> items;
    if (name == "items" || name == "keys" || name == "values") {
      if (!takes(0, 0)) return Val();
      for (const auto& [k, v] : dict->items)
        items.push_back(name == "keys" ? k : name == "values" ? v : dsl::make_tuple({k, v}));
      return dsl::make_tuple(std::move(items));
    }
    if (name == "copy") return object;
    if (name == "get" && takes(1, 2)) {
      const Val* value = dict->find(args[0].value);
      return value ? *value : args.size() > 1 ? args[1].value : Val(dsl::None{});
    }
  }
  if (get_host<SpecObject>(object) && name == "exec_module") return Val(dsl::None{});  // it is there
  if (const auto* launch = get_host<ArgsObject>(object); launch && name == "get") {
    if (!takes(1, 2)) return Val();
    const auto* key = args[0].value.get_if<std::string>();
    const auto* value = key ? launch->args->find(*key) : nullptr;
    return value ? launch_value(*key, *value, launch->launch) : args.size() > 1 ? args[1].value : Val(dsl::None{});
  }
  if (const auto* tensor = get_host<PointerObject>(object)) {
    if (name == "data_ptr") return Val(dsl::Int(tensor->pointer.address));
    if (name == "element_size" && tensor->pointer.elem)
      return Val(dsl::Int(std::max(1, elem_bits(*tensor->pointer.elem) / 8)));
    const bool zeroes = name == "zero_" || (name == "fill_" && args.size() == 1 && args[0].value.is<dsl::Int>() &&
                                            args[0].value.as<dsl::Int>() == 0);
    if (zeroes && tensor->launch) {
      if (!takes(0, name == "zero_" ? 0 : 1)) return Val();
      tensor->launch->zero(tensor->name);
      return object;
    }
  }
  if (const auto* config = get_host<ConfigObject>(object); config && name == "all_kwargs") {
    DictObject all;
    for (const ConstexprArg& c : config->config.constexprs) all.set(c.name, dsl::to_val(c.value));
    for (const dsl::LaunchOption& option : dsl::launch_options()) {
      const auto& value = config->config.*option.config;
      if (value || !option.info.is_optional())
        all.set(std::string(option.info.name), dsl::Int(value.value_or(option.info.fallback)));
    }
    return make_host(std::move(all));
  }
  if (const auto* host = object.get_if<dsl::HostRef>()) {
    if (get_host<PointerObject>(object)) return host_attribute(*host, callee);
    return error(callee.loc, fmt::format("{} has no method '{}'", dsl::describe(object), name));
  }
  return std::nullopt;
}

// collections.namedtuple("Point", ["x", "y"]) or "x y"; of further arguments `defaults` alone counts.
Val Checker::make_named_tuple_class(const std::vector<Argument>& args, Loc loc) {
  static constexpr const char* kParams[] = {"typename", "field_names", "rename", "defaults", "module"};
  auto matched = match_arguments("namedtuple", kParams, 2, args, loc);
  if (!matched) return Val();
  const Val &name = (*matched)[0]->value, &fields = (*matched)[1]->value;
  auto type = std::make_shared<Class>();
  bool ok = name.is<std::string>();
  if (ok) type->name = name.as<std::string>();
  type->loc = loc;
  if (const auto* list = fields.get_if<dsl::TupleVal>()) {
    for (const Val& field : *list->items) {
      ok = ok && field.is<std::string>();
      if (ok) type->fields.push_back({field.as<std::string>(), loc, nullptr, nullptr, {}});
    }
  } else if (const auto* text = fields.get_if<std::string>()) {
    for (size_t at = 0; (at = text->find_first_not_of(", ", at)) != text->npos;) {
      const size_t end = std::min(text->find_first_of(", ", at), text->size());
      type->fields.push_back({text->substr(at, end - at), loc, nullptr, nullptr, {}});
      at = end;
    }
  } else {
    ok = false;
  }
  if (!ok || (*matched)[3])
    return error(loc, "namedtuple is evaluated with a name and a list of names, without defaults");
  ClassObject object;
  object.file = file_;
  object.type = std::move(type);
  object.is_tuple = true;
  return make_host(std::move(object));
}

namespace {

/// The numbers of a version, which compare as versions do: (3, 6) of "3.6.0".
Val version_of(std::string_view text) {
  std::vector<Val> numbers;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    auto number = end > at ? dsl::Int::parse(text.substr(at, end - at), 10) : std::nullopt;
    if (!number) break;
    numbers.emplace_back(*number);
    if (end >= text.size() || text[end] != '.') break;
    at = end + 1;
  }
  while (!numbers.empty() && numbers.back().as<dsl::Int>() == 0) numbers.pop_back();
  return dsl::make_tuple(std::move(numbers));
}

}  // namespace

std::optional<Val> Checker::host_builtin(const std::string& name, const std::vector<Argument>& args, Loc loc) {
  if (name == "triton.Config") return make_config(args, loc);
  if (name == "python.dict") {
    DictObject dict;
    for (const Argument& a : args) {
      if (a.value.is_poison()) return Val();
      if (a.name.empty()) return error(a.loc, "dict() is evaluated with keyword arguments only");
      dict.set(a.name, a.value);
    }
    return make_host(std::move(dict));
  }
  if (name == "python.range") {
    auto range = parse_range("range", args, loc);
    if (!range.is_known()) return Val();
    const dsl::Int &upper = range.upper.value.as<dsl::Int>(), &step = range.step.value.as<dsl::Int>();
    std::vector<Val> items;
    for (dsl::Int i = range.lower.value.as<dsl::Int>(); step > 0 ? i < upper : i > upper; i = i + step) {
      items.push_back(i);
      if (items.size() > kMaxItems) return error(loc, fmt::format("a range of more than {} values", kMaxItems));
    }
    return dsl::make_tuple(std::move(items));
  }
  for (const Argument& a : args)
    if (a.value.is_poison()) return Val();
  if (name == "triton.constexpr_function") return args.size() == 1 ? args[0].value : Val();  // of what is one anyway
  if (name == "triton.runtime.driver.active.get_current_target") return module_ref("triton target");
  if (name == "torch.finfo" || name == "torch.iinfo") {
    const auto* type = args.size() == 1 ? args[0].value.get_if<dsl::DType>() : nullptr;
    const bool of_floats = name == "torch.finfo";
    if (!type || !type->type.is_scalar() || type->type.pointer || is_float(type->type.elem) != of_floats)
      return error(loc, fmt::format("{} takes {} type", name, of_floats ? "a floating-point" : "an integer"));
    LimitsObject limits;
    limits.elem = type->type.elem;
    return make_host(limits);
  }
  if (name == "torch.cuda.is_available") return true;
  if (name == "importlib.util.find_spec") {  // what is there where Triton is
    const auto* module = args.size() == 1 ? args[0].value.get_if<std::string>() : nullptr;
    if (!module) return error(loc, "find_spec takes the name of a module");
    SpecObject spec;
    spec.module = resolve_path(*module).value_or(dsl::None{});
    const auto* found = spec.module.get_if<FunctionRef>();
    return found && found->kind == FunctionRef::Kind::Module ? make_host(std::move(spec)) : Val(dsl::None{});
  }
  if (name == "importlib.util.module_from_spec") {
    const auto* spec = args.size() == 1 ? get_host<SpecObject>(args[0].value) : nullptr;
    return spec ? spec->module : error(loc, "module_from_spec takes what find_spec gives");
  }
  if (name == "packaging.version.parse" || name == "packaging.version.Version") {
    const auto* text = args.size() == 1 ? args[0].value.get_if<std::string>() : nullptr;
    return text ? version_of(*text) : error(loc, "a version is made of a text");
  }
  if (name == "torch.cuda.get_device_capability")
    return capability_ ? dsl::make_tuple({dsl::Int(*capability_ / 10), dsl::Int(*capability_ % 10)}) : Val();
  if (name == "collections.namedtuple") return make_named_tuple_class(args, loc);
  if (name == "os.getenv" || name == "os.environ.get") {
    if (args.empty() || args.size() > 2 || !args[0].value.is<std::string>())
      return error(loc, fmt::format("{} takes the name of a variable and a default", name));
    const char* value = std::getenv(args[0].value.as<std::string>().c_str());
    return value ? Val(std::string(value)) : args.size() > 1 ? args[1].value : Val(dsl::None{});
  }
  bool lists = name == "itertools.product" || name == "python.zip";
  bool one = name == "python.list" || name == "python.tuple" || name == "python.any" || name == "python.all" ||
             name == "python.sum" || name == "python.enumerate" || name == "python.str" || name == "python.len";
  if (!lists && !one) return std::nullopt;
  for (const Argument& a : args)
    if (!a.name.empty()) return error(a.loc, fmt::format("{} takes no argument '{}' here", name, a.name));
  if (one && args.size() != 1) {
    if (args.empty() && name == "python.list") return dsl::make_list({});
    if (args.empty() && name == "python.tuple") return dsl::make_tuple({});
    return error(loc, fmt::format("{} takes 1 argument, found {}", name.substr(7), args.size()));
  }
  if (name == "python.str") return Val(dsl::text_of(args[0].value));
  if (name == "python.len") {
    if (const auto* text = args[0].value.get_if<std::string>()) return Val(dsl::Int(text->size()));
    if (const auto* list = args[0].value.get_if<dsl::TupleVal>()) return Val(dsl::Int(list->items->size()));
    if (const auto* dict = get_host<DictObject>(args[0].value)) return Val(dsl::Int(dict->items.size()));
  }
  std::vector<std::vector<Val>> in;
  for (const Argument& a : args) {
    auto items = iterate(a.value, a.loc);
    if (!items) return Val();
    in.push_back(std::move(*items));
  }
  std::vector<Val> out;
  if (name == "python.len") return Val(dsl::Int(in[0].size()));
  if (name == "python.any" || name == "python.all") {
    bool any = name == "python.any";
    return Val(std::any_of(in[0].begin(), in[0].end(), [&](const Val& v) { return dsl::truth(v) == any; }) == any);
  }
  if (name == "python.sum") {
    Val total = dsl::Int(0);
    sema_.at(loc);
    for (const Val& v : in[0]) total = dsl::binary(sema_, "+", total, v);
    return total;
  }
  if (name == "python.enumerate") {
    for (size_t i = 0; i < in[0].size(); ++i) out.push_back(dsl::make_tuple({dsl::Int(i), in[0][i]}));
  } else if (name == "python.zip") {
    size_t n = in.empty() ? 0 : in[0].size();
    for (const auto& items : in) n = std::min(n, items.size());
    for (size_t i = 0; i < n; ++i) {
      std::vector<Val> row;
      for (const auto& items : in) row.push_back(items[i]);
      out.push_back(dsl::make_tuple(std::move(row)));
    }
  } else if (name == "itertools.product") {
    std::vector<std::vector<Val>> rows{{}};
    for (const auto& items : in) {
      std::vector<std::vector<Val>> longer;
      for (const auto& row : rows)
        for (const Val& item : items) {
          longer.push_back(row);
          longer.back().push_back(item);
          if (longer.size() > kMaxItems) return error(loc, fmt::format("more than {} combinations", kMaxItems));
        }
      rows = std::move(longer);
    }
    for (auto& row : rows) out.push_back(dsl::make_tuple(std::move(row)));
  } else {
    out = std::move(in[0]);
  }
  return name == "python.list" ? dsl::make_list(std::move(out)) : dsl::make_tuple(std::move(out));
}

}  // namespace tegula::language
