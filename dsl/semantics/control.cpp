#include "dsl/semantics/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen/ir/flow.h"

namespace tegula::dsl {

bool is_number(const Val& v) { return v.is<bool>() || v.is<Int>() || v.is<double>(); }

namespace {

bool is_object(const Val& v) {
  const auto* tuple = v.get_if<TupleVal>();
  return tuple && tuple->fields && tuple->fields->methods;
}

bool has_numbers(const Val& v, bool typed) {
  const auto* tuple = v.get_if<TupleVal>();
  if (!tuple) return is_number(v) && v.typed == typed;
  return !is_object(v) && std::ranges::any_of(*tuple->items, [&](const Val& item) { return has_numbers(item, typed); });
}

Val with_numbers(const Val& v, bool typed) {
  if (!has_numbers(v, !typed)) return v;
  if (const auto* tuple = v.get_if<TupleVal>()) {
    std::vector<Val> items;
    for (const Val& item : *tuple->items) items.push_back(with_numbers(item, typed));
    return with_items(*tuple, std::move(items));
  }
  Val number = v;
  number.typed = typed;
  return number;
}

/// Whether a part of a value is the same constant wherever the value goes: None, a text, a type, and what an object's
/// constexpr fields have.
bool is_fixed(const Val& part, bool of_object) {
  if (part.is_value() || part.is_poison() || parts_of(part)) return false;
  return !is_number(part) || (of_object && !part.typed);
}

/// Calls visit() with what of `v` is no constant, with the numbers that become values in `v` itself or its parts. False
/// as soon as visit() says so.
template <class Visit>
bool visit_leaves(const Val& v, const Visit& visit, bool of_object = false) {
  const auto* parts = parts_of(v);
  if (!parts) return visit(v);
  of_object = !v.is<BlockView>() && (of_object || is_object(v));
  return std::ranges::all_of(
      *parts, [&](const Val& part) { return is_fixed(part, of_object) || visit_leaves(part, visit, of_object); });
}

}  // namespace

bool has_literals(const Val& v) { return has_numbers(v, false); }
Val as_scalars(const Val& v) { return with_numbers(v, true); }
Val as_literals(const Val& v) { return with_numbers(v, false); }

const std::vector<Val>* parts_of(const Val& v) {
  if (const auto* tuple = v.get_if<TupleVal>()) return tuple->items.get();
  const auto* block = v.get_if<BlockView>();
  return block ? block->parts.get() : nullptr;
}

Val with_parts(const Val& v, std::vector<Val> parts) {
  if (const auto* tuple = v.get_if<TupleVal>()) return with_items(*tuple, std::move(parts));
  for (const Val& part : parts)
    if (part.is_poison()) return {};
  return BlockView{v.as<BlockView>().form, std::make_shared<const std::vector<Val>>(std::move(parts))};
}

bool same_form(const Val& a, const Val& b) {
  const auto *x = parts_of(a), *y = parts_of(b);
  if (!x || !y || a.v.index() != b.v.index() || x->size() != y->size()) return false;
  if (a.is<BlockView>()) return *a.as<BlockView>().form == *b.as<BlockView>().form;
  const auto &f = a.as<TupleVal>().fields, &g = b.as<TupleVal>().fields;
  return f == g || (f && g && *f == *g);
}

bool can_be_value(const Val& v) {
  return visit_leaves(v, [](const Val& leaf) { return is_number(leaf) || leaf.is_value(); });
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
  if (a.is<DType>())
    return a.as<DType>().type == b.as<DType>().type && a.as<DType>().to_block == b.as<DType>().to_block;
  if (a.is<HostRef>()) return a.as<HostRef>() == b.as<HostRef>();
  if (a.is<double>()) {
    double x = a.as<double>(), y = b.as<double>();
    return (x == y && std::signbit(x) == std::signbit(y)) || (std::isnan(x) && std::isnan(y));
  }
  if (a.is<FunctionRef>()) {
    const auto &f = a.as<FunctionRef>(), &g = b.as<FunctionRef>();
    return f.kind == g.kind && f.name == g.name && f.function == g.function;
  }
  if (same_form(a, b)) return std::equal(parts_of(a)->begin(), parts_of(a)->end(), parts_of(b)->begin(), same);
  return false;  // poison
}

bool flatten(Sema& s, const Val& v, std::string_view name, std::vector<ir::Value*>& out) {
  return visit_leaves(v, [&](const Val& leaf) {
    ir::Value* value = to_value(s, leaf, name);
    if (value) out.push_back(value);
    return value != nullptr;
  });
}

std::vector<ir::Value*> leaves_of(const Val& v) {
  const auto* parts = parts_of(v);
  if (!parts) return v.is_value() ? std::vector{v.value()} : std::vector<ir::Value*>();
  std::vector<ir::Value*> out;
  for (const Val& part : *parts)
    for (ir::Value* leaf : leaves_of(part)) out.push_back(leaf);
  return out;
}

namespace {

Val rebuilt(const Val& v, std::span<ir::Value* const> values, size_t& next, bool of_object) {
  const auto* parts = parts_of(v);
  if (!parts) return values[next++];
  of_object = !v.is<BlockView>() && (of_object || is_object(v));
  std::vector<Val> out;
  for (const Val& part : *parts)
    out.push_back(is_fixed(part, of_object) ? part : rebuilt(part, values, next, of_object));
  return with_parts(v, std::move(out));
}

}  // namespace

Val rebuild(const Val& v, std::span<ir::Value* const> values, size_t& next) { return rebuilt(v, values, next, false); }

Join begin_if(Sema& s, ir::Value* condition) {
  Join join;
  join.op = s.builder.create(ir::Opcode::If, {condition});
  join.outside = s.builder;
  return join;
}

void enter(Sema& s, const Join& join, int side) { s.builder.set_end(join.op->regions[side].get()); }

std::optional<Val> merge(Sema& s, Join& join, const std::string& name, const Val& a, const Val& b, std::string& why) {
  if (a.is_poison() || b.is_poison()) return Val();
  if (same(a, b)) return a;
  const auto *pa = parts_of(a), *pb = parts_of(b);
  if (same_form(a, b)) {
    std::vector<Val> merged;
    for (size_t i = 0; i < pa->size(); ++i) {
      auto part = merge(s, join, name, (*pa)[i], (*pb)[i], why);
      if (!part) return std::nullopt;
      merged.push_back(*part);
    }
    return with_parts(a, std::move(merged));
  }
  why = fmt::format("{} in one branch and {} in the other", describe(a), describe(b));
  if (pa || pb || !can_be_value(a) || !can_be_value(b)) return std::nullopt;

  const size_t diags = s.diags.size();  // the caller reports, if the value is used at all
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
    s.diags.shrink(diags);
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
  const auto *pb = parts_of(before), *pa = parts_of(after);
  if (same_form(before, after)) {
    for (size_t i = 0; i < pb->size(); ++i)
      if (!match_carried(s, (*pb)[i], (*pa)[i], out)) return false;
    return true;
  }
  if (pb || pa) return false;
  if (!before.is_value()) return same(before, after);
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

namespace {

// The values that a For or While carries, as its regions see them.
class Carried {
 public:
  explicit Carried(ir::Op& loop) : loop_(loop), flows_(ir::flows(loop)) {
    for (const auto& region : loop.regions) {
      received_.push_back(ir::received(*region));
      passed_.push_back(ir::handed_on(*region->terminator()));
    }
  }

  ir::Value*& init(size_t i) const { return flows_[0].from[0][i]; }
  /// Whether each region passes value i on. After an error it may lack one.
  bool is_unchanged(size_t i) const {
    for (size_t r = 0; r < received_.size(); ++r)
      if (passed_[r].size() != loop_.results.size() || passed_[r][i] != received_[r][i]) return false;
    return true;
  }
  void drop(const std::vector<size_t>& unchanged) {
    for (size_t r = 0; r < received_.size(); ++r) {
      ir::ValueMap map;
      for (size_t i : unchanged) map[received_[r][i]] = init(i);
      ir::replace_uses(*loop_.regions[r], map);
    }
    auto erase = [](auto& list, size_t at) { list.erase(list.begin() + long(at)); };
    for (const ir::Flow& flow : flows_) {
      for (const ir::Flow::From& from : flow.from)
        for (auto i = unchanged.rbegin(); i != unchanged.rend(); ++i) erase(from.op->operands, from.first + *i);
      for (const ir::Flow::To& to : flow.to) {
        for (auto i = unchanged.rbegin(); i != unchanged.rend(); ++i) erase(*to.values, to.first + *i);
        for (size_t k = 0; k < to.values->size(); ++k) (*to.values)[k]->index = int(k);
      }
    }
  }

 private:
  ir::Op& loop_;
  const std::vector<ir::Flow> flows_;
  std::vector<std::vector<ir::Value*>> received_, passed_;  ///< by region
};

}  // namespace

std::vector<ir::Value*> values_behind(ir::Op& loop) {
  const Carried carried(loop);
  std::vector<ir::Value*> out;
  for (size_t i = 0; i < loop.results.size(); ++i)
    out.push_back(carried.is_unchanged(i) ? carried.init(i) : loop.result(int(i)));
  return out;
}

void drop_unchanged(ir::Op& loop) {
  Carried carried(loop);
  std::vector<size_t> unchanged;
  for (size_t i = 0; i < loop.results.size(); ++i)
    if (carried.is_unchanged(i)) unchanged.push_back(i);
  if (!unchanged.empty()) carried.drop(unchanged);
}

}  // namespace tegula::dsl
