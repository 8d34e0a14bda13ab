#include "dsl/semantics/control.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace tegula::dsl {

bool is_number(const Val& v) { return v.is<bool>() || v.is<Int>() || v.is<double>(); }

bool can_be_value(const Val& v) {
  if (const auto* tuple = v.get_if<TupleVal>()) {
    for (const Val& item : *tuple->items)
      if (!can_be_value(item)) return false;
    return true;
  }
  return is_number(v) || v.is_value();
}

bool fits(const Val& v, const ir::Type& type) {
  return is_number(v) && !type.pointer && (type.is_float() || !v.is<double>()) && (!type.is_bool() || v.is<bool>());
}

bool same(const Val& a, const Val& b) {
  if (a.v.index() != b.v.index()) return false;
  if (a.is<None>()) return true;
  if (a.is_value()) return a.value() == b.value();
  if (a.is<bool>()) return a.as<bool>() == b.as<bool>();
  if (a.is<Int>()) return a.as<Int>() == b.as<Int>();
  if (a.is<std::string>()) return a.as<std::string>() == b.as<std::string>();
  if (a.is<DType>()) return a.as<DType>().type == b.as<DType>().type;
  if (a.is<double>()) {
    double x = a.as<double>(), y = b.as<double>();
    return (x == y && std::signbit(x) == std::signbit(y)) || (std::isnan(x) && std::isnan(y));
  }
  if (a.is<FunctionRef>()) {
    const auto &f = a.as<FunctionRef>(), &g = b.as<FunctionRef>();
    return f.kind == g.kind && f.name == g.name && f.function == g.function;
  }
  if (a.is<TupleVal>()) {
    const auto &x = *a.as<TupleVal>().items, &y = *b.as<TupleVal>().items;
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (!same(x[i], y[i])) return false;
    return true;
  }
  return false;  // poison
}

bool flatten(Sema& s, const Val& v, std::string_view name, std::vector<ir::Value*>& out) {
  if (const auto* tuple = v.get_if<TupleVal>()) {
    for (const Val& item : *tuple->items)
      if (!flatten(s, item, name, out)) return false;
    return true;
  }
  ir::Value* value = to_value(s, v, name);
  if (value) out.push_back(value);
  return value;
}

Val rebuild(const Val& v, std::span<ir::Value* const> values, size_t& next) {
  const auto* tuple = v.get_if<TupleVal>();
  if (!tuple) return values[next++];
  std::vector<Val> items;
  for (const Val& item : *tuple->items) items.push_back(rebuild(item, values, next));
  return make_tuple(std::move(items));
}

Join begin_if(Sema& s, ir::Value* condition) {
  Join join;
  join.op = s.builder.create(ir::Opcode::If, {condition}, {}, {}, 2);
  join.outside = s.builder;
  return join;
}

void enter(Sema& s, const Join& join, int side) { s.builder.set_end(join.op->regions[side].get()); }

std::optional<Val> merge(Sema& s, Join& join, const std::string& name, const Val& a, const Val& b, std::string& why) {
  if (a.is_poison() || b.is_poison()) return Val();
  if (same(a, b)) return a;
  const auto *ta = a.get_if<TupleVal>(), *tb = b.get_if<TupleVal>();
  if (ta && tb && ta->items->size() == tb->items->size()) {
    std::vector<Val> items;
    for (size_t i = 0; i < ta->items->size(); ++i) {
      auto item = merge(s, join, name, (*ta->items)[i], (*tb->items)[i], why);
      if (!item) return std::nullopt;
      items.push_back(*item);
    }
    return make_tuple(std::move(items));
  }
  why = fmt::format("{} in one branch and {} in the other", describe(a), describe(b));
  if (ta || tb || !can_be_value(a) || !can_be_value(b)) return std::nullopt;

  Diagnostics saved = s.diags;  // the caller reports, if the value is used at all
  Loc loc = s.loc;
  const Val* sides[2] = {&a, &b};
  ir::Value* values[2];
  for (int side : {0, 1}) {
    const ir::Value* other = sides[1 - side]->value();
    enter(s, join, side);
    Val value = other && fits(*sides[side], other->type) ? convert(s, *sides[side], other->type) : *sides[side];
    values[side] = to_value(s, value, name);
  }
  std::optional<ir::Type> type;
  if (values[0] && values[1]) type = join_types(s, name, values[0]->type, values[1]->type);
  for (int side : {0, 1}) {
    if (!type) break;
    enter(s, join, side);
    values[side] = convert(s, values[side], *type).value();
    if (!values[side]) type.reset();
  }
  s.at(loc);
  if (!type) {
    s.diags = std::move(saved);
    return std::nullopt;
  }
  for (int side : {0, 1}) join.yields[side].push_back(values[side]);
  auto& results = join.op->results;
  results.push_back(std::make_unique<ir::Value>(ir::Value{*type, join.op, nullptr, int(results.size()), name}));
  return Val(results.back().get());
}

void finish_if(Sema& s, Join& join) {
  Loc loc = s.loc;
  for (int side : {0, 1}) {
    enter(s, join, side);
    s.builder.create(ir::Opcode::Yield, join.yields[side]);
  }
  s.builder = join.outside;
  s.at(loc);
}

bool match_carried(Sema& s, const Val& before, const Val& after, std::vector<ir::Value*>& out) {
  const auto *tb = before.get_if<TupleVal>(), *ta = after.get_if<TupleVal>();
  if (tb && ta && tb->items->size() == ta->items->size()) {
    for (size_t i = 0; i < tb->items->size(); ++i)
      if (!match_carried(s, (*tb->items)[i], (*ta->items)[i], out)) return false;
    return true;
  }
  if (tb || ta || !before.is_value()) return false;
  const ir::Type& type = before.value()->type;
  ir::Value* value = after.value();
  if (fits(after, type)) value = convert(s, after, type).value();
  if (!value || !value->type.same_shape_and_elem(type)) return false;
  out.push_back(value);
  return true;
}

std::string with_type(const Val& v) {
  return v.is<bool>() || v.is<Int>() || v.is<double>() ? fmt::format("the constant {}", describe(v)) : describe(v);
}

std::vector<ir::Value*> for_bounds(Sema& s, const Val& lower, const Val& upper, const Val& step) {
  constexpr std::numeric_limits<int32_t> i32;
  Elem elem = Elem::I32;
  const Val* bounds[] = {&lower, &upper, &step};
  for (const Val* v : bounds) {
    if (const ir::Value* value = v->value()) {
      Elem e = value->type.elem;
      if (elem_bits(e) == 64 || e == Elem::U32) elem = Elem::I64;
    } else if (v->as<Int>() < i32.min() || v->as<Int>() > i32.max()) {
      elem = Elem::I64;
    }
  }
  ir::Type type = ir::Type::scalar(elem);
  std::vector<ir::Value*> out;
  for (const Val* v : bounds)
    out.push_back(v->is_value() ? convert(s, *v, type).value() : s.builder.constant(type, v->as<Int>()));
  return out;
}

}  // namespace tegula::dsl
