// Calls: arguments, methods, functions of the table, jit functions (inlined), and the functions that are compile-time
// only.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "dsl/language/checker_impl.h"
#include "dsl/language/decorators.h"
#include "dsl/language/host_values.h"
#include "dsl/language/python_math.h"
#include "dsl/language/source_file.h"
#include "dsl/semantics/other_names.h"

namespace tegula::language {

namespace {

using Kind = FunctionRef::Kind;

constexpr int kMaxRecursion = 32;

/// Functions that Triton has Python call, whose results are constexprs.
bool gives_constexpr(std::string_view name) {
  return name == "_log2" || name == "_is_power_of_two" || name == "next_power_of_2";
}

/// Whether a function has a `return` of something, be it None.
bool gives_value(std::span<const StmtPtr> body) {
  return std::any_of(body.begin(), body.end(), [](const StmtPtr& s) {
    return (s->kind == Stmt::Kind::Return && s->value) || gives_value(s->body) || gives_value(s->orelse);
  });
}

std::string plural(size_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

}  // namespace

bool Checker::eval_arguments(const Expr& e, std::vector<Argument>& args) {
  bool ok = true;
  for (size_t i = 1; i < e.children.size(); ++i) {
    const Expr& child = *e.children[i];
    if (child.kind != Expr::Kind::Starred) {
      args.push_back({{}, eval(child), child.loc, child.kind == Expr::Kind::Int});
      continue;
    }
    const Val rest = use(eval(*child.children[0]), child.loc);
    if (const auto* tuple = rest.get_if<dsl::TupleVal>()) {
      for (const Val& item : *tuple->items) args.push_back({{}, item, child.loc});
    } else {
      ok = false;
      if (!rest.is_poison()) error(child.loc, fmt::format("'*' takes a tuple, found {}", dsl::describe(rest)));
    }
  }
  for (const Keyword& k : e.keywords) {
    if (k.name.empty()) {
      Val value = eval(*k.value);
      if (const auto dict = dict_of(value)) {
        for (const auto& [key, item] : dict->items)
          if (key.is<std::string>()) args.push_back({key.as<std::string>(), item, k.loc});
        continue;
      }
      if (!value.is_poison()) error(k.loc, fmt::format("'**' takes a dict, found {}", dsl::describe(value)));
      ok = false;
      continue;
    }
    Val value = eval(*k.value);
    args.push_back({k.name, std::move(value), k.loc, k.value->kind == Expr::Kind::Int});
  }
  return ok;
}

Val Checker::eval_call(const Expr& e) {
  const Expr& callee = *e.children[0];
  std::optional<Val> object;  // of a method call
  Val target;
  if (callee.kind == Expr::Kind::Attribute) {
    Val base = eval_base(*callee.children[0]);
    const auto* tuple = base.get_if<dsl::TupleVal>();
    if (const auto* f = base.get_if<FunctionRef>(); f && f->kind == Kind::Module) {
      target = module_member(*f, callee, true);
    } else if (const Val* field = tuple ? tuple->field(callee.text) : nullptr) {
      target = *field;
    } else {
      object = base;
    }
  } else {
    target = eval(callee);
  }
  const bool used = statement_ != &e;
  if (const auto* f = target.get_if<FunctionRef>(); f && f->kind == Kind::Builtin)
    if (auto value = reflect(*f, e)) return *value;
  std::vector<Argument> args;
  bool ok = eval_arguments(e, args);
  if (object) return ok && !object->is_poison() ? call_method(*object, callee, std::move(args), e.loc) : Val();
  if (!ok || target.is_poison()) return Val();
  Val result = call_value(target, std::move(args), e);
  const auto* f = target.get_if<FunctionRef>();
  if (!used || !result.is<dsl::None>() || !f || f->kind != Kind::Jit) return result;
  const auto& function = *static_cast<const Function*>(f->function);
  if (gives_value(function.body)) return result;
  return error(e.loc, fmt::format("function '{}' returns nothing", function.name),
               "end it with 'return value', or call it in a statement of its own");
}

Val Checker::call_value(const Val& callee, std::vector<Argument> args, const Expr& e) {
  if (const auto* type = callee.get_if<dsl::DType>(); type && type->type.is_scalar() && !type->type.pointer) {
    if (args.size() != 1 || !args[0].name.empty())  // tl.float32(x): a cast
      return error(e.loc, fmt::format("a type takes 1 value to convert, found {}", args.size()));
    const Val& x = args[0].value;
    if (x.is_poison()) return x;
    sema_.at(e.loc);
    return dsl::convert(sema_, x, x.is_value() ? x.value()->type.with_elem(type->type.elem) : type->type);
  }
  if (const auto* function = get_host<FunctionObject>(callee)) return call_host(*function, std::move(args), e.loc);
  if (const auto* type = get_host<ClassObject>(callee))
    return type->type->is_aggregate ? make_object(callee, std::move(args), e.loc)
                                    : make_named_tuple(*type, args, e.loc);
  const auto* f = callee.get_if<FunctionRef>();
  if (!f) {
    // A launch passes a kernel function by its name in the file, which may import it.
    const auto* by_name = callee.get_if<std::string>();
    if (by_name && !host_)
      for (const SourceFile* file : {file_, &root_}) {
        const auto value = in_file(file, [&] { return module_name(*by_name, e); });
        const auto* function = value ? value->get_if<FunctionRef>() : nullptr;
        if (function && function->kind == Kind::Jit) return call_jit(*function, std::move(args), e.loc);
      }
    std::string name = dotted_name(*e.children[0]);
    std::vector<std::string> known;
    if (by_name && !host_)
      for (const Function& function : root_.module().functions) known.push_back(function.name);
    return error(
        e.loc,
        fmt::format("{} is no function, found {}", name.empty() ? "this" : "'" + name + "'", dsl::describe(callee)),
        by_name ? nearest_hint(*by_name, known) : "");
  }
  switch (f->kind) {
    case Kind::Jit:
      if (host_) return error(e.loc, fmt::format("the kernel function '{}' is called in host code", f->name));
      return call_jit(*f, std::move(args), e.loc);
    case Kind::Module:
      return error(e.loc, fmt::format("'{}' is a module, not a function", dotted_name(*e.children[0])));
    case Kind::Builtin:
      break;
  }
  if (const dsl::FunctionInfo* info = dsl::find_function(f->name)) return call_table(*info, std::move(args), e.loc);
  if (f->name.starts_with(kOfTriton))
    if (const dsl::FunctionInfo* info = dsl::find_function(f->name.substr(kOfTriton.size())))
      return dsl::as_literals(call_table(*info, std::move(args), e.loc));
  return call_builtin(f->name, args, e.loc);
}

Val Checker::call_table(const dsl::FunctionInfo& info, std::vector<Argument> args, Loc loc) {
  std::vector<Val> positional;
  std::vector<std::pair<std::string, Val>> keywords;
  sema_.at(loc);
  for (Argument& a : args) {
    if (a.name.empty()) {
      positional.push_back(std::move(a.value));
    } else {
      keywords.emplace_back(std::move(a.name), std::move(a.value));
    }
  }
  Val result = dsl::call_function(sema_, info, std::move(positional), std::move(keywords));
  return host_ || gives_constexpr(info.name) ? result : dsl::as_scalars(result);
}

Val Checker::call_method(const Val& object, const Expr& callee, std::vector<Argument> args, Loc loc) {
  if (auto result = call_own_method(object, callee.text, args, loc)) return *result;
  if (!object.is_value())
    if (auto result = host_method(object, callee, args, loc)) return *result;
  const dsl::FunctionInfo* info = dsl::find_method(object, callee.text);
  if (!info && object.is_value())
    if (auto result = call_operator(object, callee, args, loc)) return *result;
  if (!info) {
    const dsl::FunctionInfo* function = dsl::find_function(callee.text);
    std::string fallback = function ? fmt::format("call tl.{}(...)", function->name) : "";
    const auto other = function ? std::nullopt : dsl::hint_for_other_name(callee.text);
    return error(callee.loc, fmt::format("{} has no method '{}'", dsl::describe(object), callee.text),
                 other ? *other : nearest_hint(callee.text, dsl::method_names(object), fallback));
  }
  const ir::Type type = object.is_value() ? object.value()->type : ir::Type();
  const bool widens = info->method_widens && !type.pointer && (type.elem == Elem::F16 || type.elem == Elem::BF16);
  sema_.at(loc);
  Argument self{{}, widens ? dsl::convert(sema_, object, type.with_elem(Elem::F32)) : object, callee.loc};
  args.insert(args.begin(), std::move(self));
  const Val result = call_table(*info, std::move(args), loc);
  return widens ? dsl::convert(sema_, result, type) : result;
}

// ---- jit functions

// In host code one value for all calls, which therefore does not change; a kernel has no state.
Val Checker::default_value(const Param& param) {
  if (host_)
    if (auto it = defaults_.find(&param); it != defaults_.end()) return it->second;
  if (!host_ && changes_behind(*param.default_value, param.loc))
    return error(param.loc,
                 fmt::format("the default of '{}' depends on names that have other values behind it", param.name));
  Frame frame, *caller = frame_;
  frame.parent = caller;
  frame_ = &frame;
  Val value = eval(*param.default_value);
  frame_ = caller;
  if (value.is_value())
    return error(param.loc, fmt::format("the default of '{}' is no compile-time value", param.name));
  if (host_ && !value.is_poison()) {
    keep(value, fmt::format("the default of '{}'", param.name));
    defaults_[&param] = value;
  }
  return value;
}

bool Checker::bind_arguments(const Function& function, std::vector<Argument>& args, Loc loc, Scope& scope) {
  bool ok = true;
  size_t positional = 0;
  std::vector<std::string> names;
  std::vector<Val> rest;
  for (const Param& p : function.params) names.push_back(p.name);
  const size_t most = function.keyword_only.value_or(names.size());
  for (Argument& a : args) {
    std::string name = a.name;
    if (name.empty()) {
      if (positional++ >= most) {
        rest.push_back(std::move(a.value));
        continue;
      }
      name = names[positional - 1];
    } else if (std::find(names.begin(), names.end(), name) == names.end()) {
      error(a.loc, fmt::format("function '{}' has no argument '{}'", function.name, name),
            nearest_hint(name, names, fmt::format("its arguments are {}", fmt::join(names, ", "))));
      ok = false;
      continue;
    }
    if (!scope.emplace(name, Binding{std::move(a.value), {}, a.loc}).second) {
      error(a.loc, fmt::format("argument '{}' of '{}' is given twice", name, function.name));
      ok = false;
    }
  }
  if (function.rest) {
    scope[function.rest->name] = Binding{dsl::make_tuple(std::move(rest)), {}, loc};
  } else if (positional > most) {
    error(loc, fmt::format("function '{}' takes {}{}, found {}", function.name, plural(most, "argument"),
                           most < names.size() ? " by position" : "", positional));
    ok = false;
  }
  for (const Param& p : function.params) {
    if (scope.contains(p.name)) continue;
    if (p.default_value) {
      scope[p.name] = Binding{default_value(p), {}, p.loc};
    } else {
      error(loc, fmt::format("argument '{}' of '{}' is missing", p.name, function.name));
      ok = false;
    }
  }
  return ok;
}

Val Checker::call_jit(const FunctionRef& f, std::vector<Argument> args, Loc loc) {
  const auto& function = *static_cast<const Function*>(f.function);
  return in_file(static_cast<const SourceFile*>(f.module),
                 [&] { return check_text(function, loc) ? inline_jit(function, std::move(args), loc) : Val(); });
}

// A call with the types and constants of one that it is part of would be inlined without end.
bool Checker::check_recursion(const Frame& call, Loc loc) {
  auto same = [](const Val& a, const Val& b) { return dsl::describe(a) == dsl::describe(b); };
  int depth = 0;
  for (const Frame* f = call.parent; f; f = f->parent) {
    if (f->function != call.function) continue;
    if (std::equal(f->arguments.begin(), f->arguments.end(), call.arguments.begin(), call.arguments.end(), same)) {
      if (!unknown_)
        error(loc, fmt::format("function '{}' calls itself with arguments of the same types", call.function->name),
              "functions are inlined into the kernel: write a loop");
      return false;
    }
    if (++depth < kMaxRecursion) continue;
    error(loc, fmt::format("function '{}' calls itself more than {} deep", call.function->name, kMaxRecursion),
          "a condition that is known at compile time must end it");
    skip_the_rest();
    return false;
  }
  return true;
}

namespace {

/// A tile that a value is or has among its parts; null if there is none.
const Val* tile_in(const Val& v) {
  if (v.is_value()) return v.value()->type.is_tile() ? &v : nullptr;
  if (const std::vector<Val>* parts = dsl::parts_of(v))
    for (const Val& part : *parts)
      if (const Val* tile = tile_in(part)) return tile;
  return nullptr;
}

}  // namespace

// As in Triton, where such a function is called at run time, with what one thread has.
Val Checker::noinline_error(const Function& function, const std::string& does, Loc loc) {
  return error(loc, fmt::format("'{}', which is marked noinline, {}", function.name, does),
               "leave out noinline=True; with it only scalars go in and out");
}

bool Checker::passes_scalars(const Function& function, const Scope& arguments, Loc loc) {
  for (const auto& [name, binding] : arguments)
    if (const Val* tile = tile_in(binding.value)) {
      noinline_error(function, fmt::format("takes a {} as '{}'", dsl::describe(*tile), name), loc);
      return false;
    }
  return true;
}

Val Checker::inline_jit(const Function& function, std::vector<Argument> args, Loc loc, Val* first) {
  Frame frame, *caller = frame_;
  frame.function = &function;
  frame.parent = caller;
  if (const auto captured = captured_.find(&function); captured != captured_.end()) frame.captured = &captured->second;
  for (const Argument& a : args) frame.arguments.push_back(a.value);
  if (!check_recursion(frame, loc)) return Val();
  if (!bind_arguments(function, args, loc, frame.scope)) return Val();
  for (const auto& [name, binding] : frame.scope)
    if (binding.value.is_poison()) return Val();
  const bool is_called = is_noinline(*file_, function);
  if (is_called && !passes_scalars(function, frame.scope, loc)) return Val();
  frame_ = &frame;
  watch_parameters();
  std::string note = fmt::format("in the call from {}:{}", loc.file ? *loc.file : "?", loc.line);
  Outcome outcome;
  with_note(loc, note, [&] {
    outcome = execute(Continuation{function.body});
    return Val();
  });
  frame_ = caller;
  sema_.at(loc);
  if (first) *first = frame.scope[function.params.front().name].value;
  if (outcome.kind == Outcome::Kind::Next && frame.ruled_out) return unset(*frame.ruled_out);
  const Val result = outcome.result();
  if (const Val* tile = is_called ? tile_in(result) : nullptr)
    return noinline_error(function, fmt::format("returns a {}", dsl::describe(*tile)), loc);
  return dsl::as_scalars(result);
}

// ---- Functions that work at compile time

Val Checker::static_assert_(const std::vector<Argument>& args, Loc loc) {
  if (args.empty() || args.size() > 2)
    return error(
        loc, fmt::format("static_assert takes a condition and a message, found {}", plural(args.size(), "argument")));
  const Val& condition = args[0].value;
  if (condition.is_poison()) return Val();
  if (condition.is_value())
    return error(args[0].loc,
                 fmt::format("static_assert needs a compile-time condition, found {}", dsl::describe(condition)),
                 "only constants and tl.constexpr arguments are known at compile time");
  if (dsl::truth(condition) || unknown_) return dsl::None{};
  std::string message = "static_assert failed";
  if (args.size() > 1 && args[1].value.is<std::string>()) message += ": " + args[1].value.as<std::string>();
  return error(loc, message);
}

Val Checker::call_min_max(const std::string& name, const std::vector<Argument>& args, Loc loc) {
  std::vector<Val> values;
  const Val only = args.size() == 1 ? use(args[0].value, loc) : Val();
  if (args.size() == 1 && only.is_poison()) return Val();
  const auto* set = get_host<SetObject>(only);
  const Val of_set = set ? dsl::make_tuple(set->values()) : Val();
  const auto* tuple = (set ? of_set : only).get_if<dsl::TupleVal>();
  if (tuple) values = *tuple->items;
  if (!tuple)
    for (const Argument& a : args) values.push_back(a.value);
  if (values.size() < 2 && !tuple)
    return error(loc, fmt::format("{} takes two or more values, found {}", name, values.size()),
                 fmt::format("the {} over a tile is tl.{}(x, axis)", name == "max" ? "maximum" : "minimum", name));
  if (values.empty()) return error(loc, fmt::format("{} of an empty tuple", name));
  Val best = values[0];
  const dsl::FunctionInfo* info = dsl::find_function(name == "max" ? "maximum" : "minimum");
  for (size_t i = 1; i < values.size(); ++i) {
    if (best.is_poison() || values[i].is_poison()) return Val();
    sema_.at(loc);
    if (best.is_constant() && values[i].is_constant() && !best.typed && !values[i].typed) {
      Val better = dsl::compare(sema_, name == "max" ? ">" : "<", values[i], best);
      if (better.is_poison()) return better;
      if (dsl::truth(better)) best = values[i];
    } else if (info) {
      best = call_table(*info, {{{}, best, loc}, {{}, values[i], loc}}, loc);
    }
  }
  return best;
}

Val Checker::call_number(const std::string& name, const Val& x, Loc loc) {
  sema_.at(loc);
  if (x.is_value()) {
    Elem to = name == "bool" ? Elem::I1 : name == "float" ? Elem::F32 : Elem::I32;
    return dsl::convert(sema_, x, x.value()->type.with_elem(to));
  }
  if (name == "bool") return dsl::truth(x);
  if (const auto* text = x.get_if<std::string>()) {
    char* end = nullptr;
    std::string digits = *text;
    Val number = std::strtod(digits.c_str(), &end);
    bool read = !digits.empty() && !*end;
    if (name == "int") {
      const bool minus = digits.starts_with('-');
      auto integer = dsl::Int::parse(std::string_view(digits).substr(minus || digits.starts_with('+')), 10);
      read = integer.has_value();
      if (read) number = minus ? -*integer : *integer;
    }
    if (!read) return error(loc, fmt::format("{}() cannot read the string '{}'", name, digits));
    return number;
  }
  if (!dsl::is_number(x)) return error(loc, fmt::format("{}() takes a number, found {}", name, dsl::describe(x)));
  if (name == "float") return dsl::as_double(x);
  if (x.is<bool>()) return dsl::Int(x.as<bool>());
  if (x.is<dsl::Int>()) return x;
  double d = x.as<double>();
  if (!std::isfinite(d)) return error(loc, fmt::format("int() of {} is no integer", d));
  return dsl::Int::truncate(d);
}

Val Checker::call_math(const std::string& name, const std::vector<Argument>& args, Loc loc) {
  for (const Argument& a : args) {
    if (a.value.is_value())
      return error(a.loc, fmt::format("math.{} works at compile time, found {}", name, dsl::describe(a.value)),
                   fmt::format("call tl.{}", name));
    if (!dsl::is_number(a.value))
      return error(a.loc, fmt::format("math.{} takes a number, found {}", name, dsl::describe(a.value)));
  }
  std::vector<MathNumber> numbers;
  for (const Argument& a : args) {
    const Val& x = a.value;
    if (x.is<bool>() || x.is<dsl::Int>())
      numbers.emplace_back(x.is<bool>() ? dsl::Int(x.as<bool>()) : x.as<dsl::Int>());
    else
      numbers.emplace_back(dsl::as_double(x));
  }
  return std::visit(
      [&](const auto& result) -> Val {
        if constexpr (std::is_same_v<std::decay_t<decltype(result)>, std::string>)
          return error(loc, result);
        else
          return result;
      },
      call_math_function(name, numbers));
}

namespace {

/// Functions of Python on compile-time values and lists.
bool is_host_builtin(const std::string& name, const std::vector<Argument>& args) {
  static constexpr std::string_view kNames[] = {"python.all",  "python.any", "python.dict",  "python.enumerate",
                                                "python.list", "python.str", "python.tuple", "python.zip"};
  if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;
  if (name.starts_with("torch.")) return true;
  if (name == "python.sum") return args.size() == 1 && args[0].value.is<dsl::TupleVal>();
  const bool range = name == "python.range" || name == "tl.range" || name == "tl.static_range";
  return range && std::all_of(args.begin(), args.end(),
                              [](const Argument& a) { return a.name.empty() && a.value.is<dsl::Int>(); });
}

}  // namespace

// Classes and functions of tl that take one value.
Val Checker::call_language(const std::string& name, const Val& x, Loc loc) {
  sema_.at(loc);
  if (name == "constexpr" || name == "_unwrap_if_constexpr") return x;
  if (name == "tuple" && x.is<dsl::TupleVal>()) return dsl::make_tuple(*x.as<dsl::TupleVal>().items);
  if (name == "to_tensor") return dsl::as_scalars(x);
  if (name == "dtype") {
    if (x.is<dsl::DType>()) return x;
    auto elem = x.is<std::string>() ? elem_from_text(x.as<std::string>()) : std::nullopt;
    return elem ? Val(dsl::DType{ir::Type::scalar(*elem)})
                : error(loc, fmt::format("tl.dtype takes the name of an element type such as 'fp32', found {}",
                                         dsl::describe(x)));
  }
  if (name == "_log2") {
    const auto* n = x.get_if<dsl::Int>();
    return n && *n > 0
               ? Val(dsl::Int(n->bits() - 1))
               : error(loc, fmt::format("_log2 takes a positive compile-time integer, found {}", dsl::describe(x)));
  }
  return error(loc, fmt::format("tl.{} makes no value from {}", name, dsl::describe(x)));
}

// tl.slice(stop), tl.slice(start, stop, step), as Python's slice().
Val Checker::call_slice(const std::vector<Argument>& args, Loc loc) {
  if (args.empty() || args.size() > 3)
    return error(loc, fmt::format("tl.slice takes 1 to 3 arguments, found {}", args.size()));
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].value.is<dsl::None>()) continue;
    if (!args[i].value.is<dsl::Int>())
      return error(args[i].loc,
                   fmt::format("a slice takes integers known at compile time, found {}", dsl::describe(args[i].value)));
    bounds[i] = args[i].value.as<dsl::Int>().clamped();
  }
  if (args.size() == 1) return dsl::Slice{{}, bounds[0], {}};
  return dsl::Slice{bounds[0], bounds[1], bounds[2]};
}

