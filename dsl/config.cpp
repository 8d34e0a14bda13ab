#include "dsl/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/launch_options.h"
#include "runtime/base/check.h"
#include "runtime/base/diag.h"
#include "runtime/base/error.h"

namespace tegula {

namespace {

template <class Items, class NameOf>
[[noreturn]] void no_such_name(std::string_view what, std::string_view name, const Items& items, NameOf name_of) {
  std::vector<std::string> known;
  for (const auto& item : items) known.push_back(name_of(item));
  auto near = nearest_name(name, known);
  throw LaunchError(fmt::format("{} '{}'\n  hint: {}", what, name,
                                near            ? fmt::format("did you mean '{}'?", *near)
                                : known.empty() ? std::string("there are none")
                                                : fmt::format("there are {}", fmt::join(known, ", "))));
}

// (1, 2), (1,), Point(x=1, y=2)
std::string tuple_text(const ConstexprTuple& tuple) {
  std::string out = tuple.type + "(";
  for (size_t i = 0; i < tuple.items.size(); ++i)
    out += (i ? ", " : "") + (i < tuple.names.size() ? tuple.names[i] + "=" : "") + to_string(tuple.items[i]);
  return out + (tuple.items.size() == 1 && tuple.names.empty() ? ",)" : ")");
}

}  // namespace

bool NextArg::operator==(const NextArg&) const = default;
bool PointerArg::operator==(const PointerArg&) const = default;
bool Config::operator==(const Config& other) const { return to_string() == other.to_string(); }

Config detail::config_of(std::vector<ConstexprArg> constexprs, std::initializer_list<ConfigOption> options) {
  Config config;
  config.constexprs = std::move(constexprs);
  for (const ConfigOption& option : options) config.*option.field = option.value;
  return config;
}

bool ConstexprTuple::operator==(const ConstexprTuple& other) const {
  return items == other.items && type == other.type && names == other.names;
}

ConstexprArg::ConstexprArg(std::string name, Constexpr value) : name(std::move(name)), value(std::move(value)) {}
ConstexprArg::ConstexprArg(std::string name, const char* value)
    : ConstexprArg(std::move(name), Constexpr(std::string(value))) {}
ConstexprArg::ConstexprArg(const ConstexprArg&) = default;
ConstexprArg::ConstexprArg(ConstexprArg&&) noexcept = default;
ConstexprArg& ConstexprArg::operator=(const ConstexprArg&) = default;
ConstexprArg& ConstexprArg::operator=(ConstexprArg&&) noexcept = default;
ConstexprArg::~ConstexprArg() = default;
Constexpr ConstexprArg::constant(bool value) { return value; }
Constexpr ConstexprArg::constant(int64_t value) { return value; }
Constexpr ConstexprArg::constant(double value) { return value; }
bool ConstexprArg::operator==(const ConstexprArg&) const = default;

std::string to_string(const Constexpr& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) return "None";
        if constexpr (std::is_same_v<T, bool>) return v ? "True" : "False";
        if constexpr (std::is_same_v<T, Elem>) return elem_info(v).tl;
        if constexpr (std::is_same_v<T, std::string>) return fmt::format("{:?}", v);
        if constexpr (std::is_same_v<T, int64_t>) return fmt::format("{}", v);
        if constexpr (std::is_same_v<T, double>) return fmt::format("{:#}", v);  // 1.0 is not 1
        if constexpr (std::is_same_v<T, NextArg>) return "*";
        if constexpr (std::is_same_v<T, ConstexprTuple>) return tuple_text(v);
        return {};
      },
      value);
}

size_t ConstexprTuple::num_args() const {
  size_t count = 0;
  for (const Constexpr& item : items) {
    if (const auto* tuple = std::get_if<ConstexprTuple>(&item)) count += tuple->num_args();
    count += std::holds_alternative<NextArg>(item);
  }
  return count;
}

// ---- LaunchArgs

const std::vector<std::pair<std::string, LaunchArgs::Value>>& LaunchArgs::items() const {
  if (asked_)
    for (const auto& item : items_) asked_->push_back(item.first);
  return items_;
}

const LaunchArgs::Value* LaunchArgs::find(std::string_view name) const {
  if (asked_) asked_->emplace_back(name);
  for (const auto& [known, value] : items_)
    if (known == name) return &value;
  return nullptr;
}

