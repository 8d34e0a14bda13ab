// What a name means: the scope of the function, the globals and functions of the file, imports, builtins, and the names
// of the modules that a kernel may use.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numbers>

#include "dsl/language/checker_impl.h"
#include "runtime/base/elem.h"

namespace tegula::language {

namespace {

using Kind = FunctionRef::Kind;

// Python's own functions, and those of tl that need more than their arguments' values. find_member and call_builtin
// share these names.
constexpr const char* kBuiltins[] = {"abs", "bool", "float", "int", "len", "max", "min", "print", "range"};
constexpr const char* kLanguageBuiltins[] = {"constexpr",     "device_assert", "device_print", "range",
                                             "static_assert", "static_print",  "static_range"};
constexpr const char* kMathFunctions[] = {"ceil", "exp", "floor", "log", "log2", "pow", "sqrt"};
// What Triton has and Tegula lacks, of tl and of libdevice (which tl.math once held): a name that looks like one of
// these is no typing error.
constexpr std::string_view kTritonOnly =
    " associative_scan async_task atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor "
    "bitonic_merge cat const cumprod cumsum dot_scaled flip float8e4b15 float8e4b8 float8e5b16 gather histogram "
    "inline_asm_elementwise interleave join "
    "map_elementwise pair_uniform_to_normal philox philox_impl rand rand4x randint randint4x randn randn4x sort split "
    "swizzle2d tensor tensor_descriptor topk uint_to_uniform_float ";
constexpr std::string_view kLibdeviceOnly =
    " acos acosh add_rd add_rn add_ru add_rz asin asinh atan atan2 atanh brev byte_perm cbrt clz copysign cosh cospi "
    "cyl_bessel_i0 cyl_bessel_i1 div_rd div_ru div_rz double2float_rd double2float_rn double2float_ru double2float_rz "
    "double2hiint double2int_rd double2int_rn double2int_ru double2int_rz double2ll_rd double2ll_rn double2ll_ru "
    "double2ll_rz double2loint double2uint_rd double2uint_rn double2uint_ru double2uint_rz double2ull_rd double2ull_rn "
    "double2ull_ru double2ull_rz double_as_longlong erfc erfcinv erfcx erfinv exp10 expm1 fast_cosf fast_dividef "
    "fast_exp10f fast_expf fast_log10f fast_log2f fast_logf fast_powf fast_sinf fast_tanf fdim ffs finitef "
    "float2int_rd float2int_rn float2int_ru float2int_rz float2ll_rd float2ll_rn float2ll_ru float2ll_rz float2uint_rd "
    "float2uint_rn float2uint_ru float2uint_rz float2ull_rd float2ull_rn float2ull_ru float2ull_rz float_as_int "
    "float_as_uint fma_rd fma_rn fma_ru fma_rz fmod hadd hiloint2double hypot ilogb int2double_rn int2float_rd "
    "int2float_rn int2float_ru int2float_rz int_as_float isfinited isinf isnan j0 j1 jn ldexp lgamma ll2double_rd "
    "ll2double_rn ll2double_ru ll2double_rz ll2float_rd ll2float_rn ll2float_ru ll2float_rz llrint llround log10 log1p "
    "logb longlong_as_double mul24 mul_rd mul_rn mul_ru mul_rz mulhi nearbyint nextafter norm3d norm4d normcdf "
    "normcdfinv popc rcbrt rcp64h rcp_rd rcp_rn rcp_ru rcp_rz remainder rhadd rhypot rint rnorm3d rnorm4d round "
    "rsqrt_rn sad saturatef scalbn signbit sinh sinpi sqrt_rd sqrt_ru sqrt_rz sub_rd sub_rn sub_ru sub_rz tan tgamma "
    "trunc uint2double_rn uint2float_rd uint2float_rn uint2float_ru uint2float_rz uint_as_float ull2double_rd "
    "ull2double_rn ull2double_ru ull2double_rz ull2float_rd ull2float_rn ull2float_ru ull2float_rz y0 y1 yn ";
// What says the same, or nearly so.
constexpr std::pair<std::string_view, const char*> kInstead[] = {
    {"erfc", "1 - tl.erf(x)"},
    {"exp10", "tl.exp2(x * 3.321928094887362)"},
    {"expm1", "tl.exp(x) - 1"},
    {"fast_cosf", "tl.cos(x)"},
    {"fast_dividef", "x / y"},
    {"fast_expf", "tl.exp(x)"},
    {"fast_log2f", "tl.log2(x)"},
    {"fast_logf", "tl.log(x)"},
    {"fast_powf", "tl.math.pow(x, y)"},
    {"fast_sinf", "tl.sin(x)"},
    {"finitef", "tl.abs(x) < float('inf')"},
    {"float_as_int", "x.to(tl.int32, bitcast=True)"},
    {"int_as_float", "x.to(tl.float32, bitcast=True)"},
    {"isfinited", "tl.abs(x) < float('inf')"},
    {"isinf", "tl.abs(x) == float('inf')"},
    {"isnan", "x != x"},
    {"log10", "tl.log2(x) * 0.3010299956639812"},
    {"log1p", "tl.log(1 + x)"},
    {"nearbyint", "tl.floor(x + 0.5), which rounds ties up"},
    {"rint", "tl.floor(x + 0.5), which rounds ties up"},
    {"round", "tl.floor(x + 0.5), which rounds ties up"},
    {"saturatef", "tl.clamp(x, 0.0, 1.0)"},
    {"tan", "tl.sin(x) / tl.cos(x)"},
    {"trunc", "tl.where(x < 0, tl.ceil(x), tl.floor(x))"}};
constexpr const char* kExtraModules[] = {"cuda", "hip", "intel", "xpu"};

template <size_t n>
bool contains(const char* const (&names)[n], std::string_view name) {
  return std::any_of(std::begin(names), std::end(names), [&](const char* x) { return name == x; });
}

Val module_ref(std::string name) { return FunctionRef{Kind::Module, std::move(name), nullptr, nullptr}; }
Val builtin_ref(std::string name) { return FunctionRef{Kind::Builtin, std::move(name), nullptr, nullptr}; }

std::optional<Val> find_type(std::string_view name) {
  for (Elem e : {
#define TEGULA_ELEM(Name, text, tl, bits, kind) Elem::Name,
#include "runtime/base/elem.def"
       })
    if (name == elem_info(e).tl) return Val(dsl::DType{ir::Type::scalar(e)});
  return std::nullopt;
}

std::vector<std::string> member_names(std::string_view module) {
  std::vector<std::string> names;
  if (module == "triton") return {"language", "cdiv", "next_power_of_2"};
  if (module == "math") {
    names.assign(std::begin(kMathFunctions), std::end(kMathFunctions));
    for (const char* constant : {"pi", "e", "inf", "nan", "tau"}) names.emplace_back(constant);
    return names;
  }
  for (const dsl::FunctionInfo& f : dsl::function_table()) names.push_back(f.name);
  if (module != "tl") return names;
  for (const char* name : kLanguageBuiltins) names.emplace_back(name);
  for (const char* name : {"math", "extra", "PropagateNan"}) names.emplace_back(name);
#define TEGULA_ELEM(Name, text, tl, bits, kind) names.emplace_back(#tl);
#include "runtime/base/elem.def"
  return names;
}

}  // namespace

bool is_constexpr_annotation(const Expr* annotation) {
  if (!annotation) return false;
  std::string text = annotation->kind == Expr::Kind::String ? annotation->text : dotted_name(*annotation);
  return text == "constexpr" || text.ends_with(".constexpr");
}

std::string nearest_hint(std::string_view name, const std::vector<std::string>& candidates, std::string fallback) {
  if (auto near = nearest_name(name, candidates)) return fmt::format("did you mean '{}'?", *near);
  return fallback;
}

void Checker::bind(const std::string& name, Val value, bool typed, Loc loc) {
  name_values(value, name);
  typed = typed && dsl::is_number(value);
  frame_->scope[name] = Binding{std::move(value), typed, {}, loc};
}

const Function* Checker::find_jit(std::string_view name) const {
  for (size_t i = module_.functions.size(); i-- > 0;)  // a later definition wins
    if (module_.functions[i].name == name) return &module_.functions[i];
  return nullptr;
}

std::vector<std::string> Checker::visible_names() const {
  std::vector<std::string> names;
  for (const auto& [name, binding] : frame_->scope) names.push_back(name);
  for (const Global& g : module_.globals) names.push_back(g.name);
  for (const Function& f : module_.functions) names.push_back(f.name);
  for (const ImportBinding& i : module_.imports) names.push_back(i.name);
  names.insert(names.end(), std::begin(kBuiltins), std::end(kBuiltins));
  return names;
}

Val Checker::lookup(const Expr& e) {
  const std::string& name = e.text;
  if (auto it = frame_->scope.find(name); it != frame_->scope.end()) {
    const Binding& b = it->second;
    if (!b.unusable.empty()) return error(e.loc, b.unusable, "give it a value of one type on every way to this line");
    return b.value;
  }
  for (size_t i = module_.globals.size(); i-- > 0;)
    if (module_.globals[i].name == name) return global_value(module_.globals[i], e);
  if (const Function* f = find_jit(name)) return FunctionRef{Kind::Jit, f->name, f, &module_};
  if (host_)
    if (auto value = host_name(name)) return *value;
  for (size_t i = module_.imports.size(); i-- > 0;) {
    const ImportBinding& import = module_.imports[i];
    if (import.name == "*") {
      std::string path = import.path.ends_with(".*") ? import.path.substr(0, import.path.size() - 2) : import.path;
      if (auto member = resolve_path(path + "." + name)) return *member;
    } else if (import.name == name) {
      if (auto value = resolve_path(import.path)) return *value;
      return module_ref(import.path);                  // an error only where something is done with it
    } else if (import.name.starts_with(name + ".")) {  // import a.b.c binds a
      if (auto value = resolve_path(name)) return *value;
      return module_ref(name);
    }
  }
  if (contains(kBuiltins, name)) return builtin_ref("python." + name);  // min is not tl.min
  if (unknown_ && frame_->function) {  // the same unknown condition may be what gives it a value
    std::vector<std::string> assigned;
    collect_assigned(frame_->function->body, nullptr, true, assigned);
    if (std::find(assigned.begin(), assigned.end(), name) != assigned.end()) return Val();
  }
  std::string fallback;
  if (name == "tl") fallback = "write 'import triton.language as tl' at the top of the file";
  if (name == "triton") fallback = "write 'import triton' at the top of the file";
  if (name == "math") fallback = "write 'import math' at the top of the file, or use tl.exp, tl.log, ...";
  return error(e.loc, fmt::format("unknown name '{}'", name),
               fallback.empty() ? nearest_hint(name, visible_names()) : fallback);
}

Val Checker::global_value(const Global& global, const Expr& use) {
  if (auto it = globals_.find(&global); it != globals_.end()) return it->second;
  if (evaluating_.contains(&global))
    return error(use.loc, fmt::format("the global '{}' is defined by itself", global.name));
  evaluating_.insert(&global);
  Frame frame, *caller = frame_;
  frame.parent = caller;
  frame_ = &frame;
  Val value = with_note(use.loc, fmt::format("in the value of the global '{}'", global.name), [&] {
    Val v = global.value ? eval(*global.value) : Val();
    if (v.is_value())
      v = error(global.loc, fmt::format("the global '{}' is no compile-time constant", global.name),
                "a kernel can use globals that are numbers, strings, types and tuples of them");
    return v;
  });
  frame_ = caller;
  evaluating_.erase(&global);
  if (!value.is_poison()) globals_[&global] = value;
  return value;
}

std::optional<Val> Checker::find_member(std::string_view module, std::string_view name) const {
  if (host_)
    if (auto value = host_member(module, name)) return value;
  if (module == "triton") {
    if (name == "language") return module_ref("tl");
    if (name == "cdiv" || name == "next_power_of_2") return builtin_ref(std::string(name));
    return std::nullopt;
  }
  if (module == "math") {
    if (name == "pi") return Val(std::numbers::pi);
    if (name == "tau") return Val(2 * std::numbers::pi);
    if (name == "e") return Val(std::numbers::e);
    if (name == "inf") return Val(std::numeric_limits<double>::infinity());
    if (name == "nan") return Val(std::numeric_limits<double>::quiet_NaN());
    if (contains(kMathFunctions, name)) return builtin_ref("math." + std::string(name));
    return std::nullopt;
  }
  if (module == "tl") {
    if (name == "math" || name == "extra" || name == "libdevice") return module_ref("tl." + std::string(name));
    if (name == "core" || name == "standard") return module_ref("tl");
    if (contains(kLanguageBuiltins, name)) return builtin_ref("tl." + std::string(name));
    if (name == "PropagateNan") return module_ref("tl.PropagateNan");
    if (auto type = find_type(name)) return type;
  } else if (module == "tl.PropagateNan") {
    if (name == "ALL" || name == "NONE") return Val(name == "ALL");
    return std::nullopt;
  } else if (module == "tl.extra") {
    if (contains(kExtraModules, name)) return module_ref("tl.extra");
    if (name == "libdevice") return module_ref("tl.libdevice");
    return std::nullopt;
  } else if (module != "tl.math" && module != "tl.libdevice") {
    return std::nullopt;
  }
  if (const dsl::FunctionInfo* info = dsl::find_function(name)) return builtin_ref(info->name);
  return std::nullopt;
}

std::optional<Val> Checker::resolve_path(std::string_view path) const {
  size_t dot = path.find('.');
  std::string_view root = path.substr(0, dot);
  bool host = host_ && (root == "torch" || root == "itertools" || root == "os");
  if (root != "triton" && root != "math" && !host) return std::nullopt;
  Val value = module_ref(std::string(root));
  while (dot != std::string_view::npos) {
    path.remove_prefix(dot + 1);
    dot = path.find('.');
    const auto* module = value.get_if<FunctionRef>();
    if (!module || module->kind != Kind::Module) return std::nullopt;
    auto member = find_member(module->name, path.substr(0, dot));
    if (!member) return std::nullopt;
    value = *member;
  }
  return value;
}

bool Checker::is_foreign(const FunctionRef& f) {
  return f.kind == Kind::Module && f.name != "triton" && f.name != "math" && f.name != "tl" &&
         !f.name.starts_with("tl.");
}

Val Checker::module_member(const FunctionRef& module, const Expr& e, bool called) {
  if (auto member = find_member(module.name, e.text)) return *member;
  if (host_ && (is_foreign(module) || module.name == "triton"))
    return error(e.loc, fmt::format("'{}' cannot be evaluated: Tegula does not run Python", dotted_name(e)),
                 module.name == "triton" ? nearest_hint(e.text, {"Config", "cdiv", "next_power_of_2"}) : "");
  if (is_foreign(module))
    return error(e.loc, fmt::format("'{}' is of no use in a kernel: it comes from '{}'", dotted_name(e), module.name),
                 "a kernel can use triton.language, math, and the globals and @triton.jit functions of its file");
  std::string hint;
  const bool of_tl = module.name == "tl" || module.name.starts_with("tl.");
  const std::string word = " " + e.text + " ";
  if (of_tl &&
      (kTritonOnly.find(word) != std::string_view::npos || kLibdeviceOnly.find(word) != std::string_view::npos)) {
    hint = "docs/language.md lists what there is";
    for (const auto& [name, instead] : kInstead)
      if (name == e.text) hint = fmt::format("write {}", instead);
    return error(e.loc, fmt::format("'{}' is Triton's, but Tegula does not have it", dotted_name(e)), hint);
  }
  if (auto near = nearest_name(e.text, member_names(module.name)))
    hint = fmt::format("did you mean '{}.{}'?", dotted_name(*e.children[0]), *near);
  else if (of_tl)
    hint = "docs/language.md lists what there is";
  return error(e.loc, fmt::format("unknown {} '{}'", called ? "function" : "name", dotted_name(e)), hint);
}

}  // namespace tegula::language
