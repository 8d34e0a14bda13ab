// Functions of Python, os, itertools, importlib, collections, packaging, torch and triton that host code and
// decorators call, evaluated.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <unordered_map>

#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"

namespace tegula::language {

namespace {

/// The numbers of a version, which compare as versions do: (3, 6) of "3.6.0".
Val version_of(std::string_view text) {
  std::vector<Val> numbers;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    auto number = end > at ? dsl::Int::parse(text.substr(at, end - at), 10) : std::nullopt;
    if (!number) break;
    numbers.emplace_back(*number);
    if (end >= text.size() || text[end] != '.') break;
    at = end + 1;
  }
  while (!numbers.empty() && numbers.back().as<dsl::Int>() == 0) numbers.pop_back();
  return dsl::make_tuple(std::move(numbers));
}

}  // namespace

/// One call of such a function. A method gives the result, or poison after an error that it has reported.
struct Checker::HostBuiltin {
  Checker& checker;
  const std::string& name;  // as resolved: "python.zip"
  const std::vector<Argument>& args;
  Loc loc;

  using Method = Val (HostBuiltin::*)();
  /// How arguments are looked at before the function is called.
  enum class Takes {
    Anything,       // the function looks itself
    Known,          // nothing that is an error already
    Positional,     // the same, and none by keyword
    OnePositional,  // the same, and exactly one
  };
  struct Row {
    Method method;
    Takes takes;
  };
  static const std::unordered_map<std::string_view, Row>& table();

  std::optional<Val> call() {
    const auto row = table().find(name);
    if (row == table().end()) return std::nullopt;
    if (row->second.takes != Takes::Anything && !arguments_fit(row->second.takes)) return Val();
    if (!gives_iterator()) return (this->*row->second.method)();
    const Late late = checker.late_;
    if (is_late()) {
      checker.late_ = {checker.frame_, checker.iterators_made_, {}};
      for (const Argument& a : args) checker.late_.own.insert(identity_of(a.value));
    }
    Val result = (this->*row->second.method)();
    checker.late_ = late;
    const auto* function = args.empty() ? nullptr : get_host<FunctionObject>(args[0].value);
    if (!function) return checker.make_iterator(std::move(result), sources(), true, is_in_order());
    std::vector<Val> read = sources();
    NameSet names;
    for (const auto& [read_name, binding] : function->scope) {
      read.push_back(binding.value);
      names.insert(read_name);
    }
    if (function->function) names.insert(function->function->name);
    if (function->lambda) {
      names_in(*function->lambda, names);
      for (const std::string& parameter : function->lambda->names) names.erase(parameter);
    }
    return checker.make_late_iterator(std::move(result), std::move(read), std::move(names));
  }

 private:
  bool gives_iterator() const {
    static constexpr std::string_view kIterators[] = {"python.zip",    "python.map",      "python.enumerate",
                                                      "python.filter", "python.reversed", "itertools.product"};
    return std::find(std::begin(kIterators), std::end(kIterators), name) != std::end(kIterators);
  }
  /// Whether Python makes the items of what it gives when they are asked for.
  bool is_late() const { return gives_iterator() && name != "itertools.product"; }
  Use how_used() const { return is_late() || name == "python.any" || name == "python.all" ? Use::Later : Use::All; }
  bool is_in_order() const { return name == "python.zip" || name == "python.enumerate"; }
  std::vector<Val> sources() const {
    std::vector<Val> out;
    for (const Argument& a : args) out.push_back(a.value);
    return out;
  }
  Val error(std::string message) { return checker.error(loc, std::move(message)); }
  /// The only argument, if it is a T.
  template <typename T>
  const T* only() const {
    return args.size() == 1 ? args[0].value.get_if<T>() : nullptr;
  }

  bool arguments_fit(Takes takes) {
    for (const Argument& a : args)
      if (a.value.is_poison()) return false;
    if (takes == Takes::Known) return true;
    const std::string_view plain = std::string_view(name).substr(name.starts_with("python.") ? 7 : 0);
    for (const Argument& a : args) {
      if (a.name.empty()) continue;
      checker.error(a.loc, fmt::format("{} takes no argument '{}' here", name, a.name));
      return false;
    }
    if (takes == Takes::Positional || args.size() == 1) return true;
    error(fmt::format("{} takes 1 argument, found {}", plain, args.size()));
    return false;
  }

