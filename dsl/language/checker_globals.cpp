// Globals: the statements of the module are run in their order, as Python runs them, those together that have to do
// with each other. What a statement may change that is not evaluated is not known from there on.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"
#include "dsl/language/module_plan.h"
#include "dsl/language/source_file.h"

namespace tegula::language {

namespace {

constexpr size_t kMaxKept = 4;  // reports of why a value is not known

bool is_before(Loc a, Loc b) { return std::tie(a.line, a.column) < std::tie(b.line, b.column); }

/// `__name__ == "__main__"`: that it holds only where the file is run as a program is known.
bool asks_for_main(const Expr& e) {
  if (e.kind == Expr::Kind::Name && e.text == "__name__") return true;
  return std::any_of(e.children.begin(), e.children.end(), [](const ExprPtr& c) { return c && asks_for_main(*c); });
}

bool is_names(const Expr& target) {
  if (target.kind != Expr::Kind::Tuple && target.kind != Expr::Kind::List) return target.kind == Expr::Kind::Name;
  return std::all_of(target.children.begin(), target.children.end(), [](const ExprPtr& c) { return is_names(*c); });
}

/// Whether the value of an expression is what names hold, of which nothing is read.
bool only_names(const Expr& e) {
  using Kind = Expr::Kind;
  return (e.kind == Kind::Name || e.kind == Kind::Tuple || e.kind == Kind::List) &&
         std::all_of(e.children.begin(), e.children.end(), [](const ExprPtr& c) { return only_names(*c); });
}

/// `a, b = x, y`: what each name gets stands there.
bool is_pairwise(const Stmt& s) {
  auto is_tuple = [](const Expr& e) {
    return e.kind == Expr::Kind::Tuple || (e.kind == Expr::Kind::List && e.text.empty());
  };
  auto is_starred = [](const ExprPtr& e) { return e->kind == Expr::Kind::Starred; };
  if (s.targets.size() != 1 || !is_tuple(*s.targets[0]) || !is_tuple(*s.value)) return false;
  const auto &to = s.targets[0]->children, &from = s.value->children;
  return to.size() == from.size() && std::all_of(to.begin(), to.end(), [](const ExprPtr& t) { return is_names(*t); }) &&
         std::none_of(from.begin(), from.end(), is_starred);
}

}  // namespace

std::vector<Reported> Checker::capture(const std::function<void()>& body) {
  const size_t before = diags_.size(), prints = sema_.prints.size();
  const Loc loc = sema_.loc;
  body();
  sema_.at(loc);
  std::vector<Reported> reported;
  for (size_t i = before; i < diags_.size(); ++i) {
    if (reported.size() == kMaxKept) break;
    const auto notes = notes_.find(i);
    reported.push_back({diags_.list()[i], notes == notes_.end() ? std::vector<Note>() : notes->second});
  }
  diags_.shrink(before);
  notes_.erase(notes_.lower_bound(before), notes_.end());
  sema_.prints.resize(prints);
  return reported;
}

void Checker::report(const std::vector<Reported>& reported) {
  for (const Reported& r : reported) {
    diags_.add(r.diag);
    if (!r.notes.empty()) notes_[diags_.size() - 1] = r.notes;
  }
}

/// The statements of a group of names, run one after the other.
class Checker::ModuleRunner {
 public:
  ModuleRunner(Checker& checker, ModuleRun& run, const ModulePlan& plan)
      : checker_(checker), run_(run), plan_(plan), scope_(run.frame.scope) {}

  void execute(size_t index) {
    const ModuleStatement& s = checker_.module().statements[index];
    effects_ = &plan_.effects_of(index);
    of_environment_ = is_of_environment(effects_->mentions);
    loc_ = run_.at = s.loc;
    run_.read_left_out.clear();
    if (checker_.steps_ >= kMaxHostSteps || checker_.made_items_ >= kMaxMade)
      return lose(
          {{{Severity::Error, s.loc, "too much is evaluated in the statements of the module ahead of this"}, {}}});
    using Kind = ModuleStatement::Kind;
    is_lost_ = false;
    if (s.kind == Kind::Test) {
      test(s);
    } else if (truth_ = holds(s.conditions); truth_ != Truth::No) {
      if (s.kind == Kind::Define) return define(s, truth_);
      if (s.kind == Kind::NotKnown && truth_ == Truth::Main) return;
      if (s.kind == Kind::NotKnown)
        lose({{{Severity::Error, s.loc, "this statement is not evaluated, and with it what it may change"}, {}}});
      else
        execute(s.statement, truth_);
    }
    if (is_lost_) leave_tries(s);
    if (s.kind != Kind::Run) return;
    for (const std::string& name : effects_->assigns)
      if (checker_.file_->given(name)) forget(name);
  }

