// Loops. The names that live before a loop and are assigned in its body are carried: the loop op takes their values,
// its block has an argument for each, and its results are their values behind the loop.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/ir/flow.h"
#include "codegen/ir/options.h"
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

// With `unstable`, branches that compile-time conditions rule out are left out; the conditions may not depend on the
// names in it. Names annotated tl.constexpr are taken only if asked for.
void Checker::collect_assigned(std::span<const StmtPtr> statements, const NameSet* unstable, bool constexpr_too,
                               std::vector<std::string>& names) {
  for (const StmtPtr& s : statements) {
    bool constexpr_name = s->kind == Kind::AnnAssign && is_constexpr_annotation(s->annotation.get());
    bool assigns = s->kind == Kind::Assign || s->kind == Kind::AugAssign || s->kind == Kind::For ||
                   (s->kind == Kind::AnnAssign && s->value && (!constexpr_name || constexpr_too));
    if (assigns)
      for (const ExprPtr& target : s->targets) target_names(*target, names);
    if (s->value) assigned_within(*s->value, names);
    std::optional<Val> condition;
    if (s->kind == Kind::If && unstable) condition = peek(*s->value, *unstable);
    if (!condition || dsl::truth(*condition)) collect_assigned(s->body, unstable, constexpr_too, names);
    if (!condition || !dsl::truth(*condition)) collect_assigned(s->orelse, unstable, constexpr_too, names);
  }
}

std::vector<Checker::Carried> Checker::find_carried(const Stmt& loop, bool with_target) {
  std::vector<std::string> all, values, targets;
  collect_assigned(loop.body, nullptr, true, all);
  for (const ExprPtr& target : loop.targets) target_names(*target, targets);
  NameSet unstable(all.begin(), all.end());
  unstable.insert(targets.begin(), targets.end());
  all.clear();
  collect_assigned(loop.body, &unstable, true, all);
  collect_assigned(loop.body, &unstable, false, values);
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

void Checker::collect_inits(std::vector<Carried>& carried, std::vector<ir::Value*>& inits) {
  for (Carried& c : carried) {
    if (!c.carried) continue;
    std::vector<ir::Value*> leaves;
    if (dsl::flatten(sema_, c.value, c.name, leaves)) {
      inits.insert(inits.end(), leaves.begin(), leaves.end());
    } else {
      c = {c.name, Val(), false};
    }
  }
}

void Checker::bind_carried(const std::vector<Carried>& carried, std::span<ir::Value* const> inits, ir::Block* block) {
  std::vector<ir::Value*> args;
  for (ir::Value* init : inits) args.push_back(block->add_arg(init->type));
  size_t next = 0;
  for (const Carried& c : carried) {
    Binding& b = frame_->scope[c.name];
    if (c.carried) {
      b.value = dsl::rebuild(c.value, args, next);
      b.typed = false;
      name_values(b.value, c.name);
    } else if (c.value.is_poison()) {
      b.value = Val();
    } else {
      b.unusable = fmt::format("'{}' is {} before the loop and assigned in its body, so it has no one value here",
                               c.name, dsl::describe(c.value));
    }
  }
}

void Checker::loop_body(const Stmt& loop, const std::vector<Carried>& carried, size_t num_values, ir::Block* block,
                        const std::function<ir::Value*()>& next_index) {
  execute(Continuation{loop.body});
  note_result();
  std::vector<ir::Value*> yields;
  if (next_index) yields.push_back(next_index());
  const std::vector<ir::Value*> args = ir::received(*block);
  size_t next = args.size() - num_values;  // behind an index
  for (const Carried& c : carried) {
    if (!c.carried) continue;
    std::vector<ir::Value*> leaves;
    Val before = dsl::rebuild(c.value, args, next);
    const Binding& after = frame_->scope[c.name];
    sema_.at(after.loc);
    if (!after.unusable.empty()) {
      error(after.loc, after.unusable, "the next iteration needs its value");
    } else if (!after.value.is_poison() && !dsl::match_carried(sema_, before, after.value, leaves)) {
      error(after.loc,
            fmt::format("the type of '{}' changes in the loop: {} before it, {} at the end of its body", c.name,
                        dsl::describe(before), dsl::with_type(after.value)),
            "give it its final type before the loop, or cast it back with .to(...)");
    }
    yields.insert(yields.end(), leaves.begin(), leaves.end());
  }
  sema_.at(loop.loc);
  sema_.builder.create(ir::Opcode::Yield, std::move(yields));
}

void Checker::leave_loop(const Stmt& loop, const std::vector<Carried>& carried, const Scope& before, ir::Op* op,
                         size_t num_values) {
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
      frame_->scope[name] =
          Binding{Val(), false,
                  fmt::format("the loop variable '{}' has no value after the loop in line {}", name, loop.loc.line),
                  binding.loc};
    } else if (it == before.end() || !it->second.unusable.empty()) {
      frame_->scope[name] =
          Binding{Val(), false,
                  fmt::format("'{}' has a value only in the body of the loop in line {}, which may not run", name,
                              loop.loc.line),
                  binding.loc};
    }
  }
  const std::vector<ir::Value*> results = dsl::values_behind(*op);
  size_t next = results.size() - num_values;
  for (const Carried& c : carried) {
    const Binding& last = after[c.name];
    if (c.carried) {
      Val value = dsl::rebuild(c.value, results, next);
      if (last.value.is_poison()) value = Val();
      bind(c.name, std::move(value), false, last.loc);
    } else if (c.value.is_poison() || last.value.is_poison()) {
      bind(c.name, Val(), false, last.loc);
    } else if (!dsl::same(c.value, last.value)) {
      frame_->scope[c.name].unusable = fmt::format("'{}' is {} before the loop in line {} and {} in its body", c.name,
                                                   dsl::describe(c.value), loop.loc.line, dsl::describe(last.value));
    }
  }
  dsl::drop_unchanged(*op);
}

