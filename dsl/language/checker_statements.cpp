// Statements: assignments, branches and early returns.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/language/checker_impl.h"

namespace tegula::language {

using Kind = Stmt::Kind;

Outcome Checker::execute(const Continuation& k) {
  for (size_t i = 0; i < k.statements.size(); ++i) {
    const Stmt& s = *k.statements[i];
    if (!count_step(s.loc)) return {Outcome::Kind::Return, Val()};
    sema_.at(s.loc);
    if (!host_ && !unknown_) dsl::watch_statement(sema_, watched_function());
    const Continuation rest{k.statements.subspan(i + 1), k.next};
    bool go_on = false;
    Outcome outcome;
    switch (s.kind) {
      case Kind::Return:
        return execute_return(s);
      case Kind::Break:
      case Kind::Continue:
        return execute_jump(s);
      case Kind::If: {
        const Val condition = eval(*s.value);
        note_ruled_out(s, condition);
        outcome = choose({s.loc, s.value->loc, condition, {s.body, s.orelse}}, rest, go_on);
        break;
      }
      case Kind::For:
      case Kind::While:
        outcome = execute_loop(s, rest, go_on);
        break;
      case Kind::With:
        check_with(s);
        return execute(Continuation{s.body, &rest});
      default:
        execute_simple(s);
        go_on = true;
    }
    if (!go_on) return outcome;
  }
  return k.next ? execute(*k.next) : Outcome{};
}

// In Triton a hint is a note on the value that it is given: tl.multiple_of(x, 8) without an assignment holds for x.
void Checker::keep_hint(const Expr& statement, const Val& result) {
  const Expr* given = &statement;
  const ir::Value* value = result.value();
  for (; given->kind == Expr::Kind::Call; value = value->def->operand(0)) {
    if (!value || !value->def || value->def->opcode != ir::Opcode::Hint) return;
    const Expr& callee = *given->children[0];
    if (given->children.size() > 2)
      given = given->children[1].get();
    else if (callee.kind == Expr::Kind::Attribute)  // x.multiple_of(8)
      given = callee.children[0].get();
    else
      return;
  }
  if (!value) return;
  // A branch or a loop does not hand on what it was not seen to assign.
  const ir::Block* block = sema_.builder.block();
  const bool is_made_here = value->def ? value->def->parent == block : func_ && block == &func_->body;
  if (given->kind != Expr::Kind::Name || !is_made_here) return;
  auto it = frame_->scope.find(given->text);
  if (it != frame_->scope.end() && it->second.value.value() == value) it->second.value = result;
}

void Checker::execute_simple(const Stmt& s) {
  switch (s.kind) {
    case Kind::Assign:
    case Kind::AnnAssign:
      assign_statement(s);
      break;
    case Kind::AugAssign:
      augmented_assign(s);
      break;
    case Kind::Expr:
      statement_ = s.value.get();
      if (s.value->kind != Expr::Kind::String && s.value->kind != Expr::Kind::Ellipsis)
        keep_hint(*s.value, eval(*s.value));
      break;
    case Kind::Assert:
      check_assert(s);
      break;
    case Kind::Raise:
      check_raise(s);
      break;
    case Kind::Foreign:
      error(s.loc, s.text, s.hint);
      for (const ExprPtr& name : s.targets) assign(*name, Val());
      break;
    default:
      break;  // of no effect, or execute() has it
  }
}

// Hints alone: who runs the block, or what a profiler calls it.
void Checker::check_with(const Stmt& s) {
  static constexpr std::string_view kHints[] = {"async_task", "async_tasks", "scope"};
  for (const ExprPtr& context : s.value->children) {
    const Expr& callee = context->kind == Expr::Kind::Call ? *context->children[0] : *context;
    const std::string name = dotted_name(callee);
    const bool hint =
        std::find(std::begin(kHints), std::end(kHints), name.substr(name.rfind('.') + 1)) != std::end(kHints);
    if (hint) continue;
    error(context->loc, "'with' takes hints alone, such as tl.async_task(...)", "write the block without 'with'");
  }
}

// ---- Assignment

void Checker::assign(const Expr& target, const Val& value) {
  switch (target.kind) {
    case Expr::Kind::Name:
      assign_name(target.text, value, target.loc);
      return;
    case Expr::Kind::Tuple:
    case Expr::Kind::List:
      unpack(target, value);
      return;
    case Expr::Kind::Subscript:
      if (host_ ? host_assign_item(target, value) : assign_item(target, value)) return;
      if (auto object = peek(*target.children[0], {}); object && object->is_value() && object->value()->type.pointer)
        error(target.loc, fmt::format("cannot assign to an element of a {}", dsl::describe(*object)),
              "write memory with tl.store(p + i, value)");
      else
        error(target.loc, "cannot assign to a part of a tile",
              "write memory with tl.store(pointer, value), choose elements with tl.where(mask, x, y)");
      return;
    case Expr::Kind::Attribute:
      if (assign_field(target, value)) return;
      error(target.loc, fmt::format("cannot assign to the attribute '{}'", target.text));
      return;
    default:
      error(target.loc, "cannot assign to this expression");
      return;
  }
}

// a, *b, c = value: the starred name takes what the others leave. In a kernel values may be left over, as in Triton.
void Checker::unpack(const Expr& target, const Val& value) {
  const Val items = use(value, target.loc);
  if (items.is_poison() && !value.is_poison()) {
    for (const ExprPtr& child : target.children) assign(*child, Val());
    return;
  }
  const auto* tuple = items.get_if<dsl::TupleVal>();
  const size_t names = target.children.size(), found = tuple ? tuple->items->size() : 0;
  auto is_starred = [](const ExprPtr& c) { return c->kind == Expr::Kind::Starred; };
  const auto stars = size_t(std::count_if(target.children.begin(), target.children.end(), is_starred));
  const bool leaves_some = tuple && !host_ && !stars && found > names;
  const bool fits = tuple && stars <= 1 && (stars ? found + 1 >= names : found == names || leaves_some);
  if (leaves_some)
    diags_.warning(target.loc,
                   fmt::format("{} values for {} names: the others are left out, as in Triton", found, names));
  if (stars > 1)
    error(target.loc, "more than one starred name in an assignment");
  else if (!tuple && !value.is_poison())
    error(target.loc, fmt::format("cannot unpack {} into {} names", dsl::describe(value), names));
  else if (tuple && !fits)
    error(target.loc,
          fmt::format("cannot unpack {} values into {}{} names", found, stars ? "at least " : "", names - stars));
  size_t next = 0;
  for (const ExprPtr& child : target.children) {
    if (!is_starred(child)) {
      assign(*child, fits ? (*tuple->items)[next++] : Val());
      continue;
    }
    const size_t count = fits ? found + 1 - names : 0;
    auto from = fits ? tuple->items->begin() + long(next) : std::vector<Val>::const_iterator();
    assign(*child->children[0], fits ? dsl::make_list(std::vector<Val>(from, from + long(count))) : Val());
    next += count;
  }
}

void Checker::assign_statement(const Stmt& s) {
  if (!s.value) return;  // a bare annotation
  bool constexpr_name = s.kind == Kind::AnnAssign && is_constexpr_annotation(s.annotation.get());
  auto is_name = [](const ExprPtr& target) { return target->kind == Expr::Kind::Name; };
  if (std::all_of(s.targets.begin(), s.targets.end(), is_name)) statement_ = s.value.get();  // the name stands for None
  Val value = eval(*s.value);  // as in Triton, a run-time value may be annotated tl.constexpr
  // As in Triton, only the annotation makes a constexpr: a plain `x = tl.constexpr(2)` is a number with a type.
  if (!constexpr_name) value = assigned(value);
  for (const ExprPtr& target : s.targets) assign(*target, value);
  if (host_ && value.is_poison()) lost_ = true;
}

Val Checker::augmented_item(const Stmt& s) {
  Val old = eval(*s.targets[0]), value = eval(*s.value);
  return eval_binary(s.text, std::move(old), std::move(value), s.loc);
}

// The value that `name += ...` begins with.
Val Checker::augmented_name(const Expr& name) {
  const bool is_new = !frame_->scope.contains(name.text) && !nearest_name(name.text, visible_names());
  if (!is_new || trial([&] { lookup(name); })) return lookup(name);
  return error(
      name.loc, fmt::format("unknown name '{}'", name.text),
      fmt::format("what changes needs a value ahead: {0} = 0.0, or {0} = tl.zeros((BLOCK,), tl.float32)", name.text));
}

void Checker::augmented_assign(const Stmt& s) {
  const Expr& target = *s.targets[0];
  if (target.kind != Expr::Kind::Name) {
    Val value = target.kind == Expr::Kind::Subscript ? augmented_item(s) : Val();
    assign(target, assigned(value));  // or says why not
    return;
  }
  Val old = augmented_name(target);
  Val value = eval(*s.value);
  value = divisor(s.text, old, std::move(value), *s.value);
  Val result = eval_binary(s.text, std::move(old), std::move(value), s.loc);
  assign_name(target.text, assigned(result), target.loc);
}

// ": " and the text of a string or f-string; nothing for other expressions.
std::string Checker::message_text(const Expr* e) {
  if (!e || (e->kind != Expr::Kind::String && e->kind != Expr::Kind::Format)) return {};
  Val text = eval(*e);
  return text.is<std::string>() ? ": " + text.as<std::string>() : "";
}

void Checker::check_assert(const Stmt& s) {
  Val condition = eval(*s.value);
  if (unknown_ || condition.is_poison() || (condition.is_constant() && dsl::truth(condition))) return;
  std::string message = message_text(s.message.get());
  if (condition.is_constant()) {
    diags_.warning(s.loc, "the assertion fails in every launch" + message)
        .with_hint("as in Triton it is tested with debug=True alone; tl.static_assert is an error at once");
    condition = false;
  }
  if (message.starts_with(": ")) message.erase(0, 2);
  sema_.at(s.loc);
  dsl::call_function(sema_, *dsl::find_function("device_assert"), {condition, std::move(message)}, {});
}

void Checker::check_raise(const Stmt& s) {
  if (unknown_) return;
  const Expr* e = s.value.get();
  const Expr* what = e && e->kind == Expr::Kind::Call && e->children.size() > 1 ? e->children[1].get() : nullptr;
  error(s.loc, "this 'raise' is reached" + message_text(what),
        "a kernel can raise only where a compile-time condition keeps it from being reached");
}

// ---- Jumps and branches

Outcome Checker::execute_return(const Stmt& s) {
  statement_ = s.value.get();  // what returns nothing may be returned
  Val value = s.value ? eval(*s.value) : Val(dsl::None{});
  if (frame_->is_kernel && !value.is<dsl::None>() && !value.is_poison())
    value = error(s.loc,
                  fmt::format("kernel '{}' returns {}, but a kernel returns nothing", frame_->function->name,
                              dsl::describe(value)),
                  "write results to memory with tl.store");
  if (frame_->loops.empty()) return {Outcome::Kind::Return, std::move(value)};
  bind(kReturned, true, s.loc);
  bind(kResult, std::move(value), s.loc);
  bind(frame_->loops.back().left, true, s.loc);
  return {Outcome::Kind::Jump};
}

Outcome Checker::execute_jump(const Stmt& s) {
  const bool is_break = s.kind == Kind::Break;
  if (frame_->loops.empty()) {
    error(s.loc, fmt::format("'{}' outside of a loop", is_break ? "break" : "continue"));
    return {};
  }
  if (is_break) bind(frame_->loops.back().left, true, s.loc);
  return {Outcome::Kind::Jump};
}

Outcome Checker::choose(const Choice& c, const Continuation& rest, bool& go_on) {
  if (c.condition.is_constant()) return execute(Continuation{c.sides[dsl::truth(c.condition) ? 0 : 1], &rest});
  std::vector<std::string> assigned;
  for (auto side : c.sides) collect_assigned(side, nullptr, true, assigned);
  NameSet unstable(assigned.begin(), assigned.end());
  Jumps jumps = find_jumps(c.sides[0], unstable);
  jumps |= find_jumps(c.sides[1], unstable);
  if (jumps.any() && frame_->loops.empty()) return branch_to_end(c, rest);
  // With a jump both sides go on to the end of the loop's body.
  branch(c, [&](int side) { execute(Continuation{c.sides[side], jumps.any() ? &rest : nullptr}); });
  go_on = !jumps.any();
  return {go_on ? Outcome::Kind::Next : Outcome::Kind::Jump};
}

void Checker::branch(const Choice& c, const std::function<void(int side)>& run) {
  sema_.at(c.condition_loc);
  ir::Value* value = c.condition.is_poison() ? nullptr : dsl::to_condition(sema_, c.condition);
  sema_.at(c.loc);
  Join join = dsl::begin_if(sema_, value);
  Scope before = frame_->scope, scopes[2];
  unknown_ += !value;
  for (int side : {0, 1}) {
    frame_->scope = before;
    dsl::enter(sema_, join, side);
    run(side);
    for (const auto& [name, binding] : frame_->scope)
      if (auto it = before.find(name); it == before.end() || !dsl::same(it->second.value, binding.value))
        keep_shared(name, binding.value, binding.value);
    scopes[side] = std::move(frame_->scope);
  }
  unknown_ -= !value;
  sema_.at(c.loc);
  merge_scopes(value ? &join : nullptr, c.loc, std::move(scopes[0]), std::move(scopes[1]));
  dsl::finish_if(sema_, join);
}

void Checker::merge_scopes(Join* join, Loc loc, Scope then_scope, Scope else_scope) {
  Scope merged;
  auto only_one = [&](const std::string& name, Binding& b, const char* side) {
    if (!join) {
      b.value = Val();  // whether there is a branch at all is not known
    } else if (b.unusable.empty()) {
      b.unusable = fmt::format("'{}' has a value only in the {} of the 'if' in line {}", name, side, loc.line);
    }
    merged[name] = std::move(b);
  };
  for (auto& [name, a] : then_scope) {
    auto it = else_scope.find(name);
    if (it == else_scope.end()) {
      only_one(name, a, "body");
      continue;
    }
    Binding& b = it->second;
    Binding& result = merged[name];
    if (!a.unusable.empty() || !b.unusable.empty()) {
      const bool one_side = a.unusable.empty() != b.unusable.empty();  // the other one has given it a value
      result = a.unusable.empty() ? b : a;
      if (one_side) result.value = Val();
      if (!join) result = Binding{};
      continue;
    }
    result.loc = a.loc;
    if (join && name == kResult) complete_results(*join, a.value, b.value);
    std::string why;
    std::optional<Val> value = Val();
    if (dsl::same(a.value, b.value)) {
      value = a.value;
    } else if (join) {
      value = dsl::merge(sema_, *join, name.starts_with('.') ? "" : name, a.value, b.value, why);
      if (value) keep_shared(name, a.value, *value), keep_shared(name, b.value, *value);
    }
    if (value) {
      result.value = *value;
    } else {
      result.unusable = fmt::format("'{}' has no one type behind the 'if' in line {}: {}", name, loc.line, why);
    }
  }
  for (auto& [name, b] : else_scope)
    if (!then_scope.contains(name)) only_one(name, b, "else branch");
  frame_->scope = std::move(merged);
}

// Each branch goes on to the end of the function, so the If gives the function's result and no name has to be merged.
// A branch that always returns does not reach `rest`.
Outcome Checker::branch_to_end(const Choice& c, const Continuation& rest) {
  sema_.at(c.condition_loc);
  ir::Value* value = c.condition.is_poison() ? nullptr : dsl::to_condition(sema_, c.condition);
  sema_.at(c.loc);
  Join join = dsl::begin_if(sema_, value);
  Scope before = frame_->scope;
  Val results[2];
  bool ends[2];  // without a return
  unknown_ += !value;
  for (int side : {0, 1}) {
    frame_->scope = before;
    dsl::enter(sema_, join, side);
    const Outcome outcome = execute(Continuation{c.sides[side], &rest});
    results[side] = outcome.result();
    ends[side] = outcome.kind == Outcome::Kind::Next;
  }
  unknown_ -= !value;
  frame_->scope = std::move(before);
  sema_.at(c.loc);
  if (value && ends[0] != ends[1] && !results[ends[0] ? 1 : 0].is<dsl::None>()) {  // as in Triton
    complete_results(join, results[0], results[1]);
    diags_
        .warning(c.loc,
                 fmt::format("function '{}' ends without a value on one side of this 'if'", frame_->function->name))
        .with_hint("what it returns is undefined there");
    sema_.at(c.loc);
  }
  std::string why;
  std::optional<Val> merged = Val();
  if (value) merged = dsl::merge(sema_, join, "", results[0], results[1], why);
  for (const Val& result : results)
    if (merged) keep_shared("", result, *merged);
  dsl::finish_if(sema_, join);
  if (!merged)
    merged = error(c.loc, fmt::format("function '{}' returns {}", frame_->function->name, why),
                   "return values of the same types on every way through the function");
  return {ends[0] && ends[1] ? Outcome::Kind::Next : Outcome::Kind::Return, *merged};
}

}  // namespace tegula::language
