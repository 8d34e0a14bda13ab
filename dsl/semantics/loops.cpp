#include "dsl/semantics/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "codegen/ir/flow.h"
#include "codegen/ir/options.h"
#include "dsl/semantics/control.h"
#include "dsl/semantics/internal.h"

namespace tegula::dsl {

// ---- Ranges

bool Range::is_known() const { return !lower.value.is_poison() && !upper.value.is_poison() && !step.value.is_poison(); }

namespace {

bool check_bound(Sema& s, const Range& range, Placed& bound) {
  Val& v = bound.value;
  if (const auto* truth = v.get_if<bool>()) v = Int(*truth);  // as in Python
  const ir::Value* value = v.value();
  const bool is_scalar = value && value->type.is_integer() && value->type.is_scalar();
  if (v.is_poison() || (is_scalar && !range.compile_time)) return true;
  s.at(bound.loc);
  if (v.is<Int>()) return range.compile_time || check_literal(s, v);
  s.error(fmt::format("{} takes {}integers, found {}", range.function, range.compile_time ? "compile-time " : "",
                      describe(v)),
          value && value->type.is_float() ? hint_for_float(value)
          : range.compile_time && value   ? "use range() where the bounds are known at run time only"
                                          : "");
  return false;
}

bool check_stages(Sema& s, Range& range) {
  if (Val& value = range.num_stages->value; value.is<bool>()) value = Int(value.as<bool>());  // as in Python
  const Placed given = *range.num_stages;
  const auto* stages = given.value.get_if<Int>();
  if (stages && ir::option::num_stages.allows(stages->clamped())) return true;
  if (const int64_t most = ir::option::num_stages.high; stages && stages->clamped() > most) {
    s.diags.warning(given.loc, fmt::format("num_stages is {}: the loop runs with {} at most", stages->clamped(), most));
    range.num_stages->value = Int(most);
    return true;
  }
  range.num_stages.reset();
  if (given.value.is<None>() || given.value.is_poison()) return true;
  s.at(given.loc);
  s.error(stages ? ir::option::num_stages.wrong(stages->clamped())
                 : fmt::format("num_stages takes a compile-time integer, found {}", describe(given.value)),
          given.value.is_value() ? "declare the parameter it comes from as tl.constexpr" : "");
  return false;
}

// A hint: no number is wrong.
bool check_unroll(Sema& s, Range& range) {
  if (Val& value = range.unroll->value; value.is<bool>()) value = Int(value.as<bool>());
  const Placed given = *range.unroll;
  if (given.value.is<Int>()) return true;
  range.unroll.reset();
  if (given.value.is<None>() || given.value.is_poison()) return true;
  s.at(given.loc);
  s.error(fmt::format("loop_unroll_factor takes a compile-time integer, found {}", describe(given.value)),
          given.value.is_value() ? "declare the parameter it comes from as tl.constexpr" : "");
  return false;
}

// Triton asks whether the value counts as true.
bool check_warp_specialize(Sema& s, Range& range) {
  const Placed given = *range.warp_specialize;
  if (given.value.is<bool>()) return true;
  range.warp_specialize.reset();
  if (given.value.is<None>() || given.value.is_poison()) return true;
  s.at(given.loc);
  if (given.value.is_constant()) {
    const bool wanted = truth(given.value);
    s.diags
        .warning(s.loc, fmt::format("warp_specialize takes a bool, found {}, which counts as {} as in Triton",
                                    describe(given.value), wanted ? "True" : "False"))
        .with_hint("how many warps copy is not chosen here");
    range.warp_specialize = {wanted, given.loc};
    return true;
  }
  s.error(fmt::format("warp_specialize takes a compile-time bool, found {}", describe(given.value)));
  return false;
}

}  // namespace

bool check_range(Sema& s, Range& range) {
  const Loc loc = s.loc;
  bool ok = !range.num_stages || check_stages(s, range);
  ok = (!range.warp_specialize || check_warp_specialize(s, range)) && ok;
  ok = (!range.unroll || check_unroll(s, range)) && ok;
  for (Placed* bound : {&range.lower, &range.upper, &range.step}) ok = check_bound(s, range, *bound) && ok;
  if (ok && range.step.value.is<Int>() && range.step.value.as<Int>() == 0) {
    s.at(range.step.loc);
    const std::string found = fmt::format("the step of {} is 0", range.function);
    if (range.warns_of_zero) {
      s.diags.warning(s.loc, found + ": what this loop does is undefined")
          .with_hint("it follows from compile-time values of this launch; the loop is left out");
      range.upper = range.lower;
      range.step.value = Int(1);
    } else {
      s.error(found);
      ok = false;
    }
  }
  s.at(loc);
  return ok;
}

// As Triton finds it; what has no type yet has that of a number in the source.
static Elem index_elem(const Range& range) {
  std::optional<Elem> met;
  for (const Val* v : {&range.lower.value, &range.upper.value, &range.step.value}) {
    const ir::Value* value = v->value();
    const Elem elem = value ? value->type.elem : literal_type(*v);
    met = met ? computation_type(*met, false, elem, false, false) : elem;
  }
  return *met == Elem::I1 ? Elem::I32 : *met;
}

Bounds range_bounds(Sema& s, const Range& range) {
  constexpr std::numeric_limits<int32_t> i32;
  Elem elem = Elem::I32;
  const Val* bounds[] = {&range.lower.value, &range.upper.value, &range.step.value};
  for (const Val* v : bounds) {
    if (const ir::Value* value = v->value()) {
      Elem e = value->type.elem;
      if (elem_bits(e) == 64 || e == Elem::U32) elem = Elem::I64;
    } else if (v->as<Int>() < i32.min() || v->as<Int>() > i32.max()) {
      elem = Elem::I64;
    }
  }
  const ir::Type type = ir::Type::scalar(elem);
  auto value = [&](const Val& v) {
    return v.is_value() ? convert(s, v, type).value() : s.builder.constant(type, v.as<Int>().clamped());
  };
  ir::Value *lower = value(*bounds[0]), *upper = value(*bounds[1]), *step = value(*bounds[2]);
  return {lower, upper, step, index_elem(range)};
}

Val index_at(Sema& s, const Bounds& bounds, const Val& counter) {
  return counter.is_value() ? Val(cast_to(s, counter.value(), bounds.index)) : counter;
}

Val counter_in_range(Sema& s, const Range& range, const Bounds& bounds, const Val& counter) {
  const Val upper = bounds.upper, step = range.step.value.is_constant() ? range.step.value : Val(bounds.step);
  auto side = [&](const char* sign) { return compare(s, sign, step, Int(0)); };
  if (step.is_constant()) return compare(s, truth(side(">")) ? "<" : ">", counter, upper);
  Val up = logical(s, "and", side(">"), compare(s, "<", counter, upper));
  Val down = logical(s, "and", side("<"), compare(s, ">", counter, upper));
  return logical(s, "or", up, down);
}

Val last_index(Sema& s, const Range& range, const Val& before) {
  const WithoutOverflowAsserts none(s);  // where the loop does not run, the result is not used
  const Bounds bounds = range_bounds(s, range);
  const ir::Type wide = ir::Type::scalar(Elem::I64);  // bounds of 32 bits may be further apart
  const Val lower = convert(s, bounds.lower, wide), upper = convert(s, bounds.upper, wide);
  // The last number ahead of `upper` is one away from it, or less than a step further: lower + (upper - one - lower) //
  // step * step. Where there is an iteration, that divides numbers of one sign.
  Val step = range.step.value, one = Int(1);
  if (step.is_constant()) {
    if (step.as<Int>() < 0) one = Int(-1);
  } else {
    step = convert(s, bounds.step, wide);
    auto number = [&](int64_t n) { return s.builder.constant(wide, n); };
    one = Val(s.builder.select(compare(s, ">", step, Int(0)).value(), number(1), number(-1)));
  }
  const Val steps = binary(s, "//", binary(s, "-", binary(s, "-", upper, one), lower), step);
  const Val last = index_at(s, bounds, binary(s, "+", lower, binary(s, "*", steps, step)));
  const ir::Type type = ir::Type::scalar(bounds.index);
  const Val kept = before.is<Int>() ? convert(s, before, type) : before;
  const bool keeps = kept.is_value() && kept.value()->type.same_shape_and_elem(type);
  const Val ran = counter_in_range(s, range, bounds, bounds.lower), first = index_at(s, bounds, bounds.lower);
  return Val(s.builder.select(ran.value(), last.value(), keeps ? kept.value() : first.value()));
}

// ---- Loops

Loop::Loop(Sema& s, const Range& range, std::vector<Variable> variables)
    : s_(s), loc_(s.loc), variables_(std::move(variables)) {
  const bool known = range.is_known();
  const Bounds bounds = range_bounds(s, known ? range : Range{.upper = {Int(1)}});
  ir::Attrs attrs;
  if (known && range.num_stages) attrs[ir::attr::num_stages] = range.stages();
  if (known && range.warp_specialize)
    attrs[ir::attr::warp_specialize] = int64_t(range.warp_specialize->value.as<bool>() ? 2 : 1);
  if (known && range.unroll)
    attrs[ir::attr::unroll] = std::clamp<int64_t>(range.unroll->value.as<Int>().clamped(), 0, 256);
  create(ir::Opcode::For, {bounds.lower, bounds.upper, bounds.step}, std::move(attrs));
  ir::ForLoop(*op_).body().add_arg(bounds.lower->type);
  if (known) bounds_ = bounds;
}

Loop::Loop(Sema& s, std::vector<Variable> variables) : s_(s), loc_(s.loc), variables_(std::move(variables)) {
  create(ir::Opcode::While, {}, {});
}

void Loop::create(ir::Opcode opcode, std::vector<ir::Value*> operands, ir::Attrs attrs) {
  std::vector<ir::Type> types;
  for (Variable& v : variables_) {
    std::vector<ir::Value*> values;
    size_t next = 0;
    v.before = flatten(s_, v.before, v.name, values) ? rebuild(v.before, values, next) : Val();
    if (v.before.is_poison()) continue;
    operands.insert(operands.end(), values.begin(), values.end());
    for (const ir::Value* value : values) types.push_back(value->type);
  }
  op_ = s_.builder.create(opcode, std::move(operands), std::move(types), std::move(attrs));
  outside_ = s_.builder;
}

std::vector<Val> Loop::enter(ir::Block& region) {
  inside_.clear();
  for (const Variable& v : variables_) {
    std::vector<ir::Value*> args;
    for (const ir::Value* leaf : leaves_of(v.before))
      args.push_back(region.add_arg(leaf->type, v.before.is_value() && !v.name.empty() ? v.name : leaf->name));
    size_t next = 0;
    inside_.push_back(v.before.is_poison() ? Val() : rebuild(v.before, args, next));
  }
  s_.builder.set_end(&region);
  return inside_;
}

std::vector<Val> Loop::enter_test() { return enter(ir::WhileLoop(*op_).test()); }
std::vector<Val> Loop::enter_body() {
  std::vector<Val> inside = enter(*op_->regions.back());
  if (bounds_) index_ = index_at(s_, *bounds_, ir::ForLoop(*op_).induction());
  return inside;
}

// The variable's values at the end of a region, of the types that the loop carries; after an error those that it had at
// the beginning.
std::vector<ir::Value*> Loop::next_values(const Variable& variable, const Val& inside, const AtEnd& end) {
  std::vector<ir::Value*> values;
  s_.at(end.loc ? end.loc : loc_);
  if (!end.unusable.empty()) {
    s_.error(end.unusable, "the next iteration needs its value");
  } else if (!end.value.is_poison()) {
    if (match_carried(s_, inside, end.value, values)) return values;
    s_.error(fmt::format("the type of {} changes in the loop: {} before it, {} at the end of its body",
                         variable.subject, describe(inside), with_type(end.value)),
             "give it its final type before the loop, or cast it back with .to(...)");
  }
  return leaves_of(inside);
}

void Loop::end_region(ir::Opcode terminator, std::vector<ir::Value*> operands, const std::vector<AtEnd>& ends) {
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (inside_[i].is_poison()) continue;
    const std::vector<ir::Value*> values = next_values(variables_[i], inside_[i], ends[i]);
    operands.insert(operands.end(), values.begin(), values.end());
  }
  s_.at(loc_);
  s_.builder.create(terminator, std::move(operands));
}

void Loop::end_test(ir::Value* holds, const std::vector<AtEnd>& ends) {
  end_region(ir::Opcode::Condition, {holds}, ends);
}

std::vector<Val> Loop::end_body(const std::vector<AtEnd>& ends) {
  end_region(ir::Opcode::Yield, {}, ends);
  s_.builder = outside_;
  s_.at(loc_);
  const std::vector<ir::Value*> values = values_behind(*op_);
  std::vector<Val> behind;
  size_t next = 0;
  for (size_t i = 0; i < variables_.size(); ++i) {
    const bool has_values = !variables_[i].before.is_poison();
    Val v = has_values ? rebuild(variables_[i].before, values, next) : Val();
    behind.push_back(ends[i].value.is_poison() ? Val() : std::move(v));
  }
  for (size_t i = 0; i < op_->results.size(); ++i)
    if (op_->result(int(i))->name.empty()) op_->result(int(i))->name = ir::received(*op_->regions.back())[i]->name;
  drop_unchanged(*op_);
  return behind;
}

}  // namespace tegula::dsl