 private:
  enum class Truth {
    Yes,
    No,
    Unknown,
    Environment,  ///< not known, and a matter of what is installed where the file runs: values behind it are left out
                  ///< where there are others
    Main,         ///< where the file is run as a program
  };

  /// Whether an expression that is not evaluated depends on nothing that the module computes.
  bool is_of_environment(const Expr& e) const {
    NameSet names;
    names_in(e, names);
    return is_of_environment(plan_.reached(names));
  }
  bool is_of_environment(const NameSet& names) const {
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return run_.environment.contains(name); });
  }

  /// The statement may have raised something: whether what stands behind it in the `try` blocks around it is run is not
  /// known, nor whether their `except` is. Decorators of others do nothing here, and raise nothing.
  void leave_tries(const ModuleStatement& s) {
    if (s.kind == ModuleStatement::Kind::NotKnown && !s.decorated.empty() && effects_->changes.empty()) return;
    const bool of_environment = truth_ == Truth::Environment || (of_environment_ && asks_imports(s));
    for (const Condition& c : s.conditions)
      if (c.of_try && c.holds) {
        auto& failure = run_.failures.try_emplace(c.value->loc.line, ModuleRun::Failure{s.loc}).first->second;
        failure.of_environment = failure.of_environment && of_environment;
      }
  }

  /// Whether what the statement mentions is imported.
  bool asks_imports(const ModuleStatement& s) const {
    NameSet names;
    if (s.kind == ModuleStatement::Kind::Test) names_in(*s.conditions.back().value, names);
    if (s.statement && s.statement->value) names_in(*s.statement->value, names);
    names.insert(s.words.begin(), s.words.end());
    const std::vector<ImportBinding>& imports = checker_.module().imports;
    return std::any_of(imports.begin(), imports.end(), [&](const ImportBinding& import) {
      return names.contains(import.name.substr(0, import.name.find('.')));
    });
  }

  /// Whether what stands under the conditions is run.
  Truth holds(std::span<const Condition> conditions) {
    Truth all = Truth::Yes;
    for (const Condition& c : conditions) {
      if (asks_for_main(*c.value)) {
        if (c.holds) all = Truth::Main;
        continue;
      }
      const auto failure = c.of_try ? run_.failures.find(c.value->loc.line) : run_.failures.end();
      const bool may_fail = failure != run_.failures.end();
      // What is a matter of the machine is taken to work: other values than those of `except` count, with a warning.
      if (may_fail && failure->second.of_environment && c.holds) continue;
      const std::optional<bool> value = may_fail ? std::nullopt : value_of(c);
      if (value && *value != c.holds) return Truth::No;
      if (value || all == Truth::Main) continue;
      if (all == Truth::Yes) {
        unknown_ = may_fail ? failure->second.loc : c.value->loc;
        may_raise_ = may_fail;
      }
      const bool of_environment = may_fail ? failure->second.of_environment : is_of_environment(*c.value);
      all = all != Truth::Unknown && of_environment ? Truth::Environment : Truth::Unknown;
    }
    return all;
  }

  std::optional<bool> value_of(const Condition& c, std::vector<Reported>* why = nullptr) {
    if (const auto known = checker_.conditions_.find(c.value.get()); known != checker_.conditions_.end())
      return known->second;
    Val value;
    auto reported = attempt([&] { value = checker_.eval(*c.value); });
    const bool ok = is_clean(reported) && value.is_constant();
    if (why && !ok) *why = std::move(reported);
    return checker_.conditions_[c.value.get()] = ok ? std::optional(dsl::truth(value)) : std::nullopt;
  }

  void test(const ModuleStatement& s) {
    const std::span<const Condition> ahead = std::span(s.conditions).first(s.conditions.size() - 1);
    const Truth truth = truth_ = holds(ahead);
    const Condition& condition = s.conditions.back();
    if (truth == Truth::No || truth == Truth::Main || asks_for_main(*condition.value)) return;
    const int64_t changes = checker_.host_changes_;
    std::vector<Reported> why;
    if (!value_of(condition, &why))
      lose(std::move(why));
    else if (truth != Truth::Yes && (checker_.host_changes_ != changes || !effects_->assigns.empty()))
      lose(undecided());
  }

  void define(const ModuleStatement& s, Truth truth) {
    for (const std::string& name : s.names) {
      if (truth == Truth::Yes && !effects_->assigns.contains(name)) forget(name);
      if (effects_->assigns.contains(name)) {
        set_unknown(name,
                    {{{Severity::Error, s.loc,
                       fmt::format("'{}' is what a function of the file makes of it, which is not evaluated", name)},
                      {}}});
      } else if ((truth == Truth::Unknown || truth == Truth::Environment) && scope_.contains(name)) {
        set_unknown(name, undecided());
      }
    }
    if (s.of != ModuleStatement::Of::Function || truth == Truth::No) return;
    const auto* host = truth == Truth::Yes ? checker_.file_->host_function(s.names[0]) : nullptr;
    const bool is_evaluated = host && host->function.loc.line == s.loc.line;
    bool is_known = is_evaluated || s.called.empty();
    for (size_t i = 0; is_evaluated && i < host->function.params.size(); ++i)
      if (const Param& p = host->function.params[i]; p.default_value)
        attempt([&] { is_known &= !checker_.default_value(p).is_poison(); });
    if (!is_known) lose({{{Severity::Error, s.loc, "a default is not evaluated, and with it what it may change"}, {}}});
  }

  void execute(const StmtPtr& statement, Truth truth) {
    const Stmt& s = *statement;
    const bool assigns = (s.kind == Stmt::Kind::Assign || s.kind == Stmt::Kind::AnnAssign) && s.value;
    const bool names_only =
        assigns && std::all_of(s.targets.begin(), s.targets.end(), [](const ExprPtr& t) { return is_names(*t); });
    if (s.kind == Stmt::Kind::AnnAssign && !s.value) return;
    if (truth == Truth::Unknown || (truth == Truth::Environment && !names_only)) return lose(undecided());
    if (truth == Truth::Main && !names_only) return;
    if (truth == Truth::Main && plan_.calls_own(*s.value)) return;  // it may change what others ask for
    const int64_t changes = checker_.host_changes_;
    if (names_only) {
      assign(s, truth);
    } else {
      Val result = dsl::None{};
      const auto reported = attempt([&] { checker_.host_execute({&statement, 1}, result); });
      if (!is_clean(reported) || result.is_poison()) return lose(reported);
      settle(effects_->assigns);
    }
    if (truth == Truth::Environment && checker_.host_changes_ != changes) spoil(undecided());
  }

  void assign(const Stmt& s, Truth truth) {
    std::vector<std::pair<const Expr*, const Expr*>> pairs;
    if (is_pairwise(s)) {
      for (size_t i = 0; i < s.value->children.size(); ++i)
        pairs.emplace_back(s.targets[0]->children[i].get(), s.value->children[i].get());
    } else {
      pairs.emplace_back(nullptr, s.value.get());
    }
    std::vector<Val> values;
    std::vector<std::vector<Reported>> reports;
    bool lost = false;
    for (const auto& pair : pairs) {
      Val value;
      reports.push_back(attempt([&] { value = checker_.eval(*pair.second); }));
      if (!is_clean(reports.back())) value = Val();
      if (value.is_poison()) lost = true;
      values.push_back(std::move(value));
    }
    if (lost) {
      size_t first = 0;
      while (!values[first].is_poison()) ++first;
      lose(reports[first]);
    }
    for (size_t i = 0; i < pairs.size(); ++i) {
      std::vector<const Expr*> targets{pairs[i].first};
      if (!targets[0]) targets = targets_of(s);
      for (const Expr* target : targets) give(*target, values[i], reports[i], truth);
    }
    if (!lost) settle(walrus(*s.value));
  }

  static std::vector<const Expr*> targets_of(const Stmt& s) {
    std::vector<const Expr*> out;
    for (const ExprPtr& t : s.targets) out.push_back(t.get());
    return out;
  }

  static NameSet walrus(const Expr& e) {
    NameSet names;
    assigned_by(e, names);
    return names;
  }

  /// target = value, where only names are assigned. Under a condition that is not known the names keep what they have.
  void give(const Expr& target, const Val& value, const std::vector<Reported>& why, Truth truth) {
    NameSet names;
    names_in(target, names);
    if (truth != Truth::Yes) {
      NameSet others;
      for (const std::string& name : names) {
        const bool is_decided =
            (scope_.contains(name) || run_.unknown.contains(name)) && !run_.undecided.contains(name);
        const auto other = run_.undecided.find(name);
        if (truth == Truth::Environment && (is_decided || other != run_.undecided.end()))
          run_.left_out[name].emplace_back(name, is_decided ? target.loc : other->second);
        if (!is_decided) others.insert(name);
      }
      if (others.size() < names.size()) {
        for (const std::string& name : others) set_unknown(name, undecided());
        return;
      }
    }
    std::vector<Reported> reported = why;
    if (!value.is_poison()) reported = attempt([&] { checker_.assign(target, value); });
    if (value.is_poison() || !is_clean(reported)) {
      for (const std::string& name : names) set_unknown(name, reported);
    } else if (truth == Truth::Yes) {
      settle(names);
    }
    if (truth != Truth::Yes)
      for (const std::string& name : names) run_.undecided[name] = target.loc;
  }

  /// The names have values that are known, whatever they were before.
  void settle(const NameSet& names) {
    const auto read = run_.read_left_out;
    for (const std::string& name : names) {
      if (!scope_.contains(name)) continue;
      run_.unknown.erase(name);
      run_.held.erase(name);
      run_.environment.erase(name);
      run_.undecided.erase(name);
      if (read.empty())
        run_.left_out.erase(name);
      else
        run_.left_out[name] = read;
    }
  }

  std::vector<Reported> attempt(const std::function<void()>& body) { return checker_.capture(body); }

  static bool is_clean(const std::vector<Reported>& reported) {
    return std::none_of(reported.begin(), reported.end(),
                        [](const Reported& r) { return r.diag.severity == Severity::Error; });
  }

  std::vector<Reported> undecided() const {
    Diag diag{Severity::Error, loc_,
              fmt::format("whether this is run is not known: the {} in line {} is not evaluated",
                          may_raise_ ? "statement of the same 'try'" : "condition", unknown_.line)};
    return {{std::move(diag), {}}};
  }

  /// The statement at hand is not evaluated.
  void lose(std::vector<Reported> why) {
    is_lost_ = true;
    if (is_clean(why) && !checker_.untyped_)
      why.push_back({{Severity::Error, loc_, "this is not evaluated, and with it what it may change"}, {}});
    spoil(why);
    for (const std::string& name : effects_->assigns)
      if (truth_ != Truth::Unknown || !run_.unknown.contains(name)) set_unknown(name, why);
    for (const std::string& name : effects_->touches)
      if (!scope_.contains(name) && checker_.is_of_files(name)) set_unknown(name, why);
  }

  /// What the names that the statement may change hold may be another, and iterators that it mentions may be used up.
  void spoil(const std::vector<Reported>& why) {
    const NameSet changes = with_held(effects_->changes);
    std::set<const void*> lost = parts_of_classes(changes);
    for (const std::string& name : changes)
      if (!plan_.functions_of(name).empty()) run_.spoiled.try_emplace(name, why);
    NameSet mentions = effects_->mentions;
    mentions.insert(changes.begin(), changes.end());
    for (const std::string& name : mentions)
      if (const auto it = scope_.find(name); it != scope_.end())
        for (const void* part : checker_.changeable_in(it->second.value))
          if (changes.contains(name) || checker_.iterators_.contains(part)) lost.insert(part);
    if (lost.empty()) return;
    auto is_lost = [&](const Val& value) {
      const auto parts = checker_.changeable_in(value);
      return std::any_of(parts.begin(), parts.end(), [&](const void* part) { return lost.contains(part); });
    };
    for (const std::string& name : may_hold(lost))
      if (const auto it = scope_.find(name); it != scope_.end() && is_lost(it->second.value)) set_unknown(name, why);
    for (auto& [type, fields] : checker_.classes_)
      for (auto& [name, field] : fields)
        if (is_lost(field.value)) field = {Val(), why};
    for (auto& [param, value] : checker_.defaults_)
      if (is_lost(value)) value = Val();
  }

  /// The lists, dicts and iterators that attributes of the classes of these names hold.
  std::set<const void*> parts_of_classes(const NameSet& names) const {
    std::set<const void*> parts;
    for (const auto& [type, fields] : checker_.classes_)
      for (const auto& [name, field] : fields)
        if (names.contains(type->name))
          for (const void* part : checker_.changeable_in(field.value)) parts.insert(part);
    return parts;
  }

  /// The names that may hold any of these.
  NameSet may_hold(const std::set<const void*>& parts) {
    for (const void* part : std::exchange(run_.changed, {}))
      if (const auto names = run_.holders.find(part); names != run_.holders.end())
        run_.bound.insert(names->second.begin(), names->second.end());
    for (const std::string& name : std::exchange(run_.bound, {})) {
      const auto it = scope_.find(name);
      if (it == scope_.end()) continue;
      bool reads = false;
      for (const void* part : checker_.changeable_in(it->second.value, &reads)) run_.holders[part].insert(name);
      if (reads) run_.readers.insert(name);
    }
    NameSet names = run_.readers;
    for (const void* part : parts)
      if (const auto found = run_.holders.find(part); found != run_.holders.end())
        names.insert(found->second.begin(), found->second.end());
    return names;
  }

  /// The names, and those parts of whose values they may hold: `D` of D = unknown(C), or of D = copy(C), may hold C's.
  NameSet with_held(NameSet names) const {
    std::vector<std::string> open(names.begin(), names.end());
    while (!open.empty()) {
      const auto held = run_.held.find(open.back());
      open.pop_back();
      if (held == run_.held.end()) continue;
      for (const std::string& name : held->second)
        if (names.insert(name).second) open.push_back(name);
    }
    return names;
  }

  void set_unknown(const std::string& name, const std::vector<Reported>& why) {
    if (checker_.file_->given(name)) return;
    Binding binding{Val(), fmt::format("the value of '{}' is not known behind line {}", name, loc_.line), loc_};
    scope_.erase(name);
    if (!run_.frame.readers.empty()) checker_.bind_in_lambdas(name, binding);
    run_.held[name].insert(effects_->mentions.begin(), effects_->mentions.end());
    if (of_environment_)
      run_.environment.insert(name);
    else
      run_.environment.erase(name);
    run_.unknown[name] = why;
    run_.undecided.erase(name);
    run_.left_out.erase(name);
  }

  void forget(const std::string& name) {
    scope_.erase(name);
    run_.unknown.erase(name);
    run_.held.erase(name);
    run_.environment.erase(name);
    run_.undecided.erase(name);
    run_.left_out.erase(name);
  }

  Checker& checker_;
  ModuleRun& run_;
  const ModulePlan& plan_;
  Scope& scope_;
  const Effects* effects_ = nullptr;  // of the statement at hand
  bool of_environment_ = false;       // it reads nothing that the module computes
  Truth truth_ = Truth::Yes;          // whether it is run
  bool is_lost_ = false;              // it is not evaluated
  Loc loc_;                           // its place
  Loc unknown_;                       // of the condition that is not known
  bool may_raise_ = false;            // that is a statement of a `try`
};

