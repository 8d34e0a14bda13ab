// Host code: the Python of decorators, as far as it is a matter of constants and arguments. Operators, names and calls
// are those of kernels; here is what kernels do not have: dictionaries, lambdas, comprehensions, functions that run
// statement by statement, and the objects of triton.autotune. Lists are values: `append` binds the name anew.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"
#include "dsl/language/source_file.h"

namespace tegula::language {

namespace {

constexpr int64_t kMaxHostSteps = 1'000'000;
constexpr int kMaxCalls = 64;
constexpr size_t kMaxItems = 1 << 16;

bool equal(const Val& a, const Val& b) {
  if (a.is<std::string>() && b.is<std::string>()) return a.as<std::string>() == b.as<std::string>();
  if (a.is<dsl::Int>() && b.is<dsl::Int>()) return a.as<dsl::Int>() == b.as<dsl::Int>();
  if (a.is<bool>() && b.is<bool>()) return a.as<bool>() == b.as<bool>();
  return a.is<dsl::None>() && b.is<dsl::None>();
}

std::optional<Elem> torch_type(std::string_view name) {
  if (name == "half") return Elem::F16;
  if (name == "float") return Elem::F32;
  if (name == "double") return Elem::F64;
  if (name == "short") return Elem::I16;
  if (name == "int") return Elem::I32;
  if (name == "long") return Elem::I64;
  if (name == "bool") return Elem::I1;
  if (name == "float8_e4m3fn") return Elem::F8E4M3;
  if (name == "float8_e5m2") return Elem::F8E5M2;
  for (Elem e : {
#define TEGULA_ELEM(Name, text, tl, bits, kind) Elem::Name,
#include "runtime/base/elem.def"
       })
    if (e != Elem::I1 && name == elem_info(e).tl) return e;
  return std::nullopt;
}

Val function_ref(std::string name) {
  return FunctionRef{FunctionRef::Kind::Builtin, std::move(name), nullptr, nullptr};
}
Val module_ref(std::string name) { return FunctionRef{FunctionRef::Kind::Module, std::move(name), nullptr, nullptr}; }

template <class T>
Val make_host(T object) {
  return dsl::HostRef(std::make_shared<const T>(std::move(object)));
}

std::string to_text(const Val& v) {
  if (const auto* i = v.get_if<dsl::Int>()) return fmt::format("{}", *i);
  if (const auto* s = v.get_if<std::string>()) return *s;
  return dsl::describe(v);
}

}  // namespace

const Val* DictObject::find(const Val& key) const {
  for (const auto& [k, v] : items)
    if (equal(k, key)) return &v;
  return nullptr;
}

void DictObject::set(Val key, Val value) {
  for (auto& [k, v] : items)
    if (equal(k, key)) {
      v = std::move(value);
      return;
    }
  items.emplace_back(std::move(key), std::move(value));
}

Val constexpr_to_val(const Constexpr& value) {
  return std::visit(
      [](const auto& v) -> Val {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return dsl::None{};
        else if constexpr (std::is_same_v<T, Elem>)
          return dsl::DType{ir::Type::scalar(v)};
        else
          return v;
      },
      value);
}

Val launch_value(const std::string& name, const LaunchArgs::Value& value) {
  if (const auto* pointer = std::get_if<PointerArg>(&value)) {
    if (pointer->address == 0) return dsl::None{};
    PointerObject object;
    object.name = name;
    object.pointer = *pointer;
    return make_host(std::move(object));
  }
  return std::visit(
      [](const auto& v) -> Val {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, PointerArg>)
          return {};
        else
          return constexpr_to_val(v);
      },
      value);
}

std::optional<Constexpr> val_to_constexpr(const Val& v) {
  if (v.is<dsl::None>()) return Constexpr();
  if (const auto* b = v.get_if<bool>()) return *b;
  if (const auto* i = v.get_if<dsl::Int>()) return int64_t(*i);
  if (const auto* d = v.get_if<double>()) return *d;
  if (const auto* s = v.get_if<std::string>()) return *s;
  if (const auto* t = v.get_if<dsl::DType>(); t && t->type.is_scalar() && !t->type.pointer) return t->type.elem;
  return std::nullopt;
}

// ---- Names

