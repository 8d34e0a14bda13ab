// Expressions.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"

namespace tegula::language {

using Kind = Expr::Kind;

namespace {

bool mentions(const Expr& e, const NameSet& names) {
  if (e.kind == Kind::Name && names.contains(e.text)) return true;
  for (const ExprPtr& child : e.children)
    if (child && mentions(*child, names)) return true;
  for (const Keyword& k : e.keywords)
    if (k.value && mentions(*k.value, names)) return true;
  return false;
}

bool assigns(const Expr& e) {
  if (e.kind == Kind::Named) return true;
  for (const ExprPtr& child : e.children)
    if (child && assigns(*child)) return true;
  for (const Keyword& k : e.keywords)
    if (k.value && assigns(*k.value)) return true;
  return false;
}

}  // namespace

Val Checker::eval(const Expr& e) {
  const bool reads = e.kind == Kind::Name || e.kind == Kind::Attribute || e.kind == Kind::Subscript;
  return reads ? eval_node(e) : within_memory(eval_node(e), e.loc);
}

Val Checker::eval_node(const Expr& e) {
  switch (e.kind) {
    case Kind::Name: {
      Val v = lookup(e);
      const auto* f = v.get_if<FunctionRef>();
      if (!f || !is_foreign(*f)) return v;
      if (f->name.starts_with("triton.") && !f->name.starts_with("triton.tools."))
        return error(e.loc, fmt::format("unknown name '{}'", f->name));
      return foreign_name(e.loc, fmt::format("'{}' comes from '{}', outside this file", e.text, f->name), f->name,
                          e.text);
    }
    case Kind::Int:
      return e.integer;
    case Kind::Float:
      return e.number;
    case Kind::String:
      return e.text;
    case Kind::Format:
      return eval_format(e);
    case Kind::True:
      return true;
    case Kind::False:
      return false;
    case Kind::None:
      return dsl::None{};
    case Kind::Tuple:
    case Kind::List:
      return eval_tuple(e);
    case Kind::Unary: {
      Val x = eval(*e.children[0]);
      if (x.is_poison()) return x;
      if (e.text == "not" && is_iterator(x)) return false;
      sema_.at(e.loc);
      return dsl::unary(sema_, e.text, x);
    }
    case Kind::Binary: {
      const Expr &l = *e.children[0], &r = *e.children[1];
      Val lhs = eval(l);
      Val rhs = eval(r);
      for (auto [x, side] : {std::pair(&lhs, &l), {&rhs, &r}})
        if (x->is<dsl::None>() && side->kind == Kind::Name && !lhs.is_poison() && !rhs.is_poison())
          return error(e.loc,
                       fmt::format("'{}' is not defined for {} and {}", e.text, dsl::describe(lhs), dsl::describe(rhs)),
                       fmt::format("'{0}' is None here: use it where 'if {0} is not None:' holds", side->text));
      rhs = divisor(e.text, lhs, std::move(rhs), r);
      return eval_binary(e.text, std::move(lhs), std::move(rhs), e.loc);
    }
    case Kind::Compare:
      return eval_compare(e);
    case Kind::BoolOp:
      return eval_bool_op(e);
    case Kind::Ternary:
      return eval_ternary(e);
    case Kind::Call:
      return eval_call(e);
    case Kind::Attribute:
      return eval_attribute(e);
    case Kind::Subscript:
      return eval_subscript(e);
    case Kind::Dict:
    case Kind::Lambda:
    case Kind::Comprehension:
      return host_expression(e);
    case Kind::Named:
      return eval_named(e);
    case Kind::Starred:
      return error(e.loc, "'*' is only for the arguments of a call");
    case Kind::Slice:
      return error(e.loc, "a slice is only for a subscript");
    case Kind::Ellipsis:
      return error(e.loc, "'...' is only for a subscript");
  }
  return Val();
}

Val Checker::eval_named(const Expr& e) {
  Val value = assigned(eval(*e.children[0]));
  if (late_.frame == frame_ && host_)
    return error(e.loc, "a name gets a value while an iterator makes its items, in Python when they are asked for");
  assign_name(e.text, value, e.loc);
  return value;
}

Val Checker::eval_tuple(const Expr& e) {
  std::vector<Val> items;
  for (const ExprPtr& child : e.children) {
    if (child->kind != Kind::Starred) {
      items.push_back(eval(*child));
      if (host_ && items.back().is_poison()) return Val();
      continue;
    }
    const Val rest = use(eval(*child->children[0]), child->loc);
    if (rest.is_poison()) return Val();
    const auto* tuple = rest.get_if<dsl::TupleVal>();
    if (!tuple) return error(child->loc, fmt::format("'*' takes a tuple, found {}", dsl::describe(rest)));
    items.insert(items.end(), tuple->items->begin(), tuple->items->end());
  }
  if (e.kind == Kind::Tuple) return dsl::make_tuple(std::move(items));
  if (e.text.empty()) return dsl::make_list(std::move(items));
  if (!host_) return error(e.loc, "a set is not part of the kernel language", "write a tuple: (a, b)");
  return make_host(SetObject(std::move(items)));
}

Val Checker::assigned(const Val& v) {
  const bool is_python = host_ || (frame_->function && frame_->function->name == "__init__");
  if (is_python || !dsl::has_literals(v)) return v;
  Val scalars = dsl::as_scalars(v);
  keep_shared("", v, scalars);
  return scalars;
}

namespace {

/// Operators, and what a class calls those that it defines.
constexpr std::pair<std::string_view, std::string_view> kOperatorMethods[] = {
    {"+", "__add__"},       {"-", "__sub__"}, {"*", "__mul__"},     {"/", "__truediv__"},
    {"//", "__floordiv__"}, {"%", "__mod__"}, {"@", "__matmul__"},  {"&", "__and__"},
    {"|", "__or__"},        {"^", "__xor__"}, {"<<", "__lshift__"}, {">>", "__rshift__"}};

std::string_view operator_method(std::string_view op) {
  for (auto [text, method] : kOperatorMethods)
    if (text == op) return method;
  return {};
}

}  // namespace

Val Checker::divisor(std::string_view op, const Val& lhs, Val rhs, const Expr& e) {
  if ((op != "//" && op != "%") || e.kind == Kind::Int) return rhs;
  return dsl::divisor_of_values(sema_, lhs, rhs, e.loc);
}

namespace {

// What an operator makes of two sets; nothing where it makes none.
std::optional<std::vector<Val>> combined(const SetObject& a, const SetObject& b, std::string_view op) {
  if (op != "|" && op != "&" && op != "-" && op != "^") return std::nullopt;
  std::vector<Val> out;
  for (const Val& v : a.values())
    if (op == "|" || b.contains(v) == (op == "&")) out.push_back(v);
  if (op == "|" || op == "^")
    for (const Val& v : b.values())
      if (!a.contains(v)) out.push_back(v);
  return out;
}

}  // namespace

Val Checker::eval_binary(std::string_view op, Val lhs, Val rhs, Loc loc) {
  if (lhs.is_poison() || rhs.is_poison()) return Val();
  if (const std::string_view method = operator_method(op); !method.empty() && lhs.is<dsl::TupleVal>())
    if (auto result = call_own_method(lhs, method, {{{}, rhs, loc}}, loc)) return *result;
  if (const auto dict = op == "|" ? dict_of(lhs) : nullptr, other = dict ? dict_of(rhs) : nullptr; other) {
    DictObject both = *dict;
    for (const auto& [key, value] : other->items) both.set(key, value);
    return count_made(int64_t(2 * both.items.size()), loc) ? make_host(std::move(both)) : Val();
  }
  if (const auto* a = get_host<SetObject>(lhs), *b = get_host<SetObject>(rhs); a && b)
    if (auto made = combined(*a, *b, op)) return make_host(SetObject(std::move(*made)));
  sema_.at(loc);
  return dsl::binary(sema_, op, lhs, rhs);
}

std::optional<Val> Checker::call_operator(const Val& object, const Expr& callee, std::span<const Argument> args,
                                          Loc loc) {
  if (args.size() != 1 || !args[0].name.empty()) return std::nullopt;
  for (auto [op, method] : kOperatorMethods) {
    if (callee.text == method) return eval_binary(op, object, args[0].value, loc);
    if (callee.text.starts_with("__r") &&
        callee.text.substr(3) == method.substr(2))  // __radd__: the other operand is first
      return eval_binary(op, args[0].value, object, loc);
  }
  return std::nullopt;
}

Val Checker::compare_pair(const Expr& e, const std::string& op, const Val& lhs, const Val& rhs) {
  if (lhs.is_poison() || rhs.is_poison()) return Val();
  sema_.at(e.loc);
  if (op == "in" || op == "not in") {
    const Val asked = use(rhs, e.loc, Use::Later);
    if (asked.is_poison()) return Val();
    bool found = false;
    const auto* tuple = asked.get_if<dsl::TupleVal>();
    if (lhs.is<std::string>() && rhs.is<std::string>()) {
      found = rhs.as<std::string>().find(lhs.as<std::string>()) != std::string::npos;
    } else if (const auto* module = rhs.get_if<FunctionRef>();
               module && module->name == "os.environ" && lhs.is<std::string>()) {
      const Val value = environment(lhs.as<std::string>(), dsl::None{}, e.loc);
      if (value.is_poison()) return value;
      found = !value.is<dsl::None>();
    } else if (auto contained = host_contains(rhs, lhs)) {
      found = *contained;
    } else if (tuple && lhs.is_constant()) {
      for (const Val& item : *tuple->items) {
        if (!item.is_constant()) return error(e.loc, fmt::format("'{}' needs compile-time values", op));
        bool numbers = dsl::is_number(item) && dsl::is_number(lhs);
        if (host_)
          found = found || host_equal(lhs, item);
        else
          found = found || (numbers ? dsl::truth(dsl::compare(sema_, "==", lhs, item)) : dsl::same(lhs, item));
      }
    } else {
      return error(e.loc, fmt::format("'{}' needs compile-time values, found {} {} {}", op, dsl::describe(lhs), op,
                                      dsl::describe(rhs)));
    }
    return found == (op == "in");
  }
  if (host_ && (op == "==" || op == "!=")) return host_equal(lhs, rhs) == (op == "==");
  if (host_ && (op == "is" || op == "is not") &&
      (is_changeable(lhs) || is_changeable(rhs) || is_iterator(lhs) || is_iterator(rhs)))
    return (identity_of(lhs) == identity_of(rhs)) == (op == "is");
  return dsl::compare(sema_, op, lhs, rhs);
}

namespace {

// `o >= 2 & o < n` is o >= (2 & o) < n.
const Expr* mistaken_and(const Expr& e) {
  for (size_t i = 1; i < e.operators.size(); ++i)
    if (const Expr& x = *e.children[i]; x.kind == Kind::Binary && (x.text == "&" || x.text == "|")) return &x;
  return nullptr;
}

bool is_bad_chain(const Expr& e, const Val& lhs, const Val& rhs) {
  auto is_tile = [](const Val& v) { return v.is_value() && v.value()->type.is_tile(); };
  return is_tile(lhs) || is_tile(rhs) || ((lhs.is_value() || rhs.is_value()) && mistaken_and(e));
}

}  // namespace

// Of scalars alone, as Python has it; Triton has no chains.
Val Checker::chain_error(const Expr& e) {
  if (const Expr* x = mistaken_and(e))
    return error(e.loc, fmt::format("'{}' binds tighter than comparisons, which makes this a chain of them", x->text),
                 fmt::format("put each comparison in brackets: (a >= 2) {} (a < n)", x->text));
  return error(e.loc, "comparisons of tiles cannot be chained", "write (a < b) & (b < c)");
}

Val Checker::eval_compare(const Expr& e) {
  Val result;
  Val lhs = eval(*e.children[0]);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    Val rhs = eval(*e.children[i + 1]);
    if (e.operators.size() > 1 && is_bad_chain(e, lhs, rhs)) return chain_error(e);
    Val pair = compare_pair(e, e.operators[i], lhs, rhs);
    if (pair.is_constant() && !dsl::truth(pair)) return pair;
    if (i == 0 || (result.is_constant() && !pair.is_poison())) {
      result = pair;
    } else if (!pair.is_constant()) {
      sema_.at(e.loc);
      result = result.is_poison() || pair.is_poison() ? Val() : dsl::logical(sema_, "and", result, pair);
    }
    lhs = rhs;
  }
  return result;
}