ModuleRun& Checker::module_run(size_t group) {
  const auto [found, is_new] = runs_.try_emplace({file_, group});
  ModuleRun& run = found->second;
  if (!is_new) return run;
  run.file = file_;
  run.frame.run = &run;
  run.frame.parent = std::exchange(frame_, &run.frame);
  const int unknown = std::exchange(unknown_, 0);
  const Expr* statement = std::exchange(statement_, nullptr);
  as_host([&] {
    const ModulePlan& plan = file_->plan();
    ModuleRunner runner(*this, run, plan);
    for (const size_t index : plan.statements_of(group)) {
      if (until_ && file_ == &root_ && !is_before(module().statements[index].loc, *until_)) break;
      runner.execute(index);
    }
    return Val(dsl::None{});
  });
  statement_ = statement;
  unknown_ = unknown;
  frame_ = std::exchange(run.frame.parent, nullptr);
  run.is_finished = true;
  for (const auto& [name, binding] : run.frame.scope) keep(binding.value, fmt::format("the global '{}'", name));
  for (const auto& [type, fields] : classes_)
    for (const auto& [name, field] : fields) keep_field(name, field.value);
  return run;
}

std::optional<Val> Checker::global_value(const std::string& name, const Expr& use, bool undecided_too) {
  const auto group = file_->plan().group_of(name);
  if (!group) return std::nullopt;
  ModuleRun& run = module_run(*group);
  const auto unknown = run.unknown.find(name);
  const auto known = run.frame.scope.find(name);
  if (unknown == run.unknown.end() && known == run.frame.scope.end()) return std::nullopt;
  if (run.undecided.contains(name) && !undecided_too) return std::nullopt;
  if (const auto others = run.left_out.find(name); others != run.left_out.end()) {
    if (!run.is_finished)
      run.read_left_out.insert(run.read_left_out.end(), others->second.begin(), others->second.end());
    else
      for (const auto& [other, loc] : others->second) warn_undecided(other, loc, other);
  }
  const size_t before = diags_.size();
  Val value;
  if (untyped_ && file_->is_set_by_functions(name)) {
    error(use.loc, fmt::format("the global '{}' gets its value from a function of the file", name),
          fmt::format("--global {}=VALUE gives a value", name));
  } else {
    const std::string note =
        fmt::format("in the value of the global '{0}', which may be given: --global {0}=VALUE", name);
    value = with_note(use.loc, note, [&] {
      if (unknown != run.unknown.end()) {
        report(unknown->second);
        return Val();
      }
      if (!known->second.value.is_value()) return known->second.value;
      return error(known->second.loc, fmt::format("the global '{}' is no compile-time constant", name),
                   "a kernel can use globals that are numbers, strings, types and tuples of them");
    });
  }
  if (untyped_) diags_.soften(before);
  return value;
}

