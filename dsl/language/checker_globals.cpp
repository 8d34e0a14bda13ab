// Globals that statements of the module change: the statements and the globals that have to do with them are run in
// their order, as Python runs the module.
#include <fmt/format.h>

#include <tuple>

#include "dsl/language/checker_impl.h"
#include "dsl/language/source_file.h"

namespace tegula::language {

namespace {

void names_in(std::span<const StmtPtr> statements, NameSet& names) {
  for (const StmtPtr& s : statements) {
    if (s->value) names_in(*s->value, names);
    for (const ExprPtr& target : s->targets) names_in(*target, names);
    names_in(s->body, names);
    names_in(s->orelse, names);
  }
}

bool is_before(Loc a, Loc b) { return std::tie(a.line, a.column) < std::tie(b.line, b.column); }

/// Whether an expression calls what may change a global: a method of one, or a function of the file that gets one.
bool may_change(const Expr& e, const NameSet& globals, const SourceFile& file) {
  if (e.kind == Expr::Kind::Call) {
    NameSet given;
    const Expr& callee = *e.children[0];
    if (callee.kind == Expr::Kind::Attribute) names_in(*callee.children[0], given);
    if (callee.kind == Expr::Kind::Name && file.host_function(callee.text)) {
      for (size_t i = 1; i < e.children.size(); ++i) names_in(*e.children[i], given);
      for (const Keyword& k : e.keywords) names_in(*k.value, given);
    }
    if (std::any_of(given.begin(), given.end(), [&](auto& name) { return globals.contains(name); })) return true;
  }
  auto within = [&](const Expr& part) { return may_change(part, globals, file); };
  return std::any_of(e.children.begin(), e.children.end(), [&](auto& child) { return child && within(*child); }) ||
         std::any_of(e.keywords.begin(), e.keywords.end(), [&](auto& k) { return k.value && within(*k.value); });
}

/// The names whose values the methods that are called in an expression change.
void names_of_changers(const Expr& e, NameSet& names) {
  static constexpr std::string_view kChangers[] = {"add",        "append", "clear",   "discard", "extend",
                                                   "insert",     "pop",    "popitem", "remove",  "reverse",
                                                   "setdefault", "sort",   "update"};
  if (e.kind == Expr::Kind::Call && e.children[0]->kind == Expr::Kind::Attribute &&
      std::find(std::begin(kChangers), std::end(kChangers), e.children[0]->text) != std::end(kChangers))
    names_in(*e.children[0]->children[0], names);
  for (const ExprPtr& child : e.children)
    if (child) names_of_changers(*child, names);
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
    std::string& parent = parents_.try_emplace(name, name).first->second;
    return parent == name ? name : parent = find(std::string(parent));
  }

 private:
  std::map<std::string, std::string, std::less<>> parents_;
};

}  // namespace

void Checker::collect_changed(std::span<const StmtPtr> statements, NameSet& names) {
  std::vector<std::string> assigned;
  collect_assigned(statements, nullptr, true, assigned);
  names.insert(assigned.begin(), assigned.end());
  for (const StmtPtr& s : statements) {
    collect_changed(s->body, names);
    collect_changed(s->orelse, names);
    if (s->kind != Stmt::Kind::Expr || s->value->kind != Expr::Kind::Call) continue;
    const Expr& callee = *s->value->children[0];
    if (callee.kind == Expr::Kind::Attribute && !file_->host_function(callee.children[0]->text))
      names_in(*callee.children[0], names);
    if (callee.kind != Expr::Kind::Name || !file_->host_function(callee.text)) continue;
    for (size_t i = 1; i < s->value->children.size(); ++i) names_in(*s->value->children[i], names);
    for (const Keyword& k : s->value->keywords) names_in(*k.value, names);
  }
}