Val Checker::call_builtin(const std::string& function, std::vector<Argument>& args, Loc loc) {
  if (host_ || is_host_builtin(function, args))
    if (auto result = host_builtin(function.ends_with("range") ? "python.range" : function, args, loc)) return *result;
  bool python = function.starts_with("python.");
  std::string name = python ? function.substr(7) : function;
  if (name.starts_with("tl.")) {
    std::string base = name.substr(3);
    if (base == "static_assert") return static_assert_(args, loc);
    if (base == "condition" && !args.empty()) return args[0].value;  // disable_licm is a hint
    if (base.starts_with("target_info.")) return target_query(base.substr(12), args, loc);
    if (base == "extra.cuda.num_warps" && args.empty()) return dsl::Int(func_->num_warps());
    if (base == "extra.cuda.num_threads" && args.empty()) return dsl::Int(32 * func_->num_warps());
    if (const dsl::FunctionInfo* info = dsl::find_function(base)) return call_table(*info, std::move(args), loc);
  }
  if (name == "print") return call_table(*dsl::find_function("device_print"), std::move(args), loc);
  for (const Argument& a : args)
    if (a.value.is_poison()) return Val();
  if (name == "range" || name == "tl.range" || name == "tl.static_range")
    return error(loc, fmt::format("{}() is only for 'for' loops", name),
                 "a list is made at compile time, of a range whose bounds are known then");
  for (const Argument& a : args)
    if (!a.name.empty()) return error(a.loc, fmt::format("{} takes no keyword argument '{}'", name, a.name));
  if (name == "min" || name == "max") return call_min_max(name, args, loc);
  if (name.starts_with("math.")) return call_math(name.substr(5), args, loc);
  if (name == "tl.slice") return call_slice(args, loc);
  if (args.size() != 1) return error(loc, fmt::format("{} takes 1 argument, found {}", name, args.size()));
  const Val& x = args[0].value;
  if (name.starts_with("tl.")) return call_language(name.substr(3), x, loc);
  if (name == "len") {
    if (const auto* tuple = x.get_if<dsl::TupleVal>()) return dsl::Int(tuple->items->size());
    if (const auto* text = x.get_if<std::string>())  // of UTF-8 the bytes that begin a character
      return dsl::Int(std::count_if(text->begin(), text->end(), [](char c) { return (c & 0xC0) != 0x80; }));
    return error(args[0].loc, fmt::format("len takes a tuple or a string, found {}", dsl::describe(x)),
                 x.is_value() && x.value()->type.pointer ? "the extents of an array are arguments of the kernel"
                                                         : "the extent of a tile is x.shape[axis]");
  }
  if (name == "abs") {
    if (x.is_value()) return call_table(*dsl::find_function("abs"), std::move(args), loc);
    if (!dsl::is_number(x)) return error(args[0].loc, fmt::format("abs takes a number, found {}", dsl::describe(x)));
    if (x.is<double>()) return std::abs(x.as<double>());
    dsl::Int n = x.is<bool>() ? dsl::Int(x.as<bool>()) : x.as<dsl::Int>();
    return n < 0 ? -n : n;
  }
  return call_number(name, x, loc);
}

}  // namespace tegula::language