std::optional<Val> Checker::host_name(const std::string& name) {
  static constexpr std::string_view kFunctions[] = {"list", "tuple", "dict", "any",      "all",
                                                    "sum",  "str",   "zip",  "enumerate"};
  if (const auto* host = host_->host_function(name)) {
    for (const Diag& d : host->diags.list()) {
      Diag& copy = diags_.error(d.loc, d.message);
      copy.hint = d.hint;
      copy.notes = d.notes;
      copy.with_note(host->function.loc, fmt::format("in the function '{}', which a decorator uses", name));
    }
    if (host->diags.has_errors()) return Val();
    FunctionObject object;
    object.function = &host->function;
    return make_host(std::move(object));
  }
  if (std::find(std::begin(kFunctions), std::end(kFunctions), name) != std::end(kFunctions))
    return function_ref("python." + name);
  return std::nullopt;
}

std::optional<Val> Checker::host_member(std::string_view module, std::string_view name) const {
  std::string full = fmt::format("{}.{}", module, name);
  if (module == "torch")
    if (auto elem = torch_type(name)) return Val(dsl::DType{ir::Type::scalar(*elem)});
  for (std::string_view known : {"triton.Config", "triton.runtime.driver.active.get_current_target",
                                 "itertools.product", "os.getenv", "os.environ.get"})
    if (full == known) return function_ref(full);
  for (std::string_view known :
       {"triton.runtime", "triton.runtime.driver", "triton.runtime.driver.active", "torch.version", "os.environ"})
    if (full == known) return module_ref(full);
  if (full == "torch.version.hip" || full == "torch.version.xpu") return Val(dsl::None{});
  if (full == "triton target.backend") return Val(std::string("cuda"));
  return std::nullopt;
}

// ---- Expressions

std::optional<std::vector<Val>> Checker::iterate(const Val& v, Loc loc) {
  if (const auto* tuple = v.get_if<dsl::TupleVal>()) return *tuple->items;
  if (const auto* dict = get_host<DictObject>(v)) {
    std::vector<Val> keys;
    for (const auto& [key, value] : dict->items) keys.push_back(key);
    return keys;
  }
  if (!v.is_poison())
    error(loc, fmt::format("expected a list, a tuple, a range or a dict, found {}", dsl::describe(v)));
  return std::nullopt;
}

bool Checker::host_step(Loc loc) {
  if (++steps_ < kMaxHostSteps) return true;
  if (steps_ == kMaxHostSteps) error(loc, fmt::format("a decorator takes more than {} steps", kMaxHostSteps));
  return false;
}

Val Checker::host_expression(const Expr& e) {
  if (e.kind == Expr::Kind::Lambda) {
    FunctionObject object;
    object.lambda = &e;
    object.scope = frame_->scope;
    return make_host(std::move(object));
  }
  DictObject dict;
  if (e.kind == Expr::Kind::Dict) {
    for (size_t i = 0; i + 1 < e.children.size(); i += 2) {
      if (!e.children[i] || !e.children[i + 1]) return error(e.loc, "'**' in a dict is not evaluated here");
      Val key = eval(*e.children[i]), value = eval(*e.children[i + 1]);
      if (key.is_poison() || value.is_poison()) return Val();
      dict.set(std::move(key), std::move(value));
    }
    return make_host(std::move(dict));
  }
  std::vector<Val> items;
  Scope outside = frame_->scope;
  bool ok = comprehend(e, 0, [&] {
    Val item = eval(*e.children[0]);
    if (item.is_poison()) return false;
    if (e.text == "{") {
      const auto* pair = item.get_if<dsl::TupleVal>();
      if (!pair || pair->items->size() != 2) return !error(e.loc, "a set is not evaluated here").is_poison();
      dict.set((*pair->items)[0], (*pair->items)[1]);
    } else {
      items.push_back(std::move(item));
    }
    return true;
  });
  frame_->scope = std::move(outside);
  if (!ok) return Val();
  return e.text == "{" ? make_host(std::move(dict)) : dsl::make_tuple(std::move(items));
}

