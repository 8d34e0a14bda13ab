#include "dsl/language/module_plan.h"

#include <algorithm>
#include <functional>
#include <span>
#include <unordered_set>
#include <utility>

namespace tegula::language {

namespace {

constexpr std::string_view kChangers[] = {"__setitem__", "add",        "append", "clear",   "discard",
                                          "extend",      "insert",     "pop",    "popitem", "remove",
                                          "reverse",     "setdefault", "sort",   "update",  "setattr"};
/// By which a text changes names that it does not say.
constexpr std::string_view kReflection[] = {"exec", "globals", "locals", "vars"};

/// Functions and methods that change nothing of what they are given, but that they may use up iterators; and those that
/// make a function of one, and run it later.
constexpr std::string_view kReaders[] = {
    "Config", "Path",      "abs",        "all",        "any",       "bool",    "chr",      "complex", "dict",
    "divmod", "enumerate", "float",      "format",     "frozenset", "getattr", "hasattr",  "hash",    "hex",
    "id",     "int",       "isinstance", "issubclass", "iter",      "len",     "list",     "max",     "min",
    "oct",    "ord",       "pow",        "print",      "range",     "repr",    "reversed", "round",   "set",
    "slice",  "sorted",    "str",        "sum",        "tuple",     "type",    "zip"};
constexpr std::string_view kReadingMethods[] = {
    "Config",  "array",       "as_tensor", "asarray",    "compile", "copy",     "count",   "critical",
    "debug",   "deepcopy",    "dump",      "dumps",      "encode",  "endswith", "error",   "exception",
    "format",  "from_tensor", "get",       "getLogger",  "index",   "info",     "isdigit", "items",
    "join",    "keys",        "log",       "lower",      "lstrip",  "mean",     "partial", "prod",
    "replace", "rstrip",      "split",     "startswith", "strip",   "sum",      "tensor",  "upper",
    "values",  "warn",        "warning",   "warn_once",  "wraps",   "write"};

template <size_t n>
bool contains(const std::string_view (&words)[n], std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

void each_child(const Expr& e, const std::function<void(const Expr&)>& see) {
  for (const ExprPtr& child : e.children)
    if (child) see(*child);
  for (const Keyword& k : e.keywords)
    if (k.value) see(*k.value);
}

}  // namespace

void names_in(const Expr& e, NameSet& names) {
  if (e.kind == Expr::Kind::Name) names.insert(e.text);
  each_child(e, [&](const Expr& child) { names_in(child, names); });
}

const Expr* root_of(const Expr& e) {
  const Expr* at = &e;
  while (at->kind == Expr::Kind::Attribute || at->kind == Expr::Kind::Subscript || at->kind == Expr::Kind::Call)
    at = at->children[0].get();
  return at->kind == Expr::Kind::Name ? at : nullptr;
}

void assigned_by(const Expr& e, NameSet& names) {
  if (e.kind == Expr::Kind::Lambda) return;
  if (e.kind == Expr::Kind::Named) names.insert(e.text);
  each_child(e, [&](const Expr& child) { assigned_by(child, names); });
}

namespace {

void touched_by(const Expr& e, NameSet& names) {
  if (e.kind == Expr::Kind::Call && e.children[0]->kind == Expr::Kind::Attribute &&
      contains(kChangers, e.children[0]->text))
    if (const Expr* root = root_of(*e.children[0])) names.insert(root->text);
  each_child(e, [&](const Expr& child) { touched_by(child, names); });
}

void add_target(const Expr& target, Effects& effects) {
  switch (target.kind) {
    case Expr::Kind::Name:
      effects.assigns.insert(target.text);
      break;
    case Expr::Kind::Tuple:
    case Expr::Kind::List:
    case Expr::Kind::Starred:
      for (const ExprPtr& child : target.children) add_target(*child, effects);
      break;
    default:
      names_in(target, effects.mentions);
      if (const Expr* root = root_of(target)) effects.touches.insert(root->text);
  }
}

void add_statements(std::span<const StmtPtr> statements, Effects& effects) {
  for (const StmtPtr& s : statements) {
    for (const ExprPtr& target : s->targets) {
      if (s->kind != Stmt::Kind::AnnAssign || s->value) add_target(*target, effects);
      if (s->kind == Stmt::Kind::AugAssign) names_in(*target, effects.mentions);
    }
    for (const Expr* e : {s->value.get(), s->message.get()}) {
      if (!e) continue;
      names_in(*e, effects.mentions);
      assigned_by(*e, effects.assigns);
      touched_by(*e, effects.touches);
    }
    add_statements(s->body, effects);
    add_statements(s->orelse, effects);
  }
}

/// Sets of names that grow together.
class Groups {
 public:
  void join(const NameSet& names) {
    if (names.empty()) return;
    const std::string root = find(*names.begin());
    for (const std::string& name : names) parents_[find(name)] = root;
  }
  std::string find(const std::string& name) {
    std::string root = name;
    while (true) {
      const std::string& parent = parents_.try_emplace(root, root).first->second;
      if (parent == root) break;
      root = parent;
    }
    for (std::string at = name; at != root;) at = std::exchange(parents_[at], root);
    return root;
  }

