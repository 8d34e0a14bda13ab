// The values that host code has and kernels do not: what decorators are made of.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dsl/config.h"
#include "dsl/language/checker_impl.h"
#include "dsl/language/source_file.h"

namespace tegula::language {

/// The most items that a list, a range or a product of lists may have: host code is bounded in memory as it is in
/// steps.
inline constexpr size_t kMaxItems = 1 << 16;

/// What all who hold it see change, as in Python: Checker::change().
struct DictObject : dsl::HostObject {
  std::vector<std::pair<Val, Val>> items;  ///< in the order of insertion; set() alone changes them

  /// Of the key's entry among `items`.
  std::optional<size_t> place_of(const Val& key) const;
  const Val* find(const Val& key) const;
  void set(Val key, Val value);
  std::string describe() const override { return "a dict"; }
  bool truth() const override { return !items.empty(); }

 private:
  std::unordered_map<std::string, size_t> places_;  // in `items`, by what equal keys share
};

/// What two values share if they are the same list, tuple, dict or other object; null for other values.
const void* identity_of(const Val& v);
/// Whether a value is a list, a dict or a set.
bool is_changeable(const Val& v);
/// How often a value holds a list or dict, in the containers that it is made of or as a name that a lambda captured:
/// they would keep each other for ever if the container took the value.
Held held_in(const Val& value, const void* container);
/// Calls `see` for a value and all that it is made of; what a container or an object holds, once, and not where `see`
/// is false for that.
void for_each_part(const Val& value, const std::function<bool(const Val&)>& see);
/// The lists and dicts that a value is made of, itself included.
std::vector<const void*> containers_in(const Val& value);

/// A set, which does not change. In which order Python runs over one is not followed.
struct SetObject : dsl::HostObject {
  explicit SetObject(std::vector<Val> values);

  DictObject items;  ///< the first of each that are equal, as keys
  std::vector<Val> values() const;
  bool contains(const Val& v) const { return items.find(v) != nullptr; }
  std::string describe() const override { return "a set"; }
  bool truth() const override { return !items.items.empty(); }
};

/// The options that triton.Config gives where it is given none: the defaults.
Config default_config();

/// triton.Config(...)
struct ConfigObject : dsl::HostObject {
  ConfigObject(Config of, Loc loc);
  ConfigObject(Config options, Val kwargs, Loc loc)
      : options(std::move(options)), loc(loc), kwargs(std::move(kwargs)) {}

  const Config options;  ///< all but the constexprs
  const Loc loc;
  const Val kwargs;        ///< the dict of its constexprs, which host code may change
  Val hook = dsl::None{};  ///< its pre_hook
  Loc hook_loc = {};

  /// With the constexprs that kwargs has now; nothing where a value is none, and `wrong` says which.
  std::optional<Config> config(std::string& wrong) const;
  std::string describe() const override { return "a triton.Config"; }
};

/// A tensor argument, of which a launch knows the pointer.
struct PointerObject : dsl::HostObject {
  std::string name;
  PointerArg pointer;
  HookedLaunch* launch = nullptr;  ///< what a hook may change; null elsewhere

  std::string describe() const override { return "the tensor '" + name + "'"; }
};

/// The name of an argument that stands for all that **kwargs takes. No name of the language.
inline constexpr std::string_view kAllKeywords = "**";

/// The arguments of a launch, as lambdas of heuristics and pruning functions get them. Valid for the call.
struct ArgsObject : dsl::HostObject {
  const LaunchArgs* args = nullptr;
  HookedLaunch* launch = nullptr;  ///< of hooks

  std::string describe() const override { return "the arguments of the launch"; }
};

/// A lambda, or a function of the module that is no kernel.
struct FunctionObject : dsl::HostObject {
  const Expr* lambda = nullptr;
  const Function* function = nullptr;
  const SourceFile* file = nullptr;  ///< where it stands
  Scope scope;                       ///< the names around the lambda

  std::string describe() const override { return function ? "the function '" + function->name + "'" : "a lambda"; }
};

/// A class of a module: a named tuple or an aggregate, which calls make, or names of constants.
struct ClassObject : dsl::HostObject {
  const SourceFile* file = nullptr;   ///< where it stands
  std::shared_ptr<const Class> type;  ///< kept by the file, or made by collections.namedtuple
  bool is_tuple = false;

  std::string describe() const override { return "the class '" + type->name + "'"; }
};

/// What importlib.util.find_spec finds: a module of Triton.
struct SpecObject : dsl::HostObject {
  Val module;

  std::string describe() const override { return "the module '" + module.as<FunctionRef>().name + "'"; }
};

/// What a field of an object holds before its constructor has given it a value.
struct UnsetField : dsl::HostObject {
  std::string describe() const override { return "a field without a value"; }
};

/// torch.finfo(dtype), torch.iinfo(dtype)
struct LimitsObject : dsl::HostObject {
  Elem elem = Elem::F32;

  std::string describe() const override { return std::string("the limits of ") + elem_info(elem).tl; }
  std::optional<Val> attribute(std::string_view name) const;
};

template <class T>
const T* get_host(const Val& v) {
  const auto* ref = v.get_if<dsl::HostRef>();
  return ref ? dynamic_cast<const T*>(ref->get()) : nullptr;
}

template <class T>
Val make_host(T object) {
  return dsl::HostRef(std::make_shared<T>(std::move(object)));
}

/// A function of Python or of a module that host code knows ("python.list", "os.getenv"), and such a module.
Val function_ref(std::string name);
Val module_ref(std::string name);

/// An argument of a launch as host code sees it; of the one that a hook is called for, what the hook may change.
Val launch_value(const std::string& name, const LaunchArgs::Value& value, HookedLaunch* launch = nullptr);
/// The dict that a value is or, as the arguments of a launch, stands for; null for other values. Lives as long as what
/// it returns.
std::shared_ptr<const DictObject> dict_of(const Val& v);
/// The constexprs that a dict gives; nothing where a key is no name or a value none of a constexpr, and `wrong` is
/// these.
std::optional<std::vector<ConstexprArg>> constexprs_of(const DictObject& dict, std::string& wrong);
/// Nothing for a value that no constexpr argument can have.
std::optional<Constexpr> val_to_constexpr(const Val& v);

}  // namespace tegula::language