bool Checker::is_undecided(const std::string& name) {
  const auto group = file_->plan().group_of(name);
  return group && module_run(*group).undecided.contains(name);
}

bool Checker::changes_behind(const Expr& e, Loc loc) const {
  NameSet names;
  names_in(e, names);
  const ModulePlan& plan = file_->plan();
  const bool reads_parts = !only_names(e);
  for (const std::string& name : plan.reached(names))
    for (const size_t index : plan.statements_of(*plan.group_of(name)))
      if (const Effects& effects = plan.effects_of(index); is_before(loc, module().statements[index].loc))
        if (effects.assigns.contains(name) || (reads_parts && effects.changes.contains(name))) return true;
  return false;
}

std::optional<bool> Checker::condition_value(const Condition& c) {
  if (const auto known = conditions_.find(c.value.get()); known != conditions_.end()) return known->second;
  NameSet names;
  names_in(*c.value, names);
  for (const std::string& name : file_->plan().reached(names)) {
    module_run(*file_->plan().group_of(name));
    if (const auto known = conditions_.find(c.value.get()); known != conditions_.end()) return known->second;
    break;  // all are of one group
  }
  Frame frame, *caller = std::exchange(frame_, &frame);
  frame.parent = caller;
  Val value;
  const bool ok = trial([&] { value = as_host([&] { return eval(*c.value); }); }) && value.is_constant();
  frame_ = caller;
  return conditions_[c.value.get()] = ok ? std::optional(dsl::truth(value)) : std::nullopt;
}

