// Loops. The names that live before a loop and are assigned in its body are carried: the loop op takes their values,
// its block has an argument for each, and its results are their values after the loop.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/language/checker_impl.h"

namespace tegula::language {

using Kind = Stmt::Kind;

namespace {

/// Statements that one kernel may come to after inlining and unrolling.
constexpr int64_t kMaxSteps = 200'000;
/// Branches in each other that an unrolled loop with a run-time jump may come to.
constexpr int kMaxNested = 128;

void target_names(const Expr& target, std::vector<std::string>& names) {
  if (target.kind == Expr::Kind::Name) {
    if (std::find(names.begin(), names.end(), target.text) == names.end()) names.push_back(target.text);
  } else if (target.kind == Expr::Kind::Tuple || target.kind == Expr::Kind::List ||
             target.kind == Expr::Kind::Starred) {
    for (const ExprPtr& child : target.children) target_names(*child, names);
  } else if (target.kind == Expr::Kind::Subscript) {
    target_names(*target.children[0], names);  // a list that gets another element
  }
}

/// Names that an expression assigns: `name := value`, and lists that it appends to.
void assigned_within(const Expr& e, std::vector<std::string>& names) {
  const Expr* changed = e.kind == Expr::Kind::Named ? &e : nullptr;
  if (e.kind == Expr::Kind::Call && e.children[0]->kind == Expr::Kind::Attribute &&
      (e.children[0]->text == "append" || e.children[0]->text == "extend"))
    changed = e.children[0]->children[0].get();
  if (changed && (changed == &e || changed->kind == Expr::Kind::Name) &&
      std::find(names.begin(), names.end(), changed->text) == names.end())
    names.push_back(changed->text);
  for (const ExprPtr& child : e.children)
    if (child) assigned_within(*child, names);
  for (const Keyword& k : e.keywords)
    if (k.value) assigned_within(*k.value, names);
}

bool reads(const Expr& e, std::string_view name) {
  if (e.kind == Expr::Kind::Name && e.text == name) return true;
  for (const ExprPtr& child : e.children)
    if (child && reads(*child, name)) return true;
  for (const Keyword& k : e.keywords)
    if (k.value && reads(*k.value, name)) return true;
  return false;
}

/// What statements do with a name first; nothing if they leave it alone.
std::optional<bool> reads_first(std::span<const StmtPtr> statements, std::string_view name) {
  for (const StmtPtr& s : statements) {
    if (s->value && reads(*s->value, name)) return true;
    std::vector<std::string> targets;
    for (const ExprPtr& target : s->targets) {
      if (target->kind == Expr::Kind::Name && s->kind != Kind::AugAssign) {
        targets.push_back(target->text);
      } else if (reads(*target, name)) {
        return s->kind == Kind::AugAssign;
      }
    }
    if (std::find(targets.begin(), targets.end(), name) != targets.end()) return false;
    const auto body = reads_first(s->body, name), orelse = reads_first(s->orelse, name);
    if (body.value_or(false) || orelse.value_or(false)) return true;
    if (body && orelse) return false;
  }
  return std::nullopt;
}

bool reads_next(const Continuation& rest, std::string_view name) {
  for (const Continuation* k = &rest; k; k = k->next)
    if (auto first = reads_first(k->statements, name)) return *first;
  return false;
}

}  // namespace

bool Checker::count_step(Loc loc) {
  if (++steps_ < kMaxSteps) return true;
  if (steps_ == kMaxSteps)
    error(loc, fmt::format("the kernel has more than {} statements after inlining and unrolling", kMaxSteps),
          "use range() instead of tl.static_range()");
  return false;
}

void Checker::skip_the_rest() { steps_ = kMaxSteps; }

/// Names that statements give what is no value, such as None, and that keep it until they are assigned again: bound for
/// as long as this lives.
class Checker::NamesOfNoValue {
 public:
  explicit NamesOfNoValue(Checker& checker) : checker_(checker) {}
  ~NamesOfNoValue() {
    while (!names_.empty()) restore(names_.size() - 1);
  }

