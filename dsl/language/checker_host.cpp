// Host code: the Python of decorators, as far as it is a matter of constants and arguments. Operators, names and calls
// are those of kernels; here is what kernels do not have: dictionaries, lambdas, comprehensions and functions that run
// statement by statement (calls: checker_host_calls.cpp; what changes lists and dicts:
// checker_changes.cpp).
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "dsl/hooks.h"
#include "dsl/language/checker_impl.h"
#include "dsl/language/grammar_support.h"
#include "dsl/language/host_values.h"
#include "dsl/language/source_file.h"
#include "dsl/launch_options.h"
#include "dsl/specialize.h"

namespace tegula::language {

namespace {

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
  if (name == "float8_e4m3fnuz") return Elem::F8E4B8;
  if (name == "float8_e5m2fnuz") return Elem::F8E5B16;
  for (Elem e : {
#define TEGULA_ELEM(Name, text, tl, bits, kind) Elem::Name,
#include "runtime/base/elem.def"
       })
    if (e != Elem::I1 && name == elem_info(e).tl) return e;
  return std::nullopt;
}

}  // namespace

// ---- Names

std::optional<Val> Checker::host_function(const std::string& name) {
  const auto* host = file_->host_function(name);
  if (!host) return std::nullopt;
  if (const std::optional<Loc> other = other_definition(name, host->function.loc))
    return error(
        *other, fmt::format("the function '{}' is defined more than once, and which one counts is not followed", name));
  for (const Diag& d : host->diags.list())
    diags_.add(d).with_note(host->function.loc, fmt::format("in the function '{}', which a decorator uses", name));
  if (host->diags.has_errors()) return Val();
  FunctionObject object;
  object.function = &host->function;
  object.file = file_;
  return make_host(std::move(object));
}

// Of the functions and classes of the module the last one of a name counts: an error where an earlier one does, or may.
std::optional<Loc> Checker::other_definition(std::string_view name, Loc chosen) {
  const std::vector<size_t> all = file_->plan().functions_of(name);
  if (all.size() < 2) return std::nullopt;
  std::optional<Loc> now;  // of what the module runs
  for (const auto& [key, run] : runs_)
    if (run.file == file_ && !run.is_finished) now = run.at;
  if (until_ && file_ == &root_ && !now) now = until_;
  for (const size_t index : all) {
    const ModuleStatement& s = module().statements[index];
    const bool is_chosen = s.loc.line == chosen.line;
    const bool counts = !(now && now->line < s.loc.line) && holds(s.conditions, !is_chosen);
    if (is_chosen ? !counts : s.loc.line > chosen.line && holds(s.conditions, true)) return s.loc;
  }
  return std::nullopt;
}

std::optional<Val> Checker::host_name(const std::string& name) {
  static constexpr std::string_view kFunctions[] = {"list",     "tuple",  "dict",  "set",  "any",       "all",
                                                    "sum",      "str",    "zip",   "map",  "enumerate", "filter",
                                                    "reversed", "sorted", "round", "print"};
  if (std::find(std::begin(kFunctions), std::end(kFunctions), name) != std::end(kFunctions))
    return function_ref("python." + name);
  return std::nullopt;
}

Val Checker::as_host(const std::function<Val()>& body) {
  if (host_) return body();
  host_ = true;
  const int64_t steps = std::exchange(steps_, 0);
  const ir::Builder builder = sema_.builder;
  sema_.builder.set_end(&scratch_);
  Val value = body();
  sema_.builder = builder;
  steps_ = steps;
  host_ = false;
  return value;
}

Val Checker::environment(const std::string& name, const Val& otherwise, Loc loc) {
  if (file_->sets_variable(name))
    return error(loc, fmt::format("the file gives the variable '{}' a value, which is not followed", name));
  const char* value = std::getenv(name.c_str());
  return value ? Val(std::string(value)) : otherwise;
}