// Left to right. A literal or constexpr that decides is the result, also behind values: `n or 16` is 16. One that does
// not decide drops out beside a value, and so does a known scalar beside others.
Val Checker::eval_bool_op(const Expr& e) {
  bool decides = e.text == "or";  // the truth of an operand that settles the result
  bool poison = false;
  std::optional<Val> run_time, scalar, deciding;
  Val last;
  for (const ExprPtr& child : e.children) {
    unknown_ += poison;
    Val x = eval(*child);
    unknown_ -= poison;
    if (x.is_poison()) {
      poison = true;
    } else if (x.is_constant()) {
      const bool settles = (host_ ? host_truth(x) : dsl::truth(x)) == decides;
      if (settles && !x.typed) return x;
      if (settles && !deciding) deciding = x;
      (x.typed ? scalar.emplace() : last) = x;
    } else if (!run_time) {
      run_time = x;
    } else {
      sema_.at(e.loc);
      run_time = dsl::logical(sema_, e.text, *run_time, x);
    }
  }
  if (poison) return Val();
  if (deciding) return *deciding;
  return run_time ? *run_time : scalar.value_or(last);
}

namespace {

/// The type that a value has, or a number as a scalar of the kernel; nothing for others.
std::optional<ir::Type> type_by_itself(dsl::Sema& s, const Val& v) {
  if (v.is_value()) return v.value()->type;
  const Val type = dsl::is_number(v) ? dsl::attribute(s, dsl::as_scalars(v), "dtype") : Val();
  return type.is<dsl::DType>() ? std::optional(type.as<dsl::DType>().type) : std::nullopt;
}

}  // namespace