// ---- for

// The arguments of range, tl.range and tl.static_range; nothing after an error.
std::optional<Checker::Range> Checker::parse_range(const std::string& name, const std::vector<Argument>& args,
                                                   Loc loc) {
  static const std::vector<std::string> options = {
      "step",    "num_stages",      "loop_unroll_factor", "disallow_acc_multi_buffer",
      "flatten", "warp_specialize", "disable_licm"};
  Range range{name, dsl::Int(0), Val(), dsl::Int(1), std::nullopt};
  bool ok = true;
  std::vector<const Argument*> bounds;
  const Argument* step = nullptr;
  for (const Argument& a : args) {
    if (a.name.empty()) {
      bounds.push_back(&a);
    } else if (name == "range" && !host_) {
      diags_.warning(a.loc, fmt::format("range ignores its argument '{}', as in Triton", a.name))
          .with_hint(a.name == "step" ? "give the step as the third bound: range(start, end, step)"
                                      : "tl.range takes options");
    } else if (std::find(options.begin(), options.end(), a.name) == options.end() || name == "range" ||
               (name == "tl.static_range" && a.name != "step")) {
      error(a.loc, fmt::format("{} has no argument '{}'", name, a.name),
            name == "range" ? "its arguments have no names" : nearest_hint(a.name, options));
      ok = false;
    } else if (a.name == "step") {
      step = &a;
    } else if (a.name == "num_stages") {
      const auto* stages = a.value.get_if<dsl::Int>();
      if (stages && ir::option::num_stages.allows(stages->clamped())) {
        range.num_stages = stages->clamped();
      } else if (stages) {
        error(a.loc, ir::option::num_stages.wrong(stages->clamped()));
        ok = false;
      } else if (!a.value.is<dsl::None>() && !a.value.is_poison()) {
        error(a.loc, fmt::format("num_stages takes a compile-time integer, found {}", dsl::describe(a.value)));
        ok = false;
      }
    }
  }
  if (bounds.empty() || bounds.size() > 3 || (step && bounds.size() == 3)) {
    error(loc, fmt::format("{} takes 1 to 3 bounds, found {}", name, bounds.size() + (step != nullptr)));
    return std::nullopt;
  }
  if (bounds.size() == 3) step = bounds[2];
  if (bounds.size() > 1) range.lower = bounds[0]->value;
  range.upper = bounds[bounds.size() > 1 ? 1 : 0]->value;
  if (step) range.step = step->value;

  for (Val* bound : {&range.lower, &range.upper, &range.step})
    if (const auto* truth = bound->get_if<bool>()) *bound = dsl::Int(*truth);  // a bool is an int in Python

  bool compile_time = name == "tl.static_range";
  for (const Argument& a : args) {
    if (!a.name.empty() && &a != step) continue;
    const ir::Value* value = a.value.value();
    bool fits = a.value.is_poison() || a.value.is<dsl::Int>() || a.value.is<bool>() ||
                (!compile_time && value && value->type.is_integer() && value->type.is_scalar());
    if (fits) continue;
    error(
        a.loc,
        fmt::format("{} takes {}integers, found {}", name, compile_time ? "compile-time " : "", dsl::describe(a.value)),
        compile_time && value ? "use range() where the bounds are known at run time only" : "");
    ok = false;
  }
  if (ok && range.step.is<dsl::Int>() && range.step.as<dsl::Int>() == 0) {
    error(step->loc, fmt::format("the step of {} is 0", name));
    ok = false;
  }
  if (!ok) return std::nullopt;
  return range;
}

