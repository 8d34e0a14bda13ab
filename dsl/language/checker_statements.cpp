// Statements: assignments, branches and early returns.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/language/checker_impl.h"

namespace tegula::language {

using Kind = Stmt::Kind;

std::optional<Val> Checker::execute(const Continuation& k) {
  for (size_t i = 0; i < k.statements.size(); ++i) {
    const Stmt& s = *k.statements[i];
    if (!count_step(s.loc)) return Val();
    sema_.at(s.loc);
    if (s.kind == Kind::Return) return execute_return(s);
    if (s.kind == Kind::If) {
      bool go_on = false;
      auto result = execute_if(s, Continuation{k.statements.subspan(i + 1), k.next}, go_on);
      if (!go_on) return result;
    } else {
      execute_simple(s);
    }
  }
  return k.next ? execute(*k.next) : std::nullopt;
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
      if (s.value->kind != Expr::Kind::String && s.value->kind != Expr::Kind::Ellipsis) eval(*s.value);
      break;
    case Kind::For:
      execute_for(s);
      break;
    case Kind::While:
      execute_while(s);
      break;
    case Kind::Assert:
      check_assert(s);
      break;
    case Kind::Raise:
      check_raise(s);
      break;
    case Kind::Break:
    case Kind::Continue: {
      bool is_break = s.kind == Kind::Break;
      error(s.loc, fmt::format("'{}' is not supported in a kernel", is_break ? "break" : "continue"),
            is_break ? "put the condition into a 'while', or bound the range"
                     : "put the rest of the loop body under an 'if'");
      break;
    }
    case Kind::Pass:
    case Kind::Import:
      break;
    case Kind::Return:
    case Kind::If:
      break;  // execute() has them
  }
}

// ---- Assignment

void Checker::assign(const Expr& target, const Val& value, bool typed) {
  switch (target.kind) {
    case Expr::Kind::Name:
      bind(target.text, value, typed, target.loc);
      return;
    case Expr::Kind::Tuple:
    case Expr::Kind::List: {
      const auto* tuple = value.get_if<dsl::TupleVal>();
      bool starred = std::any_of(target.children.begin(), target.children.end(),
                                 [](const ExprPtr& c) { return c->kind == Expr::Kind::Starred; });
      bool fits = tuple && tuple->items->size() == target.children.size() && !starred;
      if (starred) {
        error(target.loc, "a starred name cannot be assigned to in a kernel");
      } else if (!tuple && !value.is_poison()) {
        error(target.loc, fmt::format("cannot unpack {} into {} names", dsl::describe(value), target.children.size()));
      } else if (tuple && !fits) {
        error(target.loc,
              fmt::format("cannot unpack {} values into {} names", tuple->items->size(), target.children.size()));
      }
      for (size_t i = 0; i < target.children.size(); ++i) {
        const Expr& child = *target.children[i];
        assign(child.kind == Expr::Kind::Starred ? *child.children[0] : child, fits ? (*tuple->items)[i] : Val(),
               typed);
      }
      return;
    }
    case Expr::Kind::Subscript:
      error(target.loc, "cannot assign to a part of a tile",
            "write memory with tl.store(pointer, value), choose elements with tl.where(mask, x, y)");
      return;
    case Expr::Kind::Attribute:
      error(target.loc, fmt::format("cannot assign to the attribute '{}'", target.text));
      return;
    default:
      error(target.loc, "cannot assign to this expression");
      return;
  }
}

void Checker::assign_statement(const Stmt& s) {
  if (!s.value) return;  // a bare annotation
  bool constexpr_name = s.kind == Kind::AnnAssign && is_constexpr_annotation(s.annotation.get());
  Val value = eval(*s.value);
  if (constexpr_name && value.is_value())
    value = error(s.value->loc,
                  fmt::format("'{}' is annotated tl.constexpr, but its value is known at run time only: {}",
                              dotted_name(*s.targets[0]), dsl::describe(value)),
                  "drop the annotation");
  // tl.constexpr(x) makes a constexpr as the annotation does.
  bool wrapped = s.value->kind == Expr::Kind::Call && is_constexpr_annotation(s.value->children[0].get());
  for (const ExprPtr& target : s.targets) assign(*target, value, !constexpr_name && !wrapped);
}

void Checker::augmented_assign(const Stmt& s) {
  const Expr& target = *s.targets[0];
  if (target.kind != Expr::Kind::Name) {
    assign(target, Val(), false);  // says why not
    return;
  }
  Val old = lookup(target);
  bool typed = is_typed(target);
  Val value = eval(*s.value);
  Val result = eval_binary(s.text, std::move(old), typed, std::move(value), is_typed(*s.value), s.loc);
  bind(target.text, std::move(result), true, target.loc);
}

// ": " and the text of a string or f-string; nothing for other expressions.
std::string Checker::message_text(const Expr* e) {
  if (!e || (e->kind != Expr::Kind::String && e->kind != Expr::Kind::Format)) return {};
  Val text = eval(*e);
  return text.is<std::string>() ? ": " + text.as<std::string>() : "";
}

void Checker::check_assert(const Stmt& s) {
  Val condition = eval(*s.value);
  if (!condition.is_constant() || dsl::truth(condition) || unknown_) return;
  error(s.loc, "the assertion fails" + message_text(s.message.get()));
}

