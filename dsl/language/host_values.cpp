#include "dsl/language/host_values.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "dsl/launch_options.h"
#include "dsl/specialize.h"

namespace tegula::language {

namespace {

// What equal keys share, as 1, 1.0 and True do; nothing for a key that equals no other. Each tuple within a tuple is
// written once, however often it is held, and its number stands for it: so tuples that hold each other often are short.
class KeyText {
 public:
  std::optional<std::string> of(const Val& key) {
    if (!key.is<dsl::TupleVal>()) return of_item(key);
    if (!of_item(key)) return std::nullopt;
    std::string all;
    for (const std::string& text : tuples_) all += text;
    return all;
  }

 private:
  std::optional<std::string> of_item(const Val& key) {
    if (const auto* text = key.get_if<std::string>()) return fmt::format("'{}:{}", text->size(), *text);
    if (const auto* number = key.get_if<dsl::Int>()) return number->to_string();
    if (const auto* truth = key.get_if<bool>()) return *truth ? "1" : "0";
    if (const auto* real = key.get_if<double>()) {
      if (std::isnan(*real)) return std::nullopt;
      const bool is_whole = *real == std::trunc(*real);
      return is_whole ? fmt::format("{:.0f}", *real + 0.0) : fmt::format("{}", *real);  // -0.0 is 0
    }
    if (key.is<dsl::None>()) return "None";
    if (key.is<dsl::DType>()) return "type " + dsl::text_of(key);
    if (const auto* function = key.get_if<FunctionRef>())
      return fmt::format("function {} {}", function->name, function->function);
    if (key.is<dsl::HostRef>()) return fmt::format("object {}", identity_of(key));
    const auto* tuple = key.get_if<dsl::TupleVal>();
    return tuple ? of_tuple(*tuple) : std::nullopt;
  }

  std::optional<std::string> of_tuple(const dsl::TupleVal& tuple) {
    const void* items = tuple.items.get();
    if (const auto known = known_.find(items); known != known_.end()) return known->second;
    std::string out = "(";
    for (const Val& item : *tuple.items) {
      const auto text = of_item(item);
      if (!text) return known_[items] = std::nullopt;
      out += *text + ",";
    }
    const auto [number, is_new] = numbers_.try_emplace(out + ")", tuples_.size());
    if (is_new) tuples_.push_back(number->first);
    return known_[items] = fmt::format("#{}", number->second);
  }

  std::vector<std::string> tuples_;                          // each after those that it holds
  std::map<std::string, size_t> numbers_;                    // of their texts
  std::map<const void*, std::optional<std::string>> known_;  // by where the items are
};

std::optional<std::string> text_of_key(const Val& key) { return KeyText().of(key); }

}  // namespace

Config default_config() {
  Config config;
  for (const dsl::LaunchOption& option : dsl::launch_options())
    if (!option.info.is_optional()) config.*option.config = option.info.fallback;
  return config;
}

std::optional<size_t> DictObject::place_of(const Val& key) const {
  const auto text = text_of_key(key);
  const auto place = text ? places_.find(*text) : places_.end();
  return place == places_.end() ? std::nullopt : std::optional(place->second);
}

const Val* DictObject::find(const Val& key) const {
  const auto place = place_of(key);
  return place ? &items[*place].second : nullptr;
}

SetObject::SetObject(std::vector<Val> values) {
  for (Val& v : values)
    if (!items.find(v)) items.set(std::move(v), dsl::None{});
}

std::vector<Val> SetObject::values() const {
  std::vector<Val> out;
  for (const auto& [value, none] : items.items) out.push_back(value);
  return out;
}

void DictObject::set(Val key, Val value) {
  if (auto text = text_of_key(key)) {
    auto [place, is_new] = places_.try_emplace(std::move(*text), items.size());
    if (!is_new) {
      items[place->second].second = std::move(value);
      return;
    }
  }
  items.emplace_back(std::move(key), std::move(value));
}

namespace {

Val dict_of(const std::vector<ConstexprArg>& constexprs) {
  DictObject dict;
  for (const ConstexprArg& c : constexprs) dict.set(c.name, dsl::to_val(c.value));
  return make_host(std::move(dict));
}

}  // namespace

namespace {

/// Calls `see` for a value and all that it is made of; for what a container or an object holds, once.
class Parts {
 public:
  /// False: the parts of this one are left out.
  using See = std::function<bool(const Val&)>;
  explicit Parts(See see) : see_(std::move(see)) {}