bool Checker::comprehend(const Expr& e, size_t clause, const std::function<bool()>& element) {
  if (clause == e.operators.size()) return host_step(e.loc) && element();
  size_t child = 1;
  for (size_t i = 0; i < clause; ++i) child += e.operators[i] == "for" ? 2 : 1;
  if (e.operators[clause] != "for") {
    Val condition = eval(*e.children[child]);
    if (condition.is_poison()) return false;
    return !dsl::truth(condition) || comprehend(e, clause + 1, element);
  }
  const Expr& source = *e.children[child + 1];
  auto items = iterate(eval(source), source.loc);
  if (!items) return false;
  for (const Val& item : *items) {
    size_t errors = diags_.size();
    assign(*e.children[child], item, false);
    if (diags_.size() != errors || !comprehend(e, clause + 1, element)) return false;
  }
  return true;
}

Val Checker::host_attribute(const dsl::HostRef& object, const Expr& e) {
  if (const auto* config = get_host<ConfigObject>(object)) {
    auto number = [](std::optional<int> n) { return n ? Val(dsl::Int(*n)) : Val(dsl::None{}); };
    if (e.text == "num_warps") return number(config->config.num_warps);
    if (e.text == "num_stages") return number(config->config.num_stages);
    if (e.text == "maxnreg") return number(config->config.maxnreg);
    if (e.text == "num_ctas") return dsl::Int(1);
    if (e.text == "pre_hook") return dsl::None{};
    if (e.text == "kwargs") {
      DictObject kwargs;
      for (const ConstexprArg& c : config->config.constexprs) kwargs.set(c.name, constexpr_to_val(c.value));
      return make_host(std::move(kwargs));
    }
  }
  if (const auto* tensor = get_host<PointerObject>(object)) {
    if (e.text == "dtype" && tensor->pointer.elem) return dsl::DType{ir::Type::scalar(*tensor->pointer.elem)};
    return error(e.loc, fmt::format("'{}' of {} is not known: a launch gets pointers", e.text, object->describe()),
                 "known are dtype, element_size() and data_ptr(); pass extents and strides as arguments");
  }
  return error(e.loc, fmt::format("{} has no attribute '{}'", object->describe(), e.text));
}

Val Checker::host_subscript(const dsl::HostRef& object, const Expr& e) {
  Val key = e.children.size() == 2 && e.children[1]->kind != Expr::Kind::Slice ? eval(*e.children[1]) : Val();
  if (e.children.size() != 2 || e.children[1]->kind == Expr::Kind::Slice)
    return error(e.loc, fmt::format("{} takes one key", object->describe()));
  if (key.is_poison()) return key;
  std::vector<std::string> names;
  if (const auto* dict = get_host<DictObject>(object)) {
    if (const Val* value = dict->find(key)) return *value;
    for (const auto& [k, v] : dict->items)
      if (k.is<std::string>()) names.push_back(k.as<std::string>());
  } else if (const auto* args = get_host<ArgsObject>(object)) {
    const auto* name = key.get_if<std::string>();
    if (name)
      if (const auto* value = args->args->find(*name)) return launch_value(*name, *value);
    for (const auto& [k, v] : args->args->items()) names.push_back(k);
  } else {
    return error(e.loc, fmt::format("{} cannot be indexed", object->describe()));
  }
  std::string text = to_text(key);
  return error(e.children[1]->loc,
               fmt::format("{} {} no '{}'", object->describe(), get_host<DictObject>(object) ? "has" : "have", text),
               nearest_hint(text, names, names.empty() ? "" : fmt::format("there is {}", fmt::join(names, ", "))));
}

std::optional<bool> Checker::host_contains(const Val& container, const Val& key) {
  if (const auto* dict = get_host<DictObject>(container)) return dict->find(key) != nullptr;
  if (const auto* args = get_host<ArgsObject>(container))
    return key.is<std::string>() && args->args->has(key.as<std::string>());
  return std::nullopt;
}

// ---- Calls

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
  auto number = [&](size_t i, std::optional<int> fallback) -> std::optional<int> {
    const Argument* a = (*matched)[i];
    if (!a || a->value.is<dsl::None>()) return fallback;
    const auto* n = a->value.get_if<dsl::Int>();
    if (n && *n > 0 && *n <= std::numeric_limits<int>::max()) return int(*n);
    error(a->loc, fmt::format("{} takes a positive int, found {}", kParams[i], dsl::describe(a->value)));
    return fallback;
  };
  object.config.num_warps = number(1, 4);
  object.config.num_stages = number(2, 3);
  object.config.maxnreg = number(4, {});
  if (number(3, 1) != 1)
    return error((*matched)[3]->loc, "num_ctas other than 1 is not supported: Tegula launches no clusters",
                 "leave num_ctas out");
  for (size_t i : {5, 6})
    if (const Argument* a = (*matched)[i]; a && !a->value.is<dsl::None>())
      return error(a->loc, fmt::format("{} of a triton.Config is not supported", kParams[i]),
                   i == 5 ? "buffers are zeroed before each run with @triton.autotune(..., reset_to_zero=[\"name\"])"
                          : "leave it out");
  return make_host(std::move(object));
}