std::vector<const void*> Checker::changeable_in(const Val& value, bool* reads) const {
  std::vector<const void*> out;
  std::set<const void*> functions;
  std::vector<Val> open{value};
  // What a function or a lambda reads of the names of its module.
  auto read_by = [&](const FunctionObject& function) {
    NameSet names;
    if (function.function) names.insert(function.function->name);
    if (function.lambda) names_in(*function.lambda, names);
    names = function.file->plan().reached(names);
    for (const auto& [key, run] : runs_)
      for (const auto& [name, binding] : run.frame.scope)
        if (key.first == function.file && names.contains(name)) open.push_back(binding.value);
  };
  while (!open.empty()) {
    const Val at = std::move(open.back());
    open.pop_back();
    for_each_part(at, [&](const Val& part) {
      const void* identity = identity_of(part);
      const auto iterator = iterators_.find(identity);
      const auto* function = get_host<FunctionObject>(part);
      if (reads) *reads = *reads || function || iterator != iterators_.end();
      if (is_changeable(part) || iterator != iterators_.end()) out.push_back(identity);
      if (iterator != iterators_.end())
        open.insert(open.end(), iterator->second.sources.begin(), iterator->second.sources.end());
      if (function && function->file && functions.insert(identity).second) read_by(*function);
      return true;
    });
  }
  return out;
}

}  // namespace tegula::language