Val Checker::eval_ternary(const Expr& e) {
  Val condition = eval(*e.children[0]);
  if (condition.is_constant()) {
    Val chosen = eval(*e.children[host_truth(condition) ? 1 : 2]);
    return condition.typed ? dsl::as_scalars(chosen) : chosen;
  }
  sema_.at(e.children[0]->loc);
  ir::Value* value = condition.is_poison() ? nullptr : dsl::to_condition(sema_, condition);
  if (!value) {
    ++unknown_;
    eval(*e.children[1]);
    eval(*e.children[2]);
    --unknown_;
    return Val();
  }
  sema_.at(e.loc);
  Join join = dsl::begin_if(sema_, value);
  Val sides[2];
  for (int side : {0, 1}) {
    dsl::enter(sema_, join, side);
    sides[side] = eval(*e.children[side + 1]);
  }
  sema_.at(e.loc);
  std::string why;
  const auto a = type_by_itself(sema_, sides[0]), b = type_by_itself(sema_, sides[1]);
  if (a && b && *a != *b) {
    dsl::finish_if(sema_, join);
    return error(e.loc,
                 fmt::format("a conditional expression has one type where its condition is known at run time only, "
                             "found {} and {}",
                             dsl::describe(sides[0]), dsl::describe(sides[1])),
                 "cast one of them with .to(...)");
  }
  auto merged = dsl::merge(sema_, join, "", sides[0], sides[1], why);
  if (!merged) {
    dsl::finish_if(sema_, join);
    return error(e.loc, fmt::format("the two values of the conditional expression do not fit: {}", why),
                 "cast one of them with .to(...)");
  }
  dsl::finish_if(sema_, join);
  merged = dsl::as_scalars(*merged);
  for (const Val& side : sides) keep_shared("", side, *merged);
  // A scalar choice between values that cost nothing to have both is a select.
  auto cheap = [](const ir::Op& op) {
    bool traps = op.opcode == ir::Opcode::Div || op.opcode == ir::Opcode::Rem;
    return op.has(ir::Pure) && !op.has(ir::Control) && !traps && op.regions.empty() &&
           std::all_of(op.results.begin(), op.results.end(), [](auto& r) { return r->type.is_scalar(); });
  };
  auto all_cheap = [&](const ir::Block& block) {
    return std::all_of(block.ops.begin(), std::prev(block.ops.end()), [&](auto& op) { return cheap(*op); });
  };
  ir::Op* op = join.op;
  bool simple =
      op->results.empty() || (op->results.size() == 1 && merged->is_value() && merged->value()->type.is_scalar());
  if (!simple || !all_cheap(*op->regions[0]) || !all_cheap(*op->regions[1])) return *merged;
  auto& ops = op->parent->ops;
  auto at = std::find_if(ops.begin(), ops.end(), [&](auto& o) { return o.get() == op; });
  for (auto& region : op->regions) {
    region->ops.pop_back();
    for (auto& inner : region->ops) inner->parent = op->parent;
    ops.splice(at, region->ops);
  }
  bool selects = !op->results.empty();
  ops.erase(at);
  if (!selects) return *merged;
  return sema_.builder.select(value, join.yields[0][0], join.yields[1][0]);
}