std::optional<Val> Checker::host_member(std::string_view module, std::string_view name) const {
  if (module == "tl" || module == "math") return std::nullopt;  // asked for most, and no host's
  std::string full = fmt::format("{}.{}", module, name);
  if (module == "torch" || module == "numpy")
    if (auto elem = torch_type(name)) return Val(dsl::DType{ir::Type::scalar(*elem)});
  for (std::string_view known : {"triton.Config",
                                 "triton.constexpr_function",
                                 "triton.runtime.driver.active.get_current_target",
                                 "itertools.product",
                                 "os.getenv",
                                 "os.environ.get",
                                 "collections.namedtuple",
                                 "torch.finfo",
                                 "torch.iinfo",
                                 "torch.cuda.is_available",
                                 "torch.cuda.get_device_capability",
                                 "importlib.util.find_spec",
                                 "importlib.util.module_from_spec",
                                 "inspect.signature",
                                 "triton.autotune",
                                 "packaging.version.parse",
                                 "packaging.version.Version",
                                 "triton.tools.tensor_descriptor.TensorDescriptor",
                                 "torch.Tensor",
                                 "numpy.array",
                                 "numpy.asarray"})
    if (full == known) return function_ref(full);
  for (std::string_view known : {"triton.runtime", "triton.runtime.driver", "triton.runtime.driver.active",
                                 "triton.tools", "triton.tools.tensor_descriptor", "torch.version", "torch.cuda",
                                 "os.environ", "importlib.util", "packaging.version"})
    if (full == known) return module_ref(full);
  if (full == "torch.version.hip" || full == "torch.version.xpu") return Val(dsl::None{});
  if (full == "triton.__version__") return Val(std::string("3.6.0"));  // whose language this is
  if (full == "triton target.backend") return Val(std::string("cuda"));
  if (full == "triton autotune.parameters") {
    std::vector<Val> names;
    for (const char* name : {"configs", "key", "prune_configs_by", "reset_to_zero", "restore_value", "pre_hook",
                             "post_hook", "warmup", "rep", "use_cuda_graph", "do_bench", "cache_results"})
      names.push_back(std::string(name));
    return dsl::make_tuple(std::move(names));
  }
  return std::nullopt;
}

// ---- Expressions

bool Checker::host_step(Loc loc) {
  if (++steps_ < kMaxHostSteps) return true;
  if (steps_ != kMaxHostSteps) return false;
  const Frame* of_module = frame_;
  while (of_module && !of_module->run) of_module = of_module->parent;
  const char* what = of_module ? "the statements of the module take" : func_ ? "this takes" : "a decorator takes";
  error(loc, fmt::format("{} more than {} steps", what, kMaxHostSteps));
  return false;
}

bool Checker::count_made(int64_t items, Loc loc) {
  const bool before = made_items_ < kMaxMade;
  made_items_ += items;
  if (made_items_ < kMaxMade) return true;
  if (before) error(loc, fmt::format("lists, tuples, dicts and strings of more than {} items are made here", kMaxMade));
  return false;
}

Val Checker::within_memory(Val made, Loc loc) {
  constexpr size_t kPiece = 32;  // characters that count as an item
  size_t items = 0;
  if (const auto* tuple = made.get_if<dsl::TupleVal>()) items = tuple->items->size();
  if (const auto* text = made.get_if<std::string>()) items = text->size() / kPiece;
  if (const auto* dict = get_host<DictObject>(made)) items = 2 * dict->items.size();
  return items == 0 || count_made(int64_t(items), loc) ? std::move(made) : Val();
}

namespace {

// Of a comprehension: its operators are `for`, with a target and a source among the children, and `if`, with a
// condition.
NameSet assigned_by_clauses(const Expr& comprehension) {
  NameSet names;
  size_t child = 1;
  for (const auto& op : comprehension.operators) {
    if (op == "for") names_in(*comprehension.children[child++], names);
    ++child;
  }
  return names;
}

NameSet parameters_of(const dsl::HostObject& lambda) {
  const std::vector<std::string>& names = static_cast<const FunctionObject&>(lambda).lambda->names;
  return {names.begin(), names.end()};
}

}  // namespace

