// The table of functions: rows of functions.def with their parameters parsed, and the ops that are functions by
// themselves; binding of arguments to parameters.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>

#include "codegen/ir/libdevice.h"
#include "dsl/semantics/internal.h"

namespace tegula::dsl {

ir::Value* math_operand(Sema& s, const Val& x, const char* function, const ir::OpInfo& info) {
  ir::Value* v = to_value(s, x, fmt::format("the argument of {}", function));
  if (!v) return nullptr;
  bool narrow = v->type.is_float() && v->type.bits() < 32;
  bool takes_narrow = info.opcode == ir::Opcode::Fma || info.opcode == ir::Opcode::Abs;
  if (v->type.pointer && !(info.traits & (ir::FloatOnly | ir::IntOnly))) {
    s.error(fmt::format("{} takes numbers, found {}", function, describe(v)), hint_for_pointer(v));
    return nullptr;
  }
  if ((info.traits & ir::FloatOnly) && (!v->type.is_float() || (narrow && !takes_narrow))) {
    s.error(fmt::format("{} takes float32 or float64, found {}", function, describe(v)),
            "convert with .to(tl.float32) first");
    return nullptr;
  }
  if (!check_arithmetic(s, function, v)) return nullptr;
  if ((info.traits & ir::IntOnly) && (!v->type.is_integer() || v->type.bits() < 32)) {
    s.error(fmt::format("{} takes integers of 32 or 64 bits, found {}", function, describe(v)));
    return nullptr;
  }
  return v;
}

namespace {

Val parse_default(std::string_view text) {
  if (text == "None") return None{};
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "()") return make_tuple({});
  if (text.front() == '\'') return std::string(text.substr(1, text.size() - 2));
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<FunctionParam> parse_params(std::string_view text) {
  std::vector<FunctionParam> params;
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(", "));
    text = item.size() == text.size() ? std::string_view() : text.substr(item.size() + 2);
    FunctionParam param;
    size_t equals = item.find('=');
    param.name = item.substr(0, equals);
    param.required = equals == std::string_view::npos;
    if (!param.required) param.fallback = parse_default(item.substr(equals + 1));
    if (param.name.front() == '*') {
      param.name.erase(0, 1);
      param.rest = true;
      param.required = false;
    }
    params.push_back(std::move(param));
  }
  return params;
}

// ------------------------------------------------------------------------------- ops that are functions themselves

// |x| of float8 numbers, which have no arithmetic: all bits but the sign.
Val abs_float8(Sema& s, ir::Value* x) {
  ir::Builder& b = s.builder;
  ir::Value* bits = b.bitcast(x, ir::Type::scalar(Elem::U8));
  ir::Value* size = b.bit_and(bits, b.constant(bits->type, 0x7f));
  if (x->type.elem == Elem::F8E4B8 || x->type.elem == Elem::F8E5B16)  // what would be -0 is the NaN
    size = b.select(b.eq(bits, b.constant(bits->type, 0x80)), bits, size);
  return b.bitcast(size, ir::Type::scalar(x->type.elem));
}

template <ir::Opcode opcode>
Val call_op(Sema& s, Args args) {
  const ir::OpInfo& info = ir::op_info(opcode);
  if (opcode == ir::Opcode::Abs && args[0].is_constant()) {
    if (auto* i = args[0].get_if<Int>()) return *i < 0 ? -*i : *i;
    if (auto* d = args[0].get_if<double>()) return std::abs(*d);
  }
  if (opcode == ir::Opcode::Abs && args[0].is_value() && !args[0].value()->type.pointer &&
      is_float8(args[0].value()->type.elem))
    return abs_float8(s, args[0].value());
  std::vector<ir::Value*> values;
  if (args.size() == 1) {
    values = {math_operand(s, args[0], info.language_name, info)};
  } else {
    // Arguments are values first: unlike an operator's, a literal is not weak.
    std::vector<ir::Value*> given;
    for (const Val& arg : args) {
      given.push_back(to_value(s, arg, fmt::format("an argument of {}", info.language_name)));
      if (!given.back()) return {};
    }
    auto ab = operands(s, info.language_name, given[0], given[1], {});
    if (!ab) return {};
    values = {math_operand(s, ab->first, info.language_name, info)};
    if (values[0]) values.push_back(math_operand(s, ab->second, info.language_name, info));
    if (args.size() == 3 && values[0] && values[1]) {
      auto ac = operands(s, info.language_name, values[0], given[2], {});
      if (!ac) return {};
      auto bc = operands(s, info.language_name, values[1], ac->second, {});
      if (!bc) return {};
      values = {ac->first, bc->first, bc->second};
    }
  }
  for (ir::Value* v : values)
    if (!v) return {};
  if (opcode == ir::Opcode::Abs && values[0]->type.is_integer() && is_unsigned(values[0]->type.elem)) return values[0];
  return s.builder.create(opcode, values)->result();
}