 private:
  std::map<std::string, std::string, std::less<>> parents_;
};

}  // namespace

ModulePlan::ModulePlan(const Module& module) {
  for (const ModuleStatement& s : module.statements) effects_.push_back(own_effects(s));
  add_definitions(module);
  for (size_t i = 0; i < effects_.size(); ++i) add_mentioned(module.statements[i], effects_[i]);
  add_sets_by_value(module);
  for (const Effects& effects : effects_) given_.insert(effects.assigns.begin(), effects.assigns.end());
  for (size_t i = 0; i < effects_.size(); ++i) effects_[i].changes = changes_of(module.statements[i], effects_[i]);
  find_known();
  make_groups(module);
}

// Few of the words of functions and classes are names that statements define, assign or touch, or call for names that
// the text does not say: only these are kept.
void ModulePlan::add_definitions(const Module& module) {
  using Of = ModuleStatement::Of;
  std::unordered_set<std::string_view> names(std::begin(kReflection), std::end(kReflection));
  for (const Effects& effects : effects_)
    for (const NameSet* own : {&effects.assigns, &effects.touches}) names.insert(own->begin(), own->end());
  for (const ModuleStatement& s : module.statements) {
    if (s.kind != ModuleStatement::Kind::Define) continue;
    for (const auto* own : {&s.names, &s.sets}) names.insert(own->begin(), own->end());
  }
  const auto keep_in = [&](const std::vector<std::string>& words, NameSet& kept) {
    for (const std::string& word : words)
      if (names.contains(word)) kept.insert(word);
  };
  for (size_t i = 0; i < module.statements.size(); ++i) {
    const ModuleStatement& s = module.statements[i];
    if (s.kind != ModuleStatement::Kind::Define) continue;
    for (const std::string& name : s.names) {
      const auto [found, is_new] = definitions_.try_emplace(name);
      Definition& d = found->second;
      d.is_import = s.of == Of::Import && (is_new || d.is_import);
      if (s.of == Of::Function || s.of == Of::Class) d.functions.push_back(i);
      if (s.of == Of::Kernel) continue;  // runs on the device
      d.is_class = d.is_class || s.of == Of::Class;
      attributes_.insert(s.attributes.begin(), s.attributes.end());
      keep_in(s.words, d.words);
      d.sets.insert(s.sets.begin(), s.sets.end());
    }
    if (s.of == Of::Class)
      for (const std::string& word : s.words)
        if (contains(kReadingMethods, word)) class_methods_.insert(word);
  }
  for (Effects& effects : effects_)
    std::erase_if(effects.mentions, [&](const std::string& word) { return !names.contains(word); });
}

bool ModulePlan::assigns_attribute(std::string_view name) const {
  static constexpr std::string_view kAll[] = {"setattr", "delattr", "__dict__", "vars"};
  return attributes_.contains(name) ||
         std::any_of(std::begin(kAll), std::end(kAll), [&](std::string_view all) { return attributes_.contains(all); });
}

bool ModulePlan::has_own(const std::vector<std::string>& words) const {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    const auto d = definitions_.find(word);
    return d != definitions_.end() && !d->second.is_import;
  });
}

bool ModulePlan::only_reads(const Expr& call) const {
  const Expr& function = *call.children[0];
  if (function.kind == Expr::Kind::Attribute)
    return contains(kReadingMethods, function.text) && !class_methods_.contains(function.text);
  const bool calls_back =
      std::any_of(call.keywords.begin(), call.keywords.end(), [](const Keyword& k) { return k.name == "key"; });
  return function.kind == Expr::Kind::Name && contains(kReaders, function.text) && !calls_back &&
         !given_.contains(function.text) && !has_own({function.text});
}