Val Checker::host_expression(const Expr& e) {
  if (e.kind == Expr::Kind::Lambda) {
    FunctionObject object;
    object.lambda = &e;
    object.file = file_;
    NameSet names, captured;
    names_in(e, names);
    for (const auto& [name, binding] : frame_->scope) {
      if (!names.contains(name) || (frame_->run && !frame_->of_clauses.contains(name))) continue;
      object.scope[name] = binding;
      captured.insert(name);
    }
    Val lambda = make_host(std::move(object));
    const dsl::HostRef& made = lambda.as<dsl::HostRef>();
    // What is no parameter of a lambda around it is a name of the frame that has that one.
    const dsl::HostObject* around = frame_->lambda;
    for (Frame* f = frame_->parent; f && around; f = f->parent) {
      const auto reader = std::find_if(f->readers.begin(), f->readers.end(),
                                       [&](const NameReader& r) { return r.lambda.lock().get() == around; });
      if (reader == f->readers.end()) continue;
      NameSet outer;
      for (const std::string& name : captured)
        if (reader->names.contains(name) && !parameters_of(*around).contains(name)) outer.insert(name);
      f->readers.push_back({.names = std::move(outer), .lambda = made});
      around = f->lambda;
    }
    frame_->readers.push_back({.names = std::move(captured), .lambda = made});
    return lambda;
  }
  DictObject dict;
  if (e.kind == Expr::Kind::Dict) {
    for (size_t i = 0; i + 1 < e.children.size(); i += 2) {
      if (e.children[i]->kind == Expr::Kind::Starred) {
        Val other = eval(*e.children[i]->children[0]);
        const auto items = dict_of(other);
        if (!items && !other.is_poison())
          error(e.children[i]->loc, fmt::format("'**' takes a dict, found {}", dsl::describe(other)));
        if (!items) return Val();
        for (const auto& [key, value] : items->items) dict.set(key, value);
        continue;
      }
      Val key = eval(*e.children[i]), value = eval(*e.children[i + 1]);
      if (key.is_poison() || value.is_poison()) return Val();
      dict.set(std::move(key), std::move(value));
    }
    return make_host(std::move(dict));
  }
  std::vector<Val> items;
  const Val source = eval(*e.children[2]);
  Scope outside = frame_->scope;
  const NameSet clauses = assigned_by_clauses(e), outer_clauses = frame_->of_clauses;
  frame_->of_clauses.insert(clauses.begin(), clauses.end());
  const bool is_late = e.text == "(" && host_;
  const Late late = std::exchange(late_, is_late ? Late{frame_, iterators_made_, {identity_of(source)}} : late_);
  std::vector<NameReader> readers = std::exchange(frame_->readers, {});
  bool ok = comprehend(e, 0, source, [&] {
    Val item = eval(*e.children[0]);
    if (item.is_poison()) return false;
    if (e.text == "{") {
      const auto* pair = item.get_if<dsl::TupleVal>();
      dict.set((*pair->items)[0], (*pair->items)[1]);
    } else {
      items.push_back(std::move(item));
    }
    return true;
  });
  late_ = late;
  frame_->of_clauses = outer_clauses;
  NameSet walrus;  // the names that `:=` assigns are those of the function
  assigned_by(e, walrus);
  for (const std::string& name : walrus)
    if (auto assigned = frame_->scope.find(name); assigned != frame_->scope.end() && !clauses.contains(name))
      outside[name] = assigned->second;
  frame_->scope = std::move(outside);
  // The names of the clauses are the comprehension's own, which no other lambda reads.
  for (NameReader& reader : frame_->readers) {
    for (const std::string& name : clauses) reader.names.erase(name);
    readers.push_back(std::move(reader));
  }
  frame_->readers = std::move(readers);
  if (!ok) return Val();
  if (e.text == "{") return make_host(std::move(dict));
  if (!is_late) return dsl::make_list(std::move(items));
  NameSet names;  // the source of the first clause is asked for at once
  for (size_t child = 0; child < e.children.size(); ++child)
    if (child != 2) names_in(*e.children[child], names);
  for (const std::string& name : clauses) names.erase(name);
  return make_late_iterator(dsl::make_tuple(std::move(items)), {source}, std::move(names));
}

// A lambda reads what its names are when it is called. In a kernel that depends on branches and loops, and one that
// held itself would be kept for ever.
void Checker::bind_in_lambdas(const std::string& name, const Binding& binding) {
  std::erase_if(frame_->readers, [](const NameReader& r) { return r.lambda.expired() && r.iterator.expired(); });
  for (const NameReader& reader : frame_->readers) {
    if (!reader.names.contains(name)) continue;
    if (const auto items = reader.iterator.lock()) {
      if (const auto found = iterators_.find(items.get()); found != iterators_.end())
        found->second.changed = found->second.changed_ahead = true;
      continue;
    }
    if (host_ && !count_made(1, binding.loc)) return;
    const Val object = reader.lambda.lock();
    const auto captured = const_cast<FunctionObject*>(get_host<FunctionObject>(object))->scope.find(name);
    if (host_ && held_in(binding.value, identity_of(object)).times == 0)
      captured->second = binding;
    else if (!dsl::same(captured->second.value, binding.value))
      captured->second.unusable = fmt::format("'{}' changes behind the lambda that reads it", name);
  }
}

bool Checker::comprehend(const Expr& e, size_t clause, const Val& source, const std::function<bool()>& element) {
  if (clause == e.operators.size()) return host_step(e.loc) && element();
  size_t child = 1;
  for (size_t i = 0; i < clause; ++i) child += e.operators[i] == "for" ? 2 : 1;
  if (e.operators[clause] != "for") {
    Val condition = eval(*e.children[child]);
    if (condition.is_poison()) return false;
    return !host_truth(condition) || comprehend(e, clause + 1, source, element);
  }
  const Expr& from = *e.children[child + 1];
  return for_each(clause == 0 ? source : eval(from), from.loc, [&](const Val& item) {
    const size_t errors = diags_.size();
    assign(*e.children[child], item);
    return diags_.size() == errors && comprehend(e, clause + 1, source, element);
  });
}