  /// `unstable` without them.
  const NameSet* others_of(const NameSet* unstable) {
    if (names_.empty()) return unstable;
    others_ = *unstable;
    for (const auto& [name, before] : names_) others_.erase(name);
    return &others_;
  }
  /// Ahead of a statement, whose assignments end what was known.
  void forget_assigned(const StmtPtr& s) {
    if (names_.empty()) return;
    std::vector<std::string> assigned;
    checker_.collect_assigned({&s, 1}, nullptr, true, assigned);
    for (size_t i = names_.size(); i-- > 0;)
      if (std::find(assigned.begin(), assigned.end(), names_[i].first) != assigned.end()) restore(i);
  }
  /// Behind a statement: `name = other` where the other one is no value.
  void note(const Stmt& s, const NameSet& unstable) {
    const bool is_copy = s.kind == Kind::Assign && s.targets.size() == 1 && s.targets[0]->kind == Expr::Kind::Name &&
                         s.value->kind == Expr::Kind::Name;
    if (!is_copy) return;
    const auto value = checker_.peek(*s.value, unstable);
    if (!value || dsl::can_be_value(*value)) return;
    Scope& scope = checker_.frame_->scope;
    const std::string& name = s.targets[0]->text;
    const auto before = scope.find(name);
    names_.emplace_back(name, before == scope.end() ? std::nullopt : std::optional(before->second));
    scope[name] = Binding{*value, {}, {}};
  }

 private:
  void restore(size_t i) {
    auto& [name, before] = names_[i];
    if (before)
      checker_.frame_->scope[name] = std::move(*before);
    else
      checker_.frame_->scope.erase(name);
    names_.erase(names_.begin() + long(i));
  }