  void visit(const Val& v) {
    if (!see_(v)) return;
    const void* identity = identity_of(v);
    if (!identity || !seen_.insert(identity).second) return;
    if (const auto* tuple = v.get_if<dsl::TupleVal>())
      for (const Val& item : *tuple->items) visit(item);
    if (const auto* dict = get_host<DictObject>(v))
      for (const auto& [key, value] : dict->items) visit(key), visit(value);
    if (const auto* set = get_host<SetObject>(v))
      for (const auto& [key, none] : set->items.items) visit(key);
    if (const auto* config = get_host<ConfigObject>(v)) visit(config->kwargs), visit(config->hook);
    if (const auto* function = get_host<FunctionObject>(v))
      for (const auto& [name, binding] : function->scope) visit(binding.value);
  }

 private:
  See see_;
  std::set<const void*> seen_;
};

}  // namespace

const void* identity_of(const Val& v) {
  if (const auto* tuple = v.get_if<dsl::TupleVal>()) return tuple->items.get();
  const auto* ref = v.get_if<dsl::HostRef>();
  return ref ? ref->get() : nullptr;
}

bool is_changeable(const Val& v) {
  const auto* tuple = v.get_if<dsl::TupleVal>();
  return get_host<DictObject>(v) || get_host<SetObject>(v) || (tuple && tuple->is_list);
}

void for_each_part(const Val& value, const std::function<bool(const Val&)>& see) { Parts(see).visit(value); }

Held held_in(const Val& value, const void* container) {
  Held held;
  Parts([&](const Val& part) {
    ++held.visited;
    const bool found = identity_of(part) == container;
    held.times += found;
    return !found;
  }).visit(value);
  return held;
}

std::vector<const void*> containers_in(const Val& value) {
  std::vector<const void*> out;
  Parts([&](const Val& part) {
    if (is_changeable(part)) out.push_back(identity_of(part));
    return true;
  }).visit(value);
  return out;
}

ConfigObject::ConfigObject(Config of, Loc loc)
    : options(std::move(of)), loc(loc), kwargs(dict_of(options.constexprs)) {}

std::optional<Config> ConfigObject::config(std::string& wrong) const {
  auto constexprs = constexprs_of(*get_host<DictObject>(kwargs), wrong);
  if (!constexprs) return std::nullopt;
  Config config = options;
  config.constexprs = std::move(*constexprs);
  return config;
}

std::optional<std::vector<ConstexprArg>> constexprs_of(const DictObject& dict, std::string& wrong) {
  std::vector<ConstexprArg> out;
  for (const auto& [key, value] : dict.items) {
    auto constant = val_to_constexpr(value);
    if (!key.is<std::string>() || !constant) {
      wrong = fmt::format("{}: {}", dsl::describe(key), dsl::describe(value));
      return std::nullopt;
    }
    out.emplace_back(key.as<std::string>(), *constant);
  }
  return out;
}

namespace {

struct FloatLimits {
  Elem elem;
  double largest, epsilon, smallest_normal, smallest;
};
constexpr FloatLimits kFloatLimits[] = {
    {Elem::F64, 0x1.fffffffffffffp1023, 0x1p-52, 0x1p-1022, 0x1p-1074},
    {Elem::F32, 0x1.fffffep127, 0x1p-23, 0x1p-126, 0x1p-149},
    {Elem::F16, 65504, 0x1p-10, 0x1p-14, 0x1p-24},
    {Elem::BF16, 0x1.fep127, 0x1p-7, 0x1p-126, 0x1p-133},
    {Elem::F8E4M3, 448, 0x1p-3, 0x1p-6, 0x1p-9},
    {Elem::F8E5M2, 57344, 0x1p-2, 0x1p-14, 0x1p-16},
    {Elem::F8E4B8, 240, 0x1p-3, 0x1p-7, 0x1p-10},
    {Elem::F8E5B16, 57344, 0x1p-2, 0x1p-15, 0x1p-17},
};

}  // namespace

std::optional<Val> LimitsObject::attribute(std::string_view name) const {
  const int bits = elem_bits(elem);
  if (name == "bits") return Val(dsl::Int(bits));
  if (is_integer(elem)) {
    const dsl::Int largest = (dsl::Int(1) << (bits - (is_signed(elem) ? 1 : 0))) - dsl::Int(1);
    if (name == "max") return Val(largest);
    if (name == "min") return Val(is_signed(elem) ? -largest - dsl::Int(1) : dsl::Int(0));
    return std::nullopt;
  }
  for (const FloatLimits& f : kFloatLimits) {
    if (f.elem != elem) continue;
    if (name == "max") return Val(f.largest);
    if (name == "min") return Val(-f.largest);
    if (name == "eps") return Val(f.epsilon);
    if (name == "tiny" || name == "smallest_normal") return Val(f.smallest_normal);
    if (name == "smallest_subnormal") return Val(f.smallest);
  }
  return std::nullopt;
}

Val function_ref(std::string name) {
  return FunctionRef{FunctionRef::Kind::Builtin, std::move(name), nullptr, nullptr};
}
Val module_ref(std::string name) { return FunctionRef{FunctionRef::Kind::Module, std::move(name), nullptr, nullptr}; }

Val launch_value(const std::string& name, const LaunchArgs::Value& value, HookedLaunch* launch) {
  if (const auto* pointer = std::get_if<PointerArg>(&value)) {
    if (pointer->address == 0) return dsl::None{};
    PointerObject object;
    object.name = name;
    object.pointer = *pointer;
    object.launch = launch;
    return make_host(std::move(object));
  }
  return std::visit(
      [](const auto& v) -> Val {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, PointerArg>)
          return {};
        else
          return dsl::to_val(v);
      },
      value);
}