std::shared_ptr<const NameSet> Checker::changed_together(const std::string& name) {
  auto [known, is_new] = together_.try_emplace(file_);
  auto& [sets, changes] = known->second;
  if (is_new) {
    NameSet globals;
    for (const Global& g : module().globals)
      if (g.value) globals.insert(g.name);
    std::map<std::string, NameSet, std::less<>> of_functions;
    // The globals among the names, and those of the functions among them.
    std::function<NameSet(const NameSet&)> mentioned = [&](const NameSet& names) {
      NameSet found;
      for (const std::string& n : names) {
        if (globals.contains(n)) found.insert(n);
        const auto* function = globals.contains(n) ? nullptr : file_->host_function(n);
        if (!function) continue;
        auto [it, is_first] = of_functions.try_emplace(n);
        if (is_first) {
          NameSet body;
          names_in(function->function.body, body);
          NameSet inner = mentioned(body);
          it = of_functions.find(n);
          it->second = std::move(inner);
        }
        found.insert(it->second.begin(), it->second.end());
      }
      return found;
    };
    auto with_conditions = [&](NameSet names, const std::vector<Condition>& conditions) {
      for (const Condition& c : conditions) names_in(*c.value, names);
      return mentioned(names);
    };
    Groups groups;
    std::vector<NameSet> changing;
    for (const GlobalChange& change : module().changes) {
      NameSet names;
      names_in({&change.statement, 1}, names);
      groups.join(changes.emplace_back(with_conditions(std::move(names), change.conditions)));
    }
    for (const Global& g : module().globals) {
      if (!g.value) continue;
      NameSet names{g.name};
      names_in(*g.value, names);
      names = with_conditions(std::move(names), g.conditions);
      groups.join(names);
      if (may_change(*g.value, globals, *file_)) changing.push_back(std::move(names));
    }
    std::map<std::string, std::shared_ptr<NameSet>, std::less<>> by_root;
    changing.insert(changing.end(), changes.begin(), changes.end());
    for (const NameSet& names : changing)
      if (!names.empty()) by_root.try_emplace(groups.find(*names.begin()), std::make_shared<NameSet>());
    for (const std::string& n : globals)
      if (const auto it = by_root.find(groups.find(n)); it != by_root.end())
        it->second->insert(n), sets[n] = it->second;
  }
  const auto it = sets.find(name);
  return it == sets.end() ? nullptr : it->second;
}

std::optional<Val> Checker::running_global(const std::string& name) const {
  if (running_.file != file_ || !running_.globals->contains(name)) return std::nullopt;
  const auto it = running_.frame->scope.find(name);
  return it == running_.frame->scope.end() ? Val() : it->second.value;
}

Val Checker::changed_global(const Global& global) {
  const auto together = changed_together(global.name);
  if (!together) return eval(*global.value);
  Frame frame, *caller = std::exchange(frame_, &frame);
  frame.parent = caller;
  const RunningModule before = std::exchange(running_, RunningModule{file_, &frame, together});
  Loc failed;  // of the first that is not evaluated
  // What is not evaluated may not matter: of other globals, and changes of them.
  auto attempt = [&](Loc loc, const NameSet& gives, const std::function<void()>& run) {
    if (trial(run)) return;
    for (const std::string& name : gives)
      if (frame.scope.contains(name)) bind(name, Val(), {});
    if (!failed) failed = loc;
  };
  auto holds_here = [&](const std::vector<Condition>& conditions, bool if_unknown) {
    return std::all_of(conditions.begin(), conditions.end(), [&](const Condition& c) {
      Val value;
      const bool known = trial([&] { value = eval(*c.value); }) && value.is_constant();
      return known ? dsl::truth(value) == c.holds : if_unknown;
    });
  };
  auto next = module().changes.begin();
  auto run_changes = [&](const Loc* ahead_of) {
    for (; next != module().changes.end() && (!ahead_of || is_before(next->statement->loc, *ahead_of)); ++next) {
      const NameSet& mentioned = together_[file_].of_changes[size_t(next - module().changes.begin())];
      const bool counts =
          std::any_of(mentioned.begin(), mentioned.end(), [&](auto& name) { return together->contains(name); });
      if (!counts || !holds_here(next->conditions, false)) continue;
      NameSet names;
      collect_changed({&next->statement, 1}, names);
      attempt(next->statement->loc, names, [&] {
        Val result = dsl::None{};
        host_execute({&next->statement, 1}, result);
      });
    }
  };
  for (const Global& other : module().globals) {
    run_changes(&other.loc);
    if (!other.value || !together->contains(other.name) || file_->given(other.name)) continue;
    if (&other == &global) {
      bind(other.name, eval(*other.value), other.loc);
    } else if (holds_here(other.conditions, true)) {
      NameSet names{other.name};
      names_of_changers(*other.value, names);
      attempt(other.loc, names, [&] { bind(other.name, eval(*other.value), other.loc); });
    }
  }
  run_changes(nullptr);
  const Val value = frame.scope[global.name].value;
  if (value.is_poison() && !has_errors())
    error(failed ? failed : global.loc,
          fmt::format("the value of '{}' depends on what this gives or changes, which is not evaluated", global.name));
  frame_ = caller;
  running_ = before;
  return value;
}

}  // namespace tegula::language
