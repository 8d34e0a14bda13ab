// What a name means: the scope of the function, the globals and functions of the file, imports, builtins, and the names
// of the modules that a kernel may use.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numbers>
#include <utility>

#include "dsl/language/checker_impl.h"
#include "dsl/language/python_math.h"
#include "dsl/language/source_file.h"
#include "dsl/semantics/other_names.h"
#include "dsl/specialize.h"
#include "runtime/base/elem.h"

namespace tegula::language {

namespace {

using Kind = FunctionRef::Kind;

// Python's own functions, and those of tl that need more than their arguments' values. find_member and call_builtin
// share these names.
constexpr const char* kBuiltins[] = {"abs",     "all", "any",        "bool",  "dict", "enumerate", "float", "getattr",
                                     "hasattr", "int", "isinstance", "len",   "list", "max",       "min",   "print",
                                     "range",   "str", "sum",        "tuple", "type", "zip"};
constexpr const char* kOtherLibraries[] = {"torch", "np", "numpy", "jnp", "cupy", "cp", "F", "nn", "cuda", "scipy"};
constexpr const char* kLanguageBuiltins[] = {"_log2",
                                             "_unwrap_if_constexpr",
                                             "base_value",
                                             "block_type",
                                             "condition",
                                             "const",
                                             "constexpr",
                                             "constexpr_type",
                                             "dtype",
                                             "range",
                                             "slice",
                                             "static_assert",
                                             "static_print",
                                             "static_range",
                                             "tensor",
                                             "tensor_descriptor",
                                             "tensor_descriptor_base",
                                             "to_tensor",
                                             "tuple",
                                             "void"};
constexpr const char* kTargetQueries[] = {"cuda_capability_geq", "current_target", "is_cuda", "is_hip",
                                          "is_hip_cdna3",        "is_hip_cdna4"};
// Of Python's math, which torch and numpy have too.
constexpr std::pair<const char*, double> kMathConstants[] = {{"pi", std::numbers::pi},
                                                             {"e", std::numbers::e},
                                                             {"inf", std::numeric_limits<double>::infinity()},
                                                             {"nan", std::numeric_limits<double>::quiet_NaN()},
                                                             {"tau", 2 * std::numbers::pi}};
// Among more names none is looked for that is near: each statement of a long module may have a name that is unknown.
constexpr size_t kMaxCandidates = 1000;
// What Triton has and Tegula lacks: a name that looks like one of these is no typing error.
constexpr std::string_view kTritonOnly = " async_task ";
constexpr std::string_view kLibdevice = "libdevice.";  ///< before its functions' names in the table
constexpr const char* kExtraModules[] = {"cuda", "hip", "intel", "xpu"};

template <size_t n>
bool contains(const char* const (&names)[n], std::string_view name) {
  return std::any_of(std::begin(names), std::end(names), [&](const char* x) { return name == x; });
}

/// Whether a module is one of those that are there, and of no use in a kernel, not a file that may come with the
/// kernel's.
bool of_other_library(std::string_view module) {
  return contains(kOtherLibraries, module.substr(0, module.find('.'))) && !module.starts_with("torch._inductor");
}

Val module_ref(std::string name) { return FunctionRef{Kind::Module, std::move(name), nullptr, nullptr}; }
Val builtin_ref(std::string name) { return FunctionRef{Kind::Builtin, std::move(name), nullptr, nullptr}; }

// Triton's modules under their usual names, imported from a module of others that hands them on:
// `from package.triton_utils import tl, triton`. FlagGems calls the library of mathematical functions that its start
// chooses tl_extra_shim.
std::optional<Val> handed_on(std::string_view path) {
  size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  std::string_view name = path.substr(dot + 1);
  if (name == "tl" || name == "triton") return module_ref(std::string(name));
  return name == "libdevice" || name == "tl_extra_shim" ? std::optional(module_ref("tl.libdevice")) : std::nullopt;
}

/// Whether a path is a file of a package, one called triton.py say, and no name that the package hands on.
bool is_own_module(const SourceFile& importing, const std::string& path) {
  const size_t dot = path.rfind('.');
  const std::string name = path.substr(dot + 1);
  std::string package = path.substr(0, dot);
  if (package.find_first_not_of('.') == package.npos) package += '.';
  const SourceFile* file = importing.imported(package);
  if (file && std::any_of(file->module().imports.begin(), file->module().imports.end(),
                          [&](const ImportBinding& b) { return b.name == name; }))
    return false;
  return importing.imported(path) != nullptr;
}

/// A member of tl.extra: the modules of all vendors are CUDA's here.
std::optional<Val> extra_module(std::string_view name) {
  return contains(kExtraModules, name) ? std::optional(module_ref("tl.extra.cuda")) : std::nullopt;
}

std::optional<Val> cuda_function(std::string_view name) {
  if (name == "num_warps" || name == "num_threads") return builtin_ref("tl.extra.cuda." + std::string(name));
  const dsl::FunctionInfo* info = dsl::find_function("extra_cuda_" + std::string(name));
  return info ? std::optional(builtin_ref(info->name)) : std::nullopt;
}

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
    names = math_functions();
    for (const auto& [constant, value] : kMathConstants) names.emplace_back(constant);
    return names;
  }
  for (const dsl::FunctionInfo& f : dsl::function_table()) {
    const bool of_libdevice = f.name.starts_with(kLibdevice);
    if (!of_libdevice)
      names.push_back(f.name);
    else if (module != "tl")
      names.push_back(f.name.substr(kLibdevice.size()));
  }
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

void Checker::check_annotation(const Expr& annotation) {
  const std::string text = dotted_name(annotation);
  const size_t dot = text.rfind('.');
  if (dot == std::string::npos || !nearest_name(text.substr(dot + 1), {"constexpr"})) return;
  error(annotation.loc, fmt::format("unknown name '{}'", text),
        fmt::format("did you mean '{}.constexpr'?", text.substr(0, dot)));
}

std::string nearest_hint(std::string_view name, const std::vector<std::string>& candidates, std::string fallback) {
  if (auto near = nearest_name(name, candidates)) return fmt::format("did you mean '{}'?", *near);
  return fallback;
}

void Checker::bind(const std::string& name, Val value, Loc loc) {
  if (ir::Value* made = value.value(); made && made->name.empty() && !name.starts_with('.')) made->name = name;
  Binding& binding = frame_->scope[name] = Binding{std::move(value), {}, loc};
  if (frame_->run) frame_->run->bound.insert(name);
  if (!frame_->readers.empty()) bind_in_lambdas(name, binding);
}

void Checker::assign_name(const std::string& name, Val value, Loc loc) {
  if (sema_.watched && !host_ && !unknown_ && frame_->function) {
    sema_.at(loc);
    dsl::watch_name(sema_, watched_name(name), value);
  }
  bind(name, std::move(value), loc);
}

std::string Checker::watched_function() const {
  return frame_->is_kernel || !frame_->function ? "" : frame_->function->name;
}

std::string Checker::watched_name(const std::string& name) const {
  const std::string function = watched_function();
  return function.empty() ? name : function + "." + name;
}

void Checker::watch_parameters() {
  if (!sema_.watched || host_ || unknown_) return;
  if (const std::string function = watched_function(); !function.empty()) dsl::watch_call(sema_, function);
  for (const auto& [name, binding] : frame_->scope) {
    sema_.at(binding.loc);
    dsl::watch_name(sema_, watched_name(name), binding.value);
  }
}

const Function* Checker::find_jit(std::string_view name) {
  const std::vector<Function>& functions = module().functions;
  const Function* found = nullptr;
  for (size_t i = functions.size(); i-- > 0;) {  // a later definition wins
    if (functions[i].name != name || !holds(functions[i].conditions, true)) continue;
    if (found)
      warn_undecided(std::string(name), functions[i].loc, name_in_condition(*found));
    else
      found = &functions[i];
    if (holds(functions[i].conditions, false)) break;
  }
  return found;
}

std::string Checker::name_in_condition(const Function& function) const {
  for (const Condition& c : function.conditions) {
    NameSet names;
    names_in(*c.value, names);
    for (const std::string& name : names)
      for (const ImportBinding& import : module().imports)
        if (import.name == name && !resolve_path(import.path)) return name;
  }
  return function.name;
}

bool Checker::holds(const std::vector<Condition>& conditions, bool if_unknown) {
  return std::all_of(conditions.begin(), conditions.end(), [&](const Condition& c) {
    const std::optional<bool> value = condition_value(c);
    return value ? *value == c.holds : if_unknown;
  });
}

std::vector<std::string> Checker::visible_names() const {
  std::vector<std::string> names;
  const std::vector<std::string>& globals = file_->plan().assigned();
  if (frame_->scope.size() + globals.size() > kMaxCandidates) return names;
  for (const auto& [name, binding] : frame_->scope) names.push_back(name);
  names.insert(names.end(), globals.begin(), globals.end());
  for (const Function& f : module().functions) names.push_back(f.name);
  for (const ImportBinding& i : module().imports) names.push_back(i.name);
  names.insert(names.end(), std::begin(kBuiltins), std::end(kBuiltins));
  return names;
}

Val Checker::lookup(const Expr& e) {
  const std::string& name = e.text;
  if (auto it = frame_->scope.find(name); it != frame_->scope.end()) {
    const Binding& b = it->second;
    if (!b.unusable.empty()) return error(e.loc, b.unusable, "give it a value of one type on every way to this line");
    if (frame_->run)
      if (const auto others = frame_->run->left_out.find(name); others != frame_->run->left_out.end())
        frame_->run->read_left_out.insert(frame_->run->read_left_out.end(), others->second.begin(),
                                          others->second.end());
    return b.value;
  }
  if (const auto it = frame_->captured ? frame_->captured->find(name) : Scope::const_iterator();
      frame_->captured && it != frame_->captured->end())
    return it->second.value;
  if (auto value = module_name(name, e)) return *value;
  if (host_)
    if (auto value = host_name(name)) return *value;
  if (contains(kBuiltins, name)) return builtin_ref("python." + name);  // min is not tl.min
  if (unknown_ && frame_->function) {  // the same unknown condition may be what gives it a value
    std::vector<std::string> assigned;
    collect_assigned(frame_->function->body, nullptr, true, assigned);
    if (std::find(assigned.begin(), assigned.end(), name) != assigned.end()) return Val();
  }
  if (auto path = untyped_ ? missing_star() : std::nullopt)
    return foreign_name(e.loc, fmt::format("'{}' may come from '{}', which is not there", name, *path), *path, name);
  if (auto value = enclosing_name(e)) return *value;
  std::string fallback;
  if (name == "tl") fallback = "write 'import triton.language as tl' at the top of the file";
  if (name == "triton") fallback = "write 'import triton' at the top of the file";
  if (name == "math") fallback = "write 'import math' at the top of the file, or use tl.exp, tl.log, ...";
  if (contains(kOtherLibraries, name))
    fallback = "a kernel computes with triton.language alone: tl.exp(x), tl.float16, ...";
  if (fallback.empty() && find_member("tl", name)) fallback = fmt::format("write 'tl.{}'", name);
  if (fallback.empty()) fallback = nearest_hint(name, visible_names(), dsl::hint_for_other_name(name).value_or(""));
  const size_t before = diags_.size();
  Val value = error(e.loc, fmt::format("unknown name '{}'", name), fallback);
  // Triton looks at no name of a branch that compile-time conditions rule out, which no check without types knows of.
  if (untyped_ && unknown_) diags_.soften(before);
  return value;
}

std::optional<Val> Checker::enclosing_name(const Expr& e) {
  const Function* function = frame_->function;
  if (!untyped_ || !function || !file_->is_around(e.text, function->loc.line)) return std::nullopt;
  const size_t before = diags_.size();
  Val value = error(e.loc, fmt::format("'{}' is a name of what stands around '{}'", e.text, function->name),
                    fmt::format("--global {}=VALUE gives a value", e.text));
  diags_.soften(before);
  return value;
}

void Checker::warn_undecided(const std::string& name, Loc loc, const std::string& given) {
  if (untyped_ || !undecided_.insert(name).second) return;
  diags_.warning(loc, fmt::format("this value of '{}' is left out: its condition cannot be evaluated", name))
      .with_hint(
          fmt::format("--global {}=VALUE gives {}", given, given == name ? "the value" : "that of the condition"));
}

std::optional<Val> Checker::module_name(const std::string& name, const Expr& use) {
  if (const Constexpr* given = file_->given(name)) return dsl::to_val(*given);
  if (const auto value = global_value(name, use, false)) return *value;
  const Module& m = module();
  if (const Function* f = find_jit(name)) return kernel_or_undecided(*f, use);
  for (bool star : {false, true}) {
    for (size_t i = m.imports.size(); i-- > 0;)
      if ((m.imports[i].name == "*") == star)
        if (auto value = import_value(m.imports[i], name, use)) return value;
    if (star) break;
    if (auto function = host_function(name)) return function;
    if (auto type = class_value(name)) return type;
  }
  return global_value(name, use, true);
}

Val Checker::kernel_or_undecided(const Function& function, const Expr& use) {
  if (!holds(function.conditions, false) && is_undecided(function.name)) {  // ahead of the function that is an error
    warn_undecided(function.name, function.loc, name_in_condition(function));
    if (const auto assigned = global_value(function.name, use, true)) return *assigned;
  }
  return FunctionRef{Kind::Jit, function.name, &function, file_};
}

Val Checker::value_of(const std::string& name) {
  Expr use;
  use.kind = Expr::Kind::Name;
  use.loc = {module().file};
  use.text = name;
  return module_name(name, use).value_or(Val());
}

std::optional<Val> Checker::import_value(const ImportBinding& import, const std::string& name, const Expr& use) {
  if (import.name == "*") {
    std::string path = import.path.ends_with(".*") ? import.path.substr(0, import.path.size() - 2) : import.path;
    if (auto member = resolve_path(path + "." + name)) return member;
    return imported(path + "." + name, use);
  }
  if (import.name == name) {
    if (auto value = resolve_path(import.path)) return value;
    if (auto value = handed_on(import.path); value && !is_own_module(*file_, import.path)) return value;
    if (auto value = imported(import.path, use)) return value;
    return module_ref(import.path);  // an error only where something is done with it
  }
  if (!import.name.starts_with(name + ".")) return std::nullopt;
  if (auto value = resolve_path(name)) return value;  // import a.b.c binds a
  if (auto value = imported(name, use)) return value;
  return module_ref(name);
}

std::optional<std::string> Checker::missing_star() const {
  for (const ImportBinding& import : module().imports) {
    if (import.name != "*") continue;
    std::string path = import.path.ends_with(".*") ? import.path.substr(0, import.path.size() - 2) : import.path;
    if (!resolve_path(path) && !file_->imported(path)) return path;
  }
  return std::nullopt;
}

std::optional<Val> Checker::find_member(std::string_view module, std::string_view name) const {
  if (host_ || module.starts_with("torch"))
    if (auto value = host_member(module, name)) return value;
  if (module == "triton") {
    if (name == "language") return module_ref("tl");
    if (name == "cdiv" || name == "next_power_of_2") return builtin_ref(std::string(kOfTriton).append(name));
    return std::nullopt;
  }
  if (module == "math" || module == "torch" || module == "numpy")
    for (const auto& [constant, value] : kMathConstants)
      if (name == constant) return Val(value);
  if (module == "math") {
    if (is_math_function(name)) return builtin_ref("math." + std::string(name));
    return std::nullopt;
  }
  if (module == "tl") {
    if (name == "math" || name == "extra" || name == "libdevice") return module_ref("tl." + std::string(name));
    if (name == "core" || name == "standard" || name == "random") return module_ref("tl");
    if (name == "target_info") return module_ref("tl.target_info");
    if (name == "pi32_t") return Val(dsl::DType{ir::Type::pointer_to(Elem::I32)});
    if (name == "TRITON_MAX_TENSOR_NUMEL") return Val(dsl::Int(1 << 20));
    if (name == "CONSTEXPR_0") return Val(dsl::Int(0));
    if (contains(kLanguageBuiltins, name)) return builtin_ref("tl." + std::string(name));
    if (name == "PropagateNan") return module_ref("tl.PropagateNan");
    if (auto type = find_type(name)) return type;
  } else if (module == "tl.target_info") {
    if (contains(kTargetQueries, name)) return builtin_ref("tl.target_info." + std::string(name));
    return std::nullopt;
  } else if (module == "triton target") {
    if (name == "backend") return Val(std::string("cuda"));
    if (name != "arch") return std::nullopt;
    const std::optional<int> found = capability();
    return found ? Val(dsl::Int(*found)) : Val();
  } else if (module == "tl.PropagateNan") {
    if (name == "ALL" || name == "NONE") return Val(name == "ALL");
    return std::nullopt;
  } else if (module == "tl.extra" || module == "tl.extra.cuda") {
    if (name == "libdevice") return module_ref("tl.libdevice");
    return module == "tl.extra" ? extra_module(name) : cuda_function(name);
  } else if (module != "tl.math" && module != "tl.libdevice") {
    return std::nullopt;
  }
  // libdevice's own functions come first there; tl.math held libdevice once.
  const dsl::FunctionInfo *plain = dsl::find_function(name), *device = nullptr;
  if (module != "tl") device = dsl::find_function(std::string(kLibdevice).append(name));
  if (const dsl::FunctionInfo* info = device && (module == "tl.libdevice" || !plain) ? device : plain)
    return builtin_ref(info->name);
  return std::nullopt;
}

std::optional<Val> Checker::resolve_path(std::string_view path) const {
  size_t dot = path.find('.');
  std::string_view root = path.substr(0, dot);
  const bool host = host_ && (root == "itertools" || root == "numpy" || root == "os" || root == "collections" ||
                              root == "importlib" || root == "packaging");
  if (root != "triton" && root != "math" && root != "torch" && !host) return std::nullopt;
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
         !f.name.starts_with("tl.") && f.name != "triton target";
}

Val Checker::foreign_name(Loc loc, std::string message, std::string_view module, std::string_view name) {
  const OnPage on_page(diags_, dsl::page::kNames);
  if (host_) return error(loc, std::move(message));
  const size_t before = diags_.size();
  error(loc, std::move(message),
        "a kernel can use triton.language, math, and the globals and functions of its file and of the files that this "
        "imports from" +
            (name.empty() ? "" : fmt::format("; --global {}=VALUE gives a value", name)));
  if (untyped_ && !of_other_library(module)) diags_.soften(before);
  return Val();
}

Val Checker::module_member(const FunctionRef& module, const Expr& e, bool called) {
  if (module.module) {  // a file
    const auto* file = static_cast<const SourceFile*>(module.module);
    auto member = in_file(file, [&] { return module_name(e.text, e); });
    if (!member) member = in_file(file, [&] { return imported("." + e.text, e); });  // a module of the package
    return member ? *member : error(e.loc, fmt::format("'{}' has no name '{}'", *file->module().file, e.text));
  }
  if (auto member = find_member(module.name, e.text)) return *member;
  const bool of_tl = module.name == "tl" || module.name.starts_with("tl.");
  const OnPage on_page(diags_, of_tl ? dsl::page::kFunctions : host_ ? dsl::page::kDecorators : dsl::page::kStatements);
  if (host_ && !func_ && (is_foreign(module) || module.name == "triton"))
    return error(e.loc, fmt::format("'{}' cannot be evaluated: Tegula does not run Python", dotted_name(e)),
                 module.name == "triton" ? nearest_hint(e.text, {"Config", "cdiv", "next_power_of_2"}) : "");
  if (is_foreign(module)) {
    const std::string why =
        fmt::format("'{}' is of no use in a kernel: it comes from '{}'", dotted_name(e), module.name);
    if (!host_ && of_other_library(module.name) && find_member("tl", e.text)) {
      const OnPage functions(diags_, dsl::page::kFunctions);
      return error(e.loc, why, fmt::format("write 'tl.{}'", e.text));
    }
    if (auto instead = !host_ && of_other_library(module.name) ? dsl::hint_for_other_name(e.text) : std::nullopt)
      return error(e.loc, why, *instead);
    return foreign_name(e.loc, why, module.name, {});
  }
  std::string hint;
  if (of_tl && kTritonOnly.find(" " + e.text + " ") != std::string_view::npos)
    return error(e.loc, fmt::format("'{}' is Triton's, but Tegula does not have it", dotted_name(e)),
                 "the page lists what there is");
  if (auto other = of_tl ? dsl::hint_for_other_name(e.text) : std::nullopt)
    hint = *other;
  else if (auto near = nearest_name(e.text, member_names(module.name)))
    hint = fmt::format("did you mean '{}.{}'?", dotted_name(*e.children[0]), *near);
  else if (of_tl)
    hint = "the page lists what there is";
  return error(e.loc, fmt::format("unknown {} '{}'", called ? "function" : "name", dotted_name(e)), hint);
}

}  // namespace tegula::language