  Checker& checker_;
  std::vector<std::pair<std::string, std::optional<Binding>>> names_;  // and what they were before
  NameSet others_;
};

// With `unstable`, branches that compile-time conditions rule out are left out; the conditions may not depend on the
// names in it. Names annotated tl.constexpr are taken only if asked for.
void Checker::collect_assigned(std::span<const StmtPtr> statements, const NameSet* unstable, bool constexpr_too,
                               std::vector<std::string>& names) {
  NamesOfNoValue copies(*this);
  for (const StmtPtr& s : statements) {
    copies.forget_assigned(s);
    const NameSet* unknown = copies.others_of(unstable);
    bool constexpr_name = s->kind == Kind::AnnAssign && is_constexpr_annotation(s->annotation.get());
    bool assigns = s->kind == Kind::Assign || s->kind == Kind::AugAssign || s->kind == Kind::For ||
                   (s->kind == Kind::AnnAssign && s->value && (!constexpr_name || constexpr_too));
    if (assigns)
      for (const ExprPtr& target : s->targets) target_names(*target, names);
    if (s->value) assigned_within(*s->value, names);
    std::optional<Val> condition;
    if (s->kind == Kind::If && unstable) condition = peek(*s->value, *unknown);
    if (!condition || dsl::truth(*condition)) collect_assigned(s->body, unknown, constexpr_too, names);
    if (!condition || !dsl::truth(*condition)) collect_assigned(s->orelse, unknown, constexpr_too, names);
    if (unstable) copies.note(*s, *unknown);
  }
}

// Whether a value or a part of it is not known, as after an error and in a check without types.
static bool holds_unknown(const Val& v) {
  const auto* parts = dsl::parts_of(v);
  return parts ? std::any_of(parts->begin(), parts->end(), holds_unknown) : v.is_poison();
}

bool Checker::is_no_value(const std::string& name) const {
  auto it = frame_->scope.find(name);
  return it != frame_->scope.end() && it->second.unusable.empty() && !holds_unknown(it->second.value) &&
         !dsl::can_be_value(it->second.value);
}

std::vector<Checker::Carried> Checker::find_carried(const Stmt& loop, bool with_target) {
  std::vector<std::string> all, values, targets;
  auto collect = [&](const NameSet* unstable, bool constexpr_too, std::vector<std::string>& names) {
    if (loop.kind == Kind::While) assigned_within(*loop.value, names);
    collect_assigned(loop.body, unstable, constexpr_too, names);
  };
  collect(nullptr, true, all);
  for (const ExprPtr& target : loop.targets) target_names(*target, targets);
  NameSet unstable(targets.begin(), targets.end());
  for (const std::string& name : all)
    if (!is_no_value(name)) unstable.insert(name);
  // What is no value (None, a type) stays what it is unless a branch assigns it that is not ruled out if it stays so.
  size_t known;
  do {
    known = unstable.size();
    all.clear();
    collect(&unstable, true, all);
    unstable.insert(all.begin(), all.end());
  } while (unstable.size() != known);
  collect(&unstable, false, values);
  if (with_target)
    for (auto* names : {&all, &values}) target_names(*loop.targets[0], *names);
  if (const std::string& left = frame_->loops.back().left; !left.empty())
    for (auto* names : {&all, &values}) names->insert(names->end(), {left, kReturned, kResult});
  if (auto it = frame_->scope.find(kResult); it != frame_->scope.end() && it->second.value.is<dsl::None>())
    for (auto* names : {&all, &values}) std::erase(*names, kResult);  // nothing to carry
  std::vector<Carried> carried;
  for (const std::string& name : all) {
    auto it = frame_->scope.find(name);
    bool is_target = !with_target && std::find(targets.begin(), targets.end(), name) != targets.end();
    if (it == frame_->scope.end() || !it->second.unusable.empty() || is_target) continue;
    bool value = std::find(values.begin(), values.end(), name) != values.end();
    carried.push_back({name, it->second.value, value && dsl::can_be_value(it->second.value)});
  }
  return carried;
}

std::vector<dsl::Variable> Checker::variables_of(const std::vector<Carried>& carried) {
  std::vector<dsl::Variable> out;
  for (const Carried& c : carried)
    if (c.carried) out.push_back({fmt::format("'{}'", c.name), c.value, c.name.starts_with('.') ? "" : c.name});
  return out;
}

void Checker::bind_carried(const std::vector<Carried>& carried, std::span<const Val> values) {
  auto next = values.begin();
  for (const Carried& c : carried) {
    Binding& b = frame_->scope[c.name];
    if (c.carried) {
      b.value = *next++;
      keep_shared(c.name, c.value, b.value);
    } else if (holds_unknown(c.value)) {
      b.value = Val();
    } else {
      b.unusable = fmt::format("'{}' is {} before the loop and assigned in its body, so it has no one value here",
                               c.name, dsl::describe(c.value));
    }
  }
}

std::vector<dsl::AtEnd> Checker::ends_of(const std::vector<Carried>& carried) {
  std::vector<dsl::AtEnd> out;
  for (const Carried& c : carried) {
    if (!c.carried) continue;
    const Binding& b = frame_->scope.at(c.name);
    if (changes_ != frame_->loops.back().changes && may_share(c.name, b.value))
      error(b.loc,
            fmt::format("another name has the list '{}' too when the loop begins again, and a list changes there",
                        c.name));
    keep_shared(c.name, b.value, b.value);
    out.push_back({b.value, b.loc, b.unusable});
  }
  return out;
}

std::vector<std::string> Checker::forms_of(const std::vector<Carried>& carried) const {
  std::vector<std::string> forms;
  for (const Carried& c : carried) {
    auto it = frame_->scope.find(c.name);
    forms.push_back(c.carried || it == frame_->scope.end() ? "" : dsl::describe(it->second.value));
  }
  return forms;
}

namespace {

bool is_as_before(const Binding& before, const Binding& after) {
  const bool no_value = before.value.is_poison() && after.value.is_poison();
  return before.unusable == after.unusable && (no_value || dsl::same(before.value, after.value));
}

}  // namespace

void Checker::leave_loop(const Stmt& loop, const std::vector<Carried>& carried, const Scope& before,
                         std::span<const std::string> forms, std::span<const Val> values) {
  Scope after = std::move(frame_->scope);
  frame_->scope = before;
  std::vector<std::string> targets;
  for (const ExprPtr& target : loop.targets) target_names(*target, targets);
  std::erase_if(targets, [&](const std::string& name) {
    return std::any_of(carried.begin(), carried.end(), [&](const Carried& c) { return c.name == name; });
  });
  for (auto& [name, binding] : after) {
    auto it = before.find(name);
    bool is_target = std::find(targets.begin(), targets.end(), name) != targets.end();
    if (is_target) {
      frame_->scope[name] = Binding{
          Val(), fmt::format("the loop variable '{}' has no value after the loop in line {}", name, loop.loc.line),
          binding.loc};
    } else if (it == before.end() || (!it->second.unusable.empty() && !is_as_before(it->second, binding))) {
      frame_->scope[name] =
          Binding{Val(),
                  fmt::format("'{}' has a value only in the body of the loop in line {}, which may not run", name,
                              loop.loc.line),
                  binding.loc};
    }
  }
  auto next = values.begin();
  for (size_t i = 0; i < carried.size(); ++i) {
    const Carried& c = carried[i];
    const Binding& last = after[c.name];
    if (c.carried) {
      keep_shared(c.name, c.value, *next);
      keep_shared(c.name, last.value, *next);
      bind(c.name, *next++, last.loc);
    } else if (!holds_unknown(c.value) && last.value.is_poison() && !last.unusable.empty()) {
      frame_->scope[c.name].unusable =
          fmt::format("'{}' is {} before the loop in line {} and may be another value in its body", c.name,
                      dsl::describe(c.value), loop.loc.line);
    } else if (holds_unknown(c.value) || holds_unknown(last.value)) {
      bind(c.name, Val(), last.loc);
    } else if (!dsl::same(c.value, last.value)) {
      frame_->scope[c.name].unusable = fmt::format("'{}' is {} before the loop in line {} and {} in its body", c.name,
                                                   dsl::describe(c.value), loop.loc.line, forms[i]);
    }
  }
}

// ---- for

dsl::Range Checker::parse_range(const std::string& name, const std::vector<Argument>& args, Loc loc) {
  static const std::vector<std::string> options = {
      "step",    "num_stages",      "loop_unroll_factor", "disallow_acc_multi_buffer",
      "flatten", "warp_specialize", "disable_licm"};
  dsl::Range range{name, name == "tl.static_range"};
  const dsl::Range unknown = range;
  bool ok = true;
  std::vector<dsl::Placed> bounds;
  const Argument* step = nullptr;  // given by name
  bool is_number = false;          // the last bound
  for (const Argument& a : args) {
    if (a.name.empty()) {
      bounds.push_back({a.value, a.loc});
      is_number = a.is_number;
    } else if (name == "range" && !host_) {
      diags_.warning(a.loc, fmt::format("range ignores its argument '{}', as in Triton", a.name))
          .with_hint(a.name == "step" ? "give the step as the third bound: range(start, end, step)"
                                      : "tl.range takes options");
    } else if (std::find(options.begin(), options.end(), a.name) == options.end() || name == "range" ||
               (range.compile_time && a.name != "step")) {
      error(a.loc, fmt::format("{} has no argument '{}'", name, a.name),
            name == "range" ? "its arguments have no names" : nearest_hint(a.name, options));
      ok = false;
    } else if (a.name == "step") {
      step = &a;
    } else if (a.name == "num_stages") {
      range.num_stages = {a.value, a.loc};
    } else if (a.name == "warp_specialize") {
      range.warp_specialize = {a.value, a.loc};
    } else if (a.name == "loop_unroll_factor") {
      range.unroll = {a.value, a.loc};
    }
  }
  if (bounds.empty() || bounds.size() > 3 || (step && bounds.size() == 3)) {
    error(loc, fmt::format("{} takes 1 to 3 bounds, found {}", name, bounds.size() + (step != nullptr)));
    return unknown;
  }
  if (bounds.size() > 1) range.lower = bounds[0];
  range.upper = bounds[bounds.size() > 1 ? 1 : 0];
  if (bounds.size() == 3) range.step = bounds[2];
  if (step) range.step = {step->value, step->loc};
  range.warns_of_zero = !range.compile_time && !host_ && !(step ? step->is_number : is_number);
  ok = dsl::check_range(sema_, range) && ok;
  // False is Triton's default.
  if (ok && range.warp_specialize && !range.warp_specialize->value.as<bool>()) range.warp_specialize.reset();
  return ok ? range : unknown;
}

void Checker::execute_for(const Stmt& s, const Continuation& rest) {
  const Expr& source = *s.value;
  auto callee = source.kind == Expr::Kind::Call ? peek(*source.children[0], {}) : std::nullopt;
  const FunctionRef* f = callee ? callee->get_if<FunctionRef>() : nullptr;
  if (f && (f->name == "python.range" || f->name == "tl.range" || f->name == "tl.static_range")) {
    std::vector<Argument> args;
    dsl::Range range;
    if (eval_arguments(source, args))
      range = parse_range(f->name == "python.range" ? "range" : f->name, args, source.loc);
    if (f->name == "tl.static_range") {
      static_for(s, range);
    } else {
      auto it = s.targets[0]->kind == Expr::Kind::Name ? frame_->scope.find(s.targets[0]->text) : frame_->scope.end();
      const Val before = it != frame_->scope.end() && it->second.unusable.empty() ? it->second.value : Val();
      run_time_for(s, range);
      if (reads_next(rest, s.targets[0]->text))
        if (auto last = last_index(s, range, before))
          bind(s.targets[0]->text, dsl::as_scalars(*last), s.targets[0]->loc);
    }
    return;
  }
  Val items = eval(source);
  if (const auto* tuple = items.get_if<dsl::TupleVal>()) {
    frame_->loops.back().items = items;
    unroll(s, *tuple->items);
    return;
  }
  if (!items.is_poison())
    error(source.loc,
          fmt::format("a 'for' loop runs over range, tl.range, tl.static_range or a tuple, found {}",
                      dsl::describe(items)),
          !items.is_value()                  ? ""
          : items.value()->type.is_tile()    ? "a tile is computed with as a whole: x + 1 adds to each element"
          : items.value()->type.is_integer() ? "for i in range(n) counts"
                                             : "");
  static_for(s, {});
}

void Checker::unroll(const Stmt& s, std::span<const Val> values, int depth) {
  const std::string left = frame_->loops.back().left;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!count_step(s.loc)) return;
    assign(*s.targets[0], values[i]);
    execute(Continuation{s.body});
    note_result();
    if (left.empty()) continue;
    Val is_left = left_flag();
    if (is_left.is_constant() && dsl::truth(is_left)) return;
    if (is_left.is_constant()) continue;
    // The other iterations are run where this one has not left the loop.
    if (i + 1 == values.size()) return;
    if (depth == kMaxNested) {
      error(s.loc, fmt::format("this loop may be left in more than {} of its iterations", kMaxNested),
            "use range() instead of tl.static_range()");
      return;
    }
    branch({s.loc, s.loc, is_left, {}}, [&](int side) {
      if (side) unroll(s, values.subspan(i + 1), depth + 1);
    });
    return;
  }
}