  std::optional<std::vector<Val>> items() {
    if (const auto* set = get_host<SetObject>(args[0].value)) {  // whose order does not matter here
      std::vector<Val> values = set->values();
      auto is_integer = [](const Val& v) { return v.is<dsl::Int>() || v.is<bool>(); };
      const bool is_any =
          name == "python.sorted" || name == "python.any" || name == "python.all" || name == "python.set";
      if (is_any || (name == "python.sum" && std::all_of(values.begin(), values.end(), is_integer))) return values;
    }
    return checker.iterate(args[0].value, args[0].loc, how_used());
  }
  /// The items of all arguments; nullopt after an error.
  std::optional<std::vector<std::vector<Val>>> all_items() {
    std::vector<std::vector<Val>> out;
    for (const Argument& a : args) {
      auto found = checker.iterate(a.value, a.loc, how_used());
      if (!found) return std::nullopt;
      out.push_back(std::move(*found));
    }
    return out;
  }

  // Python's own.
  Val dict() {
    DictObject dict;
    for (const Argument& a : args) {
      if (a.value.is_poison()) return Val();
      if (!a.name.empty()) {
        dict.set(a.name, a.value);
      } else if (const auto other = dict_of(a.value)) {
        for (const auto& [key, value] : other->items) dict.set(key, value);
      } else {
        auto pairs = checker.iterate(a.value, a.loc);
        if (!pairs) return Val();
        for (const Val& pair : *pairs) {
          const auto* two = pair.get_if<dsl::TupleVal>();
          if (!two || two->items->size() != 2)
            return checker.error(a.loc,
                                 fmt::format("dict() takes pairs of a key and a value, found {}", dsl::describe(pair)));
          dict.set((*two->items)[0], (*two->items)[1]);
        }
      }
    }
    return make_host(std::move(dict));
  }
  Val range() {
    auto range = checker.parse_range("range", args, loc);
    if (!range.is_known()) return Val();
    const dsl::Int &upper = range.upper.value.as<dsl::Int>(), &step = range.step.value.as<dsl::Int>();
    std::vector<Val> out;
    for (dsl::Int i = range.lower.value.as<dsl::Int>(); step > 0 ? i < upper : i > upper; i = i + step) {
      out.push_back(i);
      if (out.size() > kMaxItems) return error(fmt::format("a range of more than {} values", kMaxItems));
    }
    return checker.make_iterator(dsl::make_tuple(std::move(out)), {}, false, true);
  }
  Val list() {
    if (args.empty()) return dsl::make_list({});
    if (!arguments_fit(Takes::OnePositional)) return Val();
    auto found = items();
    return found ? dsl::make_list(std::move(*found)) : Val();
  }
  Val tuple() {
    if (args.empty()) return dsl::make_tuple({});
    if (!arguments_fit(Takes::OnePositional)) return Val();
    auto found = items();
    return found ? dsl::make_tuple(std::move(*found)) : Val();
  }
  Val str() {
    return checker.host_ ? checker.python_text(args[0].value, false, loc) : Val(dsl::text_of(args[0].value));
  }
  Val print() { return dsl::None{}; }
  Val len() {
    if (!checker.may_iterate(args[0].value, false, loc)) return Val();
    if (checker.is_iterator(args[0].value)) return error("an iterator, as zip() and map() give, has no length");
    if (const auto* text = only<std::string>())  // of UTF-8 the bytes that begin a character
      return Val(dsl::Int(std::count_if(text->begin(), text->end(), [](char c) { return (c & 0xC0) != 0x80; })));
    if (const auto* set = get_host<SetObject>(args[0].value)) return Val(dsl::Int(set->items.items.size()));
    if (const auto* list = only<dsl::TupleVal>()) return Val(dsl::Int(list->items->size()));
    if (const auto dict = dict_of(args[0].value)) return Val(dsl::Int(dict->items.size()));
    auto found = items();
    return found ? Val(dsl::Int(found->size())) : Val();
  }
  Val any() { return some(true); }
  Val all() { return some(false); }
  /// Whether some item's truth is `wanted`, for any(); whether none is, for all().
  Val some(bool wanted) {
    auto found = items();
    if (!found) return Val();
    return Val(std::any_of(found->begin(), found->end(),
                           [&](const Val& v) { return checker.host_truth(v) == wanted; }) == wanted);
  }
  Val sum() {
    auto found = items();
    if (!found) return Val();
    Val total = dsl::Int(0);
    checker.sema_.at(loc);
    for (const Val& v : *found) total = dsl::binary(checker.sema_, "+", total, v);
    return total;
  }
  Val enumerate() {
    auto found = items();
    if (!found) return Val();
    std::vector<Val> out;
    for (size_t i = 0; i < found->size(); ++i) out.push_back(dsl::make_tuple({dsl::Int(i), (*found)[i]}));
    return dsl::make_tuple(std::move(out));
  }
  Val zip() {
    auto in = all_items();
    if (!in) return Val();
    size_t n = in->empty() ? 0 : in->front().size();
    for (const auto& items : *in) n = std::min(n, items.size());
    std::vector<Val> out;
    for (size_t i = 0; i < n; ++i) {
      std::vector<Val> row;
      for (const auto& items : *in) row.push_back(items[i]);
      out.push_back(dsl::make_tuple(std::move(row)));
    }
    return dsl::make_tuple(std::move(out));
  }
  Val map() {
    if (args.size() < 2) return error("map takes a function and lists");
    const Val function = args[0].value;
    std::vector<std::vector<Val>> in;
    for (size_t i = 1; i < args.size(); ++i) {
      auto found = checker.iterate(args[i].value, args[i].loc, how_used());
      if (!found) return Val();
      in.push_back(std::move(*found));
    }
    size_t n = in.front().size();
    for (const auto& items : in) n = std::min(n, items.size());
    std::vector<Val> out;
    for (size_t i = 0; i < n; ++i) {
      std::vector<Argument> given;
      for (const auto& items : in) given.push_back({"", items[i], loc});
      Val value = call(function, std::move(given));
      if (value.is_poison()) return value;
      out.push_back(std::move(value));
    }
    return dsl::make_tuple(std::move(out));
  }
  Val set() {
    if (args.empty()) return make_host(SetObject({}));
    if (!arguments_fit(Takes::OnePositional)) return Val();
    auto found = items();
    return found ? make_host(SetObject(std::move(*found))) : Val();
  }
  Val filter() {
    if (args.size() != 2) return error("filter takes a function and a list");
    auto found = checker.iterate(args[1].value, args[1].loc, how_used());
    if (!found) return Val();
    std::vector<Val> out;
    for (const Val& item : *found) {
      const Val wanted = args[0].value.is<dsl::None>() ? item : call(args[0].value, {{"", item, args[0].loc}});
      if (wanted.is_poison()) return Val();
      if (checker.host_truth(wanted)) out.push_back(item);
    }
    return dsl::make_tuple(std::move(out));
  }
  Val call(const Val& function, std::vector<Argument> given) {
    auto called = std::make_unique<Expr>();
    called->kind = Expr::Kind::Name;
    called->loc = loc;
    called->text = name;
    Expr at;
    at.kind = Expr::Kind::Call;
    at.loc = loc;
    at.children.push_back(std::move(called));
    return checker.call_value(function, std::move(given), at);
  }
  Val round() {
    if (only<dsl::Int>()) return args[0].value;
    const auto* x = only<double>();
    const double whole = x ? std::nearbyint(*x) : 0;
    if (!x || !(std::abs(whole) < 9e15))
      return error(fmt::format("round cannot take {}", dsl::describe(args[0].value)));
    return Val(dsl::Int(int64_t(whole)));
  }
  Val reversed() {
    auto found = items();
    if (!found) return Val();
    std::reverse(found->begin(), found->end());
    return dsl::make_tuple(std::move(*found));
  }
  Val sorted() {
    const bool backwards = args.size() == 2 && args[1].name == "reverse" && dsl::truth(args[1].value);
    if (args.size() != 1 && !(args.size() == 2 && args[1].name == "reverse"))
      return error("sorted is evaluated of a list, and with reverse");
    auto found = items();
    if (!found) return Val();
    bool ok = true;
    checker.sema_.at(loc);
    std::stable_sort(found->begin(), found->end(), [&](const Val& a, const Val& b) {
      if (!ok) return false;
      const Val less = dsl::compare(checker.sema_, "<", backwards ? b : a, backwards ? a : b);
      ok = ok && !less.is_poison();
      return ok && dsl::truth(less);
    });
    return ok ? dsl::make_list(std::move(*found)) : Val();
  }
  /// numpy.array of lists of numbers: the list, with numbers as the dtype has them.
  Val array() {
    const dsl::DType* type = nullptr;
    for (size_t i = 1; i < args.size(); ++i)
      if (i == 1 || args[i].name == "dtype") type = args[i].value.get_if<dsl::DType>();
    if (args.empty() || args.size() > 2 || (args.size() == 2 && !type))
      return error("an array is evaluated of a list and a dtype");
    return as_array(args[0].value, type ? std::optional(type->type.elem) : std::nullopt);
  }
  Val as_array(const Val& v, std::optional<Elem> elem) {
    if (const auto* list = v.get_if<dsl::TupleVal>()) {
      std::vector<Val> out;
      for (const Val& item : *list->items) {
        out.push_back(as_array(item, elem));
        if (out.back().is_poison()) return Val();
      }
      return dsl::make_list(std::move(out));
    }
    const auto* integer = v.get_if<dsl::Int>();
    const auto* real = v.get_if<double>();
    if (!integer && !real) return error(fmt::format("an array is evaluated of numbers, found {}", dsl::describe(v)));
    if (!elem || (integer && !is_float(*elem))) return v;
    if (*elem == Elem::F64 || *elem == Elem::F32) {
      const double x = integer ? integer->to_double() : *real;
      return Val(*elem == Elem::F32 ? double(float(x)) : x);
    }
    return error(fmt::format("an array of {} is not evaluated of {}", elem_info(*elem).tl, dsl::describe(v)));
  }
  Val product() {  // of itertools
    const bool repeats = !args.empty() && args.back().name == "repeat" && args.back().value.is<dsl::Int>();
    std::vector<std::vector<Val>> lists;
    for (size_t i = 0; i + repeats < args.size(); ++i) {
      if (!args[i].name.empty()) return error("product is evaluated of lists, and with repeat");
      auto found = checker.iterate(args[i].value, args[i].loc, how_used());
      if (!found) return Val();
      lists.push_back(std::move(*found));
    }
    std::vector<std::vector<Val>> in;
    const int64_t times = repeats ? std::min<int64_t>(args.back().value.as<dsl::Int>().clamped(), 64) : 1;
    for (int64_t i = 0; i < times; ++i) in.insert(in.end(), lists.begin(), lists.end());
    std::vector<std::vector<Val>> rows{{}};
    for (const auto& items : in) {
      std::vector<std::vector<Val>> longer;
      for (const auto& row : rows)
        for (const Val& item : items) {
          longer.push_back(row);
          longer.back().push_back(item);
          if (longer.size() > kMaxItems) return error(fmt::format("more than {} combinations", kMaxItems));
        }
      rows = std::move(longer);
    }
    std::vector<Val> out;
    for (auto& row : rows) out.push_back(dsl::make_tuple(std::move(row)));
    return dsl::make_tuple(std::move(out));
  }
  Val named_tuple() { return checker.make_named_tuple_class(args, loc); }