void Checker::execute_for(const Stmt& s, const Continuation& rest) {
  const Expr& source = *s.value;
  auto callee = source.kind == Expr::Kind::Call ? peek(*source.children[0], {}) : std::nullopt;
  const FunctionRef* f = callee ? callee->get_if<FunctionRef>() : nullptr;
  if (f && (f->name == "python.range" || f->name == "tl.range" || f->name == "tl.static_range")) {
    std::vector<Argument> args;
    std::optional<Range> range;
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
          bind(s.targets[0]->text, std::move(*last), false, s.targets[0]->loc);
    }
    return;
  }
  Val items = eval(source);
  if (const auto* tuple = items.get_if<dsl::TupleVal>()) {
    unroll(s, *tuple->items);
    return;
  }
  if (!items.is_poison())
    error(source.loc, fmt::format("a 'for' loop runs over range, tl.range, tl.static_range or a tuple, found {}",
                                  dsl::describe(items)));
  static_for(s, std::nullopt);
}

void Checker::unroll(const Stmt& s, std::span<const Val> values, int depth) {
  const std::string left = frame_->loops.back().left;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!count_step(s.loc)) return;
    assign(*s.targets[0], values[i], false);
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

void Checker::static_for(const Stmt& s, const std::optional<Range>& range) {
  if (!range || range->lower.is_poison() || range->upper.is_poison() || range->step.is_poison()) {
    ++unknown_;
    const Val unknown;
    unroll(s, {&unknown, 1});
    --unknown_;
    return;
  }
  const dsl::Int &upper = range->upper.as<dsl::Int>(), &step = range->step.as<dsl::Int>();
  std::vector<Val> values;
  for (dsl::Int i = range->lower.as<dsl::Int>(); step > 0 ? i < upper : i > upper; i = i + step) {
    values.push_back(i);
    if (int64_t(values.size()) > kMaxSteps) break;
  }
  unroll(s, values);
}