std::shared_ptr<const DictObject> dict_of(const Val& v) {
  const auto* ref = v.get_if<dsl::HostRef>();
  if (!ref) return nullptr;
  const auto* launch = get_host<ArgsObject>(v);
  if (!launch) return std::dynamic_pointer_cast<const DictObject>(*ref);
  auto dict = std::make_shared<DictObject>();
  for (const auto& [name, value] : launch->args->items()) dict->set(name, launch_value(name, value, launch->launch));
  return dict;
}

std::optional<Constexpr> val_to_constexpr(const Val& v) {
  if (v.is<dsl::None>()) return Constexpr();
  if (const auto* b = v.get_if<bool>()) return *b;
  if (const auto* i = v.get_if<dsl::Int>(); i && i->narrow()) return *i->narrow();
  if (const auto* d = v.get_if<double>()) return *d;
  if (const auto* s = v.get_if<std::string>()) return *s;
  if (const auto* t = v.get_if<dsl::DType>(); t && t->type.is_scalar() && !t->type.pointer) return t->type.elem;
  const auto* tuple = v.get_if<dsl::TupleVal>();
  if (!tuple) return std::nullopt;
  ConstexprTuple out;
  if (tuple->fields) out.type = tuple->fields->type, out.names = tuple->fields->names;
  for (const Val& item : *tuple->items) {
    auto value = val_to_constexpr(item);
    if (!value) return std::nullopt;
    out.items.push_back(std::move(*value));
  }
  return out;
}

}  // namespace tegula::language