  // Modules, versions, the environment.
  Val find_spec() {  // what is there where Triton is
    const auto* module = only<std::string>();
    if (!module) return error("find_spec takes the name of a module");
    SpecObject spec;
    spec.module = checker.resolve_path(*module).value_or(dsl::None{});
    const auto* found = spec.module.get_if<FunctionRef>();
    return found && found->kind == FunctionRef::Kind::Module ? make_host(std::move(spec)) : Val(dsl::None{});
  }
  Val module_from_spec() {
    const auto* spec = args.size() == 1 ? get_host<SpecObject>(args[0].value) : nullptr;
    return spec ? spec->module : error("module_from_spec takes what find_spec gives");
  }
  Val version() {
    const auto* text = only<std::string>();
    return text ? version_of(*text) : error("a version is made of a text");
  }
  Val environment() {
    if (args.empty() || args.size() > 2 || !args[0].value.is<std::string>())
      return error(fmt::format("{} takes the name of a variable and a default", name));
    return checker.environment(args[0].value.as<std::string>(), args.size() > 1 ? args[1].value : Val(dsl::None{}),
                               loc);
  }

  // triton's and torch's.
  Val config() { return checker.make_config(args, loc); }
  Val constexpr_function() { return args.size() == 1 ? args[0].value : Val(); }  // of what is one anyway
  Val current_target() { return module_ref("triton target"); }
  Val signature() {
    const auto* f = only<FunctionRef>();
    return f && f->name == "triton.autotune" ? module_ref("triton autotune")
                                             : error("inspect.signature is known of triton.autotune alone");
  }
  Val limits() {
    const auto* type = only<dsl::DType>();
    const bool of_floats = name == "torch.finfo";
    if (!type || !type->type.is_scalar() || type->type.pointer || is_float(type->type.elem) != of_floats)
      return error(fmt::format("{} takes {} type", name, of_floats ? "a floating-point" : "an integer"));
    LimitsObject limits;
    limits.elem = type->type.elem;
    return make_host(limits);
  }
  Val cuda_is_available() { return true; }
  Val device_capability() {
    const std::optional<int> capability = checker.capability();
    return capability ? dsl::make_tuple({dsl::Int(*capability / 10), dsl::Int(*capability % 10)}) : Val();
  }
};