// What an expression only names, and gives to functions that only read, stays as it is. Names of a comprehension stand
// for parts of what others hold: there any call counts for all of it.
void ModulePlan::add_changes(const Expr& e, NameSet& names) const {
  if (e.kind == Expr::Kind::Call && !only_reads(e)) return names_in(e, names);
  if (e.kind == Expr::Kind::Comprehension) {
    NameSet within;
    each_child(e, [&](const Expr& child) { add_changes(child, within); });
    return within.empty() ? void() : names_in(e, names);
  }
  each_child(e, [&](const Expr& child) { add_changes(child, names); });
}

NameSet ModulePlan::changes_of(const ModuleStatement& s, const Effects& effects) const {
  NameSet names;
  if (s.kind == ModuleStatement::Kind::Test) {
    for (const Condition& c : s.conditions) add_changes(*c.value, names);
  } else if (s.kind == ModuleStatement::Kind::NotKnown && !s.decorated.empty()) {
    if (has_own(s.decorated)) names.insert(s.decorated.begin(), s.decorated.end());  // others' have no effect
  } else if (s.kind == ModuleStatement::Kind::Run && s.statement->body.empty() && s.statement->orelse.empty() &&
             s.statement->kind != Stmt::Kind::Foreign) {
    for (const ExprPtr& target : s.statement->targets)
      if (target->kind != Expr::Kind::Name || s.statement->kind == Stmt::Kind::AugAssign) names_in(*target, names);
    for (const Expr* e : {s.statement->value.get(), s.statement->message.get()})
      if (e) add_changes(*e, names);
    for (const Condition& c : s.conditions) add_changes(*c.value, names);
  } else {
    return effects.mentions;
  }
  names = closure(std::move(names));
  std::erase_if(names, [&](const std::string& name) { return !effects.mentions.contains(name); });
  return names;
}

NameSet ModulePlan::closure(NameSet names) const {
  std::vector<std::string> open(names.begin(), names.end());
  while (!open.empty()) {
    const auto found = definitions_.find(open.back());
    open.pop_back();
    if (found == definitions_.end()) continue;
    for (const std::string& word : found->second.words)
      if (names.insert(word).second) open.push_back(word);
  }
  return names;
}

Effects ModulePlan::own_effects(const ModuleStatement& s) {
  Effects effects;
  if (s.statement) add_statements({&s.statement, 1}, effects);
  for (const Condition& c : s.conditions) names_in(*c.value, effects.mentions);
  if (s.kind == ModuleStatement::Kind::Test) {
    assigned_by(*s.conditions.back().value, effects.assigns);
    touched_by(*s.conditions.back().value, effects.touches);
  }
  if (s.kind == ModuleStatement::Kind::NotKnown) {
    effects.assigns.insert(s.names.begin(), s.names.end());
    effects.mentions.insert(s.words.begin(), s.words.end());
    effects.mentions.insert(s.decorated.begin(), s.decorated.end());
  }
  if (s.kind == ModuleStatement::Kind::Define) {
    effects.mentions.insert(s.names.begin(), s.names.end());
    effects.mentions.insert(s.head.begin(), s.head.end());
  }
  return effects;
}

void ModulePlan::add_mentioned(const ModuleStatement& s, Effects& effects) const {
  if (s.kind == ModuleStatement::Kind::Define) {
    NameSet called = closure({s.called.begin(), s.called.end()});  // by defaults
    add_sets(called, effects);
    effects.mentions.merge(called);
    // A function of the file may make anything of what it decorates.
    const bool is_changed = s.of != ModuleStatement::Of::Kernel && has_own(s.decorated);
    if (is_changed) effects.assigns.insert(s.names.begin(), s.names.end());
    return;
  }
  effects.mentions = closure(std::move(effects.mentions));
  add_sets(effects.mentions, effects);
}

void ModulePlan::add_sets(const NameSet& mentions, Effects& effects) const {
  for (const std::string& name : mentions)
    if (const auto d = definitions_.find(name); d != definitions_.end())
      effects.assigns.insert(d->second.sets.begin(), d->second.sets.end());
}