const LaunchArgs::Value& LaunchArgs::operator[](std::string_view name) const {
  if (const Value* value = find(name)) return *value;
  no_such_name("the launch has no argument", name, items_, [](const auto& item) { return item.first; });
}

int64_t LaunchArgs::integer(std::string_view name) const {
  const Value& value = (*this)[name];
  if (const auto* i = std::get_if<int64_t>(&value)) return *i;
  if (const auto* b = std::get_if<bool>(&value)) return *b;
  throw LaunchError(fmt::format("the argument '{}' is no integer", name));
}

const PointerArg& LaunchArgs::pointer(std::string_view name) const {
  if (const auto* pointer = std::get_if<PointerArg>(&(*this)[name])) return *pointer;
  throw LaunchError(fmt::format("the argument '{}' is no pointer", name));
}

void LaunchArgs::set(std::string_view name, Value value) {
  for (auto& [known, old] : items_)
    if (known == name) {
      old = std::move(value);
      return;
    }
  items_.emplace_back(name, std::move(value));
}

void LaunchArgs::set_constexpr(std::string_view name, const Constexpr& value) {
  set(name, std::visit(
                [](const auto& v) -> Value {
                  if constexpr (std::is_same_v<std::decay_t<decltype(v)>, NextArg>)
                    return std::monostate();
                  else
                    return v;
                },
                value));
}

// ---- Config

const Constexpr* Config::find(std::string_view name) const {
  for (const ConstexprArg& c : constexprs)
    if (c.name == name) return &c.value;
  return nullptr;
}

int64_t Config::operator[](std::string_view name) const {
  const Constexpr* value = find(name);
  if (!value)
    no_such_name("the configuration has no constexpr", name, constexprs, [](const ConstexprArg& c) { return c.name; });
  if (const auto* i = std::get_if<int64_t>(value)) return *i;
  if (const auto* b = std::get_if<bool>(value)) return *b;
  throw LaunchError(fmt::format("the constexpr '{}' is {}, no integer", name, tegula::to_string(*value)));
}

std::string Config::to_string() const {
  std::vector<std::string> parts;
  for (const ConstexprArg& c : constexprs) parts.push_back(fmt::format("{}={}", c.name, tegula::to_string(c.value)));
  std::sort(parts.begin(), parts.end());
  for (const dsl::LaunchOption& option : dsl::launch_options())
    if (const auto& value = this->*option.config; value && !option.info.asks_nothing(*value))
      parts.push_back(fmt::format("{}={}", option.info.name, *value));
  return fmt::format("{}", fmt::join(parts, " "));
}

// ---- Search spaces

SearchAxis powers_of_two(std::string name, int64_t low, int64_t high) {
  if (low < 1 || high < low)
    throw LaunchError(fmt::format("powers_of_two(\"{}\", {}, {}): expected 1 <= low <= high", name, low, high));
  SearchAxis axis{std::move(name), {}};
  for (int64_t v = low; v <= high; v *= 2) {
    axis.values.emplace_back(v);
    if (v > INT64_MAX / 2) break;
  }
  return axis;
}

SearchAxis steps(std::string name, int64_t low, int64_t high, int64_t step) {
  if (step < 1 || high < low)
    throw LaunchError(
        fmt::format("steps(\"{}\", {}, {}, {}): expected low <= high and a step of 1 or more", name, low, high, step));
  SearchAxis axis{std::move(name), {}};
  for (int64_t v = low; v <= high; v += step) axis.values.emplace_back(v);
  return axis;
}

std::vector<Config> search_space(const std::vector<SearchAxis>& axes) {
  std::vector<Config> configs(1);
  for (const SearchAxis& axis : axes) {
    const dsl::LaunchOption* option = dsl::find_launch_option(axis.name);
    std::vector<Config> longer;
    for (const Config& config : configs) {
      for (const Constexpr& value : axis.values) {
        Config& next = longer.emplace_back(config);
        if (!option) {
          next.constexprs.emplace_back(axis.name, value);
        } else if (const auto* i = std::get_if<int64_t>(&value)) {
          next.*option->config = int(*i);
        } else {
          throw LaunchError(fmt::format("the axis '{}' of a search space takes integers", axis.name));
        }
      }
    }
    configs = std::move(longer);
  }
  return configs;
}

}  // namespace tegula