void Checker::check_raise(const Stmt& s) {
  if (unknown_) return;
  const Expr* e = s.value.get();
  const Expr* what = e && e->kind == Expr::Kind::Call && e->children.size() > 1 ? e->children[1].get() : nullptr;
  error(s.loc, "this 'raise' is reached" + message_text(what),
        "a kernel can raise only where a compile-time condition keeps it from being reached");
}

// ---- Return

Val Checker::execute_return(const Stmt& s) {
  Val value = s.value ? eval(*s.value) : Val(dsl::None{});
  if (frame_->loops)
    return error(s.loc, "'return' inside a loop is not supported",
                 s.value ? "keep the result in a variable and return it after the loop"
                         : "leave the loop by its bounds or by the condition of a 'while', or put the rest of its body "
                           "under an 'if'");
  if (frame_->is_kernel && !value.is<dsl::None>() && !value.is_poison())
    return error(s.loc,
                 fmt::format("kernel '{}' returns {}, but a kernel returns nothing", frame_->function->name,
                             dsl::describe(value)),
                 "write results to memory with tl.store");
  return value;
}

bool Checker::may_return(std::span<const StmtPtr> statements, const NameSet& unstable) {
  for (const StmtPtr& s : statements) {
    if (s->kind == Kind::Return) return true;
    if (s->kind != Kind::If) continue;  // a return in a loop is an error of its own
    auto condition = peek(*s->value, unstable);
    bool taken = condition && dsl::truth(*condition);
    if ((!condition || taken) && may_return(s->body, unstable)) return true;
    if ((!condition || !taken) && may_return(s->orelse, unstable)) return true;
  }
  return false;
}

// ---- Branches

std::optional<Val> Checker::execute_if(const Stmt& s, const Continuation& rest, bool& go_on) {
  Val condition = eval(*s.value);
  if (condition.is_constant()) return execute(Continuation{dsl::truth(condition) ? s.body : s.orelse, &rest});
  std::vector<std::string> assigned;
  collect_assigned(s.body, nullptr, true, assigned);
  collect_assigned(s.orelse, nullptr, true, assigned);
  NameSet unstable(assigned.begin(), assigned.end());
  if (may_return(s.body, unstable) || may_return(s.orelse, unstable)) return branch_to_end(s, condition, rest);
  branch(s, condition);
  go_on = true;
  return std::nullopt;
}

void Checker::branch(const Stmt& s, const Val& condition) {
  sema_.at(s.value->loc);
  ir::Value* value = condition.is_poison() ? nullptr : dsl::to_condition(sema_, condition);
  sema_.at(s.loc);
  Join join = dsl::begin_if(sema_, value);
  Scope before = frame_->scope, scopes[2];
  unknown_ += !value;
  for (int side : {0, 1}) {
    frame_->scope = before;
    dsl::enter(sema_, join, side);
    execute(Continuation{side ? s.orelse : s.body});
    scopes[side] = std::move(frame_->scope);
  }
  unknown_ -= !value;
  sema_.at(s.loc);
  merge_scopes(value ? &join : nullptr, s, std::move(scopes[0]), std::move(scopes[1]));
  dsl::finish_if(sema_, join);
}

void Checker::merge_scopes(Join* join, const Stmt& s, Scope then_scope, Scope else_scope) {
  Scope merged;
  auto only_one = [&](const std::string& name, Binding& b, const char* side) {
    if (!join) {
      b.value = Val();  // whether there is a branch at all is not known
    } else if (b.unusable.empty()) {
      b.unusable = fmt::format("'{}' has a value only in the {} of the 'if' in line {}", name, side, s.loc.line);
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
      result = a.unusable.empty() ? b : a;
      if (!join) result = Binding{};
      continue;
    }
    result.loc = a.loc;
    result.typed = a.typed && b.typed;
    std::string why;
    std::optional<Val> value = Val();
    if (dsl::same(a.value, b.value)) {
      value = a.value;
    } else if (join) {
      value = dsl::merge(sema_, *join, name, a.value, b.value, why);
    }
    if (value) {
      result.value = *value;
    } else {
      result.unusable = fmt::format("'{}' has no one type behind the 'if' in line {}: {}", name, s.loc.line, why);
    }
  }
  for (auto& [name, b] : else_scope)
    if (!then_scope.contains(name)) only_one(name, b, "else branch");
  frame_->scope = std::move(merged);
}

// Each branch goes on to the end of the function, so the If gives the function's result and no name has to be merged.
// A branch that always returns does not reach `rest`.
Val Checker::branch_to_end(const Stmt& s, const Val& condition, const Continuation& rest) {
  sema_.at(s.value->loc);
  ir::Value* value = condition.is_poison() ? nullptr : dsl::to_condition(sema_, condition);
  sema_.at(s.loc);
  Join join = dsl::begin_if(sema_, value);
  Scope before = frame_->scope;
  Val results[2];
  unknown_ += !value;
  for (int side : {0, 1}) {
    frame_->scope = before;
    dsl::enter(sema_, join, side);
    results[side] = execute(Continuation{side ? s.orelse : s.body, &rest}).value_or(Val(dsl::None{}));
  }
  unknown_ -= !value;
  frame_->scope = std::move(before);
  sema_.at(s.loc);
  std::string why;
  std::optional<Val> merged = Val();
  if (value) merged = dsl::merge(sema_, join, "", results[0], results[1], why);
  dsl::finish_if(sema_, join);
  if (merged) return *merged;
  return error(s.loc, fmt::format("function '{}' returns {}", frame_->function->name, why),
               "return values of the same types on every way through the function");
}

}  // namespace tegula::language