Val Checker::call_host(const FunctionObject& function, std::vector<Argument> args, Loc loc) {
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
        if (a.name.empty()) return ++positional > f.params.size();
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
  for (const Argument& a : args)
    if (a.value.is_poison()) return Val();
  auto takes = [&](size_t low, size_t high) {
    if (args.size() >= low && args.size() <= high) return true;
    error(loc, fmt::format("'{}' takes {} argument{}, found {}", name, high, high == 1 ? "" : "s", args.size()));
    return false;
  };
  if (const auto* list = object.get_if<dsl::TupleVal>(); list && (name == "append" || name == "extend")) {
    if (!takes(1, 1)) return Val();
    const Expr& target = *callee.children[0];
    bool parameter = frame_->function && std::any_of(frame_->function->params.begin(), frame_->function->params.end(),
                                                     [&](const Param& p) { return p.name == target.text; });
    if (target.kind != Expr::Kind::Name || !frame_->scope.contains(target.text) || parameter)
      return error(loc, fmt::format("'{}' is followed on lists that a function made itself only", name),
                   "return the list");
    std::vector<Val> items = *list->items;
    if (name == "append") {
      items.push_back(args[0].value);
    } else {
      auto more = iterate(args[0].value, args[0].loc);
      if (!more) return Val();
      items.insert(items.end(), more->begin(), more->end());
    }
    if (items.size() > kMaxItems) return error(loc, fmt::format("a list of more than {} items", kMaxItems));
    bind(target.text, dsl::make_tuple(std::move(items)), false, target.loc);
    return Val(dsl::None{});
  }
  if (const auto* text = object.get_if<std::string>()) {
    if (name == "lower" || name == "upper") {
      if (!takes(0, 0)) return Val();
      std::string out = *text;
      for (char& c : out) c = char(name == "lower" ? std::tolower(c) : std::toupper(c));
      return Val(std::move(out));
    }
    if ((name == "startswith" || name == "endswith") && takes(1, 1) && args[0].value.is<std::string>()) {
      const auto& part = args[0].value.as<std::string>();
      return Val(name == "startswith" ? text->starts_with(part) : text->ends_with(part));
    }
    return std::nullopt;
  }
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
  if (const auto* launch = get_host<ArgsObject>(object); launch && name == "get") {
    if (!takes(1, 2)) return Val();
    const auto* key = args[0].value.get_if<std::string>();
    const auto* value = key ? launch->args->find(*key) : nullptr;
    return value ? launch_value(*key, *value) : args.size() > 1 ? args[1].value : Val(dsl::None{});
  }
  if (const auto* tensor = get_host<PointerObject>(object)) {
    if (name == "data_ptr") return Val(dsl::Int(tensor->pointer.address));
    if (name == "element_size" && tensor->pointer.elem)
      return Val(dsl::Int(std::max(1, elem_bits(*tensor->pointer.elem) / 8)));
  }
  if (const auto* config = get_host<ConfigObject>(object); config && name == "all_kwargs") {
    DictObject all;
    for (const ConstexprArg& c : config->config.constexprs) all.set(c.name, constexpr_to_val(c.value));
    all.set(std::string("num_warps"), dsl::Int(config->config.num_warps.value_or(4)));
    all.set(std::string("num_ctas"), dsl::Int(1));
    all.set(std::string("num_stages"), dsl::Int(config->config.num_stages.value_or(3)));
    if (config->config.maxnreg) all.set(std::string("maxnreg"), dsl::Int(*config->config.maxnreg));
    return make_host(std::move(all));
  }
  if (const auto* host = object.get_if<dsl::HostRef>()) {
    if (get_host<PointerObject>(object)) return host_attribute(*host, callee);
    return error(callee.loc, fmt::format("{} has no method '{}'", dsl::describe(object), name));
  }
  return std::nullopt;
}

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
    if (!range || range->lower.is_poison() || range->upper.is_poison() || range->step.is_poison()) return Val();
    dsl::Int upper = range->upper.as<dsl::Int>(), step = range->step.as<dsl::Int>();
    std::vector<Val> items;
    for (dsl::Int i = range->lower.as<dsl::Int>(); step > 0 ? i < upper : i > upper;) {
      items.push_back(i);
      if (items.size() > kMaxItems) return error(loc, fmt::format("a range of more than {} values", kMaxItems));
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    return dsl::make_tuple(std::move(items));
  }
  for (const Argument& a : args)
    if (a.value.is_poison()) return Val();
  if (name == "triton.runtime.driver.active.get_current_target") return module_ref("triton target");
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
    if (args.empty() && (name == "python.list" || name == "python.tuple")) return dsl::make_tuple({});
    return error(loc, fmt::format("{} takes 1 argument, found {}", name.substr(7), args.size()));
  }
  if (name == "python.str") return Val(to_text(args[0].value));
  if (name == "python.len" && args[0].value.is<std::string>())
    return Val(dsl::Int(args[0].value.as<std::string>().size()));
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
  return dsl::make_tuple(std::move(out));
}