void Checker::forget_assigned(const Stmt& loop) {
  std::vector<std::string> names;
  collect_assigned(loop.body, nullptr, true, names);
  for (const std::string& name : names)
    if (auto it = frame_->scope.find(name); it != frame_->scope.end() && !it->second.value.is_value())
      it->second.value = Val();
}

void Checker::static_for(const Stmt& s, const dsl::Range& range) {
  if (!range.is_known()) {
    ++unknown_;
    const Val unknown;
    forget_assigned(s);
    unroll(s, {&unknown, 1});
    forget_assigned(s);
    --unknown_;
    return;
  }
  const dsl::Int &upper = range.upper.value.as<dsl::Int>(), &step = range.step.value.as<dsl::Int>();
  std::vector<Val> values;
  for (dsl::Int i = range.lower.value.as<dsl::Int>(); step > 0 ? i < upper : i > upper; i = i + step) {
    values.push_back(i);
    if (int64_t(values.size()) > kMaxSteps) break;
  }
  unroll(s, values);
}

void Checker::run_time_for(const Stmt& s, const dsl::Range& range) {
  if (range.is_known() && !frame_->loops.back().left.empty()) return run_time_for_with_break(s, range);
  const std::vector<Carried> carried = find_carried(s);
  sema_.at(s.loc);
  dsl::Loop loop(sema_, range, variables_of(carried));
  const Scope before = frame_->scope;
  bind_carried(carried, loop.enter_body());
  assign(*s.targets[0], loop.index());
  execute(Continuation{s.body});
  note_result();
  const std::vector<std::string> forms = forms_of(carried);
  leave_loop(s, carried, before, forms, loop.end_body(ends_of(carried)));
}