void Checker::run_time_for(const Stmt& s, const std::optional<Range>& range) {
  bool known = range && !range->lower.is_poison() && !range->upper.is_poison() && !range->step.is_poison();
  if (known && !frame_->loops.back().left.empty()) return run_time_for_with_break(s, *range);
  std::vector<Carried> carried = find_carried(s);
  std::vector<ir::Value*> operands, inits;
  ir::Type index_type = ir::Type::scalar(Elem::I32);
  if (known) {
    sema_.at(s.value->loc);
    operands = dsl::for_bounds(sema_, range->lower, range->upper, range->step);
    index_type = operands[0]->type;
  } else {
    operands = dsl::for_bounds(sema_, dsl::Int(0), dsl::Int(1), dsl::Int(1));
  }
  sema_.at(s.loc);
  collect_inits(carried, inits);
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::vector<ir::Type> types;
  for (ir::Value* init : inits) types.push_back(init->type);
  ir::Attrs attrs;
  if (range && range->num_stages) attrs[ir::attr::num_stages] = *range->num_stages;
  ir::Op* op = sema_.builder.create(ir::Opcode::For, std::move(operands), std::move(types), std::move(attrs));
  ir::Builder outside = sema_.builder;

  ir::Block* block = &ir::ForLoop(*op).body();
  ir::Value* induction = block->add_arg(index_type);
  Scope before = frame_->scope;
  bind_carried(carried, inits, block);
  assign(*s.targets[0], known ? Val(induction) : Val(), false);
  sema_.builder.set_end(block);
  loop_body(s, carried, inits.size(), block);
  sema_.builder = outside;
  sema_.at(s.loc);
  leave_loop(s, carried, before, op, inits.size());
}

// Whether the loop with this index has iterations left, as an int1.
Val Checker::index_in_range(const Val& index, const Val& upper, const Val& step) {
  if (step.is_constant())
    return dsl::compare(sema_, dsl::truth(dsl::compare(sema_, ">", step, dsl::Int(0))) ? "<" : ">", index, upper);
  Val up =
      dsl::logical(sema_, "and", dsl::compare(sema_, ">", step, dsl::Int(0)), dsl::compare(sema_, "<", index, upper));
  Val down =
      dsl::logical(sema_, "and", dsl::compare(sema_, "<", step, dsl::Int(0)), dsl::compare(sema_, ">", index, upper));
  return dsl::logical(sema_, "or", up, down);
}

void Checker::run_time_for_with_break(const Stmt& s, const Range& range) {
  sema_.at(s.value->loc);
  const std::vector<ir::Value*> bounds = dsl::for_bounds(sema_, range.lower, range.upper, range.step);
  const Val upper = bounds[1], step = range.step.is_constant() ? range.step : Val(bounds[2]);
  const ir::Type index_type = bounds[0]->type;
  sema_.at(s.loc);
  // The variable keeps its last value behind the loop; without any iteration the one that it had, or the lower bound.
  if (const Expr& target = *s.targets[0]; target.kind == Expr::Kind::Name) {
    auto it = frame_->scope.find(target.text);
    Val old = it != frame_->scope.end() && it->second.unusable.empty() ? it->second.value : Val();
    if (old.is<dsl::Int>()) old = dsl::convert(sema_, old, index_type);
    const bool keeps = old.is_value() && old.value()->type.same_shape_and_elem(index_type);
    bind(target.text, keeps ? old : Val(bounds[0]), false, target.loc);
  }
  std::vector<Carried> carried = find_carried(s, true);
  std::vector<ir::Value*> values, inits{bounds[0]};
  collect_inits(carried, values);
  inits.insert(inits.end(), values.begin(), values.end());
  std::vector<ir::Type> types;
  for (ir::Value* init : inits) types.push_back(init->type);
  ir::Op* op = sema_.builder.create(ir::Opcode::While, inits, std::move(types), {});
  ir::Builder outside = sema_.builder;
  Scope before = frame_->scope;

  ir::Block* test = &ir::WhileLoop(*op).test();
  ir::Value* index = test->add_arg(index_type);
  bind_carried(carried, values, test);
  sema_.builder.set_end(test);
  Val go = dsl::logical(sema_, "and", index_in_range(index, upper, step), dsl::unary(sema_, "not", left_flag()));
  std::vector<ir::Value*> passed{go.value()};
  for (auto& arg : test->args) passed.push_back(arg.get());
  sema_.builder.create(ir::Opcode::Condition, std::move(passed));

  frame_->scope = before;
  ir::Block* block = &ir::WhileLoop(*op).body();
  index = block->add_arg(index_type);
  bind_carried(carried, values, block);
  sema_.builder.set_end(block);
  assign(*s.targets[0], index, false);
  loop_body(s, carried, values.size(), block, [&] { return sema_.builder.add(index, bounds[2]); });
  sema_.builder = outside;
  sema_.at(s.loc);
  leave_loop(s, carried, before, op, values.size());
}

