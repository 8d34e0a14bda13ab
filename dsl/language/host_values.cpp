#include "dsl/language/host_values.h"

#include <fmt/format.h>

#include "dsl/launch_options.h"

namespace tegula::language {

namespace {

bool equal(const Val& a, const Val& b) {
  if (a.is<std::string>() && b.is<std::string>()) return a.as<std::string>() == b.as<std::string>();
  if (a.is<dsl::Int>() && b.is<dsl::Int>()) return a.as<dsl::Int>() == b.as<dsl::Int>();
  if (a.is<bool>() && b.is<bool>()) return a.as<bool>() == b.as<bool>();
  return a.is<dsl::None>() && b.is<dsl::None>();
}

}  // namespace

Config default_config() {
  Config config;
  for (const dsl::LaunchOption& option : dsl::launch_options())
    if (!option.info.is_optional()) config.*option.config = option.info.fallback;
  return config;
}

const Val* DictObject::find(const Val& key) const {
  for (const auto& [k, v] : items)
    if (equal(k, key)) return &v;
  return nullptr;
}

void DictObject::set(Val key, Val value) {
  for (auto& [k, v] : items)
    if (equal(k, key)) {
      v = std::move(value);
      return;
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