void ModulePlan::add_sets_by_value(const Module& module) {
  for (const auto& [function, definition] : definitions_) {
    if (definition.sets.empty()) continue;
    NameSet carriers{function};
    auto holds_any = [&](const auto& names) {
      return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return carriers.contains(name); });
    };
    for (bool grows = true; std::exchange(grows, false);)
      for (size_t i = 0; i < effects_.size(); ++i) {
        Effects& effects = effects_[i];
        const ModuleStatement& s = module.statements[i];
        const bool is_made = s.kind == ModuleStatement::Kind::Define;  // of what a decorator of the file is given
        const bool carries = is_made ? holds_any(s.decorated) : holds_any(effects.mentions);
        if (!carries) continue;
        for (const NameSet* names : {&effects.assigns, &effects.touches})
          for (const std::string& name : *names)
            grows |= !definition.sets.contains(name) && carriers.insert(name).second;
      }
    for (Effects& effects : effects_)
      if (!effects.mentions.contains(function) && holds_any(effects.mentions))
        effects.assigns.insert(definition.sets.begin(), definition.sets.end());
  }
}

// What a statement that runs mentions of the classes may change what these hold.
void ModulePlan::find_known() {
  for (const Effects& effects : effects_) {
    for (const std::string& name : effects.assigns)
      if (known_.insert(name).second) assigned_.push_back(name);
    for (const std::string& name : effects.touches)
      if (definitions_.contains(name)) known_.insert(name);
    for (const std::string& name : effects.mentions)
      if (const auto d = definitions_.find(name); d != definitions_.end() && d->second.is_class) known_.insert(name);
  }
}

// The statements of a `try` belong together: one that fails decides about those behind it.
void ModulePlan::make_groups(const Module& module) {
  auto keep_known = [&](NameSet& names) { std::erase_if(names, [&](auto& name) { return !known_.contains(name); }); };
  auto tries_of = [&](size_t statement) {
    NameSet names;  // that no program can write
    for (const Condition& c : module.statements[statement].conditions)
      if (c.of_try) names.insert(".try" + std::to_string(c.value->loc.line));
    return names;
  };
  Groups groups;
  for (size_t i = 0; i < effects_.size(); ++i) {
    Effects& effects = effects_[i];
    const bool any = std::any_of(effects.mentions.begin(), effects.mentions.end(),
                                 [](const std::string& word) { return contains(kReflection, word); });
    if (any) effects.assigns = effects.mentions = effects.changes = known_;
    for (NameSet* names : {&effects.mentions, &effects.changes, &effects.assigns, &effects.touches}) keep_known(*names);
    NameSet all = effects.mentions;
    all.insert(effects.assigns.begin(), effects.assigns.end());
    all.insert(effects.touches.begin(), effects.touches.end());
    all.merge(tries_of(i));
    groups.join(all);
  }
  std::map<std::string, size_t> numbers;
  for (const std::string& name : known_)
    groups_[name] = numbers.try_emplace(groups.find(name), numbers.size()).first->second;
  statements_.resize(numbers.size());
  for (size_t i = 0; i < effects_.size(); ++i) {
    const Effects& e = effects_[i];
    const NameSet tries = tries_of(i);
    for (const NameSet* names : {&e.mentions, &e.assigns, &e.touches, &tries}) {
      if (names->empty()) continue;
      const auto number = numbers.find(groups.find(*names->begin()));
      if (number != numbers.end()) statements_[number->second].push_back(i);
      break;
    }
  }
}

std::optional<size_t> ModulePlan::group_of(std::string_view name) const {
  const auto found = groups_.find(name);
  return found == groups_.end() ? std::nullopt : std::optional(found->second);
}

NameSet ModulePlan::reached(const NameSet& names) const {
  NameSet all = closure(names);
  std::erase_if(all, [&](const std::string& name) { return !groups_.contains(name); });
  return all;
}

bool ModulePlan::calls_own(const Expr& e) const {
  NameSet names, touched;
  names_in(e, names);
  touched_by(e, touched);
  return !touched.empty() || has_own({names.begin(), names.end()});
}

std::vector<size_t> ModulePlan::functions_of(std::string_view name) const {
  const auto d = definitions_.find(name);
  return d == definitions_.end() ? std::vector<size_t>() : d->second.functions;
}

}  // namespace tegula::language
