// break, continue and return in loops. A jump ends its path through the loop's body and sets the loop's flag, which the
// loop carries and asks before the next iteration; the paths of a run-time condition meet at the end of the body. A
// return also carries its value out of the loops, after which the function returns it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/language/checker_impl.h"

namespace tegula::language {

using Kind = Stmt::Kind;

Jumps Checker::find_jumps(std::span<const StmtPtr> statements, const NameSet& unstable) {
  Jumps out;
  for (const StmtPtr& s : statements) {
    switch (s->kind) {
      case Kind::Return:
        out.returns = true;
        out.values |= s->value && s->value->kind != Expr::Kind::None;
        break;
      case Kind::Break:
        out.breaks = true;
        break;
      case Kind::Continue:
        out.continues = true;
        break;
      case Kind::With:
        out |= find_jumps(s->body, unstable);
        break;
      case Kind::For:
      case Kind::While: {
        Jumps inner = find_jumps(s->body, unstable);
        inner.breaks = inner.continues = false;  // of that loop
        out |= inner;
        out |= find_jumps(s->orelse, unstable);
        break;
      }
      case Kind::If: {
        const Jumps then = find_jumps(s->body, unstable), otherwise = find_jumps(s->orelse, unstable);
        if (!then.any() && !otherwise.any()) break;
        const auto condition = peek(*s->value, unstable);
        if (!condition || dsl::truth(*condition)) out |= then;
        if (!condition || !dsl::truth(*condition)) out |= otherwise;
        break;
      }
      default:
        break;
    }
  }
  return out;
}

Jumps Checker::find_jumps(const Stmt& loop) {
  std::vector<std::string> assigned;
  collect_assigned(loop.body, nullptr, true, assigned);
  NameSet unstable(assigned.begin(), assigned.end());
  for (const ExprPtr& target : loop.targets)
    if (target->kind == Expr::Kind::Name) unstable.insert(target->text);
  return find_jumps(loop.body, unstable);
}

bool Checker::is_endless(const Stmt& loop) {
  std::vector<std::string> assigned;
  collect_assigned(loop.body, nullptr, true, assigned);
  const auto condition = peek(*loop.value, NameSet(assigned.begin(), assigned.end()));
  return condition && dsl::truth(*condition);
}

Val Checker::left_flag() const {
  const std::string& left = frame_->loops.back().left;
  auto it = left.empty() ? frame_->scope.end() : frame_->scope.find(left);
  return it == frame_->scope.end() || !it->second.unusable.empty() ? Val() : it->second.value;
}

namespace {

/// A statement that no program has, of a name.
StmtPtr make_statement(Kind kind, Loc loc, const char* name) {
  auto made = std::make_unique<Stmt>();
  made->kind = kind;
  made->loc = loc;
  made->value = std::make_unique<Expr>();
  made->value->kind = Expr::Kind::Name;
  made->value->loc = loc;
  made->value->text = name;
  return made;
}

}  // namespace

Outcome Checker::execute_loop(const Stmt& s, const Continuation& rest, bool& go_on) {
  const Jumps jumps = find_jumps(s);
  LoopContext context;
  context.changes = changes_;
  if (jumps.leave()) context.left = fmt::format(".left{}", frame_->loops.size());
  if (jumps.leave()) bind(context.left, false, s.loc);
  if (jumps.returns && !frame_->scope.contains(kReturned)) {
    bind(kReturned, false, s.loc);
    bind(kResult, dsl::None{}, s.loc);
  }
  frame_->loops.push_back(context);
  auto run = [&] { s.kind == Kind::For ? execute_for(s, rest) : execute_while(s); };
  if (jumps.values) prepare_result(s, run);
  run();
  const Val left = left_flag();
  frame_->loops.pop_back();
  frame_->scope.erase(context.left);
  if (!jumps.returns) {
    go_on = s.orelse.empty();
    if (go_on) return {};
    return choose({s.loc, s.loc, jumps.breaks ? left : Val(false), {{}, s.orelse}}, rest, go_on);
  }
  if (jumps.breaks && !s.orelse.empty()) return else_of_left_loop(s, left, rest, go_on);
  Val returned = frame_->scope[kReturned].value;
  if (!jumps.breaks && s.kind == Kind::While && is_endless(s)) returned = true;  // nothing else leaves it
  if (frame_->loops.empty()) frame_->scope.erase(kReturned);                     // of the next loop
  made_.emplace_back().push_back(make_statement(Kind::Return, s.loc, kResult));
  return choose({s.loc, s.loc, returned, {made_.back(), s.orelse}}, rest, go_on);
}

// `else`, where nothing left the loop; then the return, where that is what left it; then what follows.
Outcome Checker::else_of_left_loop(const Stmt& s, const Val& left, const Continuation& rest, bool& go_on) {
  StmtPtr leave = make_statement(Kind::If, s.loc, kReturned);
  leave->body.push_back(make_statement(Kind::Return, s.loc, kResult));
  std::vector<StmtPtr>& made = made_.emplace_back();
  made.push_back(std::move(leave));
  if (frame_->loops.empty()) {  // the flag is the next loop's
    StmtPtr reset = make_statement(Kind::Assign, s.loc, kReturned);
    reset->targets.push_back(std::exchange(reset->value, std::make_unique<Expr>()));
    reset->value->kind = Expr::Kind::False;
    reset->value->loc = s.loc;
    made.push_back(std::move(reset));
  }
  const Continuation after{made, &rest};
  bool next = false;
  const Outcome outcome = choose({s.loc, s.loc, left, {{}, s.orelse}}, after, next);
  go_on = false;
  return next ? execute(after) : outcome;
}

// A value that a loop carries needs a first one of its type, which only the loop's body tells: it is run twice.
void Checker::prepare_result(const Stmt& loop, const std::function<void()>& run) {
  if (!frame_->scope[kResult].value.is<dsl::None>()) return;
  std::optional<ResultForm> form;
  auto* outer = std::exchange(result_form_, &form);
  Scope before = frame_->scope;
  trial(run);
  frame_->scope = std::move(before);
  result_form_ = outer;
  if (!form) return;
  sema_.at(loop.loc);
  bind(kResult, unset(*form), loop.loc);
}

void Checker::note_result() {
  if (!result_form_) return;
  if (auto it = frame_->scope.find(kResult); it != frame_->scope.end())
    if (auto form = form_of(it->second.value)) *result_form_ = std::move(form);
}

std::optional<ResultForm> Checker::form_of(const Val& v) {
  std::vector<ir::Value*> leaves;
  if (!dsl::can_be_value(v) || !dsl::flatten(sema_, v, "what is returned", leaves)) return std::nullopt;
  ResultForm form{v, {}};
  for (const ir::Value* leaf : leaves) form.types.push_back(leaf->type);
  return form;
}

Val Checker::unset(const ResultForm& form) {
  std::vector<ir::Value*> values;
  for (const ir::Type& type : form.types)
    values.push_back(sema_.builder.create(ir::Opcode::Unset, {}, {type})->result());
  size_t next = 0;
  return dsl::rebuild(form.value, values, next);
}

void Checker::note_ruled_out(const Stmt& branch, const Val& condition) {
  if (!condition.is_constant() || !condition.typed || !frame_->function || frame_->is_kernel) return;
  const std::vector<StmtPtr>& side = dsl::truth(condition) ? branch.orelse : branch.body;
  if (frame_->ruled_out || !frame_->loops.empty() || !find_jumps(side, {}).values) return;
  const Scope before = frame_->scope;
  std::optional<ResultForm> form;
  if (trial([&] { form = form_of(execute(Continuation{side}).result()); })) frame_->ruled_out = std::move(form);
  frame_->scope = before;
}

void Checker::complete_results(Join& join, Val& a, Val& b) {
  const bool none[] = {a.is<dsl::None>(), b.is<dsl::None>()};
  if (none[0] == none[1]) return;
  dsl::enter(sema_, join, none[0] ? 0 : 1);
  if (auto form = form_of(none[0] ? b : a)) (none[0] ? a : b) = unset(*form);
}

}  // namespace tegula::language