/// A function of libdevice; of its signature only how many parameters it has.
void add_libdevice(std::vector<FunctionInfo>& table, const char* name, std::string_view signature,
                   Val (*call)(Sema&, Args), const char* doc) {
  const auto count = signature.ends_with("()") ? 0 : std::ranges::count(signature, ',') + 1;
  FunctionInfo& info = table.emplace_back(FunctionInfo{std::string("libdevice.") + name, {}, call, doc, false});
  info.params.reserve(size_t(count));
  for (char digit = '0'; digit < '0' + count; ++digit)
    info.params.push_back({std::string("arg") + digit, true, false, Val()});
}

std::vector<FunctionInfo> make_table() {
  std::vector<FunctionInfo> table;
  auto op_row = [&](ir::Opcode opcode, std::initializer_list<const char*> params, auto call) {
    const ir::OpInfo& op = ir::op_info(opcode);
    if (!*op.language_name) return;
    FunctionInfo info{op.language_name, {}, call, op.doc, params.size() == 1};
    info.method_widens = info.method && (op.traits & ir::FloatOnly);
    for (const char* p : params) info.params.push_back({p, true, false, Val()});
    table.push_back(std::move(info));
  };
#define TEGULA_OP(...)
#define TEGULA_UNARY(Name, ...) op_row(ir::Opcode::Name, {"x"}, &call_op<ir::Opcode::Name>);
#define TEGULA_BINARY(Name, ...) op_row(ir::Opcode::Name, {"x", "y"}, &call_op<ir::Opcode::Name>);
#define TEGULA_TERNARY(Name, ...) op_row(ir::Opcode::Name, {"x", "y", "z"}, &call_op<ir::Opcode::Name>);
#include "codegen/ir/ops.def"
#define TEGULA_FN(name, params, method, doc)                                                    \
  {                                                                                             \
    std::string language_name = #name;                                                          \
    if (language_name.back() == '_') language_name.pop_back();                                  \
    table.push_back({std::move(language_name), parse_params(params), &fn_##name, doc, method}); \
  }
#include "dsl/semantics/functions.def"
#define TEGULA_LIBDEVICE(name, signature, body, doc) \
  add_libdevice(                                     \
      table, #name, signature, [](Sema& s, Args args) { return call_libdevice(s, #name, args); }, doc);
#define TEGULA_LIBDEVICE_TOO(...)
#include "codegen/ir/libdevice.def"
  return table;
}

// Whether x is Poison or a tuple with one in it.
bool holds_poison(const Val& x) {
  if (auto* tuple = x.get_if<TupleVal>()) return std::any_of(tuple->items->begin(), tuple->items->end(), holds_poison);
  return x.is_poison();
}

}  // namespace

const std::vector<FunctionInfo>& function_table() {
  static const std::vector<FunctionInfo> table = make_table();
  return table;
}

const FunctionInfo* find_function(std::string_view name) {
  static const std::unordered_map<std::string_view, const FunctionInfo*> index = [] {
    std::unordered_map<std::string_view, const FunctionInfo*> out;
    out.reserve(function_table().size());
    for (const FunctionInfo& f : function_table()) out[f.name] = &f;
    return out;
  }();
  auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

const std::vector<FunctionInfo>& descriptor_methods() {
  static const std::vector<FunctionInfo> table = {
#define TEGULA_DESCRIPTOR_METHOD(name, params, doc) {#name, parse_params(params), &descriptor_##name, doc, true},
#include "dsl/semantics/functions.def"
  };
  return table;
}

namespace {

const std::vector<FunctionInfo>& methods_of(const Val& x) {
  const auto* view = x.get_if<BlockView>();
  return view && !view->is_pointer() ? descriptor_methods() : function_table();
}

}  // namespace

const FunctionInfo* find_method(const Val& x, std::string_view name) {
  for (const FunctionInfo& f : methods_of(x))
    if (f.method && f.name == name) return &f;
  return nullptr;
}

std::vector<std::string> method_names(const Val& x) {
  std::vector<std::string> names;
  for (const FunctionInfo& f : methods_of(x))
    if (f.method) names.push_back(f.name);
  return names;
}

namespace {

const char* page_of(const FunctionInfo& function) {
  if (function.name.starts_with("libdevice.")) return page::kLibdevice;
  const auto& methods = descriptor_methods();
  return &function >= methods.data() && &function < methods.data() + methods.size() ? page::kDescriptors
                                                                                    : page::kFunctions;
}

std::string its_arguments(const FunctionInfo& function) {
  std::vector<std::string> names;
  for (const FunctionParam& p : function.params) names.push_back(p.name);
  return fmt::format("it takes: {}", fmt::join(names, ", "));
}

// The argument that other functions, or other libraries, call so; or whose name has this one within.
std::optional<std::string> called_otherwise(const std::string& name, const std::vector<std::string>& names) {
  constexpr std::pair<std::string_view, std::string_view> kSame[] = {
      {"dim", "axis"}, {"axis", "dim"}, {"ptr", "pointer"}, {"memory_order", "sem"}, {"shape", "block_shape"}};
  for (const auto& [other, own] : kSame)
    if (name == other && std::find(names.begin(), names.end(), own) != names.end()) return std::string(own);
  auto longer = [&](const std::string& own) {
    return name.size() >= 3 && (own.starts_with(name) || own.ends_with(name));
  };
  const auto found = std::find_if(names.begin(), names.end(), longer);
  return found != names.end() ? std::optional(*found) : std::nullopt;
}

}  // namespace

Val call_function(Sema& s, const FunctionInfo& function, std::vector<Val> positional,
                  std::vector<std::pair<std::string, Val>> keywords) {
  const OnPage on_page(s.diags, page_of(function));
  const auto& params = function.params;
  std::vector<std::optional<Val>> bound(params.size());
  size_t next = 0;
  for (size_t i = 0; i < params.size() && next < positional.size(); ++i) {
    if (params[i].rest) {
      bound[i] = make_tuple(std::vector<Val>(positional.begin() + long(next), positional.end()));
      next = positional.size();
    } else {
      bound[i] = positional[next++];
    }
  }
  if (next < positional.size())
    return s.error(fmt::format("{} takes {} argument{}, found {}", function.name, params.size(),
                               params.size() == 1 ? "" : "s", positional.size()),
                   its_arguments(function));
  for (auto& [name, value] : keywords) {
    std::vector<std::string> names;
    size_t i = 0;
    for (const FunctionParam& p : params) names.push_back(p.name);
    while (i < params.size() && params[i].name != name) ++i;
    if (i == params.size()) {
      auto near = nearest_name(name, names);
      if (!near) near = called_otherwise(name, names);
      return s.error(fmt::format("{} has no argument '{}'", function.name, name),
                     near ? fmt::format("did you mean '{}'?", *near) : its_arguments(function));
    }
    if (bound[i]) return s.error(fmt::format("{} gets its argument '{}' twice", function.name, name));
    // shape=(2, 4) for *shape: as if given one by one
    bound[i] = params[i].rest && !value.is<TupleVal>() ? make_tuple({value}) : value;
  }
  std::vector<Val> args;
  for (size_t i = 0; i < params.size(); ++i) {
    if (!bound[i] && params[i].required)
      return s.error(fmt::format("{} lacks its argument '{}'", function.name, params[i].name), its_arguments(function));
    args.push_back(bound[i] ? *bound[i] : params[i].rest ? make_tuple({}) : params[i].fallback);
    if (holds_poison(args.back())) return {};
  }
  return checked_rank(s, function.call(s, args), function.name);
}

}  // namespace tegula::dsl