Val Checker::eval_base(const Expr& e) { return e.kind == Kind::Name ? lookup(e) : eval(e); }

Val Checker::eval_attribute(const Expr& e) {
  Val base = eval_base(*e.children[0]);
  if (base.is_poison()) return base;
  if (const auto* f = base.get_if<FunctionRef>()) {
    if (f->kind == FunctionRef::Kind::Module) return module_member(*f, e);
    return error(e.loc, fmt::format("function '{}' has no attribute '{}'", f->name, e.text));
  }
  if (const auto* host = base.get_if<dsl::HostRef>()) return host_attribute(*host, e);
  if (e.text == "value" && base.is_constant() && !base.is<dsl::DType>()) return base;  // constexpr.value
  sema_.at(e.loc);
  return dsl::attribute(sema_, base, e.text);
}

Val Checker::eval_subscript(const Expr& e) {
  Val base = eval(*e.children[0]);
  if (const auto* host = base.get_if<dsl::HostRef>()) return host_subscript(*host, e);
  if (const auto* f = base.get_if<FunctionRef>(); f && f->kind == FunctionRef::Kind::Jit)
    return error(e.loc, fmt::format("'{}' cannot be launched from a kernel", f->name),
                 fmt::format("call it: {}(...)", f->name));
  auto indices = eval_index(e);
  if (!indices || base.is_poison()) return Val();
  if (!host_ && base.is<std::string>() && indices->size() == 1 && indices->front().is<dsl::Slice>())
    return error(e.loc, "a kernel takes single characters of a string, no slices",
                 "compute it outside of the kernel: a tl.constexpr of the module");
  if (is_iterator(base)) return error(e.loc, "an iterator, as zip() and map() give, has no places", "list(...) has");
  if (const auto* f = base.get_if<FunctionRef>();
      f && f->name == "os.environ" && indices->size() == 1 && indices->front().is<std::string>()) {
    const std::string& name = indices->front().as<std::string>();
    const Val value = environment(name, dsl::None{}, e.loc);
    return value.is<dsl::None>() ? error(e.loc, fmt::format("the environment has no variable '{}'", name)) : value;
  }
  const auto is_ellipsis = [](const Val& v) { return v.is<dsl::TupleVal>(); };
  if (auto at = std::find_if(indices->begin(), indices->end(), is_ellipsis); at != indices->end()) {
    auto taken = std::count_if(indices->begin(), indices->end(), [](const Val& v) { return !v.is<dsl::None>(); }) - 1;
    int64_t rank = base.is_value() ? base.value()->type.rank() : 0;
    if (taken > rank) return error(e.loc, "too many indices beside '...'");
    at = indices->erase(at);
    if (std::find_if(at, indices->end(), is_ellipsis) != indices->end())
      return error(e.loc, "more than one '...' in a subscript");
    indices->insert(at, size_t(rank - taken), dsl::Slice{});
  }
  sema_.at(e.loc);
  return dsl::subscript(sema_, base, *indices);
}

