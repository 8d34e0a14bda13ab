// Values that meet: at the end of the branches of a run-time condition, and at the back edge of a loop.
#include <fmt/format.h>

#include <cmath>

#include "dsl/language/checker_impl.h"

namespace tegula::language {

bool Checker::is_number(const Val& v) { return v.is<bool>() || v.is<dsl::Int>() || v.is<double>(); }

bool Checker::can_be_value(const Val& v) {
  if (const auto* tuple = v.get_if<dsl::TupleVal>()) {
    for (const Val& item : *tuple->items)
      if (!can_be_value(item)) return false;
    return true;
  }
  return is_number(v) || v.is_value();
}

bool Checker::fits(const Val& v, const ir::Type& type) {
  return is_number(v) && !type.pointer && (type.is_float() || !v.is<double>()) && (!type.is_bool() || v.is<bool>());
}

bool Checker::same(const Val& a, const Val& b) {
  if (a.v.index() != b.v.index()) return false;
  if (a.is<dsl::None>()) return true;
  if (a.is_value()) return a.value() == b.value();
  if (a.is<bool>()) return a.as<bool>() == b.as<bool>();
  if (a.is<dsl::Int>()) return a.as<dsl::Int>() == b.as<dsl::Int>();
  if (a.is<std::string>()) return a.as<std::string>() == b.as<std::string>();
  if (a.is<dsl::DType>()) return a.as<dsl::DType>().type == b.as<dsl::DType>().type;
  if (a.is<double>()) {
    double x = a.as<double>(), y = b.as<double>();
    return (x == y && std::signbit(x) == std::signbit(y)) || (std::isnan(x) && std::isnan(y));
  }
  if (a.is<FunctionRef>()) {
    const auto &f = a.as<FunctionRef>(), &g = b.as<FunctionRef>();
    return f.kind == g.kind && f.name == g.name && f.function == g.function;
  }
  if (a.is<dsl::TupleVal>()) {
    const auto &x = *a.as<dsl::TupleVal>().items, &y = *b.as<dsl::TupleVal>().items;
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (!same(x[i], y[i])) return false;
    return true;
  }
  return false;  // poison
}

bool Checker::flatten(const Val& v, std::string_view name, std::vector<ir::Value*>& out) {
  if (const auto* tuple = v.get_if<dsl::TupleVal>()) {
    for (const Val& item : *tuple->items)
      if (!flatten(item, name, out)) return false;
    return true;
  }
  ir::Value* value = dsl::to_value(sema_, v, name);
  if (value) out.push_back(value);
  return value;
}

Val Checker::rebuild(const Val& v, std::span<ir::Value* const> values, size_t& next) {
  const auto* tuple = v.get_if<dsl::TupleVal>();
  if (!tuple) return values[next++];
  std::vector<Val> items;
  for (const Val& item : *tuple->items) items.push_back(rebuild(item, values, next));
  return dsl::make_tuple(std::move(items));
}

void Checker::name_values(const Val& v, const std::string& name) {
  if (ir::Value* value = v.value(); value && value->name.empty()) value->name = name;
}

Join Checker::begin_if(ir::Value* condition) {
  Join join;
  join.op = sema_.builder.create(ir::Opcode::If, {condition}, {}, {}, 2);
  join.outside = sema_.builder;
  return join;
}

void Checker::enter(const Join& join, int side) { sema_.builder.set_end(join.op->regions[side].get()); }

std::optional<Val> Checker::merge(Join& join, const std::string& name, const Val& a, const Val& b, std::string& why) {
  if (a.is_poison() || b.is_poison()) return Val();
  if (same(a, b)) return a;
  const auto *ta = a.get_if<dsl::TupleVal>(), *tb = b.get_if<dsl::TupleVal>();
  if (ta && tb && ta->items->size() == tb->items->size()) {
    std::vector<Val> items;
    for (size_t i = 0; i < ta->items->size(); ++i) {
      auto item = merge(join, name, (*ta->items)[i], (*tb->items)[i], why);
      if (!item) return std::nullopt;
      items.push_back(*item);
    }
    return dsl::make_tuple(std::move(items));
  }
  why = fmt::format("{} in one branch and {} in the other", dsl::describe(a), dsl::describe(b));
  if (ta || tb || !can_be_value(a) || !can_be_value(b)) return std::nullopt;

  Diagnostics saved = diags_;  // the caller reports, if the value is used at all
  Loc loc = sema_.loc;
  const Val* sides[2] = {&a, &b};
  ir::Value* values[2];
  for (int side : {0, 1}) {
    const ir::Value* other = sides[1 - side]->value();
    enter(join, side);
    Val value =
        other && fits(*sides[side], other->type) ? dsl::convert(sema_, *sides[side], other->type) : *sides[side];
    values[side] = dsl::to_value(sema_, value, name);
  }
  std::optional<ir::Type> type;
  if (values[0] && values[1]) type = dsl::join_types(sema_, name, values[0]->type, values[1]->type);
  for (int side : {0, 1}) {
    if (!type) break;
    enter(join, side);
    values[side] = dsl::convert(sema_, values[side], *type).value();
    if (!values[side]) type.reset();
  }
  sema_.at(loc);
  if (!type) {
    diags_ = std::move(saved);
    return std::nullopt;
  }
  for (int side : {0, 1}) join.yields[side].push_back(values[side]);
  auto& results = join.op->results;
  results.push_back(std::make_unique<ir::Value>(ir::Value{*type, join.op, nullptr, int(results.size()), name}));
  return Val(results.back().get());
}

void Checker::finish_if(Join& join) {
  Loc loc = sema_.loc;
  for (int side : {0, 1}) {
    enter(join, side);
    sema_.builder.create(ir::Opcode::Yield, join.yields[side]);
  }
  sema_.builder = join.outside;
  sema_.at(loc);
}

}  // namespace tegula::language