void Checker::run_time_for_with_break(const Stmt& s, const dsl::Range& range) {
  sema_.at(s.value->loc);
  const dsl::Bounds bounds = dsl::range_bounds(sema_, range);
  const ir::Type index_type = ir::Type::scalar(bounds.index);
  sema_.at(s.loc);
  // The variable keeps its last value after the loop; without any iteration the one that it had, or the lower bound.
  if (const Expr& target = *s.targets[0]; target.kind == Expr::Kind::Name) {
    auto it = frame_->scope.find(target.text);
    Val old = it != frame_->scope.end() && it->second.unusable.empty() ? it->second.value : Val();
    if (old.is<dsl::Int>()) old = dsl::convert(sema_, old, index_type);
    const bool keeps = old.is_value() && old.value()->type.same_shape_and_elem(index_type);
    bind(target.text, keeps ? old : dsl::index_at(sema_, bounds, bounds.lower), target.loc);
  }
  const std::vector<Carried> carried = find_carried(s, true);
  std::vector<dsl::Variable> variables{{"the index", bounds.lower}};
  for (dsl::Variable& v : variables_of(carried)) variables.push_back(std::move(v));
  dsl::Loop loop(sema_, std::move(variables));
  const Scope before = frame_->scope;

  // Runs a region, whose values are the index and those of the carried names.
  auto region = [&](const std::vector<Val>& values, const std::function<Val(const Val& counter)>& run) {
    frame_->scope = before;
    bind_carried(carried, std::span(values).subspan(1));
    std::vector<dsl::AtEnd> ends{{run(values[0])}};
    for (dsl::AtEnd& end : ends_of(carried)) ends.push_back(std::move(end));
    return ends;
  };
  ir::Value* go = nullptr;
  const auto tested = region(loop.enter_test(), [&](const Val& counter) {
    const Val left = dsl::counter_in_range(sema_, range, bounds, counter);
    go = dsl::logical(sema_, "and", left, dsl::unary(sema_, "not", left_flag())).value();
    return counter;
  });
  loop.end_test(go, tested);
  const auto ends = region(loop.enter_body(), [&](const Val& counter) {
    assign(*s.targets[0], dsl::index_at(sema_, bounds, counter));
    execute(Continuation{s.body});
    note_result();
    sema_.at(s.loc);
    return Val(sema_.builder.add(counter.value(), bounds.step));
  });
  const std::vector<std::string> forms = forms_of(carried);
  const std::vector<Val> behind = loop.end_body(ends);
  leave_loop(s, carried, before, forms, std::span(behind).subspan(1));
}