// ---- Statements

Checker::Flow Checker::host_execute(std::span<const StmtPtr> body, Val& result) {
  using Kind = Stmt::Kind;
  auto fail = [&] {
    result = Val();
    return Flow::Return;
  };
  for (const StmtPtr& statement : body) {
    const Stmt& s = *statement;
    size_t errors = diags_.size();
    if (!host_step(s.loc)) return fail();
    sema_.at(s.loc);
    Flow flow = Flow::Next;
    switch (s.kind) {
      case Kind::Return:
        result = s.value ? eval(*s.value) : Val(dsl::None{});
        return Flow::Return;
      case Kind::Break:
        return Flow::Break;
      case Kind::Continue:
        return Flow::Continue;
      case Kind::If: {
        Val condition = eval(*s.value);
        if (condition.is_poison()) return fail();
        flow = host_execute(dsl::truth(condition) ? s.body : s.orelse, result);
        break;
      }
      case Kind::For: {
        auto items = iterate(eval(*s.value), s.value->loc);
        if (!items) return fail();
        for (const Val& item : *items) {
          assign(*s.targets[0], item, false);
          flow = host_execute(s.body, result);
          if (flow == Flow::Return) return flow;
          if (flow == Flow::Break) break;
        }
        flow = Flow::Next;
        break;
      }
      case Kind::While:
        for (Val condition = eval(*s.value); condition.is_poison() || dsl::truth(condition);
             condition = eval(*s.value)) {
          if (condition.is_poison() || !host_step(s.loc)) return fail();
          flow = host_execute(s.body, result);
          if (flow == Flow::Return) return flow;
          if (flow == Flow::Break) break;
        }
        flow = Flow::Next;
        break;
      case Kind::Assign:
        if (s.targets.size() == 1 && host_assign_item(*s.targets[0], *s.value)) break;
        assign_statement(s);
        break;
      case Kind::Raise:
        error(s.loc, "this 'raise' is reached");
        break;
      default:
        execute_simple(s);
    }
    if (diags_.size() != errors) return fail();
    if (flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

bool Checker::host_assign_item(const Expr& target, const Expr& value) {
  if (target.kind != Expr::Kind::Subscript || target.children.size() != 2) return false;
  const Expr& base = *target.children[0];
  if (base.kind != Expr::Kind::Name || !frame_->scope.contains(base.text)) return false;
  const Val old = lookup(base);
  const auto* dict = get_host<DictObject>(old);
  if (!dict) return false;
  Val key = eval(*target.children[1]), item = eval(value);
  if (key.is_poison() || item.is_poison()) return true;
  DictObject changed = *dict;
  changed.set(std::move(key), std::move(item));
  bind(base.text, make_host(std::move(changed)), false, target.loc);
  return true;
}

Val Checker::evaluate(const std::function<Val()>& body) {
  Frame frame;
  frame_ = &frame;
  Val value = body();
  frame_ = nullptr;
  return value;
}

}  // namespace tegula::language
