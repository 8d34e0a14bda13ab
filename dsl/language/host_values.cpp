#include "dsl/language/host_values.h"

#include <fmt/format.h>

#include "dsl/launch_options.h"

namespace tegula::language {

namespace {

// What equal keys share; nothing for a key that equals no other, such as a tuple.
std::optional<std::string> text_of_key(const Val& key) {
  if (const auto* text = key.get_if<std::string>()) return "'" + *text;
  if (const auto* number = key.get_if<dsl::Int>()) return number->to_string();
  if (const auto* truth = key.get_if<bool>()) return *truth ? "True" : "False";
  if (key.is<dsl::None>()) return "None";
  return std::nullopt;
}

}  // namespace

Config default_config() {
  Config config;
  for (const dsl::LaunchOption& option : dsl::launch_options())
    if (!option.info.is_optional()) config.*option.config = option.info.fallback;
  return config;
}

const Val* DictObject::find(const Val& key) const {
  const auto text = text_of_key(key);
  const auto place = text ? places_.find(*text) : places_.end();
  return place == places_.end() ? nullptr : &items[place->second].second;
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

Val function_ref(std::string name) {
  return FunctionRef{FunctionRef::Kind::Builtin, std::move(name), nullptr, nullptr};
}
Val module_ref(std::string name) { return FunctionRef{FunctionRef::Kind::Module, std::move(name), nullptr, nullptr}; }

Val constexpr_to_val(const Constexpr& value) {
  return std::visit(
      [](const auto& v) -> Val {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return dsl::None{};
        else if constexpr (std::is_same_v<T, Elem>)
          return dsl::DType{ir::Type::scalar(v)};
        else
          return v;
      },
      value);
}

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
          return constexpr_to_val(v);
      },
      value);
}

std::optional<Constexpr> val_to_constexpr(const Val& v) {
  if (v.is<dsl::None>()) return Constexpr();
  if (const auto* b = v.get_if<bool>()) return *b;
  if (const auto* i = v.get_if<dsl::Int>(); i && i->narrow()) return *i->narrow();
  if (const auto* d = v.get_if<double>()) return *d;
  if (const auto* s = v.get_if<std::string>()) return *s;
  if (const auto* t = v.get_if<dsl::DType>(); t && t->type.is_scalar() && !t->type.pointer) return t->type.elem;
  return std::nullopt;
}

}  // namespace tegula::language