std::optional<Val> Checker::last_index(const Stmt& s, const std::optional<Range>& range, const Val& before) {
  std::vector<std::string> assigned;
  collect_assigned(s.body, nullptr, true, assigned);
  const Expr& target = *s.targets[0];
  const bool own = target.kind == Expr::Kind::Name && frame_->loops.back().left.empty() &&
                   std::find(assigned.begin(), assigned.end(), target.text) == assigned.end();
  if (!own) return std::nullopt;
  if (!range || range->lower.is_poison() || range->upper.is_poison() || range->step.is_poison()) return Val();
  if (!range->step.is<dsl::Int>()) return std::nullopt;
  sema_.at(s.loc);
  std::vector<ir::Value*> bounds = dsl::for_bounds(sema_, range->lower, range->upper, range->step);
  const Val lower = bounds[0], upper = bounds[1];
  // lower + (distance - 1) // |step| * step, where there is any distance to go
  const dsl::Int step = range->step.as<dsl::Int>(), width = step > 0 ? step : -step;
  Val distance = step > 0 ? dsl::binary(sema_, "-", upper, lower) : dsl::binary(sema_, "-", lower, upper);
  Val steps = dsl::binary(sema_, "//", dsl::binary(sema_, "-", distance, dsl::Int(1)), width);
  Val last = dsl::binary(sema_, "+", lower, dsl::binary(sema_, "*", steps, step));
  const ir::Type& type = bounds[0]->type;
  const Val kept = before.is<dsl::Int>() ? dsl::convert(sema_, before, type) : before;
  const bool keeps = kept.is_value() && kept.value()->type.same_shape_and_elem(type);
  Val ran = index_in_range(lower, upper, range->step);
  return Val(sema_.builder.select(ran.value(), last.value(), keeps ? kept.value() : bounds[0]));
}

// ---- while

void Checker::execute_while(const Stmt& s) {
  const bool leaves = !frame_->loops.back().left.empty();
  std::vector<std::string> assigned;
  collect_assigned(s.body, nullptr, true, assigned);
  const auto known = peek(*s.value, NameSet(assigned.begin(), assigned.end()));
  if (known && !dsl::truth(*known)) return;
  if (known && !leaves) {
    error(s.value->loc, "the condition of this 'while' is always true: the loop would never end",
          "the condition has to depend on a variable that the body assigns, or the body needs a 'break'");
    return;
  }
  std::vector<Carried> carried = find_carried(s);
  std::vector<ir::Value*> inits;
  collect_inits(carried, inits);
  std::vector<ir::Type> types;
  for (ir::Value* init : inits) types.push_back(init->type);
  ir::Op* op = sema_.builder.create(ir::Opcode::While, inits, std::move(types));
  ir::Builder outside = sema_.builder;
  Scope before = frame_->scope;

  ir::Block* test = &ir::WhileLoop(*op).test();
  bind_carried(carried, inits, test);
  sema_.builder.set_end(test);
  ir::Value* value = while_condition(s, known.has_value());
  std::vector<ir::Value*> passed{value};
  for (auto& arg : test->args) passed.push_back(arg.get());
  sema_.builder.create(ir::Opcode::Condition, std::move(passed));

  frame_->scope = before;
  ir::Block* block = &ir::WhileLoop(*op).body();
  bind_carried(carried, inits, block);
  sema_.builder.set_end(block);
  unknown_ += !value;
  loop_body(s, carried, inits.size(), block);
  unknown_ -= !value;
  sema_.builder = outside;
  sema_.at(s.loc);
  leave_loop(s, carried, before, op, inits.size());
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