Val Checker::host_attribute(const dsl::HostRef& object, const Expr& e) {
  if (const auto* config = get_host<ConfigObject>(object)) {
    if (const dsl::LaunchOption* option = dsl::find_launch_option(e.text)) {
      const std::optional<int> value = config->options.*option->config;
      return value ? Val(dsl::Int(*value)) : Val(dsl::None{});
    }
    if (e.text == "pre_hook") return dsl::None{};
    if (e.text == "kwargs") return config->kwargs;
  }
  if (const auto* tensor = get_host<PointerObject>(object)) {
    if (e.text == "dtype" && tensor->pointer.elem) return dsl::DType{ir::Type::scalar(*tensor->pointer.elem)};
    return error(e.loc, fmt::format("'{}' of {} is not known: a launch gets pointers", e.text, object->describe()),
                 "known are dtype, element_size() and data_ptr(); pass extents and strides as arguments");
  }
  if (const auto* type = get_host<ClassObject>(object)) return class_attribute(*type, e);
  if (get_host<SpecObject>(object) && e.text == "loader") return object;
  if (const auto* limits = get_host<LimitsObject>(object))
    if (auto value = limits->attribute(e.text)) return *value;
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
      if (const auto* value = args->args->find(*name)) return launch_value(*name, *value, args->launch);
    for (const auto& [k, v] : args->args->items()) names.push_back(k);
  } else {
    return error(e.loc, fmt::format("{} cannot be indexed", object->describe()));
  }
  std::string text = dsl::text_of(key);
  return error(e.children[1]->loc,
               fmt::format("{} {} no '{}'", object->describe(), get_host<DictObject>(object) ? "has" : "have", text),
               nearest_hint(text, names, names.empty() ? "" : fmt::format("there is {}", fmt::join(names, ", "))));
}

// Python's ==, in which a list equals no tuple; in a kernel lists are tuples.
bool Checker::host_equal(const Val& a, const Val& b) {
  if (is_iterator(a) || is_iterator(b)) return identity_of(a) == identity_of(b);
  if (is_view(a) != is_view(b)) return false;
  if (is_view(a) && identity_of(a) != identity_of(b))
    for (const Val* v : {&a, &b})
      if (!iterators_.at(identity_of(*v)).sources.empty())
        return !error(sema_.loc, "what keys() and the like give is not compared", "compare lists").is_poison();
  const auto *x = a.get_if<dsl::TupleVal>(), *y = b.get_if<dsl::TupleVal>();
  if (x && y)
    return x->is_list == y->is_list && x->items->size() == y->items->size() &&
           std::equal(x->items->begin(), x->items->end(), y->items->begin(),
                      [&](const Val& i, const Val& j) { return host_equal(i, j); });
  const auto *d = get_host<DictObject>(a), *e = get_host<DictObject>(b);
  if (d && e)
    return d->items.size() == e->items.size() && std::all_of(d->items.begin(), d->items.end(), [&](const auto& item) {
             const Val* other = e->find(item.first);
             return other && host_equal(item.second, *other);
           });
  const auto *s = get_host<SetObject>(a), *t = get_host<SetObject>(b);
  if (s && t)
    return s->items.items.size() == t->items.items.size() &&
           std::all_of(s->items.items.begin(), s->items.items.end(),
                       [&](const auto& item) { return t->contains(item.first); });
  if (a.is<dsl::HostRef>() && b.is<dsl::HostRef>()) return identity_of(a) == identity_of(b);
  const Val equal = dsl::compare(sema_, "==", a, b);
  return !equal.is_poison() && dsl::truth(equal);
}