const std::unordered_map<std::string_view, Checker::HostBuiltin::Row>& Checker::HostBuiltin::table() {
  using enum Takes;
  using B = HostBuiltin;
  static const std::unordered_map<std::string_view, Row> rows = {
      {"python.dict", {&B::dict, Anything}},
      {"python.range", {&B::range, Anything}},
      {"python.list", {&B::list, Known}},
      {"python.tuple", {&B::tuple, Known}},
      {"python.str", {&B::str, OnePositional}},
      {"python.print", {&B::print, Known}},
      {"python.len", {&B::len, OnePositional}},
      {"python.any", {&B::any, OnePositional}},
      {"python.all", {&B::all, OnePositional}},
      {"python.sum", {&B::sum, OnePositional}},
      {"python.enumerate", {&B::enumerate, OnePositional}},
      {"python.zip", {&B::zip, Positional}},
      {"python.map", {&B::map, Positional}},
      {"python.set", {&B::set, Known}},
      {"python.round", {&B::round, OnePositional}},
      {"python.filter", {&B::filter, Positional}},
      {"python.reversed", {&B::reversed, OnePositional}},
      {"python.sorted", {&B::sorted, Known}},
      {"numpy.array", {&B::array, Known}},
      {"numpy.asarray", {&B::array, Known}},
      {"itertools.product", {&B::product, Known}},
      {"collections.namedtuple", {&B::named_tuple, Known}},
      {"importlib.util.find_spec", {&B::find_spec, Known}},
      {"importlib.util.module_from_spec", {&B::module_from_spec, Known}},
      {"packaging.version.parse", {&B::version, Known}},
      {"packaging.version.Version", {&B::version, Known}},
      {"os.getenv", {&B::environment, Known}},
      {"os.environ.get", {&B::environment, Known}},
      {"triton.Config", {&B::config, Anything}},
      {"triton.constexpr_function", {&B::constexpr_function, Known}},
      {"triton.runtime.driver.active.get_current_target", {&B::current_target, Known}},
      {"inspect.signature", {&B::signature, Known}},
      {"torch.finfo", {&B::limits, Known}},
      {"torch.iinfo", {&B::limits, Known}},
      {"torch.cuda.is_available", {&B::cuda_is_available, Known}},
      {"torch.cuda.get_device_capability", {&B::device_capability, Known}},
  };
  return rows;
}