// What stands between the brackets; '...' is an empty tuple. Nothing if one of them is unknown.
std::optional<std::vector<Val>> Checker::eval_index(const Expr& e) {
  std::vector<const Expr*> parts;
  for (size_t i = 1; i < e.children.size(); ++i) parts.push_back(e.children[i].get());
  if (parts.size() == 1 && parts[0]->kind == Kind::Tuple) {
    const Expr* tuple = parts[0];
    parts.clear();
    for (const ExprPtr& child : tuple->children) parts.push_back(child.get());
  }
  std::vector<Val> indices;
  for (const Expr* part : parts) {
    if (part->kind == Kind::Ellipsis) {
      indices.push_back(dsl::make_tuple({}));
      continue;
    }
    if (part->kind != Kind::Slice) {
      indices.push_back(eval(*part));
      if (indices.back().is_poison()) return std::nullopt;
      if (indices.back().is<dsl::TupleVal>()) {
        error(part->loc,
              fmt::format("an index is an integer, a slice or None, found {}", dsl::describe(indices.back())));
        return std::nullopt;
      }
      continue;
    }
    dsl::Slice slice;
    std::optional<int64_t>* bounds[] = {&slice.lower, &slice.upper, &slice.step};
    for (size_t j = 0; j < part->children.size(); ++j) {
      const Val bound = part->children[j] ? eval(*part->children[j]) : Val(dsl::None{});
      if (bound.is_poison()) return std::nullopt;
      if (bound.is<dsl::None>()) continue;
      if (!bound.is<dsl::Int>()) {
        error(part->loc, fmt::format("a slice takes integers known at compile time, found {}", dsl::describe(bound)),
              bound.is_value() ? "tl.load reads from an offset that is known at run time only" : "");
        return std::nullopt;
      }
      *bounds[j] = bound.as<dsl::Int>().clamped();
    }
    indices.push_back(slice);
  }
  return indices;
}