std::optional<bool> Checker::host_contains(const Val& container, const Val& key) {
  if (const auto* dict = get_host<DictObject>(container)) return dict->find(key) != nullptr;
  if (const auto* set = get_host<SetObject>(container)) return set->contains(key);
  if (const auto* args = get_host<ArgsObject>(container))
    return key.is<std::string>() && args->args->has(key.as<std::string>());
  return std::nullopt;
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
    const size_t errors = diags_.size();
    if (!host_step(s.loc)) return fail();
    lost_ = false;
    sema_.at(s.loc);
    Flow flow = Flow::Next;
    switch (s.kind) {
      case Kind::Return:
        result = s.value ? eval(*s.value) : Val(dsl::None{});
        return diags_.size() == errors ? Flow::Return : fail();
      case Kind::Break:
        return Flow::Break;
      case Kind::Continue:
        return Flow::Continue;
      case Kind::If: {
        Val condition = eval(*s.value);
        if (condition.is_poison()) return fail();
        flow = host_execute(host_truth(condition) ? s.body : s.orelse, result);
        break;
      }
      case Kind::For:
        flow = host_for(s, result);
        break;
      case Kind::With:
        flow = host_execute(s.body, result);
        break;
      case Kind::While:
        flow = host_while(s, result);
        break;
      case Kind::Assign:
        if (s.targets.size() == 1 && host_assign_attribute(*s.targets[0], *s.value)) break;
        assign_statement(s);
        break;
      case Kind::AugAssign:
        if (!host_augment_item(s) && !host_augment_in_place(s)) execute_simple(s);
        break;
      case Kind::Expr:
        lost_ = eval(*s.value).is_poison();
        break;
      case Kind::Assert: {
        const Val condition = eval(*s.value);
        lost_ = condition.is_poison();
        if (!lost_ && !host_truth(condition)) error(s.loc, "the assertion fails" + message_text(s.message.get()));
        break;
      }
      case Kind::Raise:
        error(s.loc, "this 'raise' is reached");
        break;
      case Kind::Foreign:
        if (!host_define(s)) execute_simple(s);
        break;
      default:
        execute_simple(s);
    }
    if (diags_.size() != errors || lost_) return fail();
    if (flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

// Each call makes another function, with a syntax tree of its own: it may capture other values.
bool Checker::host_define(const Stmt& s) {
  if (s.targets.size() != 1 || !frame_->function) return false;
  for (const Function& f : module().functions) {
    if (f.decorators.empty() || f.decorators.front().loc.line != s.loc.line) continue;
    std::optional<Function> made = parse_function_at(file_->text(), *s.loc.file, f.loc.line);
    if (!made || made->name != s.targets[0]->text) continue;
    for (const Decorator& d : f.decorators) made->decorators.push_back({d.loc, clone(*d.value)});
    const Function& own = made_functions_.emplace_back(std::move(*made));
    frame_->made.push_back(&own);
    bind(own.name, FunctionRef{FunctionRef::Kind::Jit, own.name, &own, file_}, s.loc);
    return true;
  }
  return false;
}

Checker::Flow Checker::host_for(const Stmt& s, Val& result) {
  Flow flow = Flow::Next;
  const bool ended = for_each(eval(*s.value), s.value->loc, [&](const Val& item) {
    assign(*s.targets[0], item);
    flow = host_execute(s.body, result);
    return host_step(s.loc) && flow != Flow::Return && flow != Flow::Break;
  });
  if (ended) return host_execute(s.orelse, result);
  if (flow == Flow::Break) return Flow::Next;
  if (flow != Flow::Return) result = Val();
  return Flow::Return;
}

Checker::Flow Checker::host_while(const Stmt& s, Val& result) {
  for (Val condition = eval(*s.value); condition.is_poison() || host_truth(condition); condition = eval(*s.value)) {
    if (condition.is_poison() || !host_step(s.loc)) {
      result = Val();
      return Flow::Return;
    }
    const Flow flow = host_execute(s.body, result);
    if (flow == Flow::Return) return flow;
    if (flow == Flow::Break) return Flow::Next;
  }
  return host_execute(s.orelse, result);
}

// args["x_desc"].block_shape = [...], in a hook.
bool Checker::host_assign_attribute(const Expr& target, const Expr& value) {
  if (target.kind != Expr::Kind::Attribute || target.text != "block_shape") return false;
  const Val object = eval(*target.children[0]);
  if (object.is_poison()) return true;
  const auto* tensor = get_host<PointerObject>(object);
  if (!tensor || !tensor->launch || !tensor->launch->is_descriptor(tensor->name)) return false;
  const Val shape = eval(value);
  if (shape.is_poison()) return true;
  const auto* list = shape.get_if<dsl::TupleVal>();
  auto is_extent = [](const Val& v) { return v.is<dsl::Int>(); };
  if (!list || !std::all_of(list->items->begin(), list->items->end(), is_extent)) {
    error(value.loc, fmt::format("a block_shape is a list of integers, found {}", dsl::describe(shape)));
    return true;
  }
  std::vector<int64_t> extents;
  for (const Val& v : *list->items) extents.push_back(v.as<dsl::Int>().clamped());
  tensor->launch->set_block_shape(tensor->name, std::move(extents));
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