std::optional<Val> Checker::host_builtin(const std::string& name, const std::vector<Argument>& args, Loc loc) {
  return HostBuiltin{*this, name, args, loc}.call();
}

// collections.namedtuple("Point", ["x", "y"]) or "x y"; of further arguments `defaults` alone counts.
Val Checker::make_named_tuple_class(const std::vector<Argument>& args, Loc loc) {
  static constexpr const char* kParams[] = {"typename", "field_names", "rename", "defaults", "module"};
  auto matched = match_arguments("namedtuple", kParams, 2, args, loc);
  if (!matched) return Val();
  const Val &name = (*matched)[0]->value, &fields = (*matched)[1]->value;
  auto type = std::make_shared<Class>();
  bool ok = name.is<std::string>();
  if (ok) type->name = name.as<std::string>();
  type->loc = loc;
  if (const auto* list = fields.get_if<dsl::TupleVal>()) {
    for (const Val& field : *list->items) {
      ok = ok && field.is<std::string>();
      if (ok) type->fields.push_back({field.as<std::string>(), loc, nullptr, nullptr});
    }
  } else if (const auto* text = fields.get_if<std::string>()) {
    for (size_t at = 0; (at = text->find_first_not_of(", ", at)) != text->npos;) {
      const size_t end = std::min(text->find_first_of(", ", at), text->size());
      type->fields.push_back({text->substr(at, end - at), loc, nullptr, nullptr});
      at = end;
    }
  } else {
    ok = false;
  }
  if (!ok || (*matched)[3])
    return error(loc, "namedtuple is evaluated with a name and a list of names, without defaults");
  ClassObject object;
  object.file = file_;
  object.type = std::move(type);
  object.is_tuple = true;
  return make_host(std::move(object));
}

}  // namespace tegula::language