std::optional<Val> Checker::last_index(const Stmt& s, const dsl::Range& range, const Val& before) {
  std::vector<std::string> assigned;
  collect_assigned(s.body, nullptr, true, assigned);
  const Expr& target = *s.targets[0];
  const bool own = target.kind == Expr::Kind::Name && frame_->loops.back().left.empty() &&
                   std::find(assigned.begin(), assigned.end(), target.text) == assigned.end();
  if (!own) return std::nullopt;
  if (!range.is_known()) return Val();
  sema_.at(s.loc);
  return dsl::last_index(sema_, range, before);
}

// ---- while

void Checker::execute_while(const Stmt& s) {
  const bool leaves = !frame_->loops.back().left.empty();
  std::vector<std::string> assigned;
  collect_assigned(s.body, nullptr, true, assigned);
  assigned_within(*s.value, assigned);
  const auto known = peek(*s.value, NameSet(assigned.begin(), assigned.end()));
  if (known && !dsl::truth(*known)) return;
  if (known && !leaves) {
    error(s.value->loc, "the condition of this 'while' is always true: the loop would never end",
          "the condition has to depend on a variable that the body assigns, or the body needs a 'break'");
    return;
  }
  const std::vector<Carried> carried = find_carried(s);
  sema_.at(s.loc);
  dsl::Loop loop(sema_, variables_of(carried));
  const Scope before = frame_->scope;
  bind_carried(carried, loop.enter_test());
  ir::Value* holds = while_condition(s, known.has_value());
  loop.end_test(holds, ends_of(carried));

  frame_->scope = before;
  bind_carried(carried, loop.enter_body());
  unknown_ += !holds;
  execute(Continuation{s.body});
  note_result();
  unknown_ -= !holds;
  const std::vector<std::string> forms = forms_of(carried);
  leave_loop(s, carried, before, forms, loop.end_body(ends_of(carried)));
}

// A loop that has been left does not evaluate its condition again.
ir::Value* Checker::while_condition(const Stmt& s, bool always) {
  auto condition = [&]() -> ir::Value* {
    Val v = eval(*s.value);
    sema_.at(s.value->loc);
    return v.is_poison() ? nullptr : dsl::to_condition(sema_, v);
  };
  const Val left = left_flag();
  if (!left.is_value()) return condition();
  const Val go = dsl::unary(sema_, "not", left);
  if (always) return go.value();
  Join join = dsl::begin_if(sema_, go.value());
  dsl::enter(sema_, join, 0);
  ir::Value* holds = condition();
  std::string why;
  auto merged = dsl::merge(sema_, join, "", holds ? Val(holds) : Val(), false, why);
  dsl::finish_if(sema_, join);
  return merged ? merged->value() : nullptr;
}

}  // namespace tegula::language