std::optional<Val> Checker::peek(const Expr& e, const NameSet& unstable) {
  if (e.kind == Kind::BoolOp) {
    bool decides = e.text == "or";
    std::optional<Val> last;
    bool all = true;
    for (const ExprPtr& child : e.children) {
      last = peek(*child, unstable);
      if (last && dsl::truth(*last) == decides) return last;
      if (!last) all = false;
    }
    return all ? last : std::nullopt;
  }
  if (e.kind == Kind::Unary && e.text == "not") {
    auto x = peek(*e.children[0], unstable);
    if (x) return Val(!dsl::truth(*x));
    return std::nullopt;
  }
  if (mentions(e, unstable) || assigns(e)) return std::nullopt;
  Val v;
  const bool clean = trial([&] { v = eval(e); });
  if (clean && v.is_constant()) return v;
  return std::nullopt;
}

bool Checker::trial(const std::function<void()>& body) {
  const size_t diags = diags_.size(), prints = sema_.prints.size();
  ir::Block scratch;
  ir::Builder builder = sema_.builder;
  Loc loc = sema_.loc;
  sema_.builder.set_end(&scratch);
  body();
  sema_.builder = builder;
  sema_.at(loc);
  const bool clean = diags_.size() == diags;
  diags_.shrink(diags);
  notes_.erase(notes_.lower_bound(diags), notes_.end());
  sema_.prints.resize(prints);
  return clean;
}

}  // namespace tegula::language
